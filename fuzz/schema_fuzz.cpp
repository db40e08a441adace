// Any bytes as a JSON Schema: refused by name, or a grammar whose masks are what accept takes.
#include <cstdlib>

#include "grammar/matcher.h"

using namespace quern;
using namespace quern::grammar;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto vocabulary = [] {
    std::vector<TokenEntry> tokens;
    for (unsigned b = 0; b < 256; ++b) tokens.push_back({std::string(1, static_cast<char>(b)), TokenKind::text});
    for (const char* text : {"{\"", "\":", "\"a\"", "[[", "]}", "12", "\\u00", "\xF0\x9F", "true", "aaaa"})
      tokens.push_back({text, TokenKind::text});
    tokens.push_back({"<end>", TokenKind::end});
    return *Vocabulary::create(std::move(tokens));
  }();
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto grammar = Grammar::from_schema(text, {static_cast<JsonSpace>(data[0] % 3)});
  if (!grammar.ok()) {
    if (grammar.error().message.empty()) std::abort();
    return 0;
  }
  auto matcher = Matcher::create(*Constraint::create(*grammar, vocabulary));
  uint32_t choice = data[0];
  for (int i = 0; i < 40 && !matcher->finished(); ++i) {
    const auto mask = matcher->mask();
    if (!mask.ok()) return 0;
    choice = choice * 1664525 + 1013904223;
    auto id = static_cast<int32_t>((choice >> 8) % vocabulary->size());
    while (((*mask)[static_cast<size_t>(id) / 64] >> (id % 64) & 1) == 0) {
      if (matcher->accept(id).ok()) std::abort();  // the mask forbids it
      id = (id + 1) % static_cast<int32_t>(vocabulary->size());
    }
    const auto accepted = matcher->accept(id);
    if (!accepted.ok() && accepted.error().status != Status::limit_exceeded) std::abort();
    if (!accepted.ok()) return 0;
  }
  return 0;
}
