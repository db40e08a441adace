#include "apps/quern/config_file.h"

#include <algorithm>
#include <charconv>

#include "base/file_io.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace quern::apps {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

std::string number(double x) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, x);
  return {text, end.ptr};
}

// A value as it would stand on the command line; of one of the types below.
std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return std::to_string(whole->get());
  if (const auto* real = node.as_floating_point()) return number(real->get());
  const auto* on = node.as_boolean();
  return on != nullptr && on->get() ? "1" : "0";
}

struct TypeRule {
  OptionType option;
  const char* takes;
  bool (*fits)(const toml::node&);
};

constexpr TypeRule kTypes[] = {
    {OptionType::flag, "true or false", [](const toml::node& n) { return n.is_boolean(); }},
    {OptionType::integer, "a whole number", [](const toml::node& n) { return n.is_integer(); }},
    {OptionType::integers, "a string of numbers with commas", [](const toml::node& n) { return n.is_string(); }},
    {OptionType::real, "a number", [](const toml::node& n) { return n.is_number(); }},
    {OptionType::text, "a string", [](const toml::node& n) { return n.is_string(); }},
    {OptionType::choice, "a string", [](const toml::node& n) { return n.is_string(); }},
};

const TypeRule& rule_of(OptionType type) {
  return *std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRule& rule) { return rule.option == type; });
}

// One table of the file, for the options of one command.
class Reader {
 public:
  Reader(const std::string& name, const char* command) : name_(name), command_(command) {
    for (const OptionRow& row : option_rows()) {
      if (option_belongs(row, command)) rows_.push_back(&row);
    }
  }

  // `apart`: a key that is left out.
  Result<std::vector<OptionText>> read(const toml::table& table, std::string_view apart) const {
    std::vector<std::pair<const toml::key*, const toml::node*>> entries;
    for (const auto& [key, node] : table) {
      if (key.str() != apart) entries.emplace_back(&key, &node);
    }
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return line(*a.first) < line(*b.first); });
    std::vector<OptionText> options;
    for (const auto& [key, node] : entries) QUERN_TRY_VOID(take(*key, *node, &options));
    return options;
  }

  std::string at(const toml::source_region& source) const { return name_ + ":" + std::to_string(source.begin.line); }

 private:
  static uint32_t line(const toml::key& key) { return key.source().begin.line; }

  Result<void> take(const toml::key& key, const toml::node& node, std::vector<OptionText>* out) const {
    std::string name(key.str().substr(0, 100));
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c >= 0 && c < ' '; }, '?');
    const std::string where = at(key.source());
    const auto refuse = [&](const std::string& why) { return Error{Status::invalid_argument, where + ": " + why}; };
    const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const OptionRow* r) { return name == r->name; });
    if (row == rows_.end()) return refuse(unknown(name));
    if (name == "config" || name == "check-config") return refuse(name + " is for the command line only");
    const TypeRule& rule = rule_of((*row)->type);
    std::vector<const toml::node*> values;
    if (node.is_array() && (*row)->repeats) {
      for (const toml::node& item : *node.as_array()) values.push_back(&item);
    } else {
      values.push_back(&node);
    }
    if (values.empty()) return refuse(name + " is an empty list; leave it out");
    for (const toml::node* value : values) {
      if (!rule.fits(*value))
        return refuse(name + " takes " + rule.takes + ((*row)->repeats ? ", or a list of such" : ""));
      out->push_back({name, text_of(*value), where});
    }
    return {};
  }

  std::string unknown(const std::string& name) const {
    std::vector<std::string> names;
    for (const OptionRow* row : rows_) names.emplace_back(row->name);
    const auto near = nearest_word(name, names);
    const bool table = std::string_view(command_) == kModelTable;
    return std::string("unknown key ") + name + (table ? " in [[model]]" : "") +
           (near ? "; did you mean " + *near + "?" : "") + " (docs/CONFIG.md)";
  }

  const std::string& name_;
  const char* command_;
  std::vector<const OptionRow*> rows_;
};

}  // namespace

Result<ConfigFile> parse_config(const std::string& text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(std::string_view(text), name);
  const Reader top(name, "serve"), model(name, kModelTable);
  if (!parsed) {
    return Error{Status::invalid_file,
                 top.at(parsed.error().source()) + ": no TOML: " + std::string(parsed.error().description())};
  }
  const toml::table& table = parsed.table();
  const toml::node* models = table.get("model");
  const bool tables = models != nullptr && models->is_array_of_tables();
  if (models != nullptr && models->is_table())
    return Error{Status::invalid_argument, top.at(models->source()) + ": write [[model]], one such table a model"};
  ConfigFile file;
  file.path = name;
  QUERN_TRY(file.options, top.read(table, tables ? "model" : ""));
  if (!tables) return file;
  for (const toml::node& one : *models->as_array()) {
    ConfigFile::Model entry{top.at(one.source()), {}};
    QUERN_TRY(entry.options, model.read(*one.as_table(), ""));
    file.models.push_back(std::move(entry));
  }
  return file;
}

Result<ConfigFile> read_config(const std::string& path) {
  QUERN_TRY(const std::string text, read_file(path, kMaxBytes));
  return parse_config(text, path);
}

}  // namespace quern::apps
