// Reading records. Every field goes through Reader, which keeps the first error and the path of the field it is about.
#include "measure/board_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file_io.h"
#include "measure/paired.h"

namespace quern::measure::board {
namespace {

using Json = nlohmann::json;

constexpr int kSchema = 1;
constexpr double kMost = 1e18;    // no amount of a record is larger; keeps every later product finite
constexpr double kLeast = 1e-12;  // of what must be positive
constexpr size_t kMaxFile = size_t{64} << 20;

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  // The member, or nullptr where it is missing or null.
  const Json* find(const Json& object, const char* key) const {
    const auto at = object.find(key);
    return at == object.end() || at->is_null() ? nullptr : &*at;
  }
  std::string text(const Json& object, const std::string& where, const char* key, bool required = false) {
    const Json* value = find(object, key);
    if (value == nullptr) {
      if (required) fail(where, key, "is missing");
      return {};
    }
    if (value->is_string()) return value->get<std::string>();
    fail(where, key, "is not a string");
    return {};
  }
  std::optional<double> number(const Json& object, const std::string& where, const char* key, double least,
                               double most) {
    const Json* value = find(object, key);
    if (value == nullptr) return std::nullopt;
    return checked(*value, where, key, least, most);
  }
  double amount(const Json& object, const std::string& where, const char* key) {
    const double value = number(object, where, key, 0, kMost).value_or(0);
    return value < kLeast ? 0 : value;  // quotients of amounts stay finite
  }
  std::vector<double> samples(const Json& object, const std::string& where) {
    std::vector<double> result;
    const Json* list = array(object, where, "samples");
    for (size_t i = 0; list != nullptr && i < list->size(); ++i)
      result.push_back(checked((*list)[i], where, fmt::format("samples[{}]", i).c_str(), kLeast, kMost).value_or(1));
    return result;
  }
  const Json* array(const Json& object, const std::string& where, const char* key) {
    const Json* value = find(object, key);
    if (value == nullptr || value->is_array()) return value;
    fail(where, key, "is not a list");
    return nullptr;
  }
  const Json* object(const Json& parent, const std::string& where, const char* key, bool required = false) {
    const Json* value = find(parent, key);
    if (value != nullptr && value->is_object()) return value;
    if (value != nullptr || required) fail(where, key, value == nullptr ? "is missing" : "is not an object");
    return nullptr;
  }
  // Calls each(element, path) for the objects of a list.
  template <class Each>
  void objects(const Json& parent, const std::string& where, const char* key, Each&& each) {
    const Json* list = array(parent, where, key);
    for (size_t i = 0; list != nullptr && i < list->size() && !error_; ++i) {
      const std::string path = fmt::format("{}{}[{}]", where, key, i);
      if ((*list)[i].is_object()) {
        each((*list)[i], path + ".");
      } else {
        fail("", path.c_str(), "is not an object");
      }
    }
  }
  void fail(const std::string& where, const char* key, const char* what) {
    if (!error_) error_ = Error{Status::invalid_file, fmt::format("{}: {}{} {}", file_, where, key, what)};
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::optional<double> checked(const Json& value, const std::string& where, const char* key, double least,
                                double most) {
    if (!value.is_number()) {
      fail(where, key, "is not a number");
      return std::nullopt;
    }
    const double x = value.get<double>();
    if (std::isfinite(x) && x >= least && x <= most) return x;
    fail(where, key, fmt::format("is {}; allowed is {} to {}", x, least, most).c_str());
    return std::nullopt;
  }

  const std::string& file_;
  std::optional<Error> error_;
};

Box read_box(Reader& r, const Json& j) {
  const std::string at = "box.";
  Box box;
  box.name = r.text(j, at, "name", true);
  box.cpu = r.text(j, at, "cpu");
  box.isa = r.text(j, at, "isa");
  box.os = r.text(j, at, "os");
  box.cores = r.amount(j, at, "cores");
  box.memory_bytes = r.amount(j, at, "memory_bytes");
  box.l2_bytes = r.amount(j, at, "l2_bytes");
  box.l3_bytes = r.amount(j, at, "l3_bytes");
  return box;
}

Roofs read_roofs(Reader& r, const Json& j, const std::string& at) {
  Roofs roofs;
  roofs.date = r.text(j, at, "date");
  roofs.isa = r.text(j, at, "isa");
  roofs.threads = r.amount(j, at, "threads");
  roofs.dram = r.amount(j, at, "dram_gb_s");
  roofs.dram_1 = r.amount(j, at, "dram_1_gb_s");
  roofs.l2 = r.amount(j, at, "l2_gb_s");
  roofs.l3 = r.amount(j, at, "l3_gb_s");
  roofs.int8 = r.amount(j, at, "int8_gmac_s");
  roofs.f32 = r.amount(j, at, "f32_gmac_s");
  return roofs;
}

ModelFile read_model(Reader& r, const Json& j, const std::string& at) {
  ModelFile model;
  model.name = r.text(j, at, "name", true);
  model.type = r.text(j, at, "type");
  model.file = r.text(j, at, "file");
  model.sha256 = r.text(j, at, "sha256");
  model.bytes = r.amount(j, at, "bytes");
  model.weight_bytes = r.amount(j, at, "weight_bytes");
  model.n_params = r.amount(j, at, "n_params");
  return model;
}

Program read_program(Reader& r, const Json& j, const std::string& at, bool named) {
  Program program;
  program.name = named ? r.text(j, at, "name", true) : "Quern";
  program.version = r.text(j, at, "version");
  program.commit = r.text(j, at, "commit");
  program.command = r.text(j, at, "command");
  program.samples = r.samples(j, at);
  const auto given = r.number(j, at, "median", kLeast, kMost);
  program.median = given.value_or(median(program.samples));
  if (program.median <= 0) r.fail(at, "median", "is missing, and there are no samples");
  return program;
}

Run read_run(Reader& r, const Json& j, const std::string& at) {
  Run run;
  run.date = r.text(j, at, "date");
  run.test = r.text(j, at, "test", true);
  run.unit = r.text(j, at, "unit");
  run.note = r.text(j, at, "note");
  run.threads = r.amount(j, at, "threads");
  if (run.unit.empty()) run.unit = "t/s";
  if (const Json* model = r.object(j, at, "model", true)) run.model = read_model(r, *model, at + "model.");
  if (const Json* quern = r.object(j, at, "quern", true)) run.quern = read_program(r, *quern, at + "quern.", false);
  if (const Json* peer = r.object(j, at, "peer")) run.peer = read_program(r, *peer, at + "peer.", true);
  if (const Json* ratio = r.object(j, at, "ratio")) {
    const auto part = [&](const char* key, double other) {
      return r.number(*ratio, at + "ratio.", key, kLeast, kMost).value_or(other);
    };
    Interval interval;
    interval.middle = part("middle", 0);
    interval.low = part("low", interval.middle);
    interval.high = part("high", interval.middle);
    if (interval.middle <= 0) r.fail(at, "ratio.middle", "is missing");
    if (interval.low > interval.middle || interval.middle > interval.high)
      r.fail(at, "ratio", "has its middle outside its interval");
    run.ratio = interval;
  }
  run.steal = r.number(j, at, "steal", 0, 1);
  run.dram_gb_s = r.number(j, at, "dram_gb_s", 0, kMost);
  run.decode_gb_s = r.number(j, at, "decode_gb_s", 0, kMost);
  return run;
}

PhaseProfile read_profile(Reader& r, const Json& j, const std::string& at) {
  PhaseProfile profile;
  profile.date = r.text(j, at, "date");
  profile.model = r.text(j, at, "model", true);
  profile.commit = r.text(j, at, "commit");
  profile.phase = r.text(j, at, "phase", true);
  profile.note = r.text(j, at, "note");
  profile.threads = r.amount(j, at, "threads");
  profile.tokens = r.amount(j, at, "tokens");
  r.objects(j, at, "buckets", [&](const Json& b, const std::string& where) {
    Bucket bucket;
    bucket.name = r.text(b, where, "name", true);
    bucket.seconds = r.amount(b, where, "seconds");
    bucket.bytes = r.amount(b, where, "bytes");
    bucket.macs = r.amount(b, where, "macs");
    profile.buckets.push_back(std::move(bucket));
  });
  return profile;
}

template <class T>
void sort_by_date(std::vector<T>& list) {
  std::stable_sort(list.begin(), list.end(), [](const T& a, const T& b) { return a.date < b.date; });
}

Result<Record> read_record(const Json& j, const std::string& file) {
  if (!j.is_object()) return Error{Status::invalid_file, file + ": a record is a JSON object"};
  const auto schema = j.find("schema");
  if (schema == j.end()) return Error{Status::invalid_file, file + ": schema is missing; this is no record of Quern"};
  if (*schema != kSchema)
    return Error{Status::unsupported, fmt::format("{}: schema is {}; this version reads schema {}", file,
                                                  schema->dump(-1, ' ', true), kSchema)};
  Reader r(file);
  Record record;
  if (const Json* box = r.object(j, "", "box", true)) record.box = read_box(r, *box);
  r.objects(j, "", "rooflines",
            [&](const Json& e, const std::string& at) { record.roofs.push_back(read_roofs(r, e, at)); });
  r.objects(j, "", "runs", [&](const Json& e, const std::string& at) { record.runs.push_back(read_run(r, e, at)); });
  r.objects(j, "", "profiles",
            [&](const Json& e, const std::string& at) { record.profiles.push_back(read_profile(r, e, at)); });
  if (r.error()) return *r.error();
  sort_by_date(record.roofs);
  sort_by_date(record.runs);
  sort_by_date(record.profiles);
  return record;
}

}  // namespace

Result<Record> parse_record(std::string_view text, const std::string& file) {
  try {
    return read_record(Json::parse(text), file);
  } catch (const Json::exception& e) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...": the part for people.
    std::string what = e.what();
    if (const size_t end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    return Error{Status::invalid_file, file + ": broken JSON: " + what};
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, file + ": no memory for this record"};
  }
}

Result<std::vector<Record>> load_records(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code code;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code))
    if (at->path().extension() == ".json") names.push_back(at->path().filename().string());
  if (code) return Error{Status::not_found, folder + ": " + code.message()};
  if (names.empty()) return Error{Status::not_found, folder + ": no record (*.json); quern bench --record writes one"};
  std::sort(names.begin(), names.end());
  std::vector<Record> records;
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    QUERN_TRY(const std::string text, read_file(path, kMaxFile));
    QUERN_TRY(Record record, parse_record(text, path));
    records.push_back(std::move(record));
  }
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.box.name < b.box.name; });
  return records;
}

}  // namespace quern::measure::board
