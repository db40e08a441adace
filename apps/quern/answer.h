// One answer to a conversation, streamed to standard output: what run and chat share.
#pragma once

#include "apps/quern/conversation.h"
#include "apps/quern/inputs.h"
#include "token/reply.h"

namespace quern::apps {

struct Answer {
  engine::GenerateStats stats;
  token::Reply reply;
  bool cancelled = false;  // before the first token: there are no stats
};

// Whether text goes to the model and comes back as it is: --raw, or there is no chat template.
bool is_raw(const Context& context, const engine::Engine& engine);
// The variables for --reasoning-effort and --thinking. Errors name the option and say why the model cannot follow it.
Result<token::Json> template_variables(const Context& context, const engine::Engine& engine);
// As the other options say. Ends its line where it began one.
Result<Answer> stream_answer(const Context& context, engine::Engine& engine, engine::Session& session,
                             const engine::ChatPrompt& prompt, const std::atomic<bool>* cancel);
// A notice where reasoning was hidden and nothing else came; else nothing.
std::string hidden_notice(const Context& context, const token::Reply& reply);

}  // namespace quern::apps
