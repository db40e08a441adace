// Checks a VocabData and works out what each token stands for. Reading GGUF: vocab_gguf.cpp. Names: vocab_markers.cpp.
#include "token/vocab.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "token/unicode.h"

namespace quern::token {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581: a space in SentencePiece tokens

Error bad_vocab(std::string message) {
  return {Status::invalid_file, "tokenizer: " + std::move(message)};
}

// A token's text inside a message: quoted, one line, bounded.
std::string shown(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 60)) out += static_cast<uint8_t>(c) < 0x20 || c == 0x7F ? '?' : c;
  return out + (text.size() > 60 ? "...'" : "'");
}

// The value of "<0xHH>"; -1 for any other text.
int byte_token_value(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    const char lower = static_cast<char>(c | 0x20);
    if (!digit && (lower < 'a' || lower > 'f')) return -1;
    value = value * 16 + (digit ? c - '0' : lower - 'a' + 10);
  }
  return value;
}

// Bytes whose printable form in byte-level tokens is the character of the same number; the others follow from U+0100
// on.
constexpr bool is_printable_byte(int b) {
  return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xFF && b != 0xAD);
}

struct ByteLevel {
  std::array<uint32_t, 256> character{};
  std::array<int16_t, 0x144> value{};
};

constexpr ByteLevel make_byte_level() {
  ByteLevel map;
  map.value.fill(-1);
  uint32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const uint32_t c = is_printable_byte(b) ? static_cast<uint32_t>(b) : next++;
    map.character[static_cast<size_t>(b)] = c;
    map.value[c] = static_cast<int16_t>(b);
  }
  return map;
}
constexpr ByteLevel kByteLevel = make_byte_level();

// The bytes of a byte-level token; its text itself where some character is no byte's printable form, as added tokens
// are.
std::string byte_level_bytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const Decoded d = decode_utf8(text, at);
    const int value = byte_level_value(d.code_point);
    if (value < 0) return std::string(text);
    bytes.push_back(static_cast<char>(value));
    at += d.length;
  }
  return bytes;
}

std::string unescape_spaces(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool mark = text.substr(at).starts_with(kSpaceMark);
    out.push_back(mark ? ' ' : text[at]);
    at += mark ? kSpaceMark.size() : 1;
  }
  return out;
}

Result<void> check_lengths(const VocabData& data) {
  const size_t n = data.tokens.size();
  if (data.model != "gpt2" && data.model != "llama") {
    return Error{Status::unsupported, "tokenizer model " + shown(data.model) + " is not supported; known: gpt2, llama"};
  }
  if (n == 0) return bad_vocab("the token list is empty");
  if (n > size_t{std::numeric_limits<int32_t>::max()}) return bad_vocab("too many tokens");
  const auto mismatch = [&](const char* what, size_t count) {
    return bad_vocab(std::string(what) + " has " + std::to_string(count) + " entries for " + std::to_string(n) +
                     " tokens");
  };
  if (!data.types.empty() && data.types.size() != n) return mismatch("token_type", data.types.size());
  if (data.model == "llama" && data.scores.size() != n) return mismatch("scores", data.scores.size());
  if (data.merges.size() > size_t{std::numeric_limits<int32_t>::max()}) return bad_vocab("too many merges");
  return {};
}

}  // namespace

int byte_level_value(uint32_t code_point) {
  return code_point < kByteLevel.value.size() ? kByteLevel.value[code_point] : -1;
}

Result<Vocab> Vocab::create(const VocabData& data) {
  QUERN_TRY_VOID(check_lengths(data));
  Vocab vocab;
  QUERN_TRY_VOID(vocab.add_tokens(data));
  QUERN_TRY_VOID(vocab.add_special_ids(data));
  vocab.mark_known_names();
  std::string name = data.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  if (name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos) vocab.mark_right_strips();
  QUERN_TRY_VOID(vocab.add_bytes(data.model == "gpt2"));
  return vocab;
}

Result<void> Vocab::add_tokens(const VocabData& data) {
  const size_t n = data.tokens.size();
  types_.resize(n, TokenType::normal);
  flags_.resize(n, 0);
  for (size_t i = 0; i < n; ++i) {
    texts_.add(data.tokens[i].empty() ? "[EMPTY_" + std::to_string(i) + "]" : std::string(data.tokens[i]));
  }
  by_text_ = TextMap(n);
  for (int32_t id = 0; id < size(); ++id) {  // after the arena has stopped moving
    const int32_t other = by_text_.add(text(id), id);
    if (other != kNoToken) {
      return bad_vocab("tokens " + std::to_string(other) + " and " + std::to_string(id) + " are both " +
                       shown(text(id)));
    }
  }
  for (size_t i = 0; i < data.types.size(); ++i) {
    if (data.types[i] < 0 || data.types[i] > static_cast<int32_t>(TokenType::byte)) {
      return bad_vocab("token " + std::to_string(i) + " has the unknown type " + std::to_string(data.types[i]));
    }
    types_[i] = static_cast<TokenType>(data.types[i]);
  }
  if (data.types.empty() && data.model == "llama") {  // without types, byte tokens show by their form
    for (int32_t id = 0; id < size(); ++id) {
      if (byte_token_value(text(id)) >= 0) types_[static_cast<size_t>(id)] = TokenType::byte;
    }
  }
  return {};
}

Result<void> Vocab::add_special_ids(const VocabData& data) {
  struct Row {
    const char* name;
    int32_t Vocab::*to;
    int32_t from;
    int32_t otherwise;  // SentencePiece models start with <unk>, <s>, </s>
  };
  const bool spm = data.model == "llama";
  const Row rows[] = {{"bos", &Vocab::bos, data.bos, spm ? 1 : kNoToken},
                      {"eos", &Vocab::eos, data.eos, spm ? 2 : kNoToken},
                      {"unknown", &Vocab::unk, data.unk, spm ? 0 : kNoToken},
                      {"eot", &Vocab::eot, data.eot, kNoToken},
                      {"eom", &Vocab::eom, data.eom, kNoToken},
                      {"separator", &Vocab::sep, data.sep, kNoToken},
                      {"padding", &Vocab::pad, data.pad, kNoToken}};
  const auto out_of_range = [&](const std::string& what, int32_t id) {
    return bad_vocab("the " + what + " token id " + std::to_string(id) + " is outside the vocabulary of " +
                     std::to_string(size()));
  };
  for (const Row& row : rows) {
    if (row.from != kNoToken && !contains(row.from)) return out_of_range(row.name, row.from);
    this->*row.to = row.from != kNoToken || !contains(row.otherwise) ? row.from : row.otherwise;
  }
  for (const int32_t id : data.eog) {
    if (!contains(id)) return out_of_range("end-of-generation", id);
    flags_[static_cast<size_t>(id)] |= kEog;
  }
  return {};
}

// A name that must not be typed as text becomes control; `end`: it ends a generation too.
void Vocab::mark_control(std::string_view name, bool end) {
  const int32_t id = find(name);
  if (id == kNoToken) return;
  TokenType& token_type = types_[static_cast<size_t>(id)];
  if (token_type != TokenType::control) {
    log_warning("tokenizer: token " + std::to_string(id) + " " + shown(name) +
                " is not typed as control; taken as control");
    token_type = TokenType::control;
  }
  if (end) flags_[static_cast<size_t>(id)] |= kEog;
}

void Vocab::mark_known_names() {
  for (const std::string_view name : end_of_turn_names()) {
    mark_control(name, true);
    if (eot == kNoToken) eot = find(name);
  }
  for (const std::string_view name : other_end_names()) mark_control(name, true);
  for (const std::string_view name : turn_names()) mark_control(name, false);
  for (const std::string_view name : end_names_if_control()) {
    const int32_t id = find(name);
    if (id != kNoToken && type(id) == TokenType::control) flags_[static_cast<size_t>(id)] |= kEog;
  }
  if (eom == kNoToken) eom = find("<|eom_id|>");
  for (const int32_t id : {eos, eot, eom}) {
    if (id != kNoToken) flags_[static_cast<size_t>(id)] |= kEog;
  }
  // In formats with channels <|end|> closes a message and not the turn.
  const bool calls = find("<|call|>") != kNoToken || find("<|calls|>") != kNoToken;
  if (calls && (find("<|return|>") != kNoToken || find("<|flush|>") != kNoToken)) {
    const int32_t end = find("<|end|>");
    if (end != kNoToken) flags_[static_cast<size_t>(end)] &= static_cast<uint8_t>(~kEog);
    if (eot == end) eot = kNoToken;
  }
}

// Phi-3 declares that its markup takes the white space after it; GGUF does not carry that.
void Vocab::mark_right_strips() {
  for (int32_t id = 0; id < size(); ++id) {
    if (text(id) == "<unk>" || text(id) == "<s>" || text(id) == "<|endoftext|>") continue;
    if (is_markup(id) || type(id) == TokenType::user_defined || text(id) == "</s>") {
      flags_[static_cast<size_t>(id)] |= kStripsRight;
    }
  }
}

Result<void> Vocab::add_bytes(bool byte_level) {
  byte_tokens_.fill(kNoToken);
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view name = text(id);
    if (name == "[EMPTY_" + std::to_string(id) + "]") {
      bytes_.add("");
    } else if (type(id) == TokenType::byte) {
      const int value = byte_token_value(name);
      if (value < 0)
        return bad_vocab("token " + std::to_string(id) + " " + shown(name) + " is typed as a byte and is not <0xHH>");
      bytes_.add(std::string(1, static_cast<char>(value)));
      int32_t& byte_id = byte_tokens_[static_cast<size_t>(value)];
      if (byte_id == kNoToken) byte_id = id;
    } else if (is_markup(id) || type(id) == TokenType::user_defined) {
      bytes_.add(name);
    } else {
      bytes_.add(byte_level ? byte_level_bytes(name) : unescape_spaces(name));
    }
  }
  if (!byte_level) return {};
  for (size_t b = 0; b < 256; ++b) {
    std::string printable;
    append_utf8(printable, kByteLevel.character[b]);
    const int32_t id = find(printable);
    byte_tokens_[b] = id != kNoToken && !is_markup(id) ? id : kNoToken;
  }
  return {};
}

}  // namespace quern::token
