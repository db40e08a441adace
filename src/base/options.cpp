// Parsing and checking of option values. Layout of help and documentation is in options_text.cpp.
#include "base/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace quern {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (;;) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

Error bad_value(const std::string& where, const std::string& text, const char* kind, const OptionRow& row) {
  return {Status::invalid_argument, where + ": '" + text + "' is not allowed; give " + kind + option_range(row)};
}

bool parse_whole(const std::string& text, double min, double max, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && static_cast<double>(out) >= min &&
         static_cast<double>(out) <= max;
}

bool parse_real(const std::string& text, double min, double max, double& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(out) && out >= min && out <= max;
}

// 1 on, 0 off, -1 neither.
int parse_switch(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (text == "1" || text == "true" || text == "yes" || text == "on") return 1;
  if (text.empty() || text == "0" || text == "false" || text == "no" || text == "off") return 0;
  return -1;
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read at start-up, never written
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

bool option_belongs(const OptionRow& row, std::string_view command) {
  const auto names = split(row.commands, ' ');
  return std::find(names.begin(), names.end(), command) != names.end();
}

Result<void> Options::assign(Value& value, const std::string& text, const std::string& where) {
  const OptionRow& row = *value.row;
  switch (row.type) {
    case OptionType::flag: {
      const int on = parse_switch(text);
      if (on < 0) return bad_value(where, text, "1 or 0", row);
      value.real = on;
      break;
    }
    case OptionType::integer:
    case OptionType::integers: {
      const bool one = row.type == OptionType::integer;
      std::vector<int64_t> numbers;
      for (const std::string& part : one ? std::vector<std::string>{text} : split(text, ',')) {
        int64_t n = 0;
        if (!parse_whole(part, row.min, row.max, n)) {
          return bad_value(where, text, one ? "a whole number from " : "whole numbers with commas, each from ", row);
        }
        numbers.push_back(n);
      }
      value.integers = std::move(numbers);
      break;
    }
    case OptionType::real:
      if (!parse_real(text, row.min, row.max, value.real)) return bad_value(where, text, "a number from ", row);
      break;
    case OptionType::choice: {
      const auto choices = split(row.choices, '|');
      if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
        return bad_value(where, text, "one of ", row);
      }
      [[fallthrough]];
    }
    case OptionType::text:
      if (!row.repeats || !value.given) value.texts.clear();
      value.texts.push_back(text);
      break;
  }
  return {};
}

Options::Value* Options::find(std::string_view name) {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

Result<void> Options::set(std::string_view name, const std::string& text) {
  Value* value = find(name);
  if (value == nullptr) return Error{Status::invalid_argument, "unknown option '" + std::string(name) + "'"};
  QUERN_TRY_VOID(assign(*value, text, std::string(name)));
  value->given = true;
  return {};
}

Result<void> Options::fill(std::span<const OptionText> texts) {
  std::map<std::string, Value, std::less<>> filled;
  for (const OptionText& one : texts) {
    const std::string where = one.where + ": " + one.name;
    const Value* value = find(one.name);
    if (value == nullptr) return Error{Status::invalid_argument, where + ": there is no such option"};
    const auto [it, first] = filled.try_emplace(one.name, *value);
    if (!first && !value->row->repeats) return Error{Status::invalid_argument, where + ": takes one value"};
    if (first) it->second.given = false;
    QUERN_TRY_VOID(assign(it->second, one.text, where));
    it->second.given = true;
  }
  for (auto& [name, value] : filled) {
    Value& mine = values_.find(name)->second;
    if (!mine.given) mine = std::move(value);
  }
  return {};
}

// Walks the arguments. An option's value is whatever follows it, also when that begins with a dash; "--" ends options
// and "-" alone is a positional (standard input).
Result<void> Options::take(std::string_view command, std::span<const std::string> args) {
  std::map<std::string, std::string> seen;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      positionals_.insert(positionals_.end(), args.begin() + static_cast<ptrdiff_t>(i) + 1, args.end());
      return {};
    }
    if (arg.size() < 2 || arg[0] != '-') {
      positionals_.push_back(arg);
      continue;
    }
    const bool is_long = arg[1] == '-';
    const size_t equals = is_long ? arg.find('=') : std::string::npos;
    const std::string key = arg.substr(0, equals);
    Value* value = nullptr;
    std::vector<std::string> candidates;
    for (auto& [name, candidate] : values_) {
      candidates.push_back("--" + name);
      if (is_long ? key == candidates.back() : key.substr(1) == candidate.row->letter) value = &candidate;
    }
    if (value == nullptr) {
      const auto near = nearest_word(key, candidates);
      return Error{Status::invalid_argument, "unknown option " + key + (near ? "; did you mean " + *near + "?" : "") +
                                                 " (quern help " + std::string(command) + " lists them)"};
    }
    const bool again = !seen.emplace(value->row->name, key).second;
    if (again && !value->row->repeats) return Error{Status::invalid_argument, key + " is given twice"};
    std::string text = "1";
    if (value->row->type == OptionType::flag) {
      if (equals != std::string::npos) return Error{Status::invalid_argument, key + " takes no value"};
    } else if (equals != std::string::npos) {
      text = arg.substr(equals + 1);
    } else if (++i < args.size()) {
      text = args[i];
    } else {
      return Error{Status::invalid_argument,
                   key + " needs a value (" + value->row->placeholder + ": " + value->row->help + ")"};
    }
    if (!again) value->given = false;  // the first one replaces what the environment gave
    QUERN_TRY_VOID(assign(*value, text, key));
    value->given = true;
  }
  return {};
}

Result<Options> Options::parse(std::span<const OptionRow> rows, std::string_view command,
                               std::span<const std::string> args, const EnvFn& env) {
  Options options;
  for (const OptionRow& row : rows) {
    if (!option_belongs(row, command)) continue;
    Value& value = options.values_[row.name];
    value.row = &row;
    if (row.fallback[0] != '\0') {
      const auto fits = assign(value, row.fallback, row.name);
      QUERN_CHECK(fits.ok());
    }
    if (row.env[0] == '\0') continue;
    const auto text = env(row.env);
    if (!text || text->empty()) continue;
    QUERN_TRY_VOID(assign(value, *text, std::string("environment variable ") + row.env));
    value.given = true;
  }
  QUERN_TRY_VOID(options.take(command, args));
  return options;
}

const Options::Value& Options::value(std::string_view name, OptionType type) const {
  const auto it = values_.find(name);
  QUERN_CHECK(it != values_.end());
  QUERN_CHECK(it->second.row->type == type || (type == OptionType::text && it->second.row->type == OptionType::choice));
  return it->second;
}

bool Options::given(std::string_view name) const {
  const auto it = values_.find(name);
  QUERN_CHECK(it != values_.end());
  return it->second.given;
}

bool Options::flag(std::string_view name) const {
  return value(name, OptionType::flag).real != 0;
}

int64_t Options::integer(std::string_view name) const {
  const Value& v = value(name, OptionType::integer);
  return v.integers.empty() ? 0 : v.integers[0];
}

const std::vector<int64_t>& Options::integers(std::string_view name) const {
  return value(name, OptionType::integers).integers;
}
double Options::real(std::string_view name) const {
  return value(name, OptionType::real).real;
}
const std::vector<std::string>& Options::texts(std::string_view name) const {
  return value(name, OptionType::text).texts;
}

const std::string& Options::text(std::string_view name) const {
  static const std::string kEmpty;
  const auto& all = texts(name);
  return all.empty() ? kEmpty : all.back();
}

}  // namespace quern
