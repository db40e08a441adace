// Results of bench in the form asked for, each as soon as it is there.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/quern/output.h"

namespace quern::apps {

class BenchPrinter {
 public:
  // format: md, json, jsonl, csv
  BenchPrinter(std::string format, Output& out) : format_(std::move(format)), out_(out) {}
  // A row as bench_json() makes it.
  void add(const nlohmann::ordered_json& row);
  void end();

 private:
  void add_csv(const nlohmann::ordered_json& row);
  void add_md(const nlohmann::ordered_json& row);

  std::string format_;
  Output& out_;
  int n_ = 0;
};

}  // namespace quern::apps
