// Records in, page out: errors by name, order, text from records, what stands where. How it looks: board_page_test.py.
#include "measure/board.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file_io.h"
#include "measure/board_parts.h"
#include "measure/board_plots.h"

using namespace quern;
using namespace quern::measure::board;
using Json = nlohmann::json;

namespace {

std::string records_folder() {
  return std::string(std::getenv("QUERN_SOURCE_DIR")) + "/tests/measure/data/records";
}

std::string sample_text(const char* name) {
  auto text = read_file(records_folder() + "/" + name + ".json");
  EXPECT_TRUE(text.ok());
  return text.ok() ? *text : "";
}

Json sample() {
  return Json::parse(sample_text("sample"));
}

std::string page_of(const Json& j) {
  auto record = parse_record(j.dump(), "r.json");
  EXPECT_TRUE(record.ok()) << record.error().message;
  auto html = board_html({*record});
  EXPECT_TRUE(html.ok());
  return *html;
}

std::string error_of(const std::string& text) {
  const auto record = parse_record(text, "r.json");
  EXPECT_FALSE(record.ok());
  return record.ok() ? "" : record.error().message;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// Where the tag that begins at `at` ends: its '>' outside of quotes. (std::regex recurses once a character.)
size_t tag_end(const std::string& html, size_t at) {
  bool quoted = false;
  for (; at < html.size() && (quoted || html[at] != '>'); ++at) quoted = quoted != (html[at] == '"');
  return at;
}

// The value of name="…" in text; empty where it is not there.
std::string attribute(const std::string& text, const std::string& name) {
  const size_t at = text.find(name + "=\"");
  if (at == std::string::npos) return "";
  const size_t first = at + name.size() + 2;
  return text.substr(first, text.find('"', first) - first);
}

TEST(BoardRecords, BrokenOnesAreNamed) {
  EXPECT_EQ(error_of("[]"), "r.json: a record is a JSON object");
  EXPECT_EQ(error_of("{}"), "r.json: schema is missing; this is no record of Quern");
  EXPECT_EQ(error_of(R"({"schema":2})"), "r.json: schema is 2; this version reads schema 1");
  EXPECT_EQ(error_of(R"({"schema":"1"})"), "r.json: schema is \"1\"; this version reads schema 1");
  EXPECT_TRUE(error_of("{\"schema\":1,").starts_with("r.json: broken JSON: parse error at line 1, column 13"));
  EXPECT_TRUE(error_of("").starts_with("r.json: broken JSON: "));
  EXPECT_TRUE(error_of("{\"schema\":1,\"box\":{\"name\":\"\xff\"}}").starts_with("r.json: broken JSON: "));
  EXPECT_TRUE(error_of("{\"schema\":1,\"a\":1e999}").starts_with("r.json: broken JSON: "));
  EXPECT_EQ(error_of(R"({"schema":1})"), "r.json: box is missing");
  EXPECT_EQ(error_of(R"({"schema":1,"box":3})"), "r.json: box is not an object");
  EXPECT_EQ(error_of(R"({"schema":1,"box":{}})"), "r.json: box.name is missing");
}

// Each change of the sample and the message it must cause.
TEST(BoardRecords, WrongFieldsAreNamed) {
  struct Case {
    const char* pointer;
    Json value;
    const char* message;
  };
  const Case cases[] = {
      {"/box/cpu", 3, "r.json: box.cpu is not a string"},
      {"/box/cores", "two", "r.json: box.cores is not a number"},
      {"/box/cores", -1, "r.json: box.cores is -1; allowed is 0 to 1e+18"},
      {"/runs", 3, "r.json: runs is not a list"},
      {"/runs/2", 3, "r.json: runs[2] is not an object"},
      {"/runs/2/test", nullptr, "r.json: runs[2].test is missing"},
      {"/runs/2/model", nullptr, "r.json: runs[2].model is missing"},
      {"/runs/2/model/name", nullptr, "r.json: runs[2].model.name is missing"},
      {"/runs/2/quern", nullptr, "r.json: runs[2].quern is missing"},
      {"/runs/2/quern", Json::object(), "r.json: runs[2].quern.median is missing, and there are no samples"},
      {"/runs/2/quern/samples/1", "x", "r.json: runs[2].quern.samples[1] is not a number"},
      {"/runs/2/quern/samples/1", 0, "r.json: runs[2].quern.samples[1] is 0; allowed is 1e-12 to 1e+18"},
      {"/runs/2/peer/name", nullptr, "r.json: runs[2].peer.name is missing"},
      {"/runs/2/peer", "llama.cpp", "r.json: runs[2].peer is not an object"},
      {"/runs/2/ratio/middle", nullptr, "r.json: runs[2].ratio.middle is missing"},
      {"/runs/2/ratio/low", 1e9, "r.json: runs[2].ratio has its middle outside its interval"},
      {"/runs/2/steal", 1.5, "r.json: runs[2].steal is 1.5; allowed is 0 to 1"},
      {"/rooflines/0/dram_gb_s", "fast", "r.json: rooflines[0].dram_gb_s is not a number"},
      {"/profiles/1/buckets/0/name", nullptr, "r.json: profiles[1].buckets[0].name is missing"},
      {"/profiles/1/buckets/0/seconds", -1, "r.json: profiles[1].buckets[0].seconds is -1; allowed is 0 to 1e+18"},
      {"/profiles/1/phase", nullptr, "r.json: profiles[1].phase is missing"},
  };
  for (const Case& c : cases) {
    Json j = sample();
    j[Json::json_pointer(c.pointer)] = c.value;
    EXPECT_EQ(error_of(j.dump()), c.message) << c.pointer;
  }
}

TEST(BoardRecords, OptionalFieldsMayBeMissingOrNull) {
  // Every leaf and branch that is not required, one at a time.
  const std::set<std::string> required = {"/schema",
                                          "/box",
                                          "/box/name",
                                          "/runs/0/test",
                                          "/runs/0/model",
                                          "/runs/0/quern",
                                          "/runs/0/model/name",
                                          "/runs/0/peer/name",
                                          "/runs/0/ratio/middle",
                                          "/profiles/0/model",
                                          "/profiles/0/phase",
                                          "/profiles/0/buckets/0/name"};
  Json j = sample();
  for (const char* key : {"runs", "profiles", "rooflines"}) j[key] = Json::array({j[key][0]});
  j["profiles"][0]["buckets"] = Json::array({j["profiles"][0]["buckets"][0]});
  size_t n_tried = 0;
  const std::function<void(const Json&, const std::string&)> visit = [&](const Json& at, const std::string& path) {
    if (at.is_array() && !at.empty() && at[0].is_object()) visit(at[0], path + "/0");
    if (!at.is_object()) return;
    for (const auto& [key, value] : at.items()) {
      const std::string here = path + "/" + key;
      visit(value, here);
      if (required.contains(here)) continue;
      for (const bool null : {false, true}) {
        Json less = j;
        if (null) {
          less[Json::json_pointer(here)] = nullptr;
        } else {
          less[Json::json_pointer(path)].erase(key);
        }
        const auto record = parse_record(less.dump(), "r.json");
        ASSERT_TRUE(record.ok()) << here << ": " << record.error().message;
        ASSERT_TRUE(board_html({*record}).ok());
        ++n_tried;
      }
    }
  };
  visit(j, "");
  EXPECT_GT(n_tried, 80u);
}

TEST(BoardRecords, FoldersAreReadInTheOrderOfBoxNames) {
  const auto records = load_records(records_folder());
  ASSERT_TRUE(records.ok()) << records.error().message;
  ASSERT_EQ(records->size(), 3u);
  EXPECT_EQ((*records)[0].box.name, "bare box (invented)");
  EXPECT_TRUE((*records)[1].box.name.starts_with("hostile box (invented)"));
  EXPECT_EQ((*records)[2].box.name, "sample box (invented)");
}

TEST(BoardRecords, FoldersWithoutRecordsAreNamed) {
  const auto none = load_records("no-such-folder");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().status, Status::not_found);
  EXPECT_NE(none.error().message.find("no-such-folder"), std::string::npos);
  const auto folder = std::filesystem::temp_directory_path() / "quern-board-test";
  std::filesystem::create_directories(folder);
  EXPECT_NE(load_records(folder.string()).error().message.find("no record"), std::string::npos);
  std::ofstream(folder / "bad.json") << "{";
  EXPECT_NE(load_records(folder.string()).error().message.find("bad.json: broken JSON"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(BoardPage, IsTheSameForTheSameRecords) {
  const auto records = load_records(records_folder());
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(*board_html(*records), *board_html(*records));
  // The order of a file's runs of different dates does not matter.
  Json j = sample();
  Json turned = j;
  std::reverse(turned["rooflines"].begin(), turned["rooflines"].end());
  std::stable_sort(turned["runs"].begin(), turned["runs"].end(),
                   [](const Json& a, const Json& b) { return a["date"] > b["date"]; });
  EXPECT_EQ(page_of(j), page_of(turned));
}

TEST(BoardPage, AsksForNothingFromOutside) {
  const auto records = load_records(records_folder());
  const std::string html = *board_html(*records);
  for (const char* name : {" src", " href", " xlink:href", " action", " poster", " data"}) {
    const std::string start = std::string(name) + "=\"";
    for (size_t at = html.find(start); at != std::string::npos; at = html.find(start, at + 1)) {
      const std::string target = attribute(html.substr(at), name);
      EXPECT_TRUE(target.starts_with("#") || target == "data:,") << target;
    }
  }
  EXPECT_EQ(html.find("url("), std::string::npos);
  EXPECT_EQ(html.find("@import"), std::string::npos);
}

TEST(BoardPage, TextOfRecordsStaysText) {
  const auto record = parse_record(sample_text("hostile"), "r.json");
  ASSERT_TRUE(record.ok()) << record.error().message;
  const std::string html = *board_html({*record});
  EXPECT_EQ(count(html, "<script"), 1u);
  EXPECT_EQ(count(html, "<img"), 0u);
  EXPECT_EQ(count(html, "<!--"), 0u);
  EXPECT_EQ(count(html, "</style>"), 1u);
  EXPECT_EQ(count(html, "<title>Quern board</title>"), 1u);
  EXPECT_EQ(html.find(" onmouseover=\"doc"), std::string::npos);
  EXPECT_EQ(html.find(" onerror=\"doc"), std::string::npos);
  EXPECT_EQ(html.find('\0'), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;"), std::string::npos);
}

TEST(BoardPage, ElementsNestRightly) {
  const auto records = load_records(records_folder());
  const std::string html = *board_html(*records);
  std::vector<std::string> open;
  std::set<std::string> ids;
  const size_t body = html.find("<body>");
  const std::string part = html.substr(body, html.find("<script>") - body);
  for (size_t at = part.find('<'); at != std::string::npos; at = part.find('<', at + 1)) {
    const std::string tag = part.substr(at + 1, tag_end(part, at) - at - 1);
    const bool closes = tag.starts_with("/");
    const size_t first = closes ? 1 : 0, last = tag.find_first_of(" /", first);
    const std::string name = tag.substr(first, last == std::string::npos ? last : last - first);
    const std::string rest = last == std::string::npos ? "" : tag.substr(last);
    if (const std::string id = attribute(rest, " id"); !id.empty()) {
      EXPECT_TRUE(ids.insert(id).second) << id;
    }
    if (closes) {
      ASSERT_FALSE(open.empty()) << name;
      ASSERT_EQ(open.back(), name) << "at " << part.substr(at, 200);
      open.pop_back();
    } else if (!rest.ends_with("/") && name != "input" && name != "meta" && name != "link") {
      open.push_back(name);
    }
  }
  EXPECT_EQ(open, std::vector<std::string>{"body"});
  // Each link of the contents leads somewhere.
  for (size_t at = part.find("href=\"#"); at != std::string::npos; at = part.find("href=\"#", at + 1)) {
    const std::string target = attribute(part.substr(at), "href").substr(1);
    EXPECT_TRUE(ids.contains(target)) << target;
  }
}

TEST(BoardPage, EveryRunIsThereWithEverySample) {
  const Json j = sample();
  const std::string html = page_of(j);
  EXPECT_EQ(count(html, "<tbody data-text"), j["runs"].size());
  size_t n_dots = 0;
  for (const Json& run : j["runs"])
    if (run["date"] == "2001-02-03T09:00:00Z")
      n_dots += run["quern"]["samples"].size() * (run["peer"].is_null() ? 1 : 3);
  // Newest runs: a dot for each sample of either side, and one for each pair in the plot of ratios.
  size_t seen = 0;
  for (const char* start : {"<svg class=\"plot speed\"", "<svg class=\"plot ratio\""}) {
    for (size_t at = html.find(start); at != std::string::npos; at = html.find(start, at + 1)) {
      const std::string plot = html.substr(at, html.find("</svg>", at) - at);
      seen += count(plot, "<circle class=\"") + count(plot, "class=\"dot ");
    }
  }
  EXPECT_EQ(seen, n_dots);
  EXPECT_EQ(count(html, "\"plot roofline\""), 2u);
  EXPECT_EQ(count(html, "\"plot history\""), 2u);
  EXPECT_NE(html.find("no difference"), std::string::npos);
  EXPECT_NE(html.find("noisy"), std::string::npos);
}

TEST(BoardPage, AChangedFigureChangesThePage) {
  Json j = sample();
  const std::string before = page_of(j);
  j["profiles"][0]["buckets"][0]["seconds"] = 0.06;
  EXPECT_NE(page_of(j), before);
}

TEST(BoardGroups, NewestRunOfASeriesCountsAndOthersAreEarlier) {
  const auto record = parse_record(sample_text("sample"), "r.json");
  const auto groups = group_models(*record);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "Sample 135M");
  ASSERT_EQ(groups[0].current.size(), 8u);
  EXPECT_EQ(groups[0].earlier.size(), 8u);
  for (const auto* run : groups[0].current) EXPECT_EQ(run->quern.commit, "c0ffee3");
  EXPECT_EQ(groups[0].current.front()->test, "pp512");
  EXPECT_EQ(groups[0].current.back()->test, "ttft turn 2");
  ASSERT_EQ(groups[0].profiles.size(), 2u);
  EXPECT_EQ(groups[0].profiles[0]->phase, "prefill");
}

TEST(BoardGroups, AtAGlanceTakesThePeersBestSetting) {
  const auto record = parse_record(sample_text("sample"), "r.json");
  const std::string table = summary_table(group_models(*record));
  // 5200 over 560 plain, over 610 with --repack 0: the second is the peer's best.
  EXPECT_NE(table.find(">8.52×<"), std::string::npos) << table;
  EXPECT_EQ(table.find(">9.29×<"), std::string::npos);
}

TEST(BoardPlots, SettingsOfAPeerAreWhatIsNotTheTest) {
  EXPECT_EQ(peer_setting("llama-bench -m x.gguf -p 512 -n 0 -t 2 -r 1 -o json"), "");
  EXPECT_EQ(peer_setting("/a/b/llama-bench -m x.gguf -rtr 1 -p 512"), "-rtr 1");
  EXPECT_EQ(peer_setting("llama-bench --repack 0 -m x"), "--repack 0");
  EXPECT_EQ(peer_setting(""), "");
  EXPECT_EQ(peer_setting("llama-bench -m"), "");
}

TEST(BoardPlots, AttainableIsTheLowerRoof) {
  Roofs roofs;
  roofs.dram = 40;
  roofs.int8 = 1000;
  EXPECT_EQ(attainable_gmac_s({"decode", 1, 1e9, 2e9}, roofs), 80);
  EXPECT_EQ(attainable_gmac_s({"prefill", 1, 1e9, 500e9}, roofs), 1000);
  EXPECT_EQ(attainable_gmac_s({"wait", 1, 0, 0}, roofs), 0);
  EXPECT_EQ(attainable_gmac_s({"decode", 1, 1e9, 2e9}, Roofs{}), 0);
}

TEST(BoardPlots, NothingToDrawIsNoPlot) {
  EXPECT_EQ(ratio_plot({}, "t"), "");
  const auto record = parse_record(sample_text("bare"), "r.json");
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(ratio_plot({&record->runs[0]}, "t"), "");
  EXPECT_EQ(history_plot({&record->runs[0]}, "t"), "");
}

}  // namespace
