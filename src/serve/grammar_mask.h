// A grammar as the mask of a request.
#pragma once

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

}  // namespace quern::serve
