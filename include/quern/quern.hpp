// Quern for C++: owning handles over quern.h, errors as exceptions of one type. Header only, C++17.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/quern.h"

namespace quern::api {

class Failure : public std::runtime_error {
 public:
  Failure(quern_status status, const char* message) : std::runtime_error(message), status_(status) {}
  quern_status status() const { return status_; }

 private:
  quern_status status_;
};

inline void check(quern_status status) {
  if (status != QUERN_OK) throw Failure(status, quern_last_error());
}

// What quern.h fills by "*n is the room on entry and the number needed on return": asks, makes room, fetches.
template <class Container, class Fill>
Container fetch(Fill fill) {
  size_t n = 0;
  const quern_status asked = fill(nullptr, &n);
  if (asked != QUERN_LIMIT_EXCEEDED) check(asked);
  Container out(n, {});
  if (n > 0) check(fill(out.data(), &n));
  return out;
}

class Engine {
 public:
  explicit Engine(const std::string& path, const quern_engine_options& options = quern_engine_defaults()) {
    quern_engine* raw = nullptr;
    check(quern_engine_load(path.c_str(), &options, &raw));
    engine_.reset(raw);
  }

  int32_t n_vocab() const { return quern_engine_n_vocab(engine_.get()); }
  int32_t n_ctx() const { return quern_engine_n_ctx(engine_.get()); }
  int32_t n_embedding() const { return quern_engine_n_embedding(engine_.get()); }
  std::vector<int32_t> tokenize(std::string_view text, bool special = true) const {
    return fetch<std::vector<int32_t>>([&](int32_t* ids, size_t* n) {
      return quern_tokenize(engine_.get(), text.data(), text.size(), special, ids, n);
    });
  }
  std::string detokenize(const std::vector<int32_t>& ids) const {
    return fetch<std::string>(
        [&](char* text, size_t* n) { return quern_detokenize(engine_.get(), ids.data(), ids.size(), text, n); });
  }
  std::vector<int32_t> chat_tokens(const std::vector<quern_message>& messages) const {
    return fetch<std::vector<int32_t>>([&](int32_t* ids, size_t* n) {
      return quern_chat_tokens(engine_.get(), messages.data(), messages.size(), ids, n);
    });
  }
  quern_engine* get() const { return engine_.get(); }

 private:
  struct Free {
    void operator()(quern_engine* e) const { quern_engine_free(e); }
  };
  std::unique_ptr<quern_engine, Free> engine_;
};

class Session {
 public:
  explicit Session(const Engine& engine)
      : n_vocab_(static_cast<size_t>(engine.n_vocab())), n_embedding_(static_cast<size_t>(engine.n_embedding())) {
    quern_session* raw = nullptr;
    check(quern_session_new(engine.get(), &raw));
    session_.reset(raw);
  }

  void sync(const std::vector<int32_t>& ids) { check(quern_session_sync(session_.get(), ids.data(), ids.size())); }
  // After sync: what follows the last token.
  std::vector<float> logits() const {
    const float* row = quern_session_logits(session_.get());
    return row == nullptr ? std::vector<float>() : std::vector<float>(row, row + n_vocab_);
  }
  std::vector<float> embed(const std::vector<int32_t>& ids) {
    std::vector<float> vector(n_embedding_);
    check(quern_session_embed(session_.get(), ids.data(), ids.size(), vector.data()));
    return vector;
  }
  // on_text gets whole characters and returns false to stop; it must not throw. Gives back the number of tokens.
  int32_t generate(const std::vector<int32_t>& ids, const quern_sampling& sampling, int32_t max_tokens,
                   const std::function<bool(std::string_view)>& on_text) {
    int32_t n = 0;
    const auto call = [](const char* text, size_t bytes, void* user) -> bool {
      return (*static_cast<const std::function<bool(std::string_view)>*>(user))(std::string_view(text, bytes));
    };
    check(quern_generate(session_.get(), ids.data(), ids.size(), &sampling, max_tokens, call,
                         const_cast<void*>(static_cast<const void*>(&on_text)), &n));
    return n;
  }
  // The same with every token, as quern_token_fn has it: id, text, whether it ends the generation.
  using TokenFn = std::function<bool(int32_t, std::string_view, bool)>;
  int32_t generate_tokens(const std::vector<int32_t>& ids, const quern_sampling& sampling, int32_t max_tokens,
                          const TokenFn& on_token) {
    int32_t n = 0;
    const auto call = [](int32_t id, const char* text, size_t bytes, bool ends, void* user) -> bool {
      return (*static_cast<const TokenFn*>(user))(id, std::string_view(text, bytes), ends);
    };
    check(quern_generate_tokens(session_.get(), ids.data(), ids.size(), &sampling, max_tokens, call,
                                const_cast<void*>(static_cast<const void*>(&on_token)), &n));
    return n;
  }

 private:
  struct Free {
    void operator()(quern_session* s) const { quern_session_free(s); }
  };
  std::unique_ptr<quern_session, Free> session_;
  size_t n_vocab_, n_embedding_;
};

}  // namespace quern::api
