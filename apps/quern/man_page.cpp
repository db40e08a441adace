#include "apps/quern/man_page.h"

#include <map>

#include "apps/quern/command.h"
#include "apps/quern/version.h"

namespace quern::apps {
namespace {

// Text that roff prints as it is: dashes and quotes as typed, no request at a line's start.
std::string roff(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string item(const std::string& head, const std::string& text) {
  return ".TP\n" + head + "\n" + roff(text) + "\n";
}

std::string option_item(const OptionRow& row) {
  std::string head;
  if (row.letter[0] != '\0') head = "\\fB\\-" + roff(row.letter) + "\\fR, ";
  head += "\\fB" + roff(std::string("--") + row.name) + "\\fR";
  if (row.placeholder[0] != '\0') head += " \\fI" + roff(row.placeholder) + "\\fR";
  return item(head, row.help + option_notes(row));
}

// Paragraphs flow; indented lines are examples and stay as they are.
std::string details(std::string_view text) {
  std::string out = ".PP\n";
  bool example = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const bool indented = line.starts_with("  ");
    if (indented != example && !line.empty()) {
      out += indented ? ".PP\n.nf\n" : ".fi\n.PP\n";
      example = indented;
    }
    if (line.empty() && !example) out += ".PP\n";
    if (!line.empty()) out += roff(line) + "\n";
  }
  return example ? out + ".fi\n" : out;
}

std::string command_part(const Command& command) {
  std::string out = ".SS \"" + roff(std::string("quern ") + command.name);
  if (command.arguments[0] != '\0') out += " " + roff(command.arguments);
  out += "\"\n" + roff(std::string(command.summary)) + ".\n";
  if (command.details[0] != '\0') out += details(command.details);
  for (const OptionRow& row : option_rows()) {
    if (option_belongs(row, command.name)) out += option_item(row);
  }
  return out;
}

std::string environment_part() {
  std::map<std::string, std::string> lines;
  for (const OptionRow& row : option_rows()) {
    if (row.env[0] != '\0') lines.emplace(row.env, std::string("the default of --") + row.name);
  }
  for (const EnvRow& row : other_variables()) lines.emplace(row.name, row.help);
  std::string out = ".SH ENVIRONMENT\n";
  for (const auto& [name, help] : lines) out += item("\\fB" + roff(name) + "\\fR", help);
  return out;
}

}  // namespace

std::string man_page() {
  std::string out =
      std::string(".TH QUERN 1 \"\" \"quern ") + build_version() +
      "\" \"User Commands\"\n"
      ".SH NAME\nquern \\- run open\\-weight language models from GGUF files\n"
      ".SH SYNOPSIS\n.B quern\n.I COMMAND\n[options]\n"
      ".SH DESCRIPTION\n"
      "An option takes its value from the command line, else from the environment, else (quern serve) from the "
      "configuration file, else its default.\n"
      ".SH COMMANDS\n";
  for (const Command& command : commands()) out += command_part(command);
  out += ".SH CONFIGURATION FILE\n" +
         roff(
             "quern serve --config FILE reads TOML. At the top level a key is an option of quern serve without its "
             "dashes. A table [[model]] describes a model to serve, with these keys:") +
         "\n";
  for (const OptionRow& row : option_rows()) {
    if (option_belongs(row, kModelTable)) out += item("\\fB" + roff(row.name) + "\\fR", row.help);
  }
  out += environment_part();
  out += ".SH EXIT STATUS\n" + item("0", "done") + item("1", "failed") + item("2", "wrong use");
  return out;
}

}  // namespace quern::apps
