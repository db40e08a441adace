// Token lists as people write them.
#include "apps/quern/inputs.h"

#include <gtest/gtest.h>

namespace quern::apps {
namespace {

using Ids = std::vector<int32_t>;

TEST(ParseIds, TakesJsonCommasAndSpaces) {
  EXPECT_EQ(*parse_ids("1,2,3"), (Ids{1, 2, 3}));
  EXPECT_EQ(*parse_ids(" 1 2\n3 "), (Ids{1, 2, 3}));
  EXPECT_EQ(*parse_ids("1, 2, 3,"), (Ids{1, 2, 3}));
  EXPECT_EQ(*parse_ids("[1, 2, 3]\n"), (Ids{1, 2, 3}));
  EXPECT_EQ(*parse_ids("-1"), (Ids{-1}));  // whether an id exists is the model's word
  EXPECT_EQ(*parse_ids(""), Ids());
  EXPECT_EQ(*parse_ids("[]"), Ids());
}

TEST(ParseIds, RefusesEverythingElse) {
  for (const char* text :
       {"x", "1,x", "1.5", "[1.5]", "[1, \"2\"]", "{\"a\": 1}", "[1", "2147483648", "[2147483648]", "1-2", "+1"}) {
    EXPECT_FALSE(parse_ids(text).ok()) << text;
  }
  EXPECT_LT(parse_ids(std::string(100000, 'x')).error().message.size(), 200U);
}

TEST(ReadIds, FilesAreNamedInErrors) {
  EXPECT_NE(read_ids("@no-such.json").error().message.find("no-such.json"), std::string::npos);
  EXPECT_NE(read_ids("@no-such.npy").error().message.find("no-such.npy"), std::string::npos);
  EXPECT_EQ(*read_ids("4,5"), (Ids{4, 5}));
}

}  // namespace
}  // namespace quern::apps
