#include "measure/record.h"

#include <fmt/format.h>

#include <cctype>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file_io.h"

namespace quern::measure {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr size_t kMaxBytes = size_t{256} << 20;
constexpr const char* kLists[] = {"rooflines", "runs", "profiles"};

Json box_json(const Box& b) {
  return {{"name", b.name},
          {"cpu", b.cpu},
          {"isa", b.isa},
          {"cores", b.cores},
          {"memory_bytes", b.memory_bytes},
          {"os", b.os},
          {"l2_bytes", b.l2_bytes},
          {"l3_bytes", b.l3_bytes}};
}

Json model_json(const RecordedModel& m) {
  return {{"name", m.name},        {"type", m.type},   {"file", m.file},
          {"sha256", m.sha256},    {"bytes", m.bytes}, {"weight_bytes", m.weight_bytes},
          {"n_params", m.n_params}};
}

Json number_or_null(const std::optional<double>& x) {
  return x ? Json(*x) : Json(nullptr);
}

Json run_object(const RecordedRun& r) {
  Json run = {
      {"date", r.date}, {"test", r.test}, {"unit", r.unit}, {"threads", r.threads}, {"model", model_json(r.model)}};
  run["quern"] = {{"version", r.quern.version},
                  {"commit", r.quern.commit},
                  {"command", r.quern.command},
                  {"samples", r.quern.samples},
                  {"median", median(r.quern.samples)}};
  run["peer"] = nullptr;
  if (r.peer) {
    run["peer"] = {{"name", r.peer->name},
                   {"version", r.peer->version},
                   {"command", r.peer->command},
                   {"samples", r.peer->samples},
                   {"median", median(r.peer->samples)}};
  }
  run["ratio"] = nullptr;
  if (r.ratio) run["ratio"] = {{"middle", r.ratio->middle}, {"low", r.ratio->low}, {"high", r.ratio->high}};
  run["steal"] = r.steal;
  run["dram_gb_s"] = number_or_null(r.dram_gb_s);
  run["decode_gb_s"] = number_or_null(r.decode_gb_s);
  run["note"] = r.note;
  return run;
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Result<void> check(const Json& json, const std::string& path, const Box& box) {
  const auto bad = [&](const std::string& what) {
    return Error{Status::invalid_file, path + ": not a file of records (" + what + "); it is left as it is"};
  };
  if (!json.is_object()) return bad("not a JSON object");
  const auto schema = json.find("schema");
  if (schema == json.end() || !schema->is_number_integer()) return bad("no schema");
  if (*schema != kSchema) {
    return Error{Status::unsupported,
                 fmt::format("{}: records of schema {}, and this program writes schema {}; it is left as it is", path,
                             schema->dump(), kSchema)};
  }
  const auto named = json.find("box");
  if (named == json.end() || !named->is_object() || !named->contains("name") || !(*named)["name"].is_string())
    return bad("no box");
  const auto name = (*named)["name"].get<std::string>();
  if (name != box.name)
    return Error{Status::invalid_file, path + ": records of the box " + name + ", and this is " + box.name};
  for (const char* list : kLists) {
    const auto it = json.find(list);
    if (it == json.end() || !it->is_array()) return bad(std::string("no list of ") + list);
  }
  return {};
}

}  // namespace

std::string box_name(const std::string& cpu, int n_threads) {
  std::string slug;
  for (const char c : cpu) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return fmt::format("{}-{}t", slug.empty() ? "unknown" : slug, n_threads);
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", ::gmtime_r(&now, &utc));
  return text;
}

std::string run_json(const RecordedRun& run, int indent) {
  return dump(run_object(run), indent);
}

Records::Records(std::string path, std::unique_ptr<Json> json) : path_(std::move(path)), json_(std::move(json)) {}
Records::Records(Records&&) noexcept = default;
Records::~Records() = default;

Result<Records> Records::open(const std::string& path, const Box& box) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    if (error) return Error{Status::io_error, path + ": " + error.message()};
    auto fresh = std::make_unique<Json>(Json{{"schema", kSchema}, {"box", box_json(box)}});
    for (const char* list : kLists) (*fresh)[list] = Json::array();
    return Records(path, std::move(fresh));
  }
  QUERN_TRY(const std::string text, read_file(path, kMaxBytes));
  auto json = std::make_unique<Json>(Json::parse(text, nullptr, false));
  QUERN_TRY_VOID(check(*json, path, box));
  (*json)["box"] = box_json(box);
  return Records(path, std::move(json));
}

void Records::add(const RecordedRun& run) {
  (*json_)["runs"].push_back(run_object(run));
}

void Records::add(const std::string& date, const Roofline& r) {
  (*json_)["rooflines"].push_back({{"date", date},
                                   {"isa", isa_name(r.isa)},
                                   {"threads", r.n_threads},
                                   {"dram_gb_s", r.dram_best() / 1e9},
                                   {"dram_1_gb_s", r.dram.empty() ? 0 : r.dram.front().bytes_per_second / 1e9},
                                   {"l2_gb_s", r.l2 / 1e9},
                                   {"l3_gb_s", r.l3 / 1e9},
                                   {"int8_gmac_s", r.int8_macs / 1e9},
                                   {"f32_gmac_s", r.f32_macs / 1e9}});
}

void Records::add(const std::string& date, const std::string& commit, const Profile& profile, const std::string& note) {
  for (const Phase& phase : profile.phases) {
    Json buckets = Json::array();
    for (const ProfileRow& row : phase.buckets) {
      buckets.push_back({{"name", row.name},
                         {"seconds", row.seconds},
                         {"bytes", row.work.bytes()},
                         {"macs", row.work.int_macs + row.work.float_macs}});
    }
    (*json_)["profiles"].push_back({{"date", date},
                                    {"model", std::filesystem::path(profile.model).filename().string()},
                                    {"commit", commit},
                                    {"threads", profile.n_threads},
                                    {"phase", phase.name},
                                    {"tokens", phase.n_tokens},
                                    {"buckets", std::move(buckets)},
                                    {"note", note}});
  }
}

Result<void> Records::save() const {
  const auto folder = std::filesystem::path(path_).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return Error{Status::io_error, folder.string() + ": cannot create: " + error.message()};
  const std::string text = dump(*json_, 1) + "\n";
  return write_file_atomic(path_, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace quern::measure
