// Vocabularies out of GGUF metadata, and the two real ones where QUERN_TEST_MODELS says where they are.
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "file/gguf.h"
#include "token/detokenizer.h"
#include "tokenizer_testing.h"

namespace quern::token {
namespace {

using namespace testing;

// A GGUF file in memory with keys only.
class KeysFile {
 public:
  template <class T>
  KeysFile& scalar(std::string_view key, uint32_t type, T value) {
    begin(key, type);
    number(value);
    return *this;
  }
  KeysFile& text(std::string_view key, std::string_view value) {
    begin(key, 8);
    string(value);
    return *this;
  }
  KeysFile& texts(std::string_view key, const std::vector<std::string_view>& values) {
    begin(key, 9);
    number(uint32_t{8});
    number(uint64_t{values.size()});
    for (const std::string_view value : values) string(value);
    return *this;
  }
  template <class T>
  KeysFile& numbers(std::string_view key, uint32_t type, const std::vector<T>& values) {
    begin(key, 9);
    number(type);
    number(uint64_t{values.size()});
    for (const T value : values) number(value);
    return *this;
  }
  Result<file::GgufFile> open() {
    file_ = "GGUF";
    number(uint32_t{3}, file_);
    number(uint64_t{0}, file_);
    number(count_, file_);
    file_ += keys_;
    return file::GgufFile::parse(std::as_bytes(std::span(file_.data(), file_.size())), "memory");
  }

 private:
  template <class T>
  void number(T value, std::string& to) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void number(T value) {
    number(value, keys_);
  }
  void string(std::string_view s) {
    number(uint64_t{s.size()});
    keys_ += s;
  }
  void begin(std::string_view key, uint32_t type) {
    string(key);
    number(type);
    ++count_;
  }
  std::string keys_, file_;
  uint64_t count_ = 0;
};

KeysFile keys_of(const TestVocab& v) {
  KeysFile keys;
  keys.text("general.architecture", "llama")
      .text("tokenizer.ggml.model", v.data.model)
      .text("tokenizer.ggml.pre", v.data.pre);
  keys.texts("tokenizer.ggml.tokens", v.data.tokens).numbers("tokenizer.ggml.token_type", 5, v.data.types);
  if (v.data.model == "gpt2") keys.texts("tokenizer.ggml.merges", v.data.merges);
  if (v.data.model == "llama") keys.numbers("tokenizer.ggml.scores", 6, v.data.scores);
  return keys;
}

TEST(VocabGguf, ReadsBothKinds) {
  const TestVocab bpe = byte_vocab("smollm");
  KeysFile bpe_keys = keys_of(bpe);
  bpe_keys.scalar("tokenizer.ggml.eos_token_id", 4, uint32_t{5})
      .scalar("tokenizer.ggml.padding_token_id", 4, uint32_t{0xFFFFFFFF});
  auto bpe_file = bpe_keys.open();
  ASSERT_TRUE(bpe_file.ok()) << bpe_file.error().message;
  auto bpe_data = vocab_from_gguf(*bpe_file);
  ASSERT_TRUE(bpe_data.ok()) << bpe_data.error().message;
  EXPECT_EQ(bpe_data->pre, "smollm");
  EXPECT_EQ(bpe_data->tokens, bpe.data.tokens);
  EXPECT_EQ(bpe_data->merges, bpe.data.merges);
  EXPECT_EQ(bpe_data->eos, 5);
  EXPECT_EQ(bpe_data->pad, kNoToken);
  EXPECT_FALSE(bpe_data->add_bos.has_value());
  EXPECT_TRUE(Tokenizer::create(*bpe_data).ok());

  TestVocab spm = spm_vocab({"\u2581", "a"});
  KeysFile spm_keys = keys_of(spm);
  spm_keys.scalar("tokenizer.ggml.add_space_prefix", 7, uint8_t{0})
      .scalar("tokenizer.ggml.add_bos_token", 7, uint8_t{1});
  auto spm_file = spm_keys.open();
  ASSERT_TRUE(spm_file.ok()) << spm_file.error().message;
  auto spm_data = vocab_from_gguf(*spm_file);
  ASSERT_TRUE(spm_data.ok()) << spm_data.error().message;
  EXPECT_EQ(spm_data->scores, spm.data.scores);
  EXPECT_EQ(spm_data->add_space_prefix, false);
  EXPECT_EQ(spm_data->add_bos, true);
}

TEST(VocabGguf, ErrorsNameTheKey) {
  KeysFile no_model;
  no_model.text("general.architecture", "llama");
  auto file = no_model.open();
  ASSERT_TRUE(file.ok());
  auto data = vocab_from_gguf(*file);
  ASSERT_FALSE(data.ok());
  EXPECT_NE(data.error().message.find("tokenizer.ggml.model"), std::string::npos) << data.error().message;

  KeysFile bad_type = keys_of(byte_vocab("gpt-2"));
  bad_type.text("tokenizer.ggml.bos_token_id", "one");
  auto bad_file = bad_type.open();
  ASSERT_TRUE(bad_file.ok());
  auto bad = vocab_from_gguf(*bad_file);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("tokenizer.ggml.bos_token_id"), std::string::npos) << bad.error().message;

  KeysFile huge = keys_of(byte_vocab("gpt-2"));
  huge.scalar("tokenizer.ggml.eos_token_id", 10, uint64_t{1} << 40);
  auto huge_file = huge.open();
  ASSERT_TRUE(huge_file.ok());
  EXPECT_FALSE(vocab_from_gguf(*huge_file).ok());
}

// The tokenizer of a real model; nullptr and a skip where it is not there.
std::unique_ptr<Tokenizer> real_tokenizer(const char* name) {
  const char* folder = std::getenv("QUERN_TEST_MODELS");
  const std::filesystem::path path = std::filesystem::path(folder == nullptr ? "" : folder) / name;
  if (folder == nullptr || !std::filesystem::exists(path)) return nullptr;
  auto file = file::GgufFile::open(path.string());
  EXPECT_TRUE(file.ok()) << file.error().message;
  auto data = vocab_from_gguf(*file);
  EXPECT_TRUE(data.ok()) << data.error().message;
  auto tokenizer = Tokenizer::create(*data);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

void expect_whole_and_streamed(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> ids = ids_of(tokenizer, text);
  EXPECT_EQ(*tokenizer.decode(ids, false), text);
  StreamDecoder decoder(tokenizer);
  std::string streamed;
  for (const int32_t id : ids) streamed += decoder.feed(id);
  EXPECT_EQ(streamed + decoder.flush(), text);
}

constexpr std::string_view kMixed =
    "Caf\u00E9 d\u00E9j\u00E0 vu \u2014 \u65E5\u672C\u8A9E \U0001F44D\U0001F3FD\n\n  if (x == 1) { return 'it''s'; "
    "}\t12345";

TEST(RealVocabulary, SmolLm2) {
  const auto tokenizer = real_tokenizer("smollm2.gguf");
  if (tokenizer == nullptr) GTEST_SKIP() << "SKIPPED: QUERN_TEST_MODELS has no smollm2.gguf";
  using Ids = std::vector<int32_t>;
  // From Hugging Face tokenizers and llama.cpp.
  EXPECT_EQ(ids_of(*tokenizer, "Hello world"), (Ids{19556, 905}));
  EXPECT_EQ(ids_of(*tokenizer, "  a  b 1234 it's"), (Ids{216, 253, 216, 278, 216, 33, 34, 35, 36, 357, 506}));
  EXPECT_EQ(ids_of(*tokenizer, "\u65E5\u672C\u8A9E"), (Ids{23274, 115, 40993, 179, 120, 248}));
  EXPECT_EQ(ids_of(*tokenizer, "<|im_end|>", {.parse_special = true}), (Ids{2}));
  EXPECT_EQ(ids_of(*tokenizer, "<|im_end|>"), (Ids{44, 108, 306, 79, 486, 108, 46}));
  EXPECT_TRUE(tokenizer->is_eog(2));
  EXPECT_EQ(tokenizer->missing_bytes(), "04 06 13 14 16 1D F1 F2");
  expect_whole_and_streamed(*tokenizer, kMixed);
}

TEST(RealVocabulary, Gemma3) {
  const auto tokenizer = real_tokenizer("gemma3-270m.gguf");
  if (tokenizer == nullptr) GTEST_SKIP() << "SKIPPED: QUERN_TEST_MODELS has no gemma3-270m.gguf";
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(ids_of(*tokenizer, "Hello world"), (Ids{9259, 1902}));
  EXPECT_EQ(ids_of(*tokenizer,
                   "a\x04"
                   "b"),
            (Ids{236746, 242, 236763}));
  EXPECT_EQ(ids_of(*tokenizer, "<end_of_turn>\n", {.parse_special = true}), (Ids{106, 107}));
  EXPECT_EQ(ids_of(*tokenizer, "x</s>").back(), 212);  // an HTML tag, not an end
  EXPECT_FALSE(tokenizer->is_eog(212));
  EXPECT_TRUE(tokenizer->is_eog(106));
  EXPECT_TRUE(tokenizer->is_eog(1));
  EXPECT_EQ(ids_of(*tokenizer, "Hello", {.add_special = true}), (Ids{2, 9259}));
  expect_whole_and_streamed(*tokenizer, kMixed);
}

}  // namespace
}  // namespace quern::token
