// A profile as tables, as JSON, and as a trace.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "measure/profile.h"

namespace quern::measure {
namespace {

using Json = nlohmann::ordered_json;

std::string rate(double amount, double seconds, double unit) {
  return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", amount / seconds / unit) : "";
}

std::string table(const char* title, const std::vector<ProfileRow>& rows, const Phase& phase, const Profile& profile) {
  constexpr const char* kLine = "| {:<26} | {:>6} | {:>9} | {:>6} | {:>9} | {:>7} | {:>7} | {:>10} | {:<22} |\n";
  std::string text =
      fmt::format(kLine, title, "calls", "us/token", "%", "MB", "GB/s", "GMAC/s", "% roofline", "kernel");
  text += fmt::format("|{:-<27}-|{:->7}:|{:->10}:|{:->7}:|{:->10}:|{:->8}:|{:->8}:|{:->11}:|{:-<23}-|\n", "", "", "",
                      "", "", "", "", "", "");
  for (const ProfileRow& row : rows) {
    const auto part = roofline_part(row, profile);
    const auto bytes = static_cast<double>(row.work.bytes());
    const auto macs = static_cast<double>(row.work.int_macs + row.work.float_macs);
    text += fmt::format(kLine, row.name, row.n_calls, fmt::format("{:.2f}", row.seconds * 1e6 / phase.n_tokens),
                        fmt::format("{:.1f}", phase.in_plan > 0 ? row.seconds / phase.in_plan * 100 : 0),
                        bytes > 0 ? fmt::format("{:.2f}", bytes / 1e6) : "", rate(bytes, row.seconds, 1e9),
                        rate(macs, row.seconds, 1e9), part ? fmt::format("{:.0f}", *part * 100) : "", row.kernel);
  }
  return text;
}

Json work_json(const Work& w) {
  return {{"weight_bytes", w.weight_bytes}, {"kv_bytes", w.kv_bytes},  {"read_bytes", w.read_bytes},
          {"write_bytes", w.write_bytes},   {"int8_macs", w.int_macs}, {"f32_macs", w.float_macs}};
}

Json rows_json(const std::vector<ProfileRow>& rows, const Profile& profile) {
  Json list = Json::array();
  for (const ProfileRow& row : rows) {
    Json j = {{"name", row.name},       {"bucket", row.bucket},   {"kernel", row.kernel},
              {"n_calls", row.n_calls}, {"seconds", row.seconds}, {"work", work_json(row.work)}};
    const auto part = roofline_part(row, profile);
    j["roofline"] = part ? Json(*part) : Json(nullptr);
    list.push_back(std::move(j));
  }
  return list;
}

}  // namespace

std::string profile_markdown(const Profile& profile) {
  std::string text =
      fmt::format("model {}, {} thread{}, depth {}, {:.1f} MB of weights a token\n", profile.model, profile.n_threads,
                  profile.n_threads == 1 ? "" : "s", profile.n_depth, static_cast<double>(profile.weight_bytes) / 1e6);
  if (profile.roofline) {
    const Roofline& r = *profile.roofline;
    const auto source = r.source_of(profile.weight_bytes);
    text += fmt::format("roofline: {:.1f} GB/s ({}, where these weights lie), {:.0f} GMAC/s int8, {:.0f} GMAC/s f32\n",
                        source.bytes_per_second / 1e9, source.name, r.int8_macs / 1e9, r.f32_macs / 1e9);
  }
  for (const Phase& phase : profile.phases) {
    text += fmt::format(
        "\n## {} of {} tokens: {:.1f} tok/s ({:.3f} ms; timing costs {:+.1f} %; {:.1f} % of it inside the plan)\n\n",
        phase.name, phase.n_tokens, phase.n_tokens / std::max(phase.wall_untimed, 1e-12), phase.wall_untimed * 1e3,
        (phase.wall / std::max(phase.wall_untimed, 1e-12) - 1) * 100,
        phase.in_plan / std::max(phase.wall, 1e-12) * 100);
    text += table("bucket", phase.buckets, phase, profile) + "\n";
    text += table("node, all layers", phase.nodes, phase, profile);
    if (!phase.declines.empty()) text += "\n" + phase.declines;
  }
  return text;
}

std::string profile_json(const Profile& profile) {
  Json j = {{"model", profile.model},     {"n_threads", profile.n_threads},
            {"n_depth", profile.n_depth}, {"weight_bytes", profile.weight_bytes},
            {"roofline", nullptr},        {"phases", Json::array()}};
  if (profile.roofline) {
    const auto source = profile.roofline->source_of(profile.weight_bytes);
    j["roofline"] = {{"source", source.name},
                     {"bytes_per_second", source.bytes_per_second},
                     {"int8_macs_per_second", profile.roofline->int8_macs},
                     {"f32_macs_per_second", profile.roofline->f32_macs}};
  }
  for (const Phase& phase : profile.phases) {
    j["phases"].push_back({{"name", phase.name},
                           {"n_tokens", phase.n_tokens},
                           {"seconds", phase.wall_untimed},
                           {"seconds_timed", phase.wall},
                           {"seconds_in_plan", phase.in_plan},
                           {"buckets", rows_json(phase.buckets, profile)},
                           {"nodes", rows_json(phase.nodes, profile)},
                           {"calls", rows_json(phase.calls, profile)},
                           {"declines", phase.declines}});
  }
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string trace_json(const Profile& profile) {
  Json events = Json::array();
  for (int t = 0; t < profile.n_threads; ++t) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 1},
                      {"tid", t},
                      {"args", {{"name", fmt::format("thread {}", t)}}}});
  }
  int64_t first = profile.slices.empty() ? 0 : profile.slices.front().begin;
  for (const TraceSlice& slice : profile.slices) first = std::min(first, slice.begin);
  for (const TraceSlice& slice : profile.slices) {
    events.push_back({{"name", slice.name},
                      {"cat", slice.bucket},
                      {"ph", "X"},
                      {"ts", static_cast<double>(slice.begin - first) / 1e3},
                      {"dur", static_cast<double>(slice.end - slice.begin) / 1e3},
                      {"pid", 1},
                      {"tid", slice.thread},
                      {"args", {{"kernel", slice.kernel}, {"step", slice.step}}}});
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}}.dump(-1, ' ', false,
                                                                                  Json::error_handler_t::replace) +
         "\n";
}

}  // namespace quern::measure
