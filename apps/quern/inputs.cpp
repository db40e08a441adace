#include "apps/quern/inputs.h"

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/models/fetch.h"
#include "base/file_io.h"
#include "file/npy.h"
#include "token/vocab.h"

namespace quern::apps {

Result<std::string> find_model(const Context& context, const std::string& file_or_name) {
  return resolve_model(file_or_name, context.options.text("cache"),
                       [&](const std::string& line) { context.notice(line); });
}

Result<std::unique_ptr<token::Tokenizer>> load_tokenizer(const file::GgufFile& file) {
  QUERN_TRY(const token::VocabData data, token::vocab_from_gguf(file));
  return token::Tokenizer::create(data);
}

namespace {

Error bad_ids(const std::string& where) {
  return {Status::invalid_argument, where + ": not a list of token ids (whole numbers that fit 32 bits)"};
}

Result<std::vector<int32_t>> ids_of_json(const std::string& text, const std::string& where) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) return bad_ids(where);
  std::vector<int32_t> ids;
  for (const auto& item : json) {
    if (!item.is_number_integer()) return bad_ids(where);
    const auto id = item.get<int64_t>();
    if (id < INT32_MIN || id > INT32_MAX) return bad_ids(where);
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

Result<std::vector<int32_t>> parse_ids(const std::string& text) {
  const std::string where = "'" + (text.size() > 60 ? text.substr(0, 60) + "..." : text) + "'";
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[') return ids_of_json(text, where);
  std::vector<int32_t> ids;
  const char *at = text.data(), *end = at + text.size();
  bool separated = true;  // whether a number may begin here
  while (at < end) {
    if (*at == ' ' || *at == ',' || *at == '\n' || *at == '\t' || *at == '\r') {
      separated = true;
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || !separated) return bad_ids(where);
    ids.push_back(id);
    at = next;
    separated = false;
  }
  return ids;
}

Result<std::vector<int32_t>> read_ids(const std::string& text_or_file) {
  if (text_or_file.empty() || text_or_file[0] != '@') return parse_ids(text_or_file);
  const std::string path = text_or_file.substr(1);
  if (ends_with(path, ".npy")) {
    QUERN_TRY(const file::NpyFile npy, file::NpyFile::open(path));
    QUERN_TRY(const auto ids, npy.ints());
    return std::vector<int32_t>(ids.begin(), ids.end());
  }
  QUERN_TRY(const std::string text, read_file(path));
  return ids_of_json(text, path);
}

Result<std::string> read_standard_input() {
  std::string text;
  char buffer[1 << 16];
  size_t n = 0;
  while ((n = std::fread(buffer, 1, sizeof buffer, stdin)) > 0) text.append(buffer, n);
  if (std::ferror(stdin) != 0) return Error{Status::io_error, "cannot read standard input"};
  return text;
}

Result<std::string> text_argument(const std::vector<std::string>& positionals) {
  if (positionals.size() == 1 && positionals[0] == "-") return read_standard_input();
  std::string text;
  for (const std::string& part : positionals) text += (text.empty() ? "" : " ") + part;
  return text;
}

}  // namespace quern::apps
