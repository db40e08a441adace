// tokenize_lines MODEL.gguf [--special], tokenize_lines --words NAME: reads strings on standard input, each as its
// length in bytes (u32, little endian) and its bytes, and writes for each a line with a JSON list: its ids, or the ends
// in bytes of the words that the pre-tokenizer of this name cuts. For tools/tokenizer_compare.py.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "file/gguf.h"
#include "token/tokenizer.h"

namespace {

int fail(const quern::Error& error) {
  std::fprintf(stderr, "tokenize_lines: %s\n", error.message.c_str());
  return 1;
}

bool read_string(std::string& text) {
  uint32_t bytes = 0;
  if (std::fread(&bytes, sizeof bytes, 1, stdin) != 1) return false;
  text.resize(bytes);
  return std::fread(text.data(), 1, bytes, stdin) == bytes;
}

void print_list(const auto& numbers) {
  std::string line = "[";
  for (const auto number : numbers) line += (line.size() > 1 ? "," : "") + std::to_string(number);
  std::puts((line += "]").c_str());
}

int print_words(const char* name) {
  const quern::token::PreTokenizer* pre = quern::token::find_pretokenizer(name);
  if (pre == nullptr) return fail({quern::Status::not_found, std::string("no pre-tokenizer ") + name});
  std::string text;
  while (read_string(text)) {
    std::vector<uint32_t> ends;
    quern::token::split_words(pre->rule, text, ends);
    print_list(ends);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(
        stderr,
        "usage: tokenize_lines MODEL.gguf [--special] < strings\n       tokenize_lines --words NAME < strings\n");
    return 2;
  }
  if (argc == 3 && std::strcmp(argv[1], "--words") == 0) return print_words(argv[2]);
  auto file = quern::file::GgufFile::open(argv[1]);
  if (!file.ok()) return fail(file.error());
  auto data = quern::token::vocab_from_gguf(*file);
  if (!data.ok()) return fail(data.error());
  auto tokenizer = quern::token::Tokenizer::create(*data);
  if (!tokenizer.ok()) return fail(tokenizer.error());
  const bool special = argc > 2 && std::strcmp(argv[2], "--special") == 0;
  std::string text;
  while (read_string(text)) {
    auto ids = (*tokenizer)->encode(text, {.parse_special = special});
    if (!ids.ok()) return fail(ids.error());
    print_list(*ids);
  }
  return 0;
}
