// Short forms for tests of grammars.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/matcher.h"

namespace quern::grammar::testing {

inline Grammar compiled(Result<Grammar> grammar) {
  EXPECT_TRUE(grammar.ok()) << (grammar.ok() ? "" : grammar.error().message);
  return grammar.ok() ? std::move(*grammar) : *Grammar::from_gbnf("root ::= \"did not compile\"");
}
inline Grammar schema(std::string_view text, JsonSpace space = JsonSpace::compact) {
  return compiled(Grammar::from_schema(text, {space}));
}
inline Grammar gbnf(std::string_view text) {
  return compiled(Grammar::from_gbnf(text));
}
inline bool fits(const Grammar& grammar, std::string_view text) {
  const auto match = match_text(grammar, text);
  EXPECT_TRUE(match.ok()) << (match.ok() ? "" : match.error().message);
  return match.ok() && match->complete;
}
// "ok", or the status and the message.
inline std::string problem(const Result<Grammar>& grammar) {
  return grammar.ok() ? "ok" : std::string(status_name(grammar.error().status)) + ": " + grammar.error().message;
}

struct FitCase {
  const char* grammar;
  std::vector<std::string> good, bad;
};

inline void expect_fits(const Grammar& grammar, const FitCase& c) {
  for (const std::string& text : c.good) EXPECT_TRUE(fits(grammar, text)) << c.grammar << "\nshould take " << text;
  for (const std::string& text : c.bad) EXPECT_FALSE(fits(grammar, text)) << c.grammar << "\nshould refuse " << text;
}

// One token per byte, then the given ones, then an end token.
inline std::shared_ptr<const Vocabulary> bytes_and(const std::vector<std::string>& more,
                                                   const std::vector<std::string>& markers = {}) {
  std::vector<TokenEntry> tokens;
  for (unsigned b = 0; b < 256; ++b) tokens.push_back({std::string(1, static_cast<char>(b)), TokenKind::text});
  for (const auto& text : more) tokens.push_back({text, TokenKind::text});
  for (const auto& name : markers) tokens.push_back({name, TokenKind::marker});
  tokens.push_back({"<end>", TokenKind::end});
  return *Vocabulary::create(std::move(tokens));
}
inline Matcher matcher(const Grammar& grammar, const std::shared_ptr<const Vocabulary>& vocabulary) {
  return *Matcher::create(*Constraint::create(grammar, vocabulary));
}
inline bool allows(Matcher& m, int32_t id) {
  const auto mask = m.mask();
  return mask.ok() && ((*mask)[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
}

}  // namespace quern::grammar::testing
