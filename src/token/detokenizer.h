// Text of a stream of tokens, in whole characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "token/tokenizer.h"

namespace quern::token {

struct StreamOptions {
  bool special = false;  // control tokens appear by name
  // The space that SentencePiece puts before a text is taken off the first piece (models that add one only).
  bool strip_leading_space = true;
  // Bytes that can no longer become a character come out as U+FFFD, one per longest prefix that could have begun one
  // (as Unicode recommends and Rust and Python do); with raw_invalid, as they are.
  bool raw_invalid = false;
};

// Feed ids in order. What the calls return, joined, is what decode would give for all of them with invalid bytes
// replaced; no call returns part of a character. The tokenizer must outlive this.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, StreamOptions options = {});

  std::string feed(int32_t id);  // an id outside the vocabulary adds nothing
  std::string flush();           // the end: an unfinished character comes out as invalid bytes do
  bool pending() const { return !held_.empty(); }

 private:
  void take_whole(std::string& out, bool at_end);

  const Tokenizer* tokenizer_;
  StreamOptions options_;
  bool strip_;
  std::string held_;  // the beginning of a character, at most 3 bytes between calls
};

}  // namespace quern::token
