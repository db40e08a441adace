// The store of responses: its bounds, which go first, and threads.
#include "api/response_store.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace quern::api {
namespace {

// An entry of 100 bytes with an id of one.
StoredResponse of_99() {
  return {std::string(60, 'r'), std::string(39, 'c')};
}

TEST(ResponseStore, KeepsAndForgets) {
  ResponseStore store({});
  EXPECT_TRUE(store.put("a", {"response", "conversation"}));
  ASSERT_TRUE(store.find("a").has_value());
  EXPECT_EQ(store.find("a")->response, "response");
  EXPECT_EQ(store.find("a")->conversation, "conversation");
  EXPECT_FALSE(store.find("b").has_value());
  EXPECT_TRUE(store.erase("a"));
  EXPECT_FALSE(store.erase("a"));
  EXPECT_FALSE(store.find("a").has_value());
  EXPECT_EQ(store.use().n, 0u);
  EXPECT_EQ(store.use().bytes, 0u);
}

TEST(ResponseStore, TheOldestGoFirst) {
  ResponseStore by_count({.max_count = 3});
  for (const char* id : {"a", "b", "c", "d"}) EXPECT_TRUE(by_count.put(id, of_99()));
  EXPECT_FALSE(by_count.find("a").has_value());
  EXPECT_TRUE(by_count.erase("c"));
  EXPECT_TRUE(by_count.put("e", of_99()));
  for (const char* id : {"b", "d", "e"}) EXPECT_TRUE(by_count.find(id).has_value()) << id;
  ResponseStore by_bytes({.max_count = 100, .max_bytes = 300});
  for (const char* id : {"a", "b", "c"}) EXPECT_TRUE(by_bytes.put(id, of_99()));
  EXPECT_EQ(by_bytes.use().bytes, 300u);
  EXPECT_TRUE(by_bytes.put("d", {std::string(199, 'r'), ""}));
  EXPECT_EQ(by_bytes.use().n, 2u);
  EXPECT_TRUE(by_bytes.find("c").has_value());
  EXPECT_TRUE(by_bytes.find("d").has_value());
}

TEST(ResponseStore, WhatIsTooLargeDropsNothing) {
  ResponseStore store({.max_count = 5, .max_bytes = 150});
  EXPECT_TRUE(store.put("a", of_99()));
  EXPECT_FALSE(store.put("b", {std::string(150, 'r'), ""}));
  EXPECT_TRUE(store.find("a").has_value());
  EXPECT_FALSE(store.find("b").has_value());
}

TEST(ResponseStore, OffKeepsNothing) {
  ResponseStore store({.max_count = 0});
  EXPECT_FALSE(store.on());
  EXPECT_FALSE(store.put("a", of_99()));
  EXPECT_FALSE(store.find("a").has_value());
}

TEST(ResponseStore, ManyThreads) {
  ResponseStore store({.max_count = 10, .max_bytes = 2000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string id = std::to_string(t) + "/" + std::to_string(i);
        EXPECT_TRUE(store.put(id, of_99()));
        const auto found = store.find(id);
        EXPECT_EQ(found ? found->response.size() : 60u, 60u) << "another may have pushed it out";
        if (i % 3 == 0) store.erase(id);
        const auto use = store.use();
        EXPECT_LE(use.n, 10u);
        EXPECT_LE(use.bytes, 2000u);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace quern::api
