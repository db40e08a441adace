// Whether Quern runs a file, part by part, by trying each part.
#pragma once

#include <string>
#include <vector>

#include "file/gguf.h"
#include "model/model.h"

namespace quern::apps {

struct SupportRow {
  std::string part;  // "formats", "architecture", "tokenizer", "chat template"
  std::string name;  // what the file has: "llama"
  bool ok = false;
  std::string why_not;  // empty where ok
};

// model: what load_model made of the file.
std::vector<SupportRow> check_support(const file::GgufFile& file, const Result<std::unique_ptr<model::Model>>& model);

}  // namespace quern::apps
