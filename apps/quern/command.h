// quern, the command line program: one file per command, one table of commands (commands.cpp), one table of options.
//
// Owns: commands, help, what is printed where, exit codes (0 done, 1 failed, 2 wrong use), signals.
// Never: engine internals; reading the environment except through the option table.
// In -> out: arguments -> data on standard output, everything else on standard error.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "apps/quern/output.h"
#include "base/options.h"
#include "base/result.h"

namespace quern::apps {

struct Command;

// What a command gets. `out` is standard output.
struct Context {
  const Command& command;
  Options& options;
  Output& out;

  // Print "quern NAME: message" on standard error; the return value is the exit code to give back.
  int fail(const Error& error) const;
  int wrong_use(const std::string& message) const;
  // A line for the user on standard error.
  void notice(const std::string& message) const;
};

struct Command {
  const char* name;
  const char* arguments;  // what help writes after the name
  const char* summary;    // one line
  const char* details;    // paragraphs and examples of the help text
  size_t max_positionals;
  int (*run)(Context&);
};

// In the rows' lists of commands: a [[model]] table of the configuration file (config_file.h), which has rows of its
// own and shares others with serve.
inline constexpr const char* kModelTable = "[[model]]";

std::span<const Command> commands();
std::span<const OptionRow> option_rows();
std::span<const EnvRow> other_variables();

int run_run(Context& context);
int run_chat(Context& context);
int run_serve(Context& context);
int run_models(Context& context);
int run_info(Context& context);
int run_plan(Context& context);
int run_doctor(Context& context);
int run_convert(Context& context);
int run_tokenize(Context& context);
int run_logits(Context& context);
int run_embed(Context& context);
int run_bench(Context& context);
int run_profile(Context& context);
int run_tune(Context& context);
int run_board(Context& context);
int run_eval(Context& context);
int run_version(Context& context);
int run_help(Context& context);

}  // namespace quern::apps
