// VocabData out of GGUF metadata: which key means what. Checks beyond types are Vocab's.
#include <limits>

#include "file/gguf.h"
#include "token/vocab.h"

namespace quern::token {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string key(std::string_view name) {
  return std::string(kPrefix) += name;
}

constexpr int64_t kNoId = 0xFFFFFFFF;  // -1 as some writers store it: there is no such token

Result<void> read_ids(const file::GgufFile& file, VocabData& data) {
  struct Row {
    std::string_view name;
    int32_t VocabData::*to;
  };
  constexpr Row kRows[] = {
      {"bos_token_id", &VocabData::bos},     {"eos_token_id", &VocabData::eos},
      {"eot_token_id", &VocabData::eot},     {"eom_token_id", &VocabData::eom},
      {"unknown_token_id", &VocabData::unk}, {"seperator_token_id", &VocabData::sep},  // as spelt in GGUF
      {"padding_token_id", &VocabData::pad}};
  for (const Row& row : kRows) {
    QUERN_TRY(const std::optional<int64_t> id, file.get<int64_t>(key(row.name)));
    if (!id || *id == -1 || *id == kNoId) continue;
    if (*id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      return Error{Status::invalid_file, file.path() + ": " + key(row.name) + " is " + std::to_string(*id)};
    }
    data.*row.to = static_cast<int32_t>(*id);
  }
  QUERN_TRY(std::optional<std::vector<int32_t>> ends, file.get_array<int32_t>(key("eog_token_ids")));
  if (ends) data.eog = std::move(*ends);
  return {};
}

}  // namespace

Result<VocabData> vocab_from_gguf(const file::GgufFile& file) {
  VocabData data;
  QUERN_TRY(const std::string_view model, file.require<std::string_view>(key("model")));
  data.model = model;
  QUERN_TRY(const std::string_view pre, file.get_or<std::string_view>(key("pre"), ""));
  data.pre = pre;
  QUERN_TRY(const std::string_view name, file.get_or<std::string_view>("general.name", ""));
  data.name = name;
  QUERN_TRY(data.tokens, file.require_array<std::string_view>(key("tokens")));
  QUERN_TRY(std::optional<std::vector<float>> scores, file.get_array<float>(key("scores")));
  if (scores) data.scores = std::move(*scores);
  QUERN_TRY(std::optional<std::vector<int32_t>> types, file.get_array<int32_t>(key("token_type")));
  if (types) data.types = std::move(*types);
  if (data.model == "gpt2") {
    QUERN_TRY(data.merges, file.require_array<std::string_view>(key("merges")));
  }
  QUERN_TRY_VOID(read_ids(file, data));
  QUERN_TRY(data.add_bos, file.get<bool>(key("add_bos_token")));
  QUERN_TRY(data.add_eos, file.get<bool>(key("add_eos_token")));
  QUERN_TRY(data.add_space_prefix, file.get<bool>(key("add_space_prefix")));
  return data;
}

}  // namespace quern::token
