#include "api/mask.h"

#include <array>

#include "serve/grammar_mask.h"
#include "token/reply_calls.h"
#include "token/reply_tags.h"

namespace quern::api {
namespace {

using grammar::Grammar;
using grammar::Piece;

Problem refusal(const char* field, const Error& error) {
  Problem problem = problem_of(error);
  problem.message = std::string(field) + ": " + error.message;
  problem.field = field;
  if (problem.status < 500 && problem.code.empty()) problem.code = "unsupported_value";
  return problem;
}

Piece piece_of(const token::Tokenizer& tokenizer, const token::TextPiece& piece) {
  const auto id = piece.markup ? tokenizer.find(piece.text) : std::nullopt;
  const bool both = id && tokenizer.vocab().type(*id) == token::TokenType::user_defined;
  return {std::string(piece.text), piece.markup, both};
}

std::vector<Piece> pieces_of(const token::Tokenizer& tokenizer, std::span<const token::TextPiece> pieces) {
  std::vector<Piece> out;
  for (const auto& piece : pieces) out.push_back(piece_of(tokenizer, piece));
  return out;
}

// What an answer begins with before what is bound.
struct Beginning {
  grammar::Lead blocks;          // of reasoning
  std::vector<Piece> text_head;  // before an answer that is no call
  std::string key;
};

enum class Block : uint8_t { none, open, possible };

// Whether a reply to this prompt begins inside a block of reasoning, or may open one.
Block block_of(token::ReplyFormat format, const token::Tokenizer& tokenizer, const token::Rendered& prompt,
               std::string_view opening) {
  const auto reasons = [&](bool opened) {
    const auto parser = token::make_reply_parser(format, &tokenizer);
    parser->follow(prompt);
    if (opened) parser->feed({opening, true});
    const auto deltas = parser->feed({"x", false});
    return !deltas.empty() && deltas.back().kind == token::ReplyDelta::Kind::reasoning;
  };
  return reasons(false) ? Block::open : reasons(true) ? Block::possible : Block::none;
}

// free: what comes may be text with calls in it, so that words before a call are a block too.
Beginning beginning_of(const engine::Engine& engine, const engine::ChatPrompt& prompt, bool free) {
  Beginning begin;
  const token::Tokenizer& tokenizer = engine.tokenizer();
  const auto mark = [&](std::string_view name) { return piece_of(tokenizer, token::markup_piece(tokenizer, name)); };
  const auto format = engine.chat_template()->supports().reply;
  if (format == token::ReplyFormat::plain) return begin;
  if (format == token::ReplyFormat::harmony) {
    const auto head = [&](const char* channel) {
      return std::vector<Piece>{mark("<|channel|>"), {channel}, mark("<|message|>")};
    };
    begin.blocks.open = {head("analysis")};
    if (free) begin.blocks.open.push_back(head("commentary"));
    if (free) begin.blocks.max_blocks = grammar::Lead::kAnyNumber;
    begin.blocks.close = {mark("<|end|>"), mark("<|start|>"), {"assistant"}};
    begin.text_head = head("final");
    begin.key = "harmony";
    return begin;
  }
  const auto& tags = format == token::ReplyFormat::think ? token::kThinkTags : token::kBracketedThinkTags;
  const Block block = block_of(format, tokenizer, prompt.rendered, tags[0]);
  if (block == Block::none) return begin;
  begin.blocks.open = {{mark(tags[0])}};
  begin.blocks.close = {mark(tags[1])};
  begin.blocks.inside = block == Block::open;
  begin.blocks.max_blocks = block == Block::open ? 0 : 1;
  begin.blocks.max_breaks = 2;
  begin.key = block == Block::open ? "open" : "possible";
  return begin;
}

struct Calls {
  std::vector<grammar::Function> functions;
  grammar::CallForm form;
  grammar::ToolOptions options;
};

// free: calls that may come, of which only strict tools' follow their schema.
Result<Calls> calls_of(const engine::Engine& engine, const Request& request, bool free) {
  const auto& supports = engine.chat_template()->supports();
  const token::Tokenizer& tokenizer = engine.tokenizer();
  const auto syntax = token::call_syntax(supports.reply, supports.calls, tokenizer);
  if (!syntax)
    return Error{Status::unsupported, std::string(free ? "strict cannot be kept" : "calls cannot be made a must") +
                                          ": how this model writes calls is not known well enough; " +
                                          (free ? "leave it out" : "use \"auto\" and no tool that is strict")};
  Calls calls;
  calls.form = {pieces_of(tokenizer, syntax->before_name), pieces_of(tokenizer, syntax->before_arguments),
                pieces_of(tokenizer, syntax->after), pieces_of(tokenizer, syntax->between)};
  if (syntax->tags) {
    const auto& tags = *syntax->tags;
    calls.form.tags = {pieces_of(tokenizer, tags.before_key), pieces_of(tokenizer, tags.before_value),
                       pieces_of(tokenizer, tags.behind_json), pieces_of(tokenizer, tags.end)};
  }
  calls.options.schema.space = grammar::JsonSpace::single;
  calls.options.max_calls = request.parallel_tool_calls && syntax->several ? 0 : 1;
  for (const Json& tool : request.tools) {
    const Json& function = tool.at("function");
    const auto name = function.at("name").get<std::string>();
    if (request.tool_choice == ToolChoice::named && name != request.tool_name) continue;
    const auto parameters = function.find("parameters");
    const bool bound = !free || request.strict_tools.contains(name);
    const bool given = bound && parameters != function.end() && !parameters->is_null();
    calls.functions.push_back({name, given ? parameters->dump() : ""});
  }
  return calls;
}

// Calls that may come, and text that is free until one opens, in the way of the model's family.
Result<Grammar> free_grammar(const engine::Engine& engine, const Beginning& begin, Calls calls) {
  const auto& supports = engine.chat_template()->supports();
  if (supports.reply == token::ReplyFormat::harmony) {
    // A message's header says what it is, so the last one is a call, in either channel that models use, or the answer.
    QUERN_TRY(const Grammar call, Grammar::from_tools(calls.functions, calls.form, calls.options));
    calls.form.before_name.back().text = "analysis to=functions.";
    QUERN_TRY(const Grammar in_analysis, Grammar::from_tools(calls.functions, calls.form, calls.options));
    QUERN_TRY(const Grammar text, Grammar::from_gbnf("root ::= .*"));
    QUERN_TRY(const Grammar answer, Grammar::after_lead({.then = begin.text_head}, text));
    return Grammar::any_of(std::array{call, in_analysis, answer});
  }
  grammar::ToolOptions options = calls.options;
  options.mode = grammar::CallMode::automatic;
  // Where a block of reasoning may come first, a text that begins with a tag of one would be no text to who reads it.
  if (begin.blocks.max_blocks > 0 && !begin.blocks.open.empty())
    options.not_first = {begin.blocks.open[0][0], begin.blocks.close[0]};
  if (supports.calls == token::CallFormat::bare_json) {
    // Nothing shows that a call comes but the brace, so one at the beginning is a call's; so is what follows the mark
    // that some models put before it. What stands between calls is no text's beginning either.
    options.not_first.insert(options.not_first.end(), {{"{"}, {";"}, {","}});
    grammar::CallForm marked = calls.form;
    marked.before_name.insert(
        marked.before_name.begin(),
        piece_of(engine.tokenizer(), token::markup_piece(engine.tokenizer(), token::call_markup(supports.calls)[0])));
    QUERN_TRY(const Grammar call, Grammar::from_tools(calls.functions, calls.form, calls.options));
    QUERN_TRY(const Grammar text, Grammar::from_tools(calls.functions, marked, options));
    return Grammar::any_of(std::array{call, text});
  }
  options.text_between = true;
  return Grammar::from_tools(calls.functions, calls.form, options);
}

Result<Grammar> text_grammar(const Request& request) {
  if (!request.grammar.empty()) return Grammar::from_gbnf(request.grammar);
  if (request.format == ResponseFormat::json_object) return Grammar::from_schema(R"({"type":"object"})");
  return Grammar::from_schema(request.schema.dump());
}

}  // namespace

std::optional<Problem> make_mask(const serve::LoadedModel& model, const Request& request,
                                 const engine::ChatPrompt& prompt, std::unique_ptr<serve::TokenMask>* out) {
  out->reset();
  const engine::Engine& engine = *model.engine;
  const bool chat = request.prompts.empty();
  const bool text = request.format != ResponseFormat::text || !request.grammar.empty();
  const bool must_call = request.must_call();
  const bool tools = chat && request.may_call();
  // Text is free, and calls are not.
  const bool free = tools && !must_call && !text;
  if (free ? request.strict_tools.empty() : !text && !must_call) return std::nullopt;
  const char* field = must_call                 ? "tool_choice"
                      : free                    ? "tools"
                      : request.grammar.empty() ? "response_format"
                                                : "grammar";
  const auto refuse = [&](const std::string& why) { return refusal(field, Error{Status::invalid_argument, why}); };
  if (request.ignore_eos) return refuse("ends the answer, and ignore_eos would not");
  if (request.format != ResponseFormat::text && !request.grammar.empty())
    return refuse("response_format and grammar cannot both say what the answer is");
  if (text && must_call) return refuse("an answer that must be a call cannot have a format as well");

  const Beginning begin = chat ? beginning_of(engine, prompt, free) : Beginning();
  // With a format, the answer is in it or a call.
  const bool may_call = must_call || tools;
  Calls calls;
  if (may_call) {
    auto made = calls_of(engine, request, free);
    if (!made.ok()) return refusal(must_call ? field : "tools", made.error());
    calls = std::move(*made);
  }
  Json key = {
      begin.key, free, request.grammar, request.schema, static_cast<int>(request.format), calls.options.max_calls};
  for (const auto& function : calls.functions) key.push_back({function.name, function.parameters});
  const auto answer = [&]() -> Result<Grammar> {
    if (free) return free_grammar(engine, begin, calls);
    std::vector<Grammar> either;
    if (may_call) {
      QUERN_TRY(Grammar grammar, Grammar::from_tools(calls.functions, calls.form, calls.options));
      either.push_back(std::move(grammar));
    }
    if (text) {
      QUERN_TRY(const Grammar plain, text_grammar(request));
      grammar::Lead head;
      head.then = begin.text_head;
      QUERN_TRY(Grammar grammar, Grammar::after_lead(head, plain));
      either.push_back(std::move(grammar));
    }
    return Grammar::any_of(either);
  };
  const auto compile = [&]() -> Result<Grammar> {
    QUERN_TRY(const Grammar whole, answer());
    return Grammar::after_lead(begin.blocks, whole);
  };
  auto mask = model.grammars->mask(dump(key), compile);
  if (!mask.ok()) return refusal(field, mask.error());
  *out = std::move(*mask);
  return std::nullopt;
}

}  // namespace quern::api
