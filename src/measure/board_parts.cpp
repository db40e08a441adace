// Groups of runs, and the tables of the page.
#include "measure/board_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "measure/board_plots.h"
#include "measure/board_svg.h"
#include "measure/paired.h"

namespace quern::measure::board {
namespace {

// "pp512", "tg128", "pp512 @ d4096", "tg128 b4" in an order that a reader expects.
struct TestKey {
  int family = 3;  // plain, at depth, in batches, anything else
  int kind = 2;    // prompt, generation, anything else
  long depth = 0, batch = 0, n = 0;
  auto tie() const { return std::tie(family, depth, batch, kind, n); }
};

long number_after(const std::string& text, const char* mark) {
  const size_t at = text.find(mark);
  return at == std::string::npos ? 0
                                 : std::strtol(text.c_str() + at + std::char_traits<char>::length(mark), nullptr, 10);
}

TestKey test_key(const std::string& test) {
  TestKey key;
  if (test.starts_with("pp")) key.kind = 0;
  if (test.starts_with("tg")) key.kind = 1;
  if (key.kind < 2) {
    key.n = std::strtol(test.c_str() + 2, nullptr, 10);
    key.depth = number_after(test, " @ d");
    key.batch = number_after(test, " b");
    key.family = key.depth > 0 ? 1 : key.batch > 0 ? 2 : 0;
  }
  return key;
}

// Runs that follow one another in time: the same test against the same peer in the same setting.
bool same_series(const Run& a, const Run& b) {
  if (!same_test(a, b) || a.peer.has_value() != b.peer.has_value()) return false;
  return !a.peer || peer_label(*a.peer) == peer_label(*b.peer);
}

int phase_rank(const PhaseProfile& p) {
  return p.phase == "prefill" ? 0 : p.phase == "decode" ? 1 : 2;
}

void add_run(ModelGroup& group, const Run& run) {
  for (const Run*& known : group.current) {
    if (!same_series(*known, run)) continue;
    group.earlier.push_back(known);
    known = &run;  // runs come by date
    return;
  }
  group.current.push_back(&run);
}

void add_profile(ModelGroup& group, const PhaseProfile& profile) {
  for (const PhaseProfile*& known : group.profiles) {
    if (known->phase != profile.phase) continue;
    known = &profile;
    return;
  }
  group.profiles.push_back(&profile);
}

std::string cell(std::string_view class_name, const std::string& content, double sort_value) {
  return fmt::format("<td class=\"{}\" data-sort=\"{}\">{}</td>", class_name, sort_value, content);
}

// What memory gave a plain read, and what generation drew from it.
std::string memory_cells(const Run& run) {
  const double dram = run.dram_gb_s.value_or(0), decode = run.decode_gb_s.value_or(0);
  std::string out = dram > 0 ? cell("n", number(dram), dram) : cell("n", dash(), -1);
  if (decode <= 0) return out + cell("n", dash(), -1);
  const std::string share = dram > 0 ? fmt::format(" <span class=\"unit\">{}</span>", percent(decode / dram)) : "";
  return out + cell("n", number(decode) + share, decode);
}

std::string value_cell(const Run& run, const Program* p) {
  if (p == nullptr) return cell("n", dash(), -1);
  return cell("n", fmt::format("{} <span class=\"unit\">{}</span>", number(p->median), escape(run.unit)), p->median);
}

std::string interval_cell(const Run& run) {
  if (!run.ratio || !run.ratio->known()) return cell("n", dash(), -1);
  const std::string text = ratio_text(run.ratio->low) + "–" + ratio_text(run.ratio->high);
  return cell("n", run.ratio->shows_difference() ? text : text + " <span class=\"flag\">no difference</span>",
              run.ratio->low);
}

std::string steal_cell(const Run& run) {
  if (!run.steal) return cell("n", dash(), -1);
  const std::string text = percent(*run.steal);
  return cell("n", *run.steal > kMuchSteal ? text + " <span class=\"flag\">noisy</span>" : text, *run.steal);
}

std::string samples_text(const Program& p) {
  std::string text;
  for (const double s : p.samples) text += (text.empty() ? "" : ", ") + number(s);
  return text.empty() ? dash() : text;
}

void definition(std::string& out, std::string_view term, const std::string& html) {
  out += fmt::format("<dt>{}</dt><dd>{}</dd>", term, html);
}

void program_details(std::string& out, const Program& p) {
  std::string version = escape(p.version);
  if (!p.commit.empty())
    version += fmt::format("{}<code>{}</code>", version.empty() ? "" : ", commit ", escape(p.commit));
  definition(out, escape(p.name), version.empty() ? dash() : version);
  definition(out, "command", p.command.empty() ? dash() : "<code>" + escape(p.command) + "</code>");
  definition(out, "samples", samples_text(p));
}

std::string run_row(const Run& run, bool memory) {
  std::string out = fmt::format("<tbody data-text=\"{}\"><tr>",
                                escape(run.test + " " + (run.peer ? peer_label(*run.peer) : "") + " " + run.date));
  std::string under = run.peer ? "vs " + escape(peer_label(*run.peer)) : "";
  if (run.threads > 0)
    under += fmt::format("{}{} thread{}", under.empty() ? "" : " · ", count(run.threads), run.threads == 1 ? "" : "s");
  out += fmt::format("<th scope=\"row\">{} <span class=\"unit\">{}</span></th>", escape(run.test), under);
  out += run.ratio ? cell("n strong", ratio_text(run.ratio->middle) + "×", run.ratio->middle) : cell("n", dash(), -1);
  out += interval_cell(run) + value_cell(run, &run.quern) + value_cell(run, run.peer ? &*run.peer : nullptr);
  out += steal_cell(run);
  if (memory) out += memory_cells(run);
  out += fmt::format("<td>{}</td></tr>",
                     run.date.empty() ? dash() : fmt::format("<time>{}</time>", escape(day(run.date))));
  out += fmt::format(
      "<tr class=\"more\"><td colspan=\"{}\"><details><summary>details<span class=\"hidden\"> of "
      "{}</span></summary><dl>",
      memory ? 9 : 7, escape(run.test + (run.peer ? " against " + peer_label(*run.peer) : "")));
  if (!run.date.empty()) definition(out, "date", escape(run.date));
  program_details(out, run.quern);
  if (run.peer) program_details(out, *run.peer);
  if (!run.note.empty()) definition(out, "note", escape(run.note));
  return out + "</dl></details></td></tr></tbody>\n";
}

}  // namespace

std::string dash() {
  return "<span class=\"none\">–</span>";
}

bool same_test(const Run& a, const Run& b) {
  return a.test == b.test && a.threads == b.threads && a.unit == b.unit;
}

bool test_before(const Run& a, const Run& b) {
  const TestKey x = test_key(a.test), y = test_key(b.test);
  if (x.tie() != y.tie()) return x.tie() < y.tie();
  const auto order = [](const Run& run) {
    return run.peer ? std::string(peer_class(run.peer->name)) + peer_label(*run.peer) : std::string("~");
  };
  const std::string p = order(a), q = order(b);
  return std::tie(a.test, a.threads, a.unit, p) < std::tie(b.test, b.threads, b.unit, q);
}

std::string test_title(const Run& run) {
  if (run.threads <= 0) return run.test;
  return fmt::format("{} · {} thread{}", run.test, count(run.threads), run.threads == 1 ? "" : "s");
}

std::vector<ModelGroup> group_models(const Record& record) {
  // A file is told apart by its checksum: two files of one name are two models.
  using Key = std::tuple<std::string, std::string, std::string>;
  std::map<Key, ModelGroup> groups;
  for (const Run& run : record.runs) {
    ModelGroup& group = groups[{run.model.name, run.model.type, run.model.sha256}];
    group.model = &run.model;
    group.name = run.model.name;
    add_run(group, run);
  }
  for (const PhaseProfile& profile : record.profiles) {
    auto at = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.second.name == profile.model; });
    if (at == groups.end()) at = groups.emplace(Key{profile.model, "", ""}, ModelGroup{}).first;
    at->second.name = profile.model;
    add_profile(at->second, profile);
  }
  std::vector<ModelGroup> result;
  for (auto& [key, group] : groups) {
    std::stable_sort(group.current.begin(), group.current.end(),
                     [](const Run* a, const Run* b) { return test_before(*a, *b); });
    std::stable_sort(group.earlier.begin(), group.earlier.end(),
                     [](const Run* a, const Run* b) { return a->date > b->date; });
    std::stable_sort(group.profiles.begin(), group.profiles.end(),
                     [](const PhaseProfile* a, const PhaseProfile* b) { return phase_rank(*a) < phase_rank(*b); });
    result.push_back(std::move(group));
  }
  return result;
}

std::string facts(const Record& record) {
  const Box& box = record.box;
  std::string out = "<dl class=\"facts\">";
  const auto fact = [&](std::string_view term, const std::string& value) {
    if (!value.empty()) out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", term, value);
  };
  const auto rate = [](double value, const char* unit) {
    return value > 0 ? fmt::format("{} <span class=\"unit\">{}</span>", number(value), unit) : "";
  };
  fact("processor", escape(box.cpu));
  fact("instructions", escape(box.isa));
  fact("cores", box.cores > 0 ? count(box.cores) : "");
  fact("memory", box.memory_bytes > 0 ? binary_text(box.memory_bytes) : "");
  fact("L2", box.l2_bytes > 0 ? binary_text(box.l2_bytes) : "");
  fact("L3", box.l3_bytes > 0 ? binary_text(box.l3_bytes) : "");
  fact("system", escape(box.os));
  if (!record.roofs.empty()) {
    const Roofs& r = record.roofs.back();
    out += "</dl>\n<dl class=\"facts\">";
    fact("memory reads", rate(r.dram, "GB/s"));
    fact("by one thread", rate(r.dram_1, "GB/s"));
    fact("L3 reads", rate(r.l3, "GB/s"));
    fact("L2 reads", rate(r.l2, "GB/s"));
    fact("int8", rate(r.int8, "GMAC/s"));
    fact("f32", rate(r.f32, "GMAC/s"));
    fact("measured",
         escape(day(r.date)) +
             (r.threads > 0 ? fmt::format(", {} thread{}", count(r.threads), r.threads == 1 ? "" : "s") : ""));
  }
  return out + "</dl>\n";
}

std::string model_facts(const ModelFile& model) {
  std::string out;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) out += (out.empty() ? "" : " · ") + text;
  };
  add(escape(model.type));
  if (model.n_params > 0) add(fmt::format("{} M parameters", number(model.n_params / 1e6)));
  if (model.bytes > 0) add(bytes_text(model.bytes));
  if (model.weight_bytes > 0) add(bytes_text(model.weight_bytes) + " read a token");
  add(model.file.empty() ? "" : "<code>" + escape(model.file) + "</code>");
  if (!model.sha256.empty())
    add("<code title=\"" + escape(model.sha256) + "\">sha256 " + escape(shorten(model.sha256, 13)) + "</code>");
  return out.empty() ? "" : "<p class=\"model-facts\">" + out + "</p>\n";
}

std::string summary_table(const std::vector<ModelGroup>& groups) {
  // Columns: plain tests against each peer. A peer with several settings counts at its best.
  std::map<std::string, const Run*> columns;
  std::vector<std::pair<const Run*, std::string>> order;
  for (const ModelGroup& group : groups) {
    for (const Run* run : group.current) {
      if (!run->ratio || !run->peer || test_key(run->test).family != 0) continue;
      if (columns.emplace(run->test + "\n" + run->peer->name, run).second)
        order.emplace_back(run, run->test + "\n" + run->peer->name);
    }
  }
  if (order.empty()) return "";
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    const TestKey x = test_key(a.first->test), y = test_key(b.first->test);
    const std::string p = peer_class(a.first->peer->name), q = peer_class(b.first->peer->name);
    return std::tie(x.kind, x.n, p, a.second) < std::tie(y.kind, y.n, q, b.second);
  });
  std::string out =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"How many times as fast, by model\"><table "
      "class=\"summary\"><thead><tr><th scope=\"col\">model</th>";
  for (const auto& [run, key] : order)
    out += fmt::format("<th scope=\"col\" class=\"n\">{}<span class=\"unit\"> vs {}</span></th>", escape(run->test),
                       escape(run->peer->name));
  out += "</tr></thead>\n<tbody>";
  for (const ModelGroup& group : groups) {
    std::string row;
    bool any = false;
    for (const auto& [column, key] : order) {
      const Run* least = nullptr;
      for (const Run* run : group.current)
        if (run->ratio && run->peer && run->test + "\n" + run->peer->name == key &&
            (least == nullptr || run->ratio->middle < least->ratio->middle))
          least = run;
      any = any || least != nullptr;
      const char* kind = least == nullptr || !least->ratio->shows_difference() ? "n"
                         : least->ratio->middle > 1                            ? "n faster"
                                                                               : "n slower";
      row += fmt::format("<td class=\"{}\">{}</td>", kind,
                         least != nullptr ? ratio_text(least->ratio->middle) + "×" : dash());
    }
    if (any)
      out += fmt::format("<tr><th scope=\"row\">{}<span class=\"unit\"> {}</span></th>{}</tr>\n", escape(group.name),
                         group.model != nullptr ? escape(group.model->type) : "", row);
  }
  return out + "</tbody></table></div>\n";
}

std::string run_table(const std::vector<const Run*>& runs, std::string_view label) {
  const bool memory =
      std::any_of(runs.begin(), runs.end(), [](const Run* r) { return r->dram_gb_s || r->decode_gb_s; });
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"runs\"><thead><tr>"
      "<th scope=\"col\">test</th>",
      escape(label));
  for (const char* column : {"ratio", "95 % interval", "Quern", "peer", "steal"})
    out += fmt::format("<th scope=\"col\" class=\"n\">{}</th>", column);
  if (memory)
    out += "<th scope=\"col\" class=\"n\">DRAM, GB/s</th><th scope=\"col\" class=\"n\">decode reads, GB/s</th>";
  out += "<th scope=\"col\">date</th></tr></thead>\n";
  for (const Run* run : runs) out += run_row(*run, memory);
  return out + "</table></div>\n";
}

std::string bucket_table(const PhaseProfile& profile, const std::vector<int>& colors, const Roofs* roofs) {
  double total = 0;
  for (const Bucket& b : profile.buckets) total += b.seconds;
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Buckets of {}\"><table "
      "class=\"buckets\"><thead><tr>"
      "<th scope=\"col\">{}</th>",
      escape(profile.phase), escape(profile.phase));
  for (const char* column : {"share", "µs/token", "GB/s", "GMAC/s", "of roof"})
    out += fmt::format("<th scope=\"col\" class=\"n\">{}</th>", column);
  out += "</tr></thead>\n<tbody>";
  for (size_t i = 0; i < profile.buckets.size(); ++i) {
    const Bucket& b = profile.buckets[i];
    const auto rate = [&](double amount) {
      return b.seconds > 0 && amount > 0 ? number(amount / b.seconds / 1e9) : dash();
    };
    const double roof = roofs != nullptr ? attainable_gmac_s(b, *roofs) : 0;
    out += fmt::format("<tr><th scope=\"row\"><span class=\"swatch b{}\"></span>{}</th>", colors[i], escape(b.name));
    for (const std::string& text :
         {total > 0 ? percent(b.seconds / total) : dash(),
          profile.tokens > 0 ? number(b.seconds / profile.tokens * 1e6) : dash(), rate(b.bytes), rate(b.macs),
          roof > 0 && b.seconds > 0 ? percent(b.macs / b.seconds / 1e9 / roof) : dash()})
      out += "<td class=\"n\">" + text + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace quern::measure::board
