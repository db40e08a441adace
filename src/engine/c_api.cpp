// The C interface (include/quern/quern.h) over Engine and Session: argument checks, error messages, no exception
// outside.
#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "base/cache_location.h"
#include "base/options.h"
#include "engine/engine.h"
#include "engine/prompt.h"
#include "quern/quern.h"
#include "token/sampler.h"
#include "token/tokenizer.h"

struct quern_engine {
  std::shared_ptr<quern::engine::Engine> engine;
};

// Holds the engine too: the order in which a caller frees the two does not matter.
struct quern_session {
  std::shared_ptr<quern::engine::Engine> engine;
  std::unique_ptr<quern::engine::Session> session;
};

namespace quern::engine {
namespace {

std::string& last_error() {
  thread_local std::string message;
  return message;
}

quern_status to_c(Status status) {
  switch (status) {
    case Status::ok:
      return QUERN_OK;
    case Status::invalid_argument:
      return QUERN_INVALID_ARGUMENT;
    case Status::invalid_file:
      return QUERN_INVALID_FILE;
    case Status::unsupported:
      return QUERN_UNSUPPORTED;
    case Status::not_found:
      return QUERN_NOT_FOUND;
    case Status::io_error:
      return QUERN_IO_ERROR;
    case Status::out_of_memory:
      return QUERN_OUT_OF_MEMORY;
    case Status::limit_exceeded:
      return QUERN_LIMIT_EXCEEDED;
    case Status::cancelled:
      return QUERN_CANCELLED;
  }
  return QUERN_INVALID_ARGUMENT;
}

quern_status fail(const Error& error) {
  last_error() = error.message;
  return to_c(error.status);
}

// Runs a body that gives Result<void>; whatever happens becomes a status and a message.
template <class Body>
quern_status guarded(Body body) {
  try {
    last_error().clear();
    const Result<void> result = body();
    return result.ok() ? QUERN_OK : fail(result.error());
  } catch (const std::bad_alloc&) {
    last_error() = "out of memory";  // short enough to need no allocation
    return QUERN_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    last_error() = e.what();
    return QUERN_IO_ERROR;
  }
}

Error null_argument(const char* name) {
  return {Status::invalid_argument, std::string(name) + " is NULL"};
}

// A versioned struct of the caller over the defaults: a caller built against an older header gives fewer fields.
template <class T>
Result<T> with_defaults(const T* given, T defaults, const char* name) {
  if (given == nullptr) return defaults;
  if (given->size < sizeof(size_t) || given->size > 4096) {
    return Error{Status::invalid_argument, std::string(name) + ".size is not set; start from the defaults function"};
  }
  std::memcpy(&defaults, given, std::min(given->size, sizeof(T)));
  return defaults;
}

Result<EngineOptions> engine_options(const quern_engine_options* given) {
  QUERN_TRY(const quern_engine_options o, with_defaults(given, quern_engine_defaults(), "quern_engine_options"));
  if (o.n_threads < 0 || o.n_ctx < 0 || o.n_chunk < 1)
    return Error{Status::invalid_argument, "n_threads and n_ctx must be 0 or more, n_chunk 1 or more"};
  EngineOptions options;
  options.n_threads = o.n_threads;
  options.n_ctx = o.n_ctx;
  options.n_chunk = o.n_chunk;
  options.isa = o.isa == nullptr ? "" : o.isa;
  options.pooling = o.pooling == nullptr ? "" : o.pooling;
  const std::string_view image = o.image == nullptr ? "off" : o.image, tune = o.tune == nullptr ? "off" : o.tune;
  if (image != "auto" && image != "map" && image != "off")
    return Error{Status::invalid_argument, "image '" + std::string(image) + "': auto, map or off"};
  if (tune != "auto" && tune != "off")
    return Error{Status::invalid_argument, "tune '" + std::string(tune) + "': auto or off"};
  options.image_mode = image == "map" ? ImageMode::map : image == "off" ? ImageMode::off : ImageMode::automatic;
  if (image == "off" && tune == "off") return options;
  QUERN_TRY(const std::string cache,
            cache_location(o.cache != nullptr ? o.cache : environment("QUERN_CACHE").value_or("")));
  if (image != "off") options.image_dir = image_folder(cache);
  if (tune != "off") options.tune_dir = tune_folder(cache);
  return options;
}

Result<token::SamplerOptions> sampler_options(const quern_sampling* given) {
  QUERN_TRY(const quern_sampling o, with_defaults(given, quern_sampling_defaults(), "quern_sampling"));
  token::SamplerOptions s;
  s.temperature = o.temperature;
  s.top_k = o.top_k;
  s.top_p = o.top_p;
  s.min_p = o.min_p;
  s.repeat_penalty = o.repeat_penalty;
  s.presence_penalty = o.presence_penalty;
  s.frequency_penalty = o.frequency_penalty;
  s.repeat_last_n = o.repeat_last_n;
  s.seed = o.seed;
  return s;
}

// The convention of every list that goes out: *n is the room on entry and the number needed on return.
template <class T>
Result<void> give(std::span<const T> items, T* out, size_t* n, const char* what) {
  const size_t room = *n;
  *n = items.size();
  if (items.size() > room) {
    return Error{Status::limit_exceeded,
                 std::to_string(items.size()) + " " + what + " do not fit in room for " + std::to_string(room)};
  }
  std::copy(items.begin(), items.end(), out);
  return {};
}

template <class T>
Result<void> check_list(const T* items, const size_t* n) {
  if (n == nullptr) return null_argument("the count");
  if (items == nullptr && *n > 0) return null_argument("the list");
  return {};
}

// The arguments of both ways to generate; *n_generated is 0 until it is known.
Result<token::SamplerOptions> check_generate(const quern_session* session, const int32_t* ids, size_t n,
                                             const quern_sampling* sampling, int32_t max_tokens, int32_t* n_generated) {
  if (session == nullptr) return null_argument("session");
  QUERN_TRY_VOID(check_list(ids, &n));
  if (n == 0) return Error{Status::invalid_argument, "a prompt needs at least one token"};
  if (max_tokens < 0) return Error{Status::invalid_argument, "max_tokens must be 0 or more"};
  if (n_generated != nullptr) *n_generated = 0;
  return sampler_options(sampling);
}

}  // namespace
}  // namespace quern::engine

using namespace quern;
using namespace quern::engine;

extern "C" {

const char* quern_version(void) {
  return QUERN_VERSION;
}
const char* quern_last_error(void) {
  return last_error().c_str();
}

quern_engine_options quern_engine_defaults(void) {
  const EngineOptions defaults;
  return {sizeof(quern_engine_options),
          defaults.n_threads,
          defaults.n_ctx,
          defaults.n_chunk,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr};
}

quern_sampling quern_sampling_defaults(void) {
  const token::SamplerOptions d;
  return {sizeof(quern_sampling), d.temperature,       d.top_k,         d.top_p, d.min_p, d.repeat_penalty,
          d.presence_penalty,     d.frequency_penalty, d.repeat_last_n, d.seed};
}

quern_status quern_engine_load(const char* path, const quern_engine_options* options, quern_engine** out) {
  return guarded([&]() -> Result<void> {
    if (path == nullptr) return null_argument("path");
    if (out == nullptr) return null_argument("out");
    *out = nullptr;
    QUERN_TRY(const EngineOptions checked, engine_options(options));
    QUERN_TRY(auto engine, Engine::load(path, checked));
    *out = new quern_engine{std::move(engine)};
    return {};
  });
}

void quern_engine_free(quern_engine* engine) {
  delete engine;
}
int32_t quern_engine_n_vocab(const quern_engine* engine) {
  return engine == nullptr ? 0 : engine->engine->n_vocab();
}
int32_t quern_engine_n_ctx(const quern_engine* engine) {
  return engine == nullptr ? 0 : engine->engine->n_ctx();
}
int32_t quern_engine_n_embedding(const quern_engine* engine) {
  return engine == nullptr ? 0 : engine->engine->n_embedding();
}

quern_status quern_tokenize(const quern_engine* engine, const char* text, size_t bytes, bool special, int32_t* ids,
                            size_t* n) {
  return guarded([&]() -> Result<void> {
    if (engine == nullptr) return null_argument("engine");
    if (text == nullptr && bytes > 0) return null_argument("text");
    QUERN_TRY_VOID(check_list(ids, n));
    token::EncodeOptions options;
    options.add_special = options.parse_special = special;
    QUERN_TRY(const auto encoded, engine->engine->tokenizer().encode(std::string_view(text, bytes), options));
    return give<int32_t>(encoded, ids, n, "ids");
  });
}

quern_status quern_detokenize(const quern_engine* engine, const int32_t* ids, size_t n, char* text, size_t* bytes) {
  return guarded([&]() -> Result<void> {
    if (engine == nullptr) return null_argument("engine");
    QUERN_TRY_VOID(check_list(ids, &n));
    QUERN_TRY_VOID(check_list(text, bytes));
    QUERN_TRY(const std::string decoded, engine->engine->tokenizer().decode({ids, n}, false));
    return give<char>(decoded, text, bytes, "bytes");
  });
}

quern_status quern_session_new(quern_engine* engine, quern_session** out) {
  return guarded([&]() -> Result<void> {
    if (engine == nullptr) return null_argument("engine");
    if (out == nullptr) return null_argument("out");
    *out = nullptr;
    QUERN_TRY(auto session, engine->engine->new_session());
    *out = new quern_session{engine->engine, std::move(session)};
    return {};
  });
}

void quern_session_free(quern_session* session) {
  delete session;
}

quern_status quern_session_sync(quern_session* session, const int32_t* ids, size_t n) {
  return guarded([&]() -> Result<void> {
    if (session == nullptr) return null_argument("session");
    QUERN_TRY_VOID(check_list(ids, &n));
    if (n == 0) return Error{Status::invalid_argument, "a timeline needs at least one token"};
    return session->session->sync({ids, n});
  });
}

const float* quern_session_logits(const quern_session* session) {
  if (session == nullptr || session->session->n_past() == 0) return nullptr;
  return session->session->logits().data();
}

quern_status quern_session_embed(quern_session* session, const int32_t* ids, size_t n, float* vector) {
  return guarded([&]() -> Result<void> {
    if (session == nullptr) return null_argument("session");
    if (vector == nullptr) return null_argument("vector");
    QUERN_TRY_VOID(check_list(ids, &n));
    QUERN_TRY_VOID(session->session->embed({ids, n}));
    const auto made = session->session->embedding();
    std::copy(made.begin(), made.end(), vector);
    return {};
  });
}

quern_status quern_generate(quern_session* session, const int32_t* ids, size_t n, const quern_sampling* sampling,
                            int32_t max_tokens, quern_text_fn on_text, void* user, int32_t* n_generated) {
  return guarded([&]() -> Result<void> {
    QUERN_TRY(const token::SamplerOptions checked, check_generate(session, ids, n, sampling, max_tokens, n_generated));
    const auto text = [&](std::string_view piece) {
      return on_text == nullptr || on_text(piece.data(), piece.size(), user);
    };
    QUERN_TRY(const GenerateStats stats,
              generate(*session->engine, *session->session, {ids, n}, checked, max_tokens, text));
    if (n_generated != nullptr) *n_generated = stats.n_generated;
    return {};
  });
}

quern_status quern_generate_tokens(quern_session* session, const int32_t* ids, size_t n, const quern_sampling* sampling,
                                   int32_t max_tokens, quern_token_fn on_token, void* user, int32_t* n_generated) {
  return guarded([&]() -> Result<void> {
    QUERN_TRY(const token::SamplerOptions checked, check_generate(session, ids, n, sampling, max_tokens, n_generated));
    const auto token = [&](const Produced& p) {
      return on_token == nullptr || on_token(p.id, p.text.data(), p.text.size(), p.ends, user);
    };
    QUERN_TRY(const GenerateStats stats,
              generate_tokens(*session->engine, *session->session, {ids, n}, checked, max_tokens, token));
    if (n_generated != nullptr) *n_generated = stats.n_generated;
    return {};
  });
}

quern_status quern_chat_tokens(const quern_engine* engine, const quern_message* messages, size_t n_messages,
                               int32_t* ids, size_t* n) {
  return guarded([&]() -> Result<void> {
    if (engine == nullptr) return null_argument("engine");
    if (messages == nullptr && n_messages > 0) return null_argument("messages");
    QUERN_TRY_VOID(check_list(ids, n));
    std::vector<Turn> turns;
    for (size_t i = 0; i < n_messages; ++i) {
      if (messages[i].role == nullptr || messages[i].content == nullptr)
        return null_argument("a message's role or content");
      turns.push_back({messages[i].role, messages[i].content});
    }
    QUERN_TRY(const ChatPrompt prompt, chat_prompt(*engine->engine, turns));
    return give<int32_t>(prompt.ids, ids, n, "ids");
  });
}

}  // extern "C"
