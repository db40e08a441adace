// Gemma 4's notation of arguments: keys without quotes, strings between quote tokens, numbers and words as in JSON.
// Models also write JSON's own strings; those are taken as well.
#include <algorithm>
#include <utility>

#include "token/chat.h"
#include "token/reply_calls.h"

namespace quern::token {
namespace {

class GemmaReader {
 public:
  explicit GemmaReader(std::string_view text) : text_(text) {}

  std::string read() {
    skip();
    if (peek() != '{' || !value(0)) return {};
    skip();
    return text_.empty() ? std::move(out_) : std::string();
  }

 private:
  static constexpr int kMaxDepth = 64;

  char peek() const { return text_.empty() ? '\0' : text_.front(); }
  void skip() { text_.remove_prefix(std::min(text_.find_first_not_of(kWhiteSpace), text_.size())); }
  bool eat(char c) {
    skip();
    if (peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void write_text(std::string_view text) { out_ += Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

  // A string in either kind of quotes, as JSON.
  bool quoted() {
    if (peek() == kGemmaQuote) {
      const size_t end = text_.find(kGemmaQuote, 1);
      if (end == text_.npos) return false;
      write_text(text_.substr(1, end - 1));
      text_.remove_prefix(end + 1);
      return true;
    }
    size_t end = 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return false;
    const Json text = Json::parse(text_.substr(0, end + 1), nullptr, false);
    if (!text.is_string()) return false;
    write_text(text.get_ref<const std::string&>());
    text_.remove_prefix(end + 1);
    return true;
  }

  bool is_quote() const { return peek() == kGemmaQuote || peek() == '"'; }

  bool key() {
    skip();
    if (is_quote()) return quoted();
    const size_t end = text_.find_first_of(":{}[],");
    if (end == text_.npos || end == 0 || text_[end] != ':') return false;
    const std::string_view name = text_.substr(0, text_.find_last_not_of(kWhiteSpace, end - 1) + 1);
    if (name.empty() || name.find(kGemmaQuote) != name.npos) return false;
    write_text(name);
    text_.remove_prefix(end);
    return true;
  }

  bool word() {
    const size_t end = std::min(text_.find_first_of(",]}"), text_.size());
    std::string_view word = text_.substr(0, end);
    while (!word.empty() && is_white_space(word.back())) word.remove_suffix(1);
    if (word.empty() || word.find(kGemmaQuote) != word.npos) return false;
    const Json json = Json::parse(word, nullptr, false);
    if (json.is_number() || json.is_boolean() || json.is_null()) {
      out_ += word;
    } else {
      write_text(word);
    }
    text_.remove_prefix(end);
    return true;
  }

  bool list(char close, int depth) {
    out_ += close == '}' ? '{' : '[';
    text_.remove_prefix(1);
    for (bool first = true; !eat(close); first = false) {
      if (!first) {
        if (!eat(',')) return false;
        out_ += ',';
      }
      if (close == '}') {
        if (!key() || !eat(':')) return false;
        out_ += ':';
      }
      if (!value(depth + 1)) return false;
    }
    out_ += close;
    return true;
  }

  bool value(int depth) {
    if (depth > kMaxDepth) return false;
    skip();
    if (is_quote()) return quoted();
    if (peek() == '{') return list('}', depth);
    if (peek() == '[') return list(']', depth);
    return word();
  }

  std::string_view text_;
  std::string out_;
};

}  // namespace

std::string gemma_arguments(std::string_view text) {
  return GemmaReader(text).read();
}

}  // namespace quern::token
