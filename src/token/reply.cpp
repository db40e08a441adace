// What all reply parsers share: markup in a stream of pieces, collecting deltas, the choice of a parser. The formats
// are in reply_tags.cpp and harmony.cpp.
#include "token/reply.h"

#include <algorithm>
#include <utility>

#include "token/chat.h"
#include "token/harmony.h"
#include "token/reply_tags.h"

namespace quern::token {

ReplyFormat reply_format_of(std::string_view template_source) {
  const auto has = [&](std::string_view text) { return template_source.find(text) != std::string_view::npos; };
  if (has("<|start|>") && has("<|channel|>") && has("<|message|>")) return ReplyFormat::harmony;
  if (has("</think>")) return ReplyFormat::think;
  return has("[/THINK]") ? ReplyFormat::bracketed_think : ReplyFormat::plain;
}

std::vector<TextPiece> end_of_reasoning(ReplyFormat format, bool to_call) {
  std::vector<TextPiece> pieces;
  switch (format) {
    case ReplyFormat::plain:
      break;
    case ReplyFormat::think:
      return {{"\n", false}, {kThinkTags[1], true}, {"\n\n", false}};
    case ReplyFormat::bracketed_think:
      return {{"\n", false}, {kBracketedThinkTags[1], true}, {"\n\n", false}};
    case ReplyFormat::harmony:
      pieces = {{"<|end|><|start|>", true}, {"assistant", false}};
      if (!to_call) pieces.insert(pieces.end(), {{"<|channel|>", true}, {"final", false}, {"<|message|>", true}});
  }
  return pieces;
}

CallFormat call_format_of(std::string_view template_source) {
  const auto has = [&](std::string_view text) { return template_source.find(text) != std::string_view::npos; };
  if (has("<|tool_call>")) return CallFormat::gemma;
  if (has("[TOOL_CALLS]")) return CallFormat::mistral;
  if (has("<tool_call>") && has("<function=")) return CallFormat::function_tags;
  if (has("<tool_call>") && has("<arg_key>")) return CallFormat::argument_tags;
  if (has("<tool_call>")) return CallFormat::tagged_json;
  return has("<|python_tag|>") && has("\"parameters\"") ? CallFormat::bare_json : CallFormat::none;
}

namespace {

bool is_token(const Tokenizer& tokenizer, std::string_view name) {
  const Vocab& vocab = tokenizer.vocab();
  const int32_t id = vocab.find(name);
  return id != kNoToken && (vocab.is_markup(id) || vocab.type(id) == TokenType::user_defined);
}

}  // namespace

TextPiece markup_piece(const Tokenizer& tokenizer, std::string_view name) {
  return {name, is_token(tokenizer, name)};
}

std::optional<CallSyntax> call_syntax(ReplyFormat reply, CallFormat calls, const Tokenizer& tokenizer) {
  const auto mark = [&](std::string_view name) { return markup_piece(tokenizer, name); };
  if (reply == ReplyFormat::harmony) {
    return CallSyntax{{mark("<|channel|>"), {"commentary to=functions.", false}},
                      {{" ", false}, mark("<|constrain|>"), {"json", false}, mark("<|message|>")},
                      {},
                      {},
                      false};
  }
  switch (calls) {
    case CallFormat::tagged_json:
      return CallSyntax{{mark("<tool_call>"), {"\n{\"name\": \"", false}},
                        {{"\", \"arguments\": ", false}},
                        {{"}\n", false}, mark("</tool_call>")},
                        {{"\n", false}}};
    case CallFormat::function_tags:
      return CallSyntax{
          {mark("<tool_call>"), {"\n<function=", false}},
          {{">\n", false}},
          {{"</function>\n", false}, mark("</tool_call>")},
          {{"\n", false}},
          true,
          CallSyntax::Tags{
              {{"<parameter=", false}}, {{">\n", false}}, {{"\n", false}}, {{"</parameter>", false}, {"\n", false}}}};
    case CallFormat::argument_tags:
      return CallSyntax{{mark("<tool_call>")},
                        {{"\n", false}},
                        {mark("</tool_call>")},
                        {{"\n", false}},
                        true,
                        CallSyntax::Tags{{mark("<arg_key>")},
                                         {mark("</arg_key>"), {"\n", false}, mark("<arg_value>")},
                                         {},
                                         {mark("</arg_value>"), {"\n", false}}}};
    case CallFormat::bare_json:
      return CallSyntax{{{"{\"name\": \"", false}}, {{"\", \"parameters\": ", false}}, {{"}", false}}, {{"; ", false}}};
    case CallFormat::mistral:
      if (is_token(tokenizer, "[ARGS]")) return CallSyntax{{mark("[TOOL_CALLS]")}, {mark("[ARGS]")}, {}, {}};
      return CallSyntax{{mark("[TOOL_CALLS]"), {"[{\"name\": \"", false}},
                        {{"\", \"arguments\": ", false}},
                        {{"}]", false}},
                        {},
                        false};
    case CallFormat::none:
    case CallFormat::gemma:
      break;
  }
  return std::nullopt;
}

bool ReplyParser::knows(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

void ReplyParser::follow(const jinja::Rendered& prompt) {
  on_prompt(pieces_of(prompt));
}

std::vector<ReplyDelta> ReplyParser::feed(TextPiece piece) {
  take(piece);
  return hand_over();
}

std::vector<ReplyDelta> ReplyParser::finish() {
  if (!held_.empty()) on_text(std::exchange(held_, {}));
  on_finish();
  return hand_over();
}

void ReplyParser::take(TextPiece piece) {
  if (piece.text.empty()) return;
  if (piece.markup || in_text_) return scan(piece.text);
  if (!held_.empty()) on_text(std::exchange(held_, {}));
  on_text(piece.text);
}

void ReplyParser::scan(std::string_view text) {
  const std::string joined = std::exchange(held_, {}).append(text);
  const std::string_view all = joined;
  size_t done = 0;  // what lies before has been handed on
  size_t at = 0;
  while (at < all.size()) {
    const std::string_view rest = all.substr(at);
    const auto name = std::find_if(names_.begin(), names_.end(), [&](std::string_view n) {
      return n.front() == rest.front() && (rest.starts_with(n) || n.starts_with(rest));
    });
    if (name == names_.end()) {
      ++at;
      continue;
    }
    if (rest.size() < name->size()) break;  // only the beginning of a name is here
    if (at > done) on_text(all.substr(done, at - done));
    on_markup(static_cast<size_t>(name - names_.begin()));
    done = at += name->size();
  }
  if (at > done) on_text(all.substr(done, at - done));
  held_ = all.substr(at);
}

void ReplyParser::emit(Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (kind == Kind::reasoning) reply_.reasoning += text;
  if (kind == Kind::content) reply_.content += text;
  if (kind == Kind::arguments) reply_.calls.back().arguments += text;
  if (deltas_.empty() || deltas_.back().kind != kind) {
    deltas_.push_back({kind, {}, reply_.calls.empty() ? 0 : reply_.calls.size() - 1});
  }
  deltas_.back().text += text;
}

void ReplyParser::begin_call(std::string_view name, bool builtin) {
  reply_.calls.push_back({std::string(name), {}, builtin});
  deltas_.push_back({Kind::call, std::string(name), reply_.calls.size() - 1});
}

void ReplyParser::forget() {
  deltas_.clear();
  reply_ = {};
}

std::vector<ReplyDelta> ReplyParser::hand_over() {
  return std::exchange(deltas_, {});
}

std::unique_ptr<ReplyParser> make_reply_parser(ReplyFormat format, const Tokenizer* tokenizer, CallFormat calls,
                                               TextArguments is_text) {
  const auto make = [&](bool in_text) -> std::unique_ptr<ReplyParser> {
    switch (format) {
      case ReplyFormat::harmony:
        return std::make_unique<HarmonyParser>(in_text);
      case ReplyFormat::think:
        return std::make_unique<TagParser>(kThinkTags, calls, in_text, is_text);
      case ReplyFormat::bracketed_think:
        return std::make_unique<TagParser>(kBracketedThinkTags, calls, in_text, is_text);
      case ReplyFormat::plain:
        break;
    }
    return std::make_unique<TagParser>(std::span<const std::string_view>(), calls, in_text, is_text);
  };
  auto parser = make(false);
  if (tokenizer == nullptr) return parser;
  const auto names = parser->names();
  const bool tokens = std::all_of(names.begin(), names.end(), [&](auto name) { return is_token(*tokenizer, name); });
  return tokens ? std::move(parser) : make(true);
}

std::vector<ReplyDelta> ReplyStream::feed(int32_t id) {
  if (!tokenizer_->contains(id)) return {};
  const Vocab& vocab = tokenizer_->vocab();
  const bool whole = vocab.is_markup(id) || vocab.type(id) == TokenType::user_defined;
  if (!whole || !parser_->knows(vocab.text(id))) return parser_->feed({decoder_.feed(id), false});
  std::vector<ReplyDelta> deltas = parser_->feed({decoder_.flush(), false});
  for (auto& delta : parser_->feed({vocab.text(id), true})) deltas.push_back(std::move(delta));
  return deltas;
}

std::vector<ReplyDelta> ReplyStream::finish() {
  std::vector<ReplyDelta> deltas = parser_->feed({decoder_.flush(), false});
  for (auto& delta : parser_->finish()) deltas.push_back(std::move(delta));
  return deltas;
}

}  // namespace quern::token
