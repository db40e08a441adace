#include "apps/quern/support.h"

#include <map>

#include "apps/quern/inputs.h"
#include "engine/prompt.h"

namespace quern::apps {
namespace {

std::string text_of(const file::GgufFile& file, const char* key) {
  const file::Value* value = file.find(key);
  return value == nullptr ? "" : std::string(value->as<std::string_view>().value_or(""));
}

SupportRow formats(const file::GgufFile& file) {
  std::map<std::string, int> read, unread;
  for (const file::Tensor& tensor : file.tensors()) ++(tensor.format ? read : unread)[tensor.type_name()];
  SupportRow row{"formats", "", unread.empty(), ""};
  for (const auto& [name, n] : read) row.name += (row.name.empty() ? "" : " ") + name;
  for (const auto& [name, n] : unread) {
    row.name += (row.name.empty() ? "" : " ") + name;
    row.why_not += (row.why_not.empty() ? "" : "; ") + std::to_string(n) + " tensors of " + name;
  }
  return row;
}

template <class T>
SupportRow tried(const char* part, std::string name, const Result<T>& result) {
  return {part, std::move(name), result.ok(), result.ok() ? "" : result.error().message};
}

}  // namespace

std::vector<SupportRow> check_support(const file::GgufFile& file, const Result<std::unique_ptr<model::Model>>& model) {
  std::vector<SupportRow> rows = {formats(file)};
  rows.push_back(tried("architecture", text_of(file, "general.architecture"), model));
  const auto tokenizer = load_tokenizer(file);
  const std::string pre = text_of(file, "tokenizer.ggml.pre");
  rows.push_back(tried("tokenizer", text_of(file, "tokenizer.ggml.model") + (pre.empty() ? "" : " " + pre), tokenizer));
  if (file.find("tokenizer.chat_template") == nullptr) {
    rows.push_back({"chat template", "", false, "the file has none"});
  } else if (tokenizer.ok()) {
    rows.push_back(tried("chat template", "Jinja", engine::chat_template_of(file, **tokenizer)));
  }
  return rows;
}

}  // namespace quern::apps
