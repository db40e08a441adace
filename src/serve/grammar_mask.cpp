#include "serve/grammar_mask.h"

#include <algorithm>

namespace quern::serve {

Result<std::unique_ptr<TokenMask>> GrammarStore::mask(const std::string& key,
                                                      const std::function<Result<grammar::Grammar>()>& compile) {
  QUERN_TRY(auto shared, constraint(key, compile));
  QUERN_TRY(grammar::Matcher matcher, grammar::Matcher::create(std::move(shared)));
  // A first token that no vocabulary has shows now, while the request can still be refused.
  QUERN_TRY_VOID(matcher.mask());
  return std::unique_ptr<TokenMask>(std::make_unique<GrammarMask>(std::move(matcher), true));
}

Result<std::shared_ptr<grammar::Constraint>> GrammarStore::constraint(
    const std::string& key, const std::function<Result<grammar::Grammar>()>& compile) {
  std::shared_ptr<const grammar::Vocabulary> vocabulary;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.key == key; });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return found->constraint;
    }
    if (vocabulary_ == nullptr) {
      QUERN_TRY(vocabulary_, grammar::Vocabulary::create(*tokenizer_));
    }
    vocabulary = vocabulary_;
  }
  // Two requests may compile the same grammar at once; neither waits for the other.
  QUERN_TRY(const grammar::Grammar compiled, compile());
  QUERN_TRY(auto made, grammar::Constraint::create(compiled, vocabulary));
  const std::scoped_lock lock(mutex_);
  kept_.push_front({key, made});
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return made;
}

}  // namespace quern::serve
