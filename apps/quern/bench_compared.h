// The table of bench in alternation, and what is to be said about its figures.
#pragma once

#include <string>
#include <vector>

#include "apps/quern/output.h"
#include "measure/record.h"

namespace quern::apps {

class ComparisonPrinter {
 public:
  // format: md, json, jsonl
  ComparisonPrinter(std::string format, Output& out) : format_(std::move(format)), out_(out) {}
  void add(const measure::RecordedRun& run);
  void note(const std::string& text);  // once, below the table
  void end();

 private:
  std::string format_;
  Output& out_;
  int n_ = 0;
  std::vector<std::string> notes_;
};

// What a reader should know before he trusts the figures; empty where nothing.
std::vector<std::string> doubts_about(const measure::RecordedRun& run);

}  // namespace quern::apps
