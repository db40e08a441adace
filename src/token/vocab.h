// A vocabulary: VocabData is what a model file says, plain and unchecked; Vocab is the checked form that tokenizers
// use. Cutting and merging text is in tokenizer.h and below.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "token/vocab_map.h"

namespace quern::file {
class GgufFile;
}

namespace quern::token {

enum class TokenType : uint8_t {
  undefined,
  normal,
  unknown,
  control,
  user_defined,
  unused,
  byte
};  // numbered as in GGUF

// Views need to live only until Tokenizer::create returns. Where an optional is empty, the tokenizer's kind decides.
struct VocabData {
  std::string model;                     // "gpt2": byte-level BPE; "llama": SentencePiece BPE
  std::string pre;                       // the pre-tokenizer's name; byte-level BPE only
  std::string name;                      // the model's name: some families strip white space after their markup
  std::vector<std::string_view> tokens;  // by id, as in the file: byte-level tokens in their printable form
  std::vector<float> scores;             // [tokens], "llama" only
  std::vector<int32_t> types;            // [tokens] TokenType, or empty: all normal
  std::vector<std::string_view> merges;  // "left right", best first; "gpt2" only
  int32_t bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken, unk = kNoToken, sep = kNoToken,
          pad = kNoToken;
  std::vector<int32_t> eog;  // more tokens that end a generation, beside eos, eot, eom and the known names
  std::optional<bool> add_bos, add_eos, add_space_prefix, ignore_merges;
};

// From tokenizer.ggml.* and general.name; views the file's mapping. An error names the key.
Result<VocabData> vocab_from_gguf(const file::GgufFile& file);

// Checked tokens. Invariants: texts are distinct and not empty; every special id is a token or kNoToken.
class Vocab {
 public:
  static Result<Vocab> create(const VocabData& data);
  Vocab(Vocab&&) = default;
  Vocab& operator=(Vocab&&) = default;

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  bool contains(int32_t id) const { return id >= 0 && id < size(); }
  // For the next functions, id is a token.
  std::string_view text(int32_t id) const { return slice(texts_, id); }   // as in the file
  std::string_view bytes(int32_t id) const { return slice(bytes_, id); }  // what the token stands for in output
  TokenType type(int32_t id) const { return types_[static_cast<size_t>(id)]; }
  bool is_eog(int32_t id) const { return flags_[static_cast<size_t>(id)] & kEog; }
  bool strips_right(int32_t id) const { return flags_[static_cast<size_t>(id)] & kStripsRight; }
  bool is_markup(int32_t id) const { return type(id) == TokenType::control || type(id) == TokenType::unknown; }
  int32_t find(std::string_view text) const { return by_text_.find(text); }  // by its text in the file
  int32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }

  int32_t bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken, unk = kNoToken, sep = kNoToken,
          pad = kNoToken;

 private:
  static constexpr uint8_t kEog = 1, kStripsRight = 2;
  struct Strings {            // one arena; string i is [offsets[i], offsets[i + 1])
    std::vector<char> arena;  // not a std::string: views of it must survive a move, which short strings do not
    std::vector<size_t> offsets{0};
    void add(std::string_view s) {
      arena.insert(arena.end(), s.begin(), s.end());
      offsets.push_back(arena.size());
    }
  };
  static std::string_view slice(const Strings& strings, int32_t id) {
    const size_t i = static_cast<size_t>(id);
    return {strings.arena.data() + strings.offsets[i], strings.offsets[i + 1] - strings.offsets[i]};
  }

  Vocab() = default;
  Result<void> add_tokens(const VocabData& data);
  Result<void> add_special_ids(const VocabData& data);
  void mark_control(std::string_view name, bool end);
  void mark_known_names();
  void mark_right_strips();
  Result<void> add_bytes(bool byte_level);

  Strings texts_;
  Strings bytes_;
  std::vector<TokenType> types_;
  std::vector<uint8_t> flags_;
  TextMap by_text_;
  std::array<int32_t, 256> byte_tokens_{};
};

// Names of markup over model families (vocab_markers.cpp).
std::span<const std::string_view> end_of_turn_names();     // close a turn, best first; control whatever their type
std::span<const std::string_view> other_end_names();       // end a generation too; control whatever their type
std::span<const std::string_view> end_names_if_control();  // end a generation only where the file types them control
std::span<const std::string_view> turn_names();            // open a turn or a part; control whatever their type

// The byte that a character of a byte-level token stands for, or -1.
int byte_level_value(uint32_t code_point);

}  // namespace quern::token
