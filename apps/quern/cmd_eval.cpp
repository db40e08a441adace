// eval: perplexity as llama-perplexity counts it, and divergence from saved logits. docs/EVAL.md is the definition.
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/quern/divergence.h"
#include "apps/quern/session_options.h"
#include "base/file_io.h"
#include "file/gguf.h"
#include "file/npy.h"

namespace quern::apps {
namespace {

using Json = nlohmann::ordered_json;

// The windows to evaluate: `tokens` cut into pieces of n_window, each scored from position `first` to its last but one.
struct Windows {
  std::vector<int32_t> tokens;
  int n_window = 0, n_windows = 0, first = 0;
  int scored_each() const { return n_window - 1 - first; }
  int64_t scored() const { return static_cast<int64_t>(scored_each()) * n_windows; }
  uint64_t hash() const {
    const size_t used = static_cast<size_t>(n_window) * static_cast<size_t>(n_windows);
    return XXH64(tokens.data(), used * sizeof(int32_t), static_cast<uint64_t>(n_window));
  }
};

Result<Windows> make_windows(engine::Engine& engine, const Options& options) {
  QUERN_TRY(const std::string text, read_file(options.text("file")));
  token::EncodeOptions encode;
  encode.add_special = true;
  Windows w;
  QUERN_TRY(w.tokens, engine.tokenizer().encode(text, encode));
  w.n_window = static_cast<int>(options.integer("ctx"));
  w.n_windows = static_cast<int>(w.tokens.size() / static_cast<size_t>(w.n_window));
  if (options.integer("chunks") > 0) w.n_windows = std::min(w.n_windows, static_cast<int>(options.integer("chunks")));
  w.first = w.n_window / 2;
  if (w.n_windows == 0) {
    return Error{Status::invalid_argument,
                 fmt::format("{}: {} tokens do not fill one window of {} (-c N takes smaller ones)",
                             options.text("file"), w.tokens.size(), w.n_window)};
  }
  const token::Tokenizer& tokenizer = engine.tokenizer();
  if (tokenizer.adds_bos()) {
    for (int i = 0; i < w.n_windows; ++i)
      w.tokens[static_cast<size_t>(i) * static_cast<size_t>(w.n_window)] = tokenizer.vocab().bos;
  }
  return w;
}

// FILE.json beside saved logits: what they belong to, so that they are not compared with something else.
std::string sidecar(const std::string& npy) {
  return npy + ".json";
}

Result<void> save_sidecar(const std::string& npy, const Windows& w, engine::Engine& engine) {
  const Json json = {{"model", engine.file().path()},
                     {"window", w.n_window},
                     {"windows", w.n_windows},
                     {"first", w.first},
                     {"tokens_xxh64", fmt::format("{:016x}", w.hash())}};
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return write_file_atomic(sidecar(npy), std::as_bytes(std::span(text)));
}

Result<file::NpyFile> open_saved(const std::string& path, const Windows& w, int n_vocab, const Context& context) {
  QUERN_TRY(file::NpyFile npy, file::NpyFile::open(path));
  QUERN_TRY([[maybe_unused]] const auto floats, npy.floats());
  const std::vector<uint64_t> wanted = {static_cast<uint64_t>(w.scored()), static_cast<uint64_t>(n_vocab)};
  if (npy.shape() != wanted) {
    std::string shape;
    for (const uint64_t n : npy.shape()) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", n);
    return Error{Status::invalid_argument,
                 fmt::format("{}: holds [{}] logits, this evaluation has [{}, {}]", path, shape, wanted[0], wanted[1])};
  }
  const auto text = read_file(sidecar(path), 1 << 20);
  const auto json = text.ok() ? Json::parse(*text, nullptr, false) : Json();
  if (!json.is_object() || !json.contains("tokens_xxh64")) {
    context.notice(sidecar(path) + " is not there: taking it on trust that the logits are of the same tokens");
  } else if (json["tokens_xxh64"] != fmt::format("{:016x}", w.hash())) {
    return Error{Status::invalid_argument,
                 path + ": the saved logits are of other tokens (another text, tokenizer or window)"};
  }
  return npy;
}

struct Report {
  Windows windows;
  Likelihood likelihood;
  std::optional<Divergence> divergence;
};

// Scores each window as its rows come; holds a few rows at a time.
class Evaluation {
 public:
  Evaluation(engine::Engine& engine, const Context& context) : engine_(engine), context_(context) {}

  Result<Report> run() {
    const Options& options = context_.options;
    Report report;
    QUERN_TRY(report.windows, make_windows(engine_, options));
    const Windows& w = report.windows;
    if (options.given("save-logits")) {
      QUERN_TRY(file::NpyWriter npy,
                file::NpyWriter::create(options.text("save-logits"), static_cast<uint64_t>(engine_.n_vocab())));
      save_.emplace(std::move(npy));
    }
    if (options.given("against-logits")) {
      QUERN_TRY(saved_, open_saved(options.text("against-logits"), w, engine_.n_vocab(), context_));
      report.divergence.emplace();
    }
    QUERN_TRY(const auto session, engine_.new_session());
    for (int i = 0; i < w.n_windows; ++i) {
      const auto tokens = std::span(w.tokens).subspan(static_cast<size_t>(i) * static_cast<size_t>(w.n_window),
                                                      static_cast<size_t>(w.n_window));
      QUERN_TRY_VOID(session->logits_of_all(
          tokens, [&](int first, int n, std::span<const float> rows) { return take(report, tokens, first, n, rows); }));
      tell(report, i + 1);
    }
    if (::isatty(2) == 1) std::fputs("\r\x1b[K", stderr);
    if (save_) {
      QUERN_TRY_VOID(save_->finish());
      QUERN_TRY_VOID(save_sidecar(options.text("save-logits"), w, engine_));
    }
    return report;
  }

 private:
  // rows: [n, n_vocab] f32, the logits after positions first_position ... of the window.
  Result<void> take(Report& report, std::span<const int32_t> tokens, int first_position, int n,
                    std::span<const float> rows) {
    const size_t n_vocab = static_cast<size_t>(engine_.n_vocab());
    for (int i = 0; i < n; ++i) {
      const int position = first_position + i;
      if (position < report.windows.first || position + 1 >= report.windows.n_window) continue;
      const auto row = rows.subspan(static_cast<size_t>(i) * n_vocab, n_vocab);
      report.likelihood.add(row, tokens[static_cast<size_t>(position) + 1]);
      if (save_) QUERN_TRY_VOID(save_->append(row));
      if (saved_) {
        QUERN_TRY(const auto all, saved_->floats());
        report.divergence->add(all.subspan(n_scored_ * n_vocab, n_vocab), row);
      }
      ++n_scored_;
    }
    return {};
  }

  void tell(const Report& report, int done) const {
    if (::isatty(2) != 1) return;
    std::fputs(fmt::format("\r\x1b[Kwindow {} of {}, perplexity {:.4f}", done, report.windows.n_windows,
                           report.likelihood.perplexity())
                   .c_str(),
               stderr);
  }

  engine::Engine& engine_;
  const Context& context_;
  std::optional<file::NpyWriter> save_;
  std::optional<file::NpyFile> saved_;
  size_t n_scored_ = 0;
};

Json to_json(const Report& r) {
  Json json = {{"tokens", r.windows.tokens.size()},
               {"window", r.windows.n_window},
               {"windows", r.windows.n_windows},
               {"scored", r.likelihood.count()},
               {"nll", r.likelihood.mean()},
               {"perplexity", r.likelihood.perplexity()},
               {"perplexity_error", r.likelihood.perplexity_error()}};
  if (r.divergence) {
    const Divergence& d = *r.divergence;
    json["kl_mean"] = d.mean();
    json["kl_mean_error"] = d.mean_error();
    json["kl_median"] = d.quantile(0.5);
    json["kl_p99"] = d.quantile(0.99);
    json["kl_max"] = d.quantile(1);
    json["top1_agreement"] = d.top1_agreement();
  }
  return json;
}

std::string to_text(const Report& r) {
  std::string text =
      fmt::format("tokens       {}\nwindows      {} of {}\nscored       {}\nperplexity   {:.6f} +- {:.6f}\n",
                  r.windows.tokens.size(), r.windows.n_windows, r.windows.n_window, r.likelihood.count(),
                  r.likelihood.perplexity(), r.likelihood.perplexity_error());
  if (!r.divergence) return text;
  const Divergence& d = *r.divergence;
  return text + fmt::format(
                    "kl mean      {:.9f} +- {:.9f}\nkl median    {:.9f}\nkl p99       {:.9f}\nkl max       "
                    "{:.9f}\nsame top-1   {:.4f}\n",
                    d.mean(), d.mean_error(), d.quantile(0.5), d.quantile(0.99), d.quantile(1), d.top1_agreement());
}

}  // namespace

int run_eval(Context& context) {
  if (!context.options.given("file")) return context.wrong_use("-f TEXT is missing");
  const auto engine = load_engine(context, engine_options(context));
  if (!engine.ok()) return context.fail(engine.error());
  const auto report = Evaluation(**engine, context).run();
  if (!report.ok()) return context.fail(report.error());
  context.out.write(context.options.flag("json") ? to_json(*report).dump(2) + "\n" : to_text(*report));
  return 0;
}

}  // namespace quern::apps
