// Records (schema 1) as structs: what `quern bench --record` and `quern profile --record` wrote. Drawing is board.h's.
//
// A missing or null optional field is empty or 0, which the page shows as "–". A present field of the wrong type or out
// of its range is an error: a board must not show what nobody measured.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quern::measure::board {

struct Box {
  std::string name, cpu, isa, os;
  double cores = 0, memory_bytes = 0, l2_bytes = 0, l3_bytes = 0;
};

// Rates in GB/s and GMAC/s; 0: not measured.
struct Roofs {
  std::string date, isa;
  double threads = 0, dram = 0, dram_1 = 0, l2 = 0, l3 = 0, int8 = 0, f32 = 0;
};

struct ModelFile {
  std::string name, type, file, sha256;
  double bytes = 0, weight_bytes = 0, n_params = 0;
};

// One side of a run. samples: [n], in order, so that sample i of both sides is a pair.
struct Program {
  std::string name, version, commit, command;
  std::vector<double> samples;
  double median = 0;
};

struct Interval {
  double middle = 0, low = 0, high = 0;
  bool known() const { return low < high; }  // one pair has no interval
  bool shows_difference() const { return known() && (low > 1 || high < 1); }
};

// One test, Quern alone or alternating with a peer. ratio: how many times as fast Quern is, whatever the unit.
struct Run {
  std::string date, test, unit, note;
  double threads = 0;
  ModelFile model;
  Program quern;
  std::optional<Program> peer;
  std::optional<Interval> ratio;
  std::optional<double> steal, dram_gb_s, decode_gb_s;
};

struct Bucket {
  std::string name;
  double seconds = 0, bytes = 0, macs = 0;
};

struct PhaseProfile {
  std::string date, model, commit, phase, note;
  double threads = 0, tokens = 0;
  std::vector<Bucket> buckets;
};

struct Record {
  Box box;
  std::vector<Roofs> roofs;  // by date, as are the others; equal dates in the order of the file
  std::vector<Run> runs;
  std::vector<PhaseProfile> profiles;
};

// file: what messages call it. Errors (invalid_file, unsupported for another schema) name the file and the field.
Result<Record> parse_record(std::string_view text, const std::string& file);
// Every *.json of a folder, ordered by the box's name, then by file name. Errors also: not_found for no folder or none.
Result<std::vector<Record>> load_records(const std::string& folder);

}  // namespace quern::measure::board
