// Parts of the page that board.cpp puts together: its constant text, and its tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "measure/board_data.h"

namespace quern::measure::board {

// board_style.cpp. The page's policy allows this one script, by its checksum, and no other.
extern const std::string_view kStyle;
extern const std::string_view kScript;
extern const std::string_view kScriptSha256;  // base64

// Everything of one model of a box that goes into one section.
struct ModelGroup {
  const ModelFile* model = nullptr;  // of the newest run; null where there are only profiles
  std::string name;
  std::vector<const Run*> current, earlier;   // in the order of the page; by date
  std::vector<const PhaseProfile*> profiles;  // the newest of each phase, prefill first
};
// Models in the order of their names.
std::vector<ModelGroup> group_models(const Record& record);

// What orders tests on the page: plain prompts and generation, then depth, batch, everything else.
bool test_before(const Run& a, const Run& b);
bool same_test(const Run& a, const Run& b);  // and threads and unit

// "pp512 · 2 threads"
std::string test_title(const Run& run);

std::string facts(const Record& record);                           // a box in figures
std::string summary_table(const std::vector<ModelGroup>& groups);  // "" where no run has a ratio
std::string run_table(const std::vector<const Run*>& runs, std::string_view label);
std::string bucket_table(const PhaseProfile& profile, const std::vector<int>& colors, const Roofs* roofs);
std::string model_facts(const ModelFile& model);
std::string dash();  // for what a record does not say

}  // namespace quern::measure::board
