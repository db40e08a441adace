// Grammars as masks of requests.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "grammar/matcher.h"
#include "serve/serve.h"

namespace quern::serve {

class GrammarMask final : public TokenMask {
 public:
  // jump_ahead: what must come next is taken without asking the model, many tokens in one run. The text is the same;
  // how it is cut into tokens may not be what the model would have chosen.
  GrammarMask(grammar::Matcher matcher, bool jump_ahead) : matcher_(std::move(matcher)), jump_ahead_(jump_ahead) {}

  Result<std::span<const uint64_t>> mask() override { return matcher_.mask(); }
  Result<void> accept(int32_t id) override { return matcher_.accept(id); }
  Result<std::vector<int32_t>> forced() override {
    if (!jump_ahead_ || matcher_.finished()) return std::vector<int32_t>{};
    return matcher_.forced_tokens();
  }

 private:
  grammar::Matcher matcher_;
  bool jump_ahead_;
};

// Compiled grammars of a model, the last few of them, with what has been learned about their masks. For any number of
// threads.
class GrammarStore {
 public:
  static constexpr size_t kMaxKept = 16;

  explicit GrammarStore(const token::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}  // must outlive this
  // A new mask by the grammar of that key; compile() makes it where it is not kept. Errors: compile's; limit_exceeded,
  // unsupported where the vocabulary cannot spell it.
  Result<std::unique_ptr<TokenMask>> mask(const std::string& key,
                                          const std::function<Result<grammar::Grammar>()>& compile);

 private:
  Result<std::shared_ptr<grammar::Constraint>> constraint(const std::string& key,
                                                          const std::function<Result<grammar::Grammar>()>& compile);
  struct Kept {
    std::string key;
    std::shared_ptr<grammar::Constraint> constraint;
  };
  const token::Tokenizer* tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // made with the first grammar
  std::list<Kept> kept_;                                   // used last first
};

}  // namespace quern::serve
