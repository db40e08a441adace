// help: the overview, one command's page, docs/OPTIONS.md, the manual page, completion scripts.
#include "apps/quern/command.h"
#include "apps/quern/completion.h"
#include "apps/quern/man_page.h"

namespace quern::apps {
namespace {

std::string overview() {
  std::string text =
      "Quern runs open-weight language models from GGUF files.\n\n"
      "usage: quern COMMAND [options]\n\n";
  for (const Command& command : commands()) {
    std::string line = std::string("  ") + command.name;
    line.resize(12, ' ');
    text += line + command.summary + "\n";
  }
  return text +
         "\n  quern run \"Why is the sky blue?\"     downloads a small model at the first use\n"
         "  quern help run                        options and examples of one command\n";
}

std::string page(const Command& command) {
  std::string text = std::string("quern ") + command.name + ": " + command.summary + "\n\nusage: quern " + command.name;
  if (command.arguments[0] != '\0') text += std::string(" ") + command.arguments;
  const std::string options = options_help(option_rows(), command.name);
  text += options.empty() ? "\n" : " [options]\n";
  if (command.details[0] != '\0') text += std::string("\n") + command.details;
  if (!options.empty()) text += "\n" + options;
  return text;
}

std::string markdown() {
  std::string text =
      "# Options of `quern`\n\n"
      "Written by `quern help --markdown` from the option table (`apps/quern/option_rows.cpp`); a test compares them.\n"
      "Defaults give way to the configuration file (`quern serve`), that to the environment, and the environment to "
      "the\n"
      "command line.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong use.\n";
  for (const Command& command : commands()) {
    text += std::string("\n## quern ") + command.name + "\n\n" + command.summary + ".\n\n";
    bool any = false;
    for (const OptionRow& row : option_rows()) any = any || option_belongs(row, command.name);
    text += any ? options_markdown(option_rows(), command.name) : "No options.\n";
  }
  text +=
      "\n## Keys of a [[model]] table\n\nIn the file of `quern serve --config` (docs/CONFIG.md), without the "
      "dashes.\n\n" +
      options_markdown(option_rows(), kModelTable);
  return text + "\n## Environment\n\n" + environment_markdown(option_rows(), other_variables());
}

}  // namespace

int run_help(Context& context) {
  const Options& options = context.options;
  const std::string& shell = options.text("completion");
  if (options.flag("markdown") || options.flag("man") || !shell.empty()) {
    context.out.write(options.flag("markdown") ? markdown()
                      : options.flag("man")    ? man_page()
                                               : completion_script(shell));
    return 0;
  }
  if (context.options.positionals().empty()) {
    context.out.write(overview());
    return 0;
  }
  const std::string& name = context.options.positionals()[0];
  for (const Command& command : commands()) {
    if (name != command.name) continue;
    context.out.write(page(command));
    return 0;
  }
  return context.wrong_use("no command '" + name + "'");
}

}  // namespace quern::apps
