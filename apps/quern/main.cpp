// From the command line to a command of the table (commands.cpp), and its exit code.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <vector>

#include "apps/quern/command.h"

namespace quern::apps {
namespace {

const Command* find_command(std::string_view name) {
  const auto it = std::find_if(commands().begin(), commands().end(), [&](const Command& c) { return name == c.name; });
  return it == commands().end() ? nullptr : &*it;
}

int unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  const auto near = nearest_word(name, names);
  std::fprintf(stderr, "quern: unknown command '%s'%s (quern help lists them)\n", name.c_str(),
               near ? ("; did you mean " + *near + "?").c_str() : "");
  return 2;
}

int dispatch(const Command& command, const std::vector<std::string>& args, Output& out) {
  auto options = Options::parse(option_rows(), command.name, args);
  if (!options.ok()) {
    std::fprintf(stderr, "quern %s: %s\n", command.name, options.error().message.c_str());
    return 2;
  }
  Context context{command, *options, out};
  if (options->positionals().size() > command.max_positionals) {
    return context.wrong_use("unexpected argument '" + options->positionals()[command.max_positionals] + "'");
  }
  const int code = command.run(context);
  const auto finished = out.finish();
  if (!finished.ok()) return context.fail(finished.error());
  return code;
}

int start(std::vector<std::string> args) {
  Output out(stdout);
  if (args.empty()) args = {"help"};
  if (args[0] == "--help" || args[0] == "-h") args[0] = "help";
  if (args[0] == "--version") args[0] = "version";
  const Command* command = find_command(args[0]);
  if (command == nullptr) return unknown_command(args[0]);
  const auto end = std::find(args.begin(), args.end(), "--");
  const bool asks_help = std::any_of(args.begin() + 1, end, [](const std::string& a) { return a == "--help"; });
  if (asks_help) return dispatch(*find_command("help"), {command->name}, out);
  return dispatch(*command, {args.begin() + 1, args.end()}, out);
}

}  // namespace

}  // namespace quern::apps

int main(int argc, char** argv) {
  // A reader that leaves shows as EPIPE at the next write (output.cpp), not as our death.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return quern::apps::start({argv + 1, argv + argc});
  } catch (const std::exception& e) {  // the standard library: out of memory
    std::fprintf(stderr, "quern: %s\n", e.what());
    return 1;
  }
}
