// The tiny models that tools/make_testdata.py writes (section tiny): one or more per architecture, a few MB each.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace quern::engine {

inline std::string tiny_dir() {
  const char* data = std::getenv("QUERN_TEST_DATA");
  return std::string(data != nullptr ? data : "build/testdata") + "/tiny";
}

// Of the models that say one fixed reply each (tools/synth/scripted.py).
inline std::string scripted(const std::string& name) {
  return std::filesystem::path(tiny_dir()).parent_path().string() + "/scripted/" + name + ".gguf";
}

inline std::vector<std::string> tiny_models() {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(tiny_dir(), error)) {
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  EXPECT_GE(paths.size(), 20U) << tiny_dir() << " is not filled: run tools/make_testdata.py";
  return paths;
}

inline std::vector<int32_t> some_tokens(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t& t : tokens) t = static_cast<int32_t>(rng() % 500);
  return tokens;
}

// The logits of all positions, [n, n_vocab].
inline std::vector<float> all_logits(const std::string& path, const EngineOptions& options,
                                     const std::vector<int32_t>& tokens) {
  const auto engine = Engine::load(path, options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message;
    return {};
  }
  auto session = (*engine)->new_session();
  std::vector<float> logits;
  const auto done = (*session)->logits_of_all(tokens, [&](int, int, std::span<const float> rows) -> Result<void> {
    logits.insert(logits.end(), rows.begin(), rows.end());
    return {};
  });
  EXPECT_TRUE(done.ok()) << done.error().message;
  return logits;
}

}  // namespace quern::engine
