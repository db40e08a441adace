// What commands read: model files by path or name, tokenizers, token lists, text arguments, standard input.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/quern/command.h"
#include "file/gguf.h"
#include "token/tokenizer.h"

namespace quern::apps {

// The path that -m or the positional names (a catalogue model is got first).
Result<std::string> find_model(const Context& context, const std::string& file_or_name);

// The file's tokenizer without the rest of the model. The tokenizer copies what it needs of the file.
Result<std::unique_ptr<token::Tokenizer>> load_tokenizer(const file::GgufFile& file);

// "1,2,3", "[1, 2, 3]", "1 2 3".
Result<std::vector<int32_t>> parse_ids(const std::string& text);
// The same, or @FILE.json (a list) or @FILE.npy (int32).
Result<std::vector<int32_t>> read_ids(const std::string& text_or_file);

// All of standard input.
Result<std::string> read_standard_input();
// Positional arguments joined with spaces; "-" alone is standard input.
Result<std::string> text_argument(const std::vector<std::string>& positionals);

}  // namespace quern::apps
