#include "api/mask.h"

#include "serve/grammar_mask.h"
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

Beginning beginning_of(const engine::Engine& engine, const engine::ChatPrompt& prompt) {
  Beginning begin;
  const token::Tokenizer& tokenizer = engine.tokenizer();
  const auto mark = [&](std::string_view name) { return piece_of(tokenizer, token::markup_piece(tokenizer, name)); };
  const auto format = engine.chat_template()->supports().reply;
  if (format == token::ReplyFormat::plain) return begin;
  if (format == token::ReplyFormat::harmony) {
    begin.blocks.open = {mark("<|channel|>"), {"analysis"}, mark("<|message|>")};
    begin.blocks.close = {mark("<|end|>"), mark("<|start|>"), {"assistant"}};
    begin.text_head = {mark("<|channel|>"), {"final"}, mark("<|message|>")};
    begin.key = "harmony";
    return begin;
  }
  const auto& tags = format == token::ReplyFormat::think ? token::kThinkTags : token::kBracketedThinkTags;
  const Block block = block_of(format, tokenizer, prompt.rendered, tags[0]);
  if (block == Block::none) return begin;
  begin.blocks.open = {mark(tags[0])};
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

Result<Calls> calls_of(const engine::Engine& engine, const Request& request) {
  const auto& supports = engine.chat_template()->supports();
  const token::Tokenizer& tokenizer = engine.tokenizer();
  const auto syntax = token::call_syntax(supports.reply, supports.calls, tokenizer);
  if (!syntax)
    return Error{Status::unsupported,
                 "calls cannot be made a must: how this model writes them is not known well enough; use \"auto\""};
  Calls calls;
  calls.form = {pieces_of(tokenizer, syntax->before_name), pieces_of(tokenizer, syntax->before_arguments),
                pieces_of(tokenizer, syntax->after), pieces_of(tokenizer, syntax->between)};
  calls.options.schema.space = grammar::JsonSpace::single;
  calls.options.max_calls = request.parallel_tool_calls && syntax->several ? 0 : 1;
  for (const Json& tool : request.tools) {
    const Json& function = tool.at("function");
    const auto name = function.at("name").get<std::string>();
    if (request.tool_choice == ToolChoice::named && name != request.tool_name) continue;
    const auto parameters = function.find("parameters");
    const bool given = parameters != function.end() && !parameters->is_null();
    calls.functions.push_back({name, given ? parameters->dump() : ""});
  }
  return calls;
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
  const bool text = request.format != ResponseFormat::text || !request.grammar.empty();
  const bool must_call = request.must_call();
  if (!text && !must_call) return std::nullopt;
  const char* field = must_call ? "tool_choice" : request.grammar.empty() ? "response_format" : "grammar";
  const auto refuse = [&](const std::string& why) { return refusal(field, Error{Status::invalid_argument, why}); };
  if (request.ignore_eos) return refuse("ends the answer, and ignore_eos would not");
  if (request.format != ResponseFormat::text && !request.grammar.empty())
    return refuse("response_format and grammar cannot both say what the answer is");
  if (text && must_call) return refuse("an answer that must be a call cannot have a format as well");

  const bool chat = request.prompts.empty();
  const Beginning begin = chat ? beginning_of(engine, prompt) : Beginning();
  // Tools that may be called: the answer is a call or in the format.
  const bool may_call = must_call || (chat && request.tools.is_array() && request.tool_choice != ToolChoice::none);
  Calls calls;
  if (may_call) {
    auto made = calls_of(engine, request);
    if (!made.ok()) return refusal(must_call ? field : "tools", made.error());
    calls = std::move(*made);
  }
  Json key = {begin.key, request.grammar, request.schema, static_cast<int>(request.format), calls.options.max_calls};
  for (const auto& function : calls.functions) key.push_back({function.name, function.parameters});
  const auto compile = [&]() -> Result<Grammar> {
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
    QUERN_TRY(const Grammar whole, Grammar::any_of(either));
    return Grammar::after_lead(begin.blocks, whole);
  };
  auto mask = model.grammars->mask(dump(key), compile);
  if (!mask.ok()) return refusal(field, mask.error());
  *out = std::move(*mask);
  return std::nullopt;
}

}  // namespace quern::api
