// Records: what was measured on one box, kept as JSON to be compared and shown later (schema 1, docs/RECORDS.md).
// A file is only ever appended to; one that cannot be read, or has another schema, is an error and left as it is.
// Measuring and hashing are the caller's.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "measure/paired.h"
#include "measure/profile.h"
#include "measure/roofline.h"

namespace quern::measure {

struct Box {
  std::string name;  // box_name()
  std::string cpu, isa, os;
  int cores = 0;  // usable, physical
  uint64_t memory_bytes = 0, l2_bytes = 0, l3_bytes = 0;
};
// "amd-epyc-2t": the processor's model and its threads. Nothing of who owns it.
std::string box_name(const std::string& cpu, int n_threads);

struct RecordedModel {
  std::string name, type, file, sha256;  // file: without folders
  uint64_t bytes = 0, weight_bytes = 0, n_params = 0;
};

struct Samples {
  std::string name, version, commit, command;  // name: of a peer; commit: ours only
  std::vector<double> samples;
};

struct RecordedRun {
  std::string date, test, unit;
  int threads = 0;
  RecordedModel model;
  Samples quern;
  std::optional<Samples> peer;
  std::optional<Ratio> ratio;
  double steal = 0;
  std::optional<double> dram_gb_s, decode_gb_s;
  std::string note;
};

// As it stands in a file; indent as nlohmann::json's dump.
std::string run_json(const RecordedRun& run, int indent);

class Records {
 public:
  // A file that is not there begins empty. Errors: io_error; invalid_file for anything but records, or those of another
  // box; unsupported for another schema.
  static Result<Records> open(const std::string& path, const Box& box);
  Records(Records&&) noexcept;
  ~Records();

  void add(const RecordedRun& run);
  void add(const std::string& date, const Roofline& roofline);
  // One entry a phase.
  void add(const std::string& date, const std::string& commit, const Profile& profile, const std::string& note);
  // Whole or not at all. Creates the file's folder where it is missing.
  Result<void> save() const;

 private:
  Records(std::string path, std::unique_ptr<nlohmann::ordered_json> json);
  std::string path_;
  std::unique_ptr<nlohmann::ordered_json> json_;
};

// UTC, "2026-01-31T12:00:00Z"
std::string date_now();

}  // namespace quern::measure
