// Puts the parts together: whole tokens first, then words, then merges. No exception leaves: sizes come from outside,
// so running out of memory is an Error.
#include "token/tokenizer.h"

#include <new>
#include <stdexcept>

#include "base/log.h"
#include "token/unicode.h"

namespace quern::token {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;  // offsets and symbol numbers are 32 bits

Error out_of_memory(const char* doing) {
  return {Status::out_of_memory, std::string("out of memory while ") + doing};
}

bool is_space_at(std::string_view text, size_t at, size_t& bytes) {
  const Decoded d = decode_utf8(text, at);
  bytes = d.length;
  return char_class(d.code_point) == CharClass::space;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(const VocabData& data) {
  try {
    QUERN_TRY(Vocab vocab, Vocab::create(data));
    std::unique_ptr<Tokenizer> tokenizer(new Tokenizer(std::move(vocab)));
    QUERN_TRY_VOID(tokenizer->set_up(data));
    return tokenizer;
  } catch (const std::bad_alloc&) {
    return out_of_memory("building the tokenizer");
  } catch (const std::length_error&) {
    return out_of_memory("building the tokenizer");
  }
}

Result<void> Tokenizer::set_up(const VocabData& data) {
  matcher_ = MarkupMatcher(vocab_);
  bool default_bos = true;
  if (data.model == "gpt2") {
    QUERN_TRY_VOID(set_up_bpe(data));
    default_bos = pre_.add_bos;
  } else {
    QUERN_TRY(model_, SpmModel::create(vocab_, data));
    space_prefix_ = data.add_space_prefix.value_or(true);
  }
  add_bos_ = data.add_bos.value_or(default_bos);
  add_eos_ = data.add_eos.value_or(false);
  if (add_bos_ && vocab_.bos == kNoToken) {
    if (data.add_bos) log_warning("tokenizer: a bos token is asked for and none is named; none is added");
    add_bos_ = false;
  }
  if (add_eos_ && vocab_.eos == kNoToken) {
    log_warning("tokenizer: an eos token is asked for and none is named; none is added");
    add_eos_ = false;
  }
  return {};
}

Result<void> Tokenizer::set_up_bpe(const VocabData& data) {
  if (data.pre.empty()) log_warning("tokenizer: the file names no pre-tokenizer; using 'default', ids may be wrong");
  const PreTokenizer* pre = find_pretokenizer(data.pre.empty() ? "default" : data.pre);
  if (pre == nullptr) {
    return Error{Status::unsupported, "the pre-tokenizer '" + data.pre.substr(0, 60) +
                                          "' is not supported; known: " + known_pretokenizers()};
  }
  pre_ = *pre;
  QUERN_TRY(model_, BpeModel::create(vocab_, data, data.ignore_merges.value_or(pre_.ignore_merges)));
  if (const std::string missing = missing_bytes(); !missing.empty()) {
    log_info("tokenizer: the vocabulary has no token for these bytes, they are left out of texts: " + missing);
  }
  return {};
}

std::string Tokenizer::missing_bytes() const {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  if (!std::holds_alternative<BpeModel>(model_)) return out;
  for (size_t b = 0; b < 256; ++b) {
    const bool in_utf8 = b < 0xC0 || (b > 0xC1 && b < 0xF5);
    if (!in_utf8 || vocab_.byte_token(static_cast<uint8_t>(b)) != kNoToken) continue;
    if (!out.empty()) out += ' ';
    out += kHex[b >> 4];
    out += kHex[b & 15];
  }
  return out;
}

std::optional<int32_t> Tokenizer::find(std::string_view text) const {
  const int32_t id = vocab_.find(text);
  return id == kNoToken ? std::nullopt : std::optional<int32_t>(id);
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const ByteRange whole{0, text.size()};
  return encode_ranges(text, {&whole, options.parse_special ? size_t{1} : size_t{0}}, options);
}

Result<std::vector<int32_t>> Tokenizer::encode(std::span<const TextPiece> pieces, EncodeOptions options) const {
  try {
    std::string text;
    std::vector<ByteRange> markup;
    for (const TextPiece& piece : pieces) {
      const size_t begin = text.size();
      text += piece.text;
      if (!piece.markup || piece.text.empty()) continue;
      if (!markup.empty() && markup.back().end == begin) {
        markup.back().end = text.size();
      } else {
        markup.push_back({begin, text.size()});
      }
    }
    return encode_ranges(text, markup, options);
  } catch (const std::bad_alloc&) {
    return out_of_memory("joining a prompt");
  } catch (const std::length_error&) {
    return out_of_memory("joining a prompt");
  }
}

Result<std::vector<int32_t>> Tokenizer::encode_ranges(std::string_view text, std::span<const ByteRange> markup,
                                                      const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return Error{Status::limit_exceeded,
                 "a text of " + std::to_string(text.size()) + " bytes is more than the tokenizer takes"};
  }
  try {
    std::vector<int32_t> ids;
    BpeModel::Scratch scratch;
    EncodeWork work;
    for (size_t at = 0; at < text.size();) {
      const MarkupMatcher::Match match = matcher_.find(text, at, markup, work.markup_bytes);
      if (match.bytes.begin > at) encode_text(text.substr(at, match.bytes.begin - at), scratch, work, ids);
      at = match.bytes.end;
      if (match.id == kNoToken) break;
      ids.push_back(match.id);
      for (size_t bytes = 0; vocab_.strips_right(match.id) && at < text.size() && is_space_at(text, at, bytes);)
        at += bytes;
    }
    if (options.add_special && add_bos_ && (ids.empty() || ids.front() != vocab_.bos))
      ids.insert(ids.begin(), vocab_.bos);
    if (options.add_special && add_eos_) ids.push_back(vocab_.eos);
    if (options.work != nullptr) {
      options.work->markup_bytes += work.markup_bytes;
      options.work->characters += work.characters;
      options.work->merges += work.merges;
    }
    return ids;
  } catch (const std::bad_alloc&) {
    return out_of_memory("tokenizing");
  } catch (const std::length_error&) {
    return out_of_memory("tokenizing");
  }
}

// A stretch without whole tokens.
void Tokenizer::encode_text(std::string_view text, BpeModel::Scratch& scratch, EncodeWork& work,
                            std::vector<int32_t>& ids) const {
  if (const auto* spm = std::get_if<SpmModel>(&model_)) {
    work.merges += spm->encode(vocab_, text, space_prefix_, ids);
    return;
  }
  const BpeModel& bpe = std::get<BpeModel>(model_);
  std::string normalized;
  if (pre_.nfc) {
    normalized = normalize_nfc(text);
    text = normalized;
  }
  std::vector<uint32_t> ends;
  work.characters += split_words(pre_.rule, text, ends);
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    work.merges += bpe.encode(vocab_, text.substr(begin, end - begin), scratch, ids);
    begin = end;
  }
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids, bool special) const {
  try {
    std::string out;
    bool strip = space_prefix_;
    for (const int32_t id : ids) {
      if (!contains(id)) {
        return Error{Status::invalid_argument,
                     "token id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(size())};
      }
      if (vocab_.is_markup(id) && !special) continue;
      std::string_view bytes = vocab_.bytes(id);
      if (strip && !bytes.empty()) {
        if (bytes.front() == ' ') bytes.remove_prefix(1);
        strip = false;
      }
      out += bytes;
    }
    return out;
  } catch (const std::bad_alloc&) {
    return out_of_memory("detokenizing");
  } catch (const std::length_error&) {
    return out_of_memory("detokenizing");
  }
}

}  // namespace quern::token
