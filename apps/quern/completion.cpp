#include "apps/quern/completion.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "apps/models/catalog.h"
#include "apps/quern/command.h"

namespace quern::apps {
namespace {

// What may stand behind an option, or as an argument.
enum class Value : uint8_t { nothing, words, files, folders, models, anything };

Value value_of(const OptionRow& row) {
  const std::string_view shown(row.placeholder);
  const auto has = [&](std::string_view word) { return shown.find(word) != std::string_view::npos; };
  if (row.type == OptionType::flag) return Value::nothing;
  if (row.type == OptionType::choice) return Value::words;
  if (has("FILE") && has("NAME")) return Value::models;
  if (has("FILE") || has("PATH") || has("COMMAND")) return Value::files;
  return has("FOLDER") ? Value::folders : Value::anything;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string choices_of(const OptionRow& row) {
  std::string words(row.choices);
  std::replace(words.begin(), words.end(), '|', ' ');
  return words;
}

std::string model_names() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog()) names.emplace_back(entry.name);
  return joined(names);
}

std::string command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  return joined(names);
}

std::vector<const OptionRow*> rows_of(const Command& command) {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_rows()) {
    if (option_belongs(row, command.name)) rows.push_back(&row);
  }
  return rows;
}

// Words that a command's first argument may be: those of its usage in lower case, and for help the commands.
std::string argument_words(const Command& command) {
  if (std::string_view(command.name) == "help") return command_names();
  std::vector<std::string> words;
  std::string word;
  for (const char* c = command.arguments;; ++c) {
    if (std::islower(static_cast<unsigned char>(*c)) != 0) {
      word += *c;
      continue;
    }
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
    if (*c == '\0') return joined(words);
  }
}

bool takes_files(const Command& command) {
  return std::string_view(command.arguments).find("FILE") != std::string_view::npos;
}

// The first sentence of an option's help.
std::string short_help(const OptionRow& row) {
  const std::string text(row.help);
  return text.substr(0, text.find("; "));
}

std::string escaped(const std::string& text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// For use between single quotes of bash and zsh.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

std::string bash_value(const OptionRow& row) {
  switch (value_of(row)) {
    case Value::words:
      return "COMPREPLY=($(compgen -W \"" + choices_of(row) + "\" -- \"$word\"))";
    case Value::files:
      return "_quern_files -f";
    case Value::folders:
      return "_quern_files -d";
    case Value::models:
      return "_quern_files -f; COMPREPLY+=($(compgen -W \"" + model_names() + "\" -- \"$word\"))";
    case Value::nothing:
    case Value::anything:
      break;
  }
  return ":";
}

std::string bash_script() {
  std::string values, options, arguments;
  for (const Command& command : commands()) {
    std::vector<std::string> words;
    for (const OptionRow* row : rows_of(command)) {
      const std::string name = std::string(command.name) + " --" + row->name;
      const std::string letter = std::string(command.name) + " -" + row->letter;
      words.push_back(std::string("--") + row->name);
      if (row->letter[0] != '\0') words.push_back(std::string("-") + row->letter);
      if (value_of(*row) == Value::nothing) continue;
      values += "    '" + name + "'" + (row->letter[0] != '\0' ? " | '" + letter + "'" : "") + ") " + bash_value(*row) +
                "; return ;;\n";
    }
    options += std::string("    ") + command.name + ") options=\"" + joined(words) + "\" ;;\n";
    const std::string first = argument_words(command);
    if (!first.empty())
      arguments +=
          std::string("    ") + command.name + ") COMPREPLY=($(compgen -W \"" + first + "\" -- \"$word\")) ;;\n";
    if (takes_files(command)) arguments += std::string("    ") + command.name + ") _quern_files -f ;;\n";
  }
  return "# Completion of quern for bash, written by `quern help --completion bash`.\n"
         "_quern_files() {\n"
         "  compopt -o filenames 2>/dev/null\n"
         "  local IFS=$'\\n'\n"
         "  COMPREPLY=($(compgen \"$1\" -- \"$word\"))\n"
         "}\n"
         "_quern() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} options=\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -le 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         command_names() +
         "\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  # --option=value comes as three words.\n"
         "  if [ \"$word\" = = ]; then word=; elif [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  case \"$command $before\" in\n" +
         values +
         "  esac\n"
         "  case \"$command\" in\n" +
         options +
         "  esac\n"
         "  if [[ $word == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"$command\" in\n" +
         arguments +
         "  esac\n"
         "}\n"
         "complete -F _quern quern\n";
}

std::string zsh_value(const OptionRow& row) {
  std::string label = ":" + escaped(row.placeholder, "[]:\\") + ":";
  switch (value_of(row)) {
    case Value::nothing:
      return "";
    case Value::words:
      return label + "(" + choices_of(row) + ")";
    case Value::files:
      return label + "_files";
    case Value::folders:
      return label + "_files -/";
    case Value::models:
      return label + "{_alternative \"names:name:(" + model_names() + ")\" \"files:file:_files\"}";
    case Value::anything:
      break;
  }
  return label;
}

std::string zsh_option(const OptionRow& row) {
  const bool valued = value_of(row) != Value::nothing;
  const std::string rest = quoted("[" + escaped(short_help(row), "[]:\\") + "]" + zsh_value(row));
  const std::string name = std::string("--") + row.name, letter = std::string("-") + row.letter;
  std::string out = row.letter[0] == '\0' ? name + (valued ? "=" : "") : "";
  if (out.empty()) {
    const std::string forms = "{" + letter + "," + name + (valued ? "=" : "") + "}";
    return (row.repeats ? "'*'" : "'(" + letter + " " + name + ")'") + forms + "'" + rest + "'";
  }
  return "'" + std::string(row.repeats ? "*" : "") + out + rest + "'";
}

std::string zsh_script() {
  std::string names, cases;
  for (const Command& command : commands()) {
    names += "    '" + quoted(std::string(command.name) + ":" + escaped(command.summary, ":\\")) + "'\n";
    cases += std::string("    ") + command.name + ")\n      _arguments";
    for (const OptionRow* row : rows_of(command)) cases += " \\\n        " + zsh_option(*row);
    if (const std::string words = argument_words(command); !words.empty()) {
      cases += " \\\n        '1:argument:(" + words + ")'";
    } else if (takes_files(command)) {
      cases += " \\\n        '*:file:_files'";
    }
    cases += "\n      ;;\n";
  }
  return "#compdef quern\n"
         "# Completion of quern for zsh, written by `quern help --completion zsh`.\n"
         "_quern() {\n"
         "  local -a names\n"
         "  names=(\n" +
         names +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe 'command' names\n"
         "    return\n"
         "  fi\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $words[1] in\n" +
         cases +
         "  esac\n"
         "}\n"
         "_quern \"$@\"\n";
}

std::string fish_value(const OptionRow& row) {
  switch (value_of(row)) {
    case Value::nothing:
      return "";
    case Value::words:
      return " -x -a '" + choices_of(row) + "'";
    case Value::files:
      return " -r -F";
    case Value::folders:
      return " -x -a '(__fish_complete_directories)'";
    case Value::models:
      return " -r -F -a '" + model_names() + "'";
    case Value::anything:
      break;
  }
  return " -x";
}

std::string fish_script() {
  std::string out =
      "# Completion of quern for fish, written by `quern help --completion fish`.\n"
      "function __quern_has\n"
      "  set -l words (commandline -opc)\n"
      "  test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
      "end\n"
      "complete -c quern -f\n";
  for (const Command& command : commands()) {
    const std::string here = std::string("complete -c quern -n '__quern_has ") + command.name + "'";
    out += std::string("complete -c quern -n 'test (count (commandline -opc)) -eq 1' -a ") + command.name + " -d '" +
           escaped(command.summary, "'\\") + "'\n";
    for (const OptionRow* row : rows_of(command)) {
      out += here + " -l " + row->name + (row->letter[0] != '\0' ? std::string(" -s ") + row->letter : "") +
             fish_value(*row) + " -d '" + escaped(short_help(*row), "'\\") + "'\n";
    }
    if (const std::string words = argument_words(command); !words.empty()) {
      out += here + " -a '" + words + "'\n";
    } else if (takes_files(command)) {
      out += here + " -F\n";
    }
  }
  return out;
}

struct Shell {
  const char* name;
  std::string (*script)();
};
constexpr Shell kShells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

}  // namespace

std::string completion_script(std::string_view shell) {
  for (const Shell& one : kShells) {
    if (shell == one.name) return one.script();
  }
  return "";
}

}  // namespace quern::apps
