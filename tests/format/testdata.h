// Reading the files that tools/make_testdata.py writes. A missing file is a failure that names the script.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "format/format.h"

namespace quern::format {

inline std::string testdata_path(const std::string& name) {
  const char* root = std::getenv("QUERN_TEST_DATA");
  return (root != nullptr ? std::string(root) : std::string("build/testdata")) + "/format/" + name;
}

// All values of a generated file; empty, with a test failure, where there are none.
template <class T>
std::vector<T> read_testdata(const std::string& name) {
  const std::string path = testdata_path(name);
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<T> values(bytes.size() / sizeof(T));
  EXPECT_TRUE(!values.empty() && bytes.size() % sizeof(T) == 0)
      << path << " is missing or cut short: run tools/make_testdata.py (set QUERN_TEST_DATA to its --out folder)";
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Every format, and those with a code form.
inline std::vector<Format> formats_from(Format first) {
  std::vector<Format> formats;
  for (int i = static_cast<int>(first); i < kFormatCount; ++i) formats.push_back(static_cast<Format>(i));
  return formats;
}

}  // namespace quern::format
