#include "apps/quern/bench_print.h"

#include <fmt/format.h>

#include "apps/quern/version.h"

namespace quern::apps {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void BenchPrinter::add(const Json& row) {
  if (format_ == "jsonl") out_.write(dump(row, -1) + "\n");
  if (format_ == "json") out_.write((n_ == 0 ? "[\n" : ",\n") + dump(row, 2));
  if (format_ == "csv") add_csv(row);
  if (format_ == "md") add_md(row);
  ++n_;
  out_.flush();
}

void BenchPrinter::end() {
  if (format_ == "json") out_.write(n_ == 0 ? "[]\n" : "\n]\n");
  if (format_ == "md") out_.write(fmt::format("\nbuild: {} ({})\n", build_commit(), build_number()));
}

void BenchPrinter::add_csv(const Json& row) {
  std::string names, values;
  for (const auto& [name, value] : row.items()) {
    if (value.is_array()) continue;
    std::string text = value.is_string() ? value.get<std::string>() : dump(value, -1);
    for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
    names += (names.empty() ? "" : ",") + name;
    values += fmt::format("{}\"{}\"", values.empty() ? "" : ",", text);
  }
  if (n_ == 0) out_.write(names + "\n");
  out_.write(values + "\n");
}

void BenchPrinter::add_md(const Json& row) {
  constexpr const char* kLine = "| {:<30} | {:>10} | {:>10} | {:<10} | {:>7} | {:>15} | {:>20} |\n";
  if (n_ == 0) {
    out_.write(fmt::format(kLine, "model", "size", "params", "backend", "threads", "test", "t/s"));
    out_.write(fmt::format("| {:-<30} | {:->9}: | {:->9}: | {:-<10} | {:->6}: | {:->14}: | {:->19}: |\n", "", "", "",
                           "", "", "", ""));
  }
  const double params = row["model_n_params"].get<double>(), bytes = row["model_size"].get<double>();
  const std::string size = bytes >= 1024.0 * 1024 * 1024 ? fmt::format("{:.2f} GiB", bytes / 1024 / 1024 / 1024)
                                                         : fmt::format("{:.2f} MiB", bytes / 1024 / 1024);
  const std::string count =
      params >= 1e9 ? fmt::format("{:.2f} B", params / 1e9) : fmt::format("{:.2f} M", params / 1e6);
  // The time to a turn's first token is in milliseconds, and says so.
  const std::string result =
      row["turn"].get<int>() > 0
          ? fmt::format("{:.2f} ± {:.2f} ms", row["avg_ns"].get<double>() / 1e6, row["stddev_ns"].get<double>() / 1e6)
          : fmt::format("{:.2f} ± {:.2f}", row["avg_ts"].get<double>(), row["stddev_ts"].get<double>());
  out_.write(fmt::format(kLine, row["model_type"].get<std::string>(), size, count, "CPU", row["n_threads"].get<int>(),
                         row["test"].get<std::string>(), result));
}

}  // namespace quern::apps
