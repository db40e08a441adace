#include "apps/quern/bench_compared.h"

#include <fmt/format.h>

#include <algorithm>

#include "measure/paired.h"

namespace quern::apps {
namespace {

constexpr const char* kLine =
    "| {:<18} | {:>3} | {:>10} | {:<22} | {:>10} | {:>6} | {:>15} | {:>7} | {:>9} | {:>9} | {:>9} |\n";

std::string optional_text(const std::optional<double>& x) {
  return x ? fmt::format("{:.1f}", *x) : "";
}

// "ik_llama.cpp -rtr 1": the name and the user's own arguments, which come before ours.
std::string peer_text(const measure::Samples& peer) {
  const size_t first = peer.command.find(' '), ours = peer.command.find(" -m ");
  return peer.name + (first < ours && ours != std::string::npos ? peer.command.substr(first, ours - first) : "");
}

}  // namespace

std::vector<std::string> doubts_about(const measure::RecordedRun& run) {
  std::vector<std::string> doubts;
  const std::string who = run.peer ? run.test + " against " + peer_text(*run.peer) : run.test;
  if (run.ratio && !run.ratio->known) {
    doubts.push_back(who + ": one round gives no interval");
  } else if (run.ratio && !run.ratio->shows_difference()) {
    doubts.push_back(fmt::format("{}: noise hides the difference, {:.3f} to {:.3f} contains 1; --rounds narrows it",
                                 who, run.ratio->low, run.ratio->high));
  }
  if (run.steal > measure::kMuchSteal)
    doubts.push_back(
        fmt::format("{}: {:.1f} % of the processor's time was stolen by other guests", who, run.steal * 100));
  return doubts;
}

void ComparisonPrinter::add(const measure::RecordedRun& run) {
  if (format_ == "jsonl") out_.write(measure::run_json(run, -1) + "\n");
  if (format_ == "json") out_.write((n_ == 0 ? "[\n" : ",\n") + measure::run_json(run, 2));
  if (format_ == "md") {
    if (n_ == 0) {
      out_.write(fmt::format("model {}, {}; medians; ratio = quern / peer of the same round\n\n", run.model.file,
                             run.model.type));
      out_.write(fmt::format(kLine, "test", "t", "quern", "peer", "peer's", "ratio", "95 %", "steal %", "DRAM GB/s",
                             "decode", "% of DRAM"));
      out_.write(fmt::format(
          "|{:-<19}-|{:->4}:|{:->11}:|{:-<23}-|{:->11}:|{:->7}:|{:->16}:|{:->8}:|{:->10}:|{:->10}:|{:->10}:|\n", "", "",
          "", "", "", "", "", "", "", "", ""));
    }
    const std::string ms = run.unit == "ms" ? " ms" : "";
    const bool interval = run.ratio && run.ratio->known;
    out_.write(fmt::format(
        kLine, run.test, run.threads, fmt::format("{:.2f}{}", measure::median(run.quern.samples), ms),
        run.peer ? peer_text(*run.peer) : "", run.peer ? fmt::format("{:.2f}", measure::median(run.peer->samples)) : "",
        run.ratio ? fmt::format("{:.2f}", run.ratio->middle) : "",
        interval ? fmt::format("{:.3f} to {:.3f}", run.ratio->low, run.ratio->high) : "",
        fmt::format("{:.1f}", run.steal * 100), optional_text(run.dram_gb_s), optional_text(run.decode_gb_s),
        run.dram_gb_s && run.decode_gb_s ? fmt::format("{:.0f}", *run.decode_gb_s / *run.dram_gb_s * 100) : ""));
  }
  for (const std::string& doubt : doubts_about(run)) note(doubt);
  ++n_;
  out_.flush();
}

void ComparisonPrinter::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

void ComparisonPrinter::end() {
  if (format_ == "json") out_.write(n_ == 0 ? "[]\n" : "\n]\n");
  if (format_ != "md") return;
  if (!notes_.empty()) out_.write("\n");
  for (const std::string& text : notes_) out_.write("note: " + text + "\n");
}

}  // namespace quern::apps
