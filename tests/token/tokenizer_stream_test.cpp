// StreamDecoder: whole characters only, nothing lost, invalid bytes replaced one way whatever the token borders.
#include "token/detokenizer.h"
#include "tokenizer_testing.h"

namespace quern::token {
namespace {

using namespace testing;

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Decoded d = decode_utf8(text, at);
    if (d.code_point == kInvalidByte) return false;
    at += d.length;
  }
  return true;
}

std::string stream(const Tokenizer& tokenizer, std::string_view bytes, StreamOptions options = {}) {
  StreamDecoder decoder(tokenizer, options);
  std::string out;
  for (const char c : bytes) out += decoder.feed(static_cast<uint8_t>(c));  // ids 0..255 are the bytes
  out += decoder.flush();
  EXPECT_FALSE(decoder.pending());
  return out;
}

TEST(StreamDecoder, HoldsBackUntilACharacterIsWhole) {
  const auto tokenizer = byte_vocab("gpt-2").build();
  StreamDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.feed('a'), "a");
  EXPECT_EQ(decoder.feed(0xF0), "");
  EXPECT_EQ(decoder.feed(0x9F), "");
  EXPECT_EQ(decoder.feed(0x91), "");
  EXPECT_TRUE(decoder.pending());
  EXPECT_EQ(decoder.feed(0x8D), "\U0001F44D");
  EXPECT_FALSE(decoder.pending());
  EXPECT_EQ(decoder.feed(-1), "");
  EXPECT_EQ(decoder.feed(1 << 30), "");
}

TEST(StreamDecoder, ReplacesInvalidBytes) {
  const auto tokenizer = byte_vocab("gpt-2").build();
  const std::string r = "\uFFFD";
  EXPECT_EQ(stream(*tokenizer, "\xFF"), r);
  EXPECT_EQ(stream(*tokenizer, "\x80\x80"), r + r);
  EXPECT_EQ(stream(*tokenizer, "\xE4\xB8"), r);         // unfinished at the end: one
  EXPECT_EQ(stream(*tokenizer, "\xE4\xB8x"), r + "x");  // cut short by another character
  EXPECT_EQ(stream(*tokenizer, "\xF0\x9F\xE4\xB8\xAD"), r + "\u4E2D");
  EXPECT_EQ(stream(*tokenizer, "\xED\xA0\x80"), r + r + r);  // a surrogate: no prefix of it can begin a character
  EXPECT_EQ(stream(*tokenizer, "\xC0\xAF"), r + r);
  EXPECT_EQ(stream(*tokenizer, "\xF0\x80\x80\x41"), r + r + r + "A");
  EXPECT_EQ(stream(*tokenizer, "a\xE4\xB8\xFFz", {.raw_invalid = true}), "a\xE4\xB8\xFFz");
}

TEST(StreamDecoder, AnyIdsGiveWholeCharacters) {
  const auto tokenizer = byte_vocab("gpt-2").build();
  std::mt19937 rng(2);
  for (int round = 0; round < 300; ++round) {
    const std::string text = round % 2 == 0 ? random_bytes(rng, rng() % 40) : random_unicode(rng, rng() % 40);
    std::vector<int32_t> ids = ids_of(*tokenizer, text);
    if (round % 3 == 0) ids.push_back(static_cast<int32_t>(rng() % static_cast<uint32_t>(tokenizer->size())));
    StreamDecoder clean(*tokenizer);
    StreamDecoder raw(*tokenizer, {.special = true, .raw_invalid = true});
    std::string joined;
    std::string raw_joined;
    for (const int32_t id : ids) {
      const std::string part = clean.feed(id);
      ASSERT_TRUE(is_valid_utf8(part));
      joined += part;
      raw_joined += raw.feed(id);
    }
    joined += clean.flush();
    ASSERT_TRUE(is_valid_utf8(joined));
    ASSERT_EQ(raw_joined + raw.flush(), *tokenizer->decode(ids, true));
    if (round % 2 == 1 && round % 3 != 0) {
      ASSERT_EQ(joined, text);
    }
    ASSERT_EQ(stream(*tokenizer, *tokenizer->decode(ids, false)), joined);  // token borders do not matter
  }
}

TEST(StreamDecoder, ControlTokensShowOnlyWhenAskedFor) {
  const auto tokenizer = byte_vocab("gpt-2").build();
  const int32_t end = *tokenizer->find("<|im_end|>");
  StreamDecoder plain(*tokenizer);
  EXPECT_EQ(plain.feed(end), "");
  StreamDecoder special(*tokenizer, {.special = true});
  EXPECT_EQ(special.feed(end), "<|im_end|>");
}

TEST(StreamDecoder, TakesOffTheSpaceThatSentencePieceAdds) {
  const auto tokenizer = spm_vocab({"\u2581a", "\u2581", "a", "b"}).build();
  const int32_t space_a = *tokenizer->find("\u2581a");
  StreamDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.feed(*tokenizer->find("<s>")), "");
  EXPECT_EQ(decoder.feed(space_a), "a");
  EXPECT_EQ(decoder.feed(space_a), " a");
  StreamDecoder keeps(*tokenizer, {.strip_leading_space = false});
  EXPECT_EQ(keeps.feed(space_a), " a");
  StreamDecoder later(*tokenizer);
  EXPECT_EQ(later.feed(*tokenizer->find("b")), "b");
  EXPECT_EQ(later.feed(space_a), " a");  // only the first piece
}

}  // namespace
}  // namespace quern::token
