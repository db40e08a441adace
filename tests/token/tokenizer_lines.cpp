// tokenize_lines MODEL.gguf [--special]: reads strings on standard input, each as its length in bytes (u32, little
// endian) and its bytes, and writes for each a line with its ids as a JSON list. For tools/tokenizer_compare.py.
#include <cstdio>
#include <cstring>
#include <string>

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

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: tokenize_lines MODEL.gguf [--special] < strings\n");
    return 2;
  }
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
    std::string line = "[";
    for (const int32_t id : *ids) line += (line.size() > 1 ? "," : "") + std::to_string(id);
    std::puts((line += "]").c_str());
  }
  return 0;
}
