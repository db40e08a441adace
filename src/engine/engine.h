// engine: a loaded model that answers. Sessions, generation, later the scheduler, prefix cache and speculation.
//
// Owns: Engine (one immutable model with its plans, kernels and thread team), Session (one timeline of tokens over it),
//       the generation loop.
// Never: HTTP, terminals, kernels of its own.
// In -> out: GGUF path -> Engine -> Session; tokens -> logits; prompt -> streamed text.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"

namespace quern::file {
class GgufFile;
}
namespace quern::kernels {
class Choices;
}
namespace quern::model {
struct Model;
}
namespace quern::token {
class Tokenizer;
class ChatTemplate;
struct SamplerOptions;
}  // namespace quern::token

namespace quern::engine {

// automatic: an image is copied into memory, where the machine has room for it, since that is read faster; else mapped.
// map: always mapped: there at once, its memory shared by all processes and given up under pressure, a little slower.
enum class ImageMode : uint8_t { automatic, map, off };

inline constexpr int kDefaultMaxCtx = 8192;  // positions, where nobody asks for a number

struct EngineOptions {
  int n_threads = 0;                 // 0: as tuned, else one per usable physical core, within the cgroup quota
  int spins = 0;                     // TeamOptions::spins; 0: as tuned, else the default
  int n_ctx = 0;                     // positions a session may hold; 0: the model's, at most kDefaultMaxCtx
  int n_chunk = 512;                 // prompt tokens evaluated at once; any value gives the same bits
  std::vector<std::string> no_fuse;  // fusions to leave out, by name; "all" for every one
  std::string isa;                   // "" or "auto": the best tier; else generic, avx2, avx512, neon
  // Where prepared images (packed weights, read instead of packed anew) are kept; empty: none is used. A load that
  // finds none packs into memory, and writes one behind the scenes for the next load. Whatever is wrong with an image
  // or its folder is a warning in the log, never an error.
  std::string image_dir;
  ImageMode image_mode = ImageMode::automatic;
  // Bytes that weights may take in memory; 0: three quarters of what the machine or the cgroup has left. A model that
  // is larger runs from a mapped image, which is made first where there is none; without images it is an error.
  uint64_t memory_bytes = 0;
  // The folder of tuning sidecars (engine/tuning.h); "": untuned. One that does not hold is warned of and ignored.
  std::string tune_dir;
  // Where set, these kernels instead of a sidecar's.
  std::shared_ptr<const kernels::Choices> choices;
  // How tokens become an embedding: "mean", "cls" (the first token), "last". "" or "auto": as the file says, else last.
  std::string pooling;
  // Called from the loading thread with done/total bytes; may be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

class Session;

struct KvUse {
  uint64_t pages = 0, bytes = 0;
};

// Pages of keys and values: positions of each, and by kind its bytes.
struct KvPages {
  int positions = 0;
  std::vector<size_t> bytes;
};

// A model ready to run. Immutable after load; sessions of one engine take turns (one evaluation at a time).
class Engine {
 public:
  // Errors: whatever the file, the model and the tokenizer refuse, each with a one-line message that names the culprit.
  static Result<std::shared_ptr<Engine>> load(const std::string& path, const EngineOptions& options);
  ~Engine();

  const file::GgufFile& file() const;
  const model::Model& model() const;
  const token::Tokenizer& tokenizer() const;
  // The chat template of the file; null where the file has none, with chat_template_error() saying why.
  const token::ChatTemplate* chat_template() const;
  const std::string& chat_template_error() const;
  int n_threads() const;
  int n_vocab() const;
  int n_ctx() const;
  Isa isa() const;
  // What sessions' embed() pools by: "mean", "cls", "last"; its error where the model gives no embeddings.
  Result<std::string> pooling() const;
  int n_embedding() const;  // numbers of an embedding
  // Whether an embedding may begin with positions that anything else has evaluated.
  bool embeds_from_prefix() const;
  // The compiled plans as text, one step a line (`quern plan`).
  std::string plan_text() const;
  // Whether the weights are those of a prepared image, and whether they are computed with where that is mapped.
  bool weights_from_image() const;
  bool weights_mapped() const;
  // Returns once nothing is being written behind the scenes (for who measures, or wants the image to be there).
  void wait_for_image();
  // The sidecar that kernels or knobs came from; "" where none was used.
  const std::string& tuning_file() const;
  // Bytes of weights read to produce one token (bench and profile report them).
  uint64_t bytes_per_token() const;

  Result<std::unique_ptr<Session>> new_session();
  // Pages of keys and values that sessions hold, shared ones once. Not while another thread evaluates.
  KvUse kv_use() const;
  // The most bytes that a session of so many positions can hold.
  uint64_t kv_bytes(int n_positions) const;

  KvPages kv_pages() const;
  // What keys and values depend on beside tokens: equal identities, equal bits. A hash of the model file (as prepared
  // images have it, and the time of its last change), context, instruction sets, layout and the program's version.
  Result<std::array<uint64_t, 2>> kv_identity() const;

  struct State;
  State& state() { return *state_; }

 private:
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// One timeline. The caller always gives the full token prefix; the session reuses what it shares with the last one.
class Session {
 public:
  virtual ~Session() = default;
  // Makes the timeline equal to tokens (not empty), evaluating only what differs from before; afterwards logits() are
  // those that follow the last token. Errors: limit_exceeded when tokens do not fit the context (both numbers are in
  // the message), invalid_argument for a token id outside the vocabulary, cancelled when *cancel became true.
  virtual Result<void> sync(std::span<const int32_t> tokens, const std::atomic<bool>* cancel = nullptr) = 0;
  virtual std::span<const float> logits() const = 0;  // [n_vocab] f32
  // Makes the timeline equal to tokens as sync() does, and embedding() their vector. Called with more and more of a
  // text it evaluates only what is new. Where the pooling needs states that another call left behind
  // (embeds_from_prefix() is false), it evaluates from position 0. logits() are not those that follow. Errors: those of
  // sync(), and unsupported where there is no vector.
  virtual Result<void> embed(std::span<const int32_t> tokens, const std::atomic<bool>* cancel = nullptr) = 0;
  virtual std::span<const float> embedding() const = 0;  // [n_embedding] f32, of length 1
  // Evaluates tokens from an empty timeline and hands over the logits of every position, in order, some rows at a time.
  using RowsFn = std::function<Result<void>(int first_position, int n_rows, std::span<const float> logits)>;
  virtual Result<void> logits_of_all(std::span<const int32_t> tokens, const RowsFn& rows) = 0;
  virtual int n_past() const = 0;    // positions evaluated
  virtual int n_reused() const = 0;  // of the last sync, positions that were not evaluated again
  // Drops everything after the first n positions.
  virtual void truncate(int n) = 0;
  // The positions that truncate(n) would leave: n, or 0 where a window's earlier keys are gone.
  virtual int kept_by(int n) const = 0;
  // For keeping a timeline outside of the process. The bytes of one page (Engine::kv_pages), of the keys and values of
  // positions from KvPages::positions * index on; empty where it was dropped behind a window, or is not there.
  virtual std::span<const std::byte> kv_page(size_t kind, size_t index) const = 0;
  // Makes the timeline tokens, whole pages of them, with pages that kv_page() of a session of an engine of the same
  // kv_identity() gave. logits() are not those that follow. Errors leave this session empty: invalid_argument (a page
  // is missing or has another size), limit_exceeded, out_of_memory.
  using PageSource = std::function<std::span<const std::byte>(size_t kind, size_t index)>;
  virtual Result<void> restore(std::span<const int32_t> tokens, const PageSource& source) = 0;
  // Makes the timeline the first n positions of another session of this engine, without evaluating: their pages are
  // shared until one of the two changes them. logits() are not those that follow. Errors leave this session empty:
  // invalid_argument (another engine, this session, more than other has or keeps), out_of_memory.
  virtual Result<void> share(const Session& other, int n) = 0;
};

// The next token of one session.
struct NextToken {
  Session* session;
  int32_t token;
};
inline constexpr int kMaxBatch = 64;
// Appends one token to each of several sessions and evaluates them in one run, which reads the weights once for up to 8
// sessions. Afterwards each session's logits() are those that follow its token, bit for bit what sync() would give.
// Errors leave every timeline as it was: invalid_argument (no session, more than kMaxBatch, one of another engine or
// given twice, a token outside the vocabulary), limit_exceeded where a session's context is full.
Result<void> step(Engine& engine, std::span<const NextToken> next);

enum class StopReason { eog, max_tokens, context_full, cancelled, callback };

struct GenerateStats {
  int n_prompt = 0;     // tokens of the prompt
  int n_reused = 0;     // of them, not evaluated again
  int n_generated = 0;  // tokens produced
  double prompt_seconds = 0;
  double decode_seconds = 0;
  StopReason stop = StopReason::eog;
  std::vector<int32_t> tokens;  // the produced tokens (an end-of-generation token is not among them)
  int32_t end_token = -1;       // the end-of-generation token that was taken; -1: something else was the end
};

// A token as it is produced.
struct Produced {
  int32_t id = -1;        // -1: no token, only what was left of `text` where no end-of-generation token came
  std::string_view text;  // whole UTF-8 characters that are complete with it, as generate() hands them out
  bool ends = false;      // an end-of-generation token, the last call; its result does not matter
};

// Generates after prompt. on_token gets every token, control tokens and the one that ends it all too, so that a
// token::ReplyStream can follow; returning false stops.
Result<GenerateStats> generate_tokens(Engine& engine, Session& session, std::span<const int32_t> prompt,
                                      const token::SamplerOptions& sampling, int max_tokens,
                                      const std::function<bool(const Produced&)>& on_token,
                                      const std::atomic<bool>* cancel = nullptr);
// The same for text. on_text gets whole UTF-8 characters as they complete; returning false stops.
Result<GenerateStats> generate(Engine& engine, Session& session, std::span<const int32_t> prompt,
                               const token::SamplerOptions& sampling, int max_tokens,
                               const std::function<bool(std::string_view)>& on_text,
                               const std::atomic<bool>* cancel = nullptr);

// llama-bench's two measures: prompt processing of n_prompt tokens and generation of n_gen tokens, without tokenizing
// and sampling, from an empty context (after n_depth tokens of context, which are not timed). Returns seconds.
Result<double> time_prompt(Session& session, int n_prompt, int n_depth = 0);
Result<double> time_decode(Session& session, int n_gen, int n_depth = 0);
// Generation of n_gen tokens in each of n_sessions sessions, which go on together (step()). Returns seconds.
Result<double> time_batch(Engine& engine, int n_sessions, int n_gen, int n_depth = 0);
// A chat of n_turns turns, each of n_tokens more: the seconds from a turn's tokens to the logits of the first token of
// its answer, one a turn. What came before is reused, as a session does.
Result<std::vector<double>> time_turns(Session& session, int n_turns, int n_tokens);

}  // namespace quern::engine
