// Holds back the beginning of a character until the rest has come or cannot come any more.
#include "token/detokenizer.h"

#include "token/unicode.h"

namespace quern::token {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, StreamOptions options)
    : tokenizer_(&tokenizer), options_(options), strip_(options.strip_leading_space && tokenizer.adds_space_prefix()) {}

std::string StreamDecoder::feed(int32_t id) {
  std::string out;
  if (tokenizer_->is_control(id) && !options_.special) return out;
  std::string_view bytes = tokenizer_->token_bytes(id);
  if (bytes.empty()) return out;
  if (strip_ && bytes.front() == ' ') bytes.remove_prefix(1);
  strip_ = false;
  held_ += bytes;
  take_whole(out, false);
  return out;
}

std::string StreamDecoder::flush() {
  std::string out;
  take_whole(out, true);
  return out;
}

void StreamDecoder::take_whole(std::string& out, bool at_end) {
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Step step = classify_utf8(held_, at);
    if (step.state == Utf8State::partial && !at_end) break;
    if (step.state == Utf8State::complete || options_.raw_invalid) {
      out.append(held_, at, step.length);
    } else {
      out += kReplacement;
    }
    at += step.length;
  }
  held_.erase(0, at);
}

}  // namespace quern::token
