// Text <-> token ids. A Tokenizer is immutable and may be used by any number of threads at once.
//
// Guarantees: encode is n log n in the text and takes constant stack whatever the text; any bytes are accepted. An
// invalid UTF-8 byte is a symbol of its own and keeps its value, so decode(encode(x)) == x, except that a byte-level
// vocabulary without a token for a byte value drops that byte (missing_bytes), NFC rules normalize (PreTokenizer::nfc),
// and SentencePiece reads U+2581 as a space.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "token/bpe.h"
#include "token/pretokenizer.h"
#include "token/spm.h"
#include "token/tokenizer_markup.h"
#include "token/vocab.h"

namespace quern::token {

// Work done by encode, in units that do not depend on the machine: for tests of its growth.
struct EncodeWork {
  uint64_t markup_bytes = 0, characters = 0, merges = 0;
};

struct EncodeOptions {
  bool add_special = false;    // put bos and eos around, as the model wants; never a second bos
  bool parse_special = false;  // control tokens in the text count as such; user-defined tokens always do
  EncodeWork* work = nullptr;  // added to, where given
};

// A stretch of a prompt. Neighbours are tokenized as one text, but control tokens are found only inside markup.
struct TextPiece {
  std::string_view text;
  bool markup = false;
};

class Tokenizer {
 public:
  // Copies what it needs of data. Errors name what is malformed, missing or not supported.
  static Result<std::unique_ptr<Tokenizer>> create(const VocabData& data);

  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;
  // parse_special is ignored: each piece says it for itself.
  Result<std::vector<int32_t>> encode(std::span<const TextPiece> pieces, EncodeOptions options = {}) const;
  // The bytes of ids in order, which need not be valid UTF-8; control and unknown tokens only if `special`, by name.
  // The space that SentencePiece puts before a text is taken off again. An error where an id is not in the vocabulary.
  Result<std::string> decode(std::span<const int32_t> ids, bool special) const;

  int32_t size() const { return vocab_.size(); }
  bool contains(int32_t id) const { return vocab_.contains(id); }
  // What the token stands for in text: bytes, or the name of a control token. Empty where id is not in the vocabulary.
  std::string_view token_bytes(int32_t id) const { return contains(id) ? vocab_.bytes(id) : std::string_view(); }
  bool is_control(int32_t id) const { return contains(id) && vocab_.is_markup(id); }
  bool is_eog(int32_t id) const { return contains(id) && vocab_.is_eog(id); }
  std::optional<int32_t> find(std::string_view text) const;  // by the text in the vocabulary, so "<|im_end|>"

  const Vocab& vocab() const { return vocab_; }  // special ids and types
  bool adds_bos() const { return add_bos_; }
  bool adds_eos() const { return add_eos_; }
  bool adds_space_prefix() const { return space_prefix_; }
  std::string missing_bytes() const;  // byte values that a byte-level vocabulary cannot express: "04 F1", mostly empty

 private:
  explicit Tokenizer(Vocab vocab) : vocab_(std::move(vocab)) {}
  Result<void> set_up(const VocabData& data);
  Result<void> set_up_bpe(const VocabData& data);
  Result<std::vector<int32_t>> encode_ranges(std::string_view text, std::span<const ByteRange> markup,
                                             const EncodeOptions& options) const;
  void encode_text(std::string_view text, BpeModel::Scratch& scratch, EncodeWork& work,
                   std::vector<int32_t>& ids) const;

  Vocab vocab_;
  MarkupMatcher matcher_;
  std::variant<std::monostate, BpeModel, SpmModel> model_;
  PreTokenizer pre_{};  // byte-level BPE only
  bool add_bos_ = false, add_eos_ = false, space_prefix_ = false;
};

}  // namespace quern::token
