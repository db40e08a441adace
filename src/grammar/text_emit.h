// Characters, patterns and automata over code points as parts of a network, either plain or as they stand inside a JSON
// string.
#pragma once

#include <map>

#include "base/result.h"
#include "grammar/network.h"
#include "grammar/regex.h"

namespace quern::grammar {

enum class Spelling : uint8_t {
  plain,
  json,          // '"', '\' and control characters have one escape each, everything else stands for itself
  json_in_tags,  // '<' has one, too
};

class TextEmitter {
 public:
  TextEmitter(NetworkBuilder& builder, Spelling spelling) : builder_(builder), spelling_(spelling) {}

  void set(int32_t from, int32_t to, const CodeSet& set);
  void regex(int32_t from, int32_t to, const Regex& regex);
  void dfa(int32_t from, int32_t to, const Dfa& dfa);
  // A rule for one character of set; equal sets share it.
  int32_t set_rule(const CodeSet& set);

 private:
  void inline_set(int32_t from, int32_t to, const CodeSet& set);
  void node(const Regex& regex, int32_t id, int32_t from, int32_t to);

  NetworkBuilder& builder_;
  Spelling spelling_;
  std::map<CodeSet, int32_t> set_rules_;
};

// Code points that stand for themselves in a JSON string.
const CodeSet& json_plain(Spelling spelling = Spelling::json);
// A rule for one character of a JSON string in any spelling: plain, a short escape, \uXXXX, a surrogate pair.
int32_t add_json_char_rule(NetworkBuilder& builder, Spelling spelling = Spelling::json);

}  // namespace quern::grammar
