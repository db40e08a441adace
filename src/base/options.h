// The option table: each option of each command is one row, and command line, environment, help text and
// docs/OPTIONS.md all come from the rows. The rows themselves belong to the program (apps/quern/option_rows.cpp).
// Precedence: default < file < environment < command line. options.cpp holds the only getenv of the code base.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quern {

enum class OptionType : uint8_t {
  flag,      // present or not; in the environment: 1, true, yes, on against 0, false, no, off or empty
  integer,   // a whole number within [min, max]
  integers,  // several, with commas
  real,      // a finite number within [min, max]
  text,      // anything
  choice,    // one word of `choices`
};

struct OptionRow {
  const char* commands;  // names of the commands that take it, separated by spaces
  const char* name;      // "threads" for --threads
  const char* letter;    // "t" for -t; "" for none
  OptionType type;
  const char* placeholder;  // what help writes for the value: "N"; "" for a flag
  const char* fallback;     // the default, as text; "" where there is none
  double min, max;          // the range of integer, integers and real
  const char* choices;      // "md|json"; "" for the other types
  const char* env;          // "QUERN_THREADS"; "" for none
  bool repeats;             // may be given more than once; every value counts
  const char* help;
};

// A variable that is read without being an option, listed so that the documentation is complete.
struct EnvRow {
  const char* name;
  const char* help;
};

// A value that comes from a file.
struct OptionText {
  std::string name, text;
  std::string where;  // "quern.toml:12"; an error begins with it
};

// What a test replaces to give the parser another environment.
using EnvFn = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> environment(const char* name);

// The values of one command line. Asking for an option that the command does not have, or for the wrong type, is a bug.
class Options {
 public:
  // args: what follows the command's name. Errors (invalid_argument) name the option and what it allows.
  static Result<Options> parse(std::span<const OptionRow> rows, std::string_view command,
                               std::span<const std::string> args, const EnvFn& env = environment);

  // Takes values of a file for what has none of the command line or the environment; each is checked all the same. An
  // option that repeats takes all its texts. Errors (invalid_argument) begin with `where` and name the option: one that
  // this command does not have, a text that it does not allow, several where it takes one.
  Result<void> fill(std::span<const OptionText> texts);

  bool given(std::string_view name) const;  // by command line, environment or file
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;  // also for choice; the last one where it repeats
  const std::vector<std::string>& texts(std::string_view name) const;
  const std::vector<std::string>& positionals() const { return positionals_; }
  // Changes one value after parsing (the chat's /set). Errors as parse().
  Result<void> set(std::string_view name, const std::string& value);

 private:
  struct Value {
    const OptionRow* row = nullptr;
    bool given = false;
    std::vector<std::string> texts;
    std::vector<int64_t> integers;
    double real = 0;
  };
  static Result<void> assign(Value& value, const std::string& text, const std::string& where);
  Result<void> take(std::string_view command, std::span<const std::string> args);
  Value* find(std::string_view name);
  const Value& value(std::string_view name, OptionType type) const;

  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> positionals_;
};

// "0 to 4096", "md, json"; empty for flag and text.
std::string option_range(const OptionRow& row);
// " (default 8; 1 to 64; QUERN_X)", or nothing.
std::string option_notes(const OptionRow& row);
bool option_belongs(const OptionRow& row, std::string_view command);
// "  -t, --threads N    help (default 0; 0 to 4096; QUERN_THREADS)" for each row of the command.
std::string options_help(std::span<const OptionRow> rows, std::string_view command);
// The table of docs/OPTIONS.md for one command, and for the environment.
std::string options_markdown(std::span<const OptionRow> rows, std::string_view command);
std::string environment_markdown(std::span<const OptionRow> rows, std::span<const EnvRow> others);
// The candidate nearest to a mistyped word, where one is near enough to be meant.
std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates);

}  // namespace quern
