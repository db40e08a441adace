// The sidecar's text form. Every field is checked on the way in; nothing here decides whether the file holds.
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/tuning.h"

namespace quern::engine {
namespace {

using Json = nlohmann::ordered_json;

// What a damaged file cannot make an engine do.
constexpr int kMostThreads = 4096, kMostSpins = 100000000;

Json ratio_json(const TunedRatio& r) {
  return {{"middle", r.middle}, {"low", r.low}, {"high", r.high}};
}

Json entry_json(const TunedEntry& e) {
  Json j = {{"op", kernels::op_name(e.query.op)},
            {"weight", format::format_info(e.query.weight).name},
            {"act", kernels::act_format_name(e.query.act)},
            {"layout", kernels::layout_name(e.query.layout)},
            {"row_class", kernels::row_class_name(e.query.row_class)},
            {"n_out", e.query.shape.n_out},
            {"n_in", e.query.shape.n_in},
            {"threads", e.n_threads},
            {"default", e.fallback},
            {"winner", e.winner},
            {"ratio", ratio_json(e.ratio)},
            {"noise", e.noise},
            {"windows", e.n_windows},
            {"rows", e.n_rows},
            {"note", e.note},
            {"date", e.date},
            {"tried", Json::array()}};
  for (const TunedTrial& t : e.tried)
    j["tried"].push_back({{"kernel", t.kernel}, {"verdict", t.verdict}, {"ratio", ratio_json(t.ratio)}});
  return j;
}

// Fields of one JSON object; the first that is missing or of another kind is remembered, the rest reads as nothing.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string where, std::string& problem)
      : object_(object), where_(std::move(where)), problem_(problem) {}

  std::string text(const char* name) {
    const nlohmann::json* v = field(name);
    if (v != nullptr && v->is_string()) return v->get<std::string>();
    return fail(name), "";
  }
  int64_t whole(const char* name) {
    const nlohmann::json* v = field(name);
    if (v != nullptr && v->is_number_integer()) {
      const double value = v->get<double>();
      if (value >= 0 && value <= 9007199254740992.0) return v->get<int64_t>();
    }
    return fail(name), 0;
  }
  int count(const char* name) {
    const int64_t value = whole(name);
    if (value <= 1 << 30) return static_cast<int>(value);
    return fail(name), 0;
  }
  double number(const char* name) {
    const nlohmann::json* v = field(name);
    if (v != nullptr && v->is_number() && std::isfinite(v->get<double>())) return v->get<double>();
    return fail(name), 0;
  }
  bool flag(const char* name) {
    const nlohmann::json* v = field(name);
    if (v != nullptr && v->is_boolean()) return v->get<bool>();
    return fail(name), false;
  }
  Fields object(const char* name) {
    const nlohmann::json* v = field(name);
    if (v == nullptr || !v->is_object()) fail(name);
    return {v != nullptr && v->is_object() ? *v : kNothing, where_ + name + ".", problem_};
  }
  // Calls each(fields) for the objects of an array.
  template <class Each>
  void objects(const char* name, const Each& each) {
    const nlohmann::json* v = field(name);
    if (v == nullptr || !v->is_array()) return fail(name);
    for (size_t i = 0; i < v->size(); ++i) {
      const std::string at = where_ + name + "[" + std::to_string(i) + "]";
      if (!(*v)[i].is_object()) return note(at);
      Fields fields((*v)[i], at + ".", problem_);
      each(fields);
    }
  }
  std::vector<std::string> texts(const char* name) {
    std::vector<std::string> out;
    const nlohmann::json* v = field(name);
    if (v == nullptr || !v->is_array()) return fail(name), out;
    for (const auto& item : *v) {
      if (!item.is_string()) return fail(name), out;
      out.push_back(item.get<std::string>());
    }
    return out;
  }
  // An enumerator by its name.
  template <class Parse>
  auto word(const char* name, const Parse& parse) {
    auto parsed = parse(text(name));
    using E = std::decay_t<decltype(*parsed)>;
    if (!parsed.ok()) fail(name);
    return parsed.ok() ? *parsed : E{};
  }

 private:
  const nlohmann::json* field(const char* name) const {
    const auto it = object_.find(name);
    return it != object_.end() ? &*it : nullptr;
  }
  void fail(const char* name) { note(where_ + name); }
  void note(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  static inline const nlohmann::json kNothing = nlohmann::json::object();
  const nlohmann::json& object_;
  std::string where_;
  std::string& problem_;
};

TunedRatio read_ratio(Fields fields) {
  return {fields.number("middle"), fields.number("low"), fields.number("high")};
}

TunedEntry read_entry(Fields& f) {
  TunedEntry e;
  e.query.op = f.word("op", kernels::parse_op);
  e.query.weight = f.word("weight", kernels::parse_weight_format);
  e.query.act = f.word("act", kernels::parse_act_format);
  e.query.layout = f.word("layout", kernels::parse_layout);
  e.query.row_class = f.word("row_class", kernels::parse_row_class);
  e.query.shape = {f.whole("n_out"), f.whole("n_in")};
  e.n_threads = f.count("threads");
  e.fallback = f.text("default");
  e.winner = f.text("winner");
  e.ratio = read_ratio(f.object("ratio"));
  e.noise = f.number("noise");
  e.n_windows = f.count("windows");
  e.n_rows = f.count("rows");
  e.note = f.text("note");
  e.date = f.text("date");
  f.objects("tried", [&](Fields& t) {
    e.tried.push_back({t.text("kernel"), t.text("verdict"), read_ratio(t.object("ratio"))});
  });
  return e;
}

TunedKnobs read_knobs(Fields& f) {
  TunedKnobs k;
  k.model_key = f.text("model_key");
  k.model = f.text("model");
  k.default_threads = f.count("default_threads");
  k.n_threads = f.count("threads");
  k.spins = f.count("spins");
  k.ratio = read_ratio(f.object("ratio"));
  k.noise = f.number("noise");
  k.n_windows = f.count("windows");
  k.date = f.text("date");
  return k;
}

TunedProof read_proof(Fields& f) {
  TunedProof p;
  p.model_key = f.text("model_key");
  p.model = f.text("model");
  p.phase = f.text("phase");
  p.n_threads = f.count("threads");
  p.ratio = read_ratio(f.object("ratio"));
  p.kept = f.flag("kept");
  p.date = f.text("date");
  return p;
}

}  // namespace

std::string tuning_json(const Tuning& t) {
  Json j = {{"schema", kTuningSchema},
            {"machine",
             {{"cpu", t.machine.cpu},
              {"features", t.machine.features},
              {"cores", t.machine.n_cores},
              {"l2_bytes", t.machine.l2_bytes},
              {"l3_bytes", t.machine.l3_bytes}}},
            {"engine", {{"version", t.version}, {"commit", t.commit}, {"registry", t.registry}}},
            {"date", t.date},
            {"entries", Json::array()},
            {"knobs", Json::array()},
            {"proofs", Json::array()}};
  for (const TunedEntry& e : t.entries) j["entries"].push_back(entry_json(e));
  for (const TunedKnobs& k : t.knobs) {
    j["knobs"].push_back({{"model_key", k.model_key},
                          {"model", k.model},
                          {"default_threads", k.default_threads},
                          {"threads", k.n_threads},
                          {"spins", k.spins},
                          {"ratio", ratio_json(k.ratio)},
                          {"noise", k.noise},
                          {"windows", k.n_windows},
                          {"date", k.date}});
  }
  for (const TunedProof& p : t.proofs) {
    j["proofs"].push_back({{"model_key", p.model_key},
                           {"model", p.model},
                           {"phase", p.phase},
                           {"threads", p.n_threads},
                           {"ratio", ratio_json(p.ratio)},
                           {"kept", p.kept},
                           {"date", p.date}});
  }
  return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Tuning> parse_tuning(const std::string& text, const std::string& where) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return Error{Status::invalid_file, where + ": not a JSON object (damaged)"};
  std::string problem;
  Fields f(json, "", problem);
  const int64_t schema = f.whole("schema");
  if (problem.empty() && schema != kTuningSchema)
    return Error{Status::unsupported, where + ": written in form " + std::to_string(schema) + " (this Quern reads " +
                                          std::to_string(kTuningSchema) + ")"};
  Tuning t;
  Fields machine = f.object("machine"), engine = f.object("engine");
  t.machine = {machine.text("cpu"), machine.texts("features"), machine.count("cores"),
               static_cast<uint64_t>(machine.whole("l2_bytes")), static_cast<uint64_t>(machine.whole("l3_bytes"))};
  t.version = engine.text("version");
  t.commit = engine.text("commit");
  t.registry = engine.text("registry");
  t.date = f.text("date");
  f.objects("entries", [&](Fields& e) { t.entries.push_back(read_entry(e)); });
  f.objects("knobs", [&](Fields& k) { t.knobs.push_back(read_knobs(k)); });
  f.objects("proofs", [&](Fields& p) { t.proofs.push_back(read_proof(p)); });
  for (const TunedKnobs& k : t.knobs) {
    if (k.n_threads < 1 || k.n_threads > kMostThreads || k.spins < 1 || k.spins > kMostSpins) problem = "knobs";
  }
  if (!problem.empty()) return Error{Status::invalid_file, where + ": '" + problem + "' is missing or malformed"};
  return t;
}

}  // namespace quern::engine
