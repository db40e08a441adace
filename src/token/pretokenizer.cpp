// The names of pre-tokenizers, and the rules that are made of several passes. The scanners: pretokenizer_rules.h.
#include "token/pretokenizer.h"

#include <array>

#include "base/check.h"
#include "token/pretokenizer_rules.h"

namespace quern::token {
namespace {

// {name, rule, ignore_merges, add_bos, nfc}, names as in GGUF files; one rule's names are the families that use it.
constexpr auto kPreTokenizers = std::to_array<PreTokenizer>({
    {"default", PreRule::basic},
    {"gpt-2", PreRule::gpt2},
    {"phi-2", PreRule::gpt2},
    {"mpt", PreRule::gpt2},
    {"olmo", PreRule::gpt2},
    {"jais", PreRule::gpt2},
    {"trillion", PreRule::gpt2},
    {"granite-docling", PreRule::gpt2},
    {"exaone4", PreRule::gpt2},
    {"gigachat", PreRule::gpt2},
    {"a.x-4.0", PreRule::gpt2},
    {"mellum", PreRule::gpt2},
    {"llama-bpe", PreRule::llama3, true, true},
    {"llama3", PreRule::llama3, true, true},
    {"llama-v3", PreRule::llama3, true, true},
    {"falcon3", PreRule::llama3, true, true},
    {"falcon-h1", PreRule::llama3, true, true},
    {"pixtral", PreRule::llama3, true, true},
    {"midm-2.0", PreRule::llama3, true, true},
    {"lfm2", PreRule::llama3, true, true},
    {"dbrx", PreRule::llama3},
    {"smaug-bpe", PreRule::llama3},
    {"chatglm-bpe", PreRule::llama3},
    {"glm4", PreRule::llama3, true},
    {"glm5", PreRule::llama3, true},
    {"qwen2", PreRule::qwen2, false, false, true},
    {"deepseek-r1-qwen", PreRule::qwen2},
    {"megrez", PreRule::qwen2},
    {"kormo", PreRule::qwen2},
    {"stablelm2", PreRule::qwen2},
    {"hunyuan", PreRule::qwen2},
    {"solar-open", PreRule::qwen2},
    {"grok-2", PreRule::qwen2},
    {"qwen35", PreRule::qwen35, false, false, true},
    {"smollm", PreRule::smollm},
    {"starcoder", PreRule::smollm},
    {"refact", PreRule::smollm},
    {"command-r", PreRule::smollm},
    {"codeshell", PreRule::smollm},
    {"exaone", PreRule::smollm},
    {"minerva-7b", PreRule::smollm},
    {"mellum2", PreRule::smollm},
    {"tekken", PreRule::tekken, true, true},
    {"gpt-4o", PreRule::o200k},
    {"llama4", PreRule::o200k},
    {"kanana2", PreRule::o200k},
    {"talkie", PreRule::o200k},
    {"minimax-m2", PreRule::o200k},
});

// Collects words as end offsets, in order.
class Words {
 public:
  Words(const std::vector<Char>& chars, std::string_view text, std::vector<uint32_t>& ends)
      : chars_(chars), text_bytes_(static_cast<uint32_t>(text.size())), ends_(ends) {}
  void end_at(size_t index) { ends_.push_back(index < chars_.size() ? chars_[index].offset : text_bytes_); }

 private:
  const std::vector<Char>& chars_;
  uint32_t text_bytes_;
  std::vector<uint32_t>& ends_;
};

template <class Step>
void scan(size_t begin, size_t end, Words& words, Step step) {
  for (size_t at = begin; at < end;) {
    const size_t next = step(at);
    QUERN_CHECK(next > at && next <= end);
    words.end_at(at = next);
  }
}

bool is_digit(const Char& c) {
  return c.char_class == CharClass::number || c.char_class == CharClass::late_digit;
}

uint64_t split_smollm(const std::vector<Char>& chars, Words& words) {
  uint64_t reads = 0;
  for (size_t at = 0; at < chars.size();) {
    size_t end = at;
    while (end < chars.size() && !is_digit(chars[end])) ++end;
    ++reads;
    if (end == at) {
      words.end_at(++at);
      continue;
    }
    Scanner scanner(chars, end);
    scan(at, end, words, [&](size_t i) { return scanner.gpt2(i); });
    reads += scanner.reads() + (end - at);
    at = end;
  }
  return reads;
}

bool is_basic_mark(const Char& c) {
  constexpr std::string_view kSymbols = "$+<=>^~|";
  if (c.char_class == CharClass::punct) return true;
  return c.code_point < 0x80 && kSymbols.find(static_cast<char>(c.code_point)) != std::string_view::npos;
}

// A GPT-2 word of the basic rule, cut again: numbers apart, and in them three ASCII digits at a time.
void cut_basic_word(const std::vector<Char>& chars, size_t begin, size_t end, Words& words) {
  const auto is_number = [&](size_t i) { return chars[i].char_class == CharClass::number; };
  const auto is_ascii_digit = [&](size_t i) { return chars[i].code_point >= '0' && chars[i].code_point <= '9'; };
  for (size_t i = begin; i < end;) {
    size_t stop = i;
    if (!is_number(i)) {
      while (stop < end && !is_number(stop)) ++stop;
      words.end_at(i = stop);
      continue;
    }
    while (stop < end && is_number(stop)) ++stop;
    size_t done = i;
    for (size_t k = i; k + 3 <= stop;) {
      if (!is_ascii_digit(k) || !is_ascii_digit(k + 1) || !is_ascii_digit(k + 2)) {
        ++k;
        continue;
      }
      if (k > done) words.end_at(k);
      words.end_at(done = k += 3);
    }
    if (done < stop) words.end_at(stop);
    i = stop;
  }
}

uint64_t split_basic(const std::vector<Char>& chars, Words& words) {
  uint64_t reads = 0;
  for (size_t at = 0; at < chars.size();) {
    const bool marks = is_basic_mark(chars[at]);
    size_t end = at;
    while (end < chars.size() && is_basic_mark(chars[end]) == marks) ++end;
    Scanner scanner(chars, end);
    for (size_t i = at; i < end;) {
      const size_t next = scanner.gpt2(i);
      QUERN_CHECK(next > i && next <= end);
      cut_basic_word(chars, i, next, words);
      i = next;
    }
    reads += scanner.reads() + 2 * (end - at);
    at = end;
  }
  return reads;
}

}  // namespace

const PreTokenizer* find_pretokenizer(std::string_view name) {
  for (const PreTokenizer& entry : kPreTokenizers) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string known_pretokenizers() {
  std::string names;
  for (const PreTokenizer& entry : kPreTokenizers) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

uint64_t split_words(PreRule rule, std::string_view text, std::vector<uint32_t>& ends) {
  const std::vector<Char> chars = read_chars(text);
  Words words(chars, text, ends);
  Scanner scanner(chars, chars.size());
  const auto whole = [&](auto step) {
    scan(0, chars.size(), words, step);
    return scanner.reads() + chars.size();
  };
  switch (rule) {
    case PreRule::basic:
      return split_basic(chars, words);
    case PreRule::smollm:
      return split_smollm(chars, words);
    case PreRule::gpt2:
      return whole([&](size_t i) { return scanner.gpt2(i); });
    case PreRule::llama3:
      return whole([&](size_t i) { return scanner.llama3(i, 3); });
    case PreRule::qwen2:
      return whole([&](size_t i) { return scanner.llama3(i, 1); });
    case PreRule::qwen35:
      return whole([&](size_t i) { return scanner.qwen35(i); });
    case PreRule::o200k:
      return whole([&](size_t i) { return scanner.cased(i, 3, true); });
    case PreRule::tekken:
      return whole([&](size_t i) { return scanner.cased(i, 1, false); });
  }
  return 0;
}

}  // namespace quern::token
