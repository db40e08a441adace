// The page: head, a section a box, in it a section a model.
#include "measure/board.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <set>

#include "measure/board_parts.h"
#include "measure/board_plots.h"
#include "measure/board_svg.h"

namespace quern::measure::board {
namespace {

// Anchors that stay the same from page to page as long as names do.
class Anchors {
 public:
  std::string take(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}-{}", wanted, i);
    return name;
  }

 private:
  std::set<std::string> taken_;
};

std::string figure(const std::string& caption, std::string_view sub, const std::string& plot,
                   std::string_view kind = "") {
  if (plot.empty()) return "";
  return fmt::format("<figure class=\"{}\"><figcaption><strong>{}</strong>{}</figcaption>{}</figure>\n", kind,
                     escape(caption), sub.empty() ? "" : fmt::format(" <span>{}</span>", sub), plot);
}

std::string unit_words(const Run& run) {
  if (run.unit == "t/s") return "tokens a second, more is better";
  if (run.unit == "ms") return "milliseconds, less is better";
  return escape(run.unit);
}

std::string legend(const std::vector<const Run*>& runs) {
  std::set<std::pair<std::string, std::string>> peers;  // in the order of their colours
  for (const Run* run : runs)
    if (run->peer) peers.emplace(peer_class(run->peer->name), run->peer->name);
  std::string out = "<p class=\"legend\"><span><span class=\"swatch quern\"></span>Quern</span>";
  for (const auto& [color, name] : peers)
    out += fmt::format("<span><span class=\"swatch {}\"></span>{}</span>", color, escape(name));
  return out + "<span class=\"muted\">bar: median · dot: one sample · whisker: 95 % interval</span></p>\n";
}

std::string run_plots(const ModelGroup& group) {
  std::string out = "<div class=\"plots\">\n";
  out += figure("Quern over its peers", "times as fast; above 1 Quern is faster",
                ratio_plot(group.current, "Ratio to peers, " + group.name));
  for (size_t i = 0; i < group.current.size();) {
    std::vector<const Run*> test;
    const Run& first = *group.current[i];
    while (i < group.current.size() && same_test(first, *group.current[i])) test.push_back(group.current[i++]);
    out += figure(test_title(first), unit_words(first), speed_plot(test, test_title(first) + ", " + group.name));
  }
  return out + "</div>\n";
}

std::string history_plots(const ModelGroup& group) {
  std::vector<const Run*> seen;
  std::string plots;
  for (const Run* kind : group.current) {
    if (std::any_of(seen.begin(), seen.end(), [&](const Run* s) { return same_test(*s, *kind); })) continue;
    seen.push_back(kind);
    std::vector<const Run*> runs;
    for (const auto* list : {&group.earlier, &group.current})
      for (const Run* run : *list)
        if (same_test(*run, *kind)) runs.push_back(run);
    std::stable_sort(runs.begin(), runs.end(), [](const Run* a, const Run* b) { return a->date < b->date; });
    plots += figure(test_title(*kind), unit_words(*kind),
                    history_plot(runs, "History of " + test_title(*kind) + ", " + group.name));
  }
  return plots.empty() ? "" : "<h4>Over time</h4>\n<div class=\"plots\">\n" + plots + "</div>\n";
}

// One colour for each bucket's name, in the order in which names appear; names beyond the colours share the last.
std::vector<int> bucket_colors(const std::vector<const PhaseProfile*>& profiles, const PhaseProfile& wanted) {
  std::vector<std::string> names;
  for (const PhaseProfile* p : profiles)
    for (const Bucket& b : p->buckets)
      if (std::find(names.begin(), names.end(), b.name) == names.end()) names.push_back(b.name);
  std::vector<int> colors;
  for (const Bucket& b : wanted.buckets)
    colors.push_back(
        std::min(static_cast<int>(std::find(names.begin(), names.end(), b.name) - names.begin()), kBucketColors - 1));
  return colors;
}

std::string profile_part(const ModelGroup& group, const Roofs* roofs) {
  if (group.profiles.empty()) return "";
  std::vector<PhaseBar> bars;
  for (const PhaseProfile* p : group.profiles) bars.push_back({p, bucket_colors(group.profiles, *p)});
  std::string out = "<h4>Where the time goes</h4>\n<div class=\"plots\">\n";
  out += figure("Shares of time", "% of each phase; colours as in the tables",
                bucket_plot(bars, "Shares of time, " + group.name));
  for (const PhaseBar& bar : bars)
    if (roofs != nullptr)
      out += figure(
          "Roofline, " + bar.profile->phase, "how near each bucket comes to what memory and arithmetic allow",
          roofline_plot(*roofs, *bar.profile, bar.colors, "Roofline of " + bar.profile->phase + ", " + group.name),
          "wide");
  out += "</div>\n<div class=\"tables\">\n";
  for (const PhaseBar& bar : bars) {
    const PhaseProfile& p = *bar.profile;
    std::string line;
    for (const std::string& part :
         {escape(day(p.date)), p.commit.empty() ? "" : "commit <code>" + escape(shorten(p.commit, 12)) + "</code>",
          p.threads > 0 ? fmt::format("{} thread{}", count(p.threads), p.threads == 1 ? "" : "s") : "", escape(p.note)})
      if (!part.empty()) line += (line.empty() ? "" : " · ") + part;
    out += "<div>" + bucket_table(p, bar.colors, roofs) + "<p class=\"muted\">" + line + "</p></div>\n";
  }
  return out +
         "</div>\n<p class=\"muted\">\"of roof\": of the least that memory reads and the int8 peak allow; caches can "
         "carry it past 100 %.</p>\n";
}

std::string model_section(const ModelGroup& group, const Roofs* roofs, const std::string& anchor) {
  std::string out = fmt::format("<section class=\"model\" id=\"{}\" data-text=\"{}\">\n<h3>{}</h3>\n", anchor,
                                escape(group.name), escape(group.name));
  if (group.model != nullptr) out += model_facts(*group.model);
  if (!group.current.empty()) {
    out += legend(group.current) + run_plots(group);
    out += run_table(group.current, "Newest runs of " + group.name);
    out += history_plots(group);
    if (!group.earlier.empty())
      out += fmt::format("<details class=\"earlier\"><summary>Earlier runs ({})</summary>\n{}</details>\n",
                         group.earlier.size(), run_table(group.earlier, "Earlier runs of " + group.name));
  }
  return out + profile_part(group, roofs) + "</section>\n";
}

std::string head() {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
      "data:; "
      "script-src 'sha256-{}'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Quern board</title>\n"
      "<link rel=\"icon\" href=\"data:,\">\n<style>{}</style>\n</head>\n",
      kScriptSha256, kStyle);
}

constexpr std::string_view kIntroduction =
    "<header class=\"top\"><div><h1>Quern board</h1>\n"
    "<p>Speed of Quern and its peers, as recorded. In a run Quern and a peer take turns on the same machine, so that "
    "what "
    "else the machine does falls on both. A ratio says how many times as fast Quern was; its 95 % interval comes from "
    "the "
    "pairs of samples. An interval that holds 1 shows no difference.</p></div>\n"
    "<div class=\"controls\" id=\"page_controls\" hidden><label>Show <input id=\"page_filter\" type=\"search\" "
    "placeholder=\"model, test, peer\"></label>\n"
    "<button id=\"page_theme\" type=\"button\">Colours: system</button></div></header>\n";

std::string page(const std::vector<Record>& records) {
  Anchors anchors;
  std::string nav, body;
  for (const Record& record : records) {
    const std::string box = anchors.take(slug(record.box.name));
    const auto groups = group_models(record);
    const Roofs* roofs = record.roofs.empty() ? nullptr : &record.roofs.back();
    nav += fmt::format("<li><a href=\"#{}\">{}</a><ul>", box, escape(record.box.name));
    body +=
        fmt::format("<section class=\"box\" id=\"{}\">\n<h2>{}</h2>\n{}", box, escape(record.box.name), facts(record));
    const std::string summary = summary_table(groups);
    if (!summary.empty())
      body +=
          "<h3>At a glance</h3>\n<p class=\"muted\">How many times as fast Quern is, against each peer at its best "
          "setting. Newest run of each test.</p>\n" +
          summary;
    if (groups.empty()) body += "<p class=\"muted\">No runs yet.</p>\n";
    for (const ModelGroup& group : groups) {
      const std::string anchor = anchors.take(box + "." + slug(group.name));
      nav += fmt::format("<li><a href=\"#{}\">{}</a></li>", anchor, escape(group.name));
      body += model_section(group, roofs, anchor);
    }
    nav += "</ul></li>\n";
    body += "</section>\n";
  }
  std::string out = head();
  out += "<body>\n";
  out += kIntroduction;
  out += "<nav aria-label=\"Machines and models\"><ul>" + nav + "</ul></nav>\n<main>\n" + body + "</main>\n";
  out +=
      "<footer><p>Made by <code>quern board</code> from <code>records/*.json</code>. docs/PERFORMANCE.md says how runs "
      "are measured.</p></footer>\n<script>";
  out += kScript;
  return out + "</script>\n</body>\n</html>\n";
}

}  // namespace

Result<std::string> board_html(const std::vector<Record>& records) {
  try {
    return page(records);
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory for the page"};
  }
}

}  // namespace quern::measure::board
