// Any vocabulary and any text: create and encode end in ids or an error, and a stream of ids comes out as whole
// characters.
#include <algorithm>
#include <cstdlib>

#include "token/detokenizer.h"
#include "token/tokenizer.h"
#include "token/unicode.h"

namespace {

using quern::token::TokenType;

constexpr const char* kRules[] = {"default", "gpt-2", "llama-bpe", "qwen2", "qwen35", "smollm", "tekken", "gpt-4o"};

// Lines of the input: "t" token (type from its first byte), "m" merge, anything else ends the vocabulary.
size_t read_vocab(std::string_view input, quern::token::VocabData& data) {
  size_t at = 0;
  while (at < input.size() && (input[at] == 't' || input[at] == 'm')) {
    const size_t end = std::min(input.find('\n', at), input.size());
    const std::string_view line = input.substr(at + 1, end - at - 1);
    if (input[at] == 'm') {
      data.merges.push_back(line);
    } else if (!line.empty()) {
      data.types.push_back(line.front() - '0');
      data.scores.push_back(static_cast<float>(static_cast<signed char>(line.front())));
      data.tokens.push_back(line.substr(1));
    }
    at = std::min(end + 1, input.size());
  }
  return at;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 1) return 0;
  const std::string_view input(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  quern::token::VocabData data;
  data.model = bytes[0] & 0x80 ? "llama" : "gpt2";
  data.pre = kRules[bytes[0] % 8];
  if (bytes[0] & 0x40) data.unk = 0;
  const std::string_view text = input.substr(read_vocab(input, data));
  const auto tokenizer = quern::token::Tokenizer::create(data);
  if (!tokenizer.ok()) return 0;
  for (const bool special : {false, true}) {
    const auto ids = (*tokenizer)->encode(text, {.add_special = special, .parse_special = special});
    if (!ids.ok()) std::abort();
    if (!(*tokenizer)->decode(*ids, special).ok()) std::abort();
    quern::token::StreamDecoder decoder(**tokenizer, {.special = special});
    std::string out;
    for (const int32_t id : *ids) out += decoder.feed(id);
    out += decoder.flush();
    for (size_t at = 0; at < out.size();) {
      const auto step = quern::token::classify_utf8(out, at);
      if (step.state != quern::token::Utf8State::complete) std::abort();
      at += step.length;
    }
  }
  return 0;
}
