// The configuration file of quern serve (docs/CONFIG.md): TOML whose keys are options. Which ones there are is the
// option table's to say (option_rows.cpp): at the top level those of serve, in a [[model]] table those of kModelTable.
// What an option means, and which of file, environment and command line counts, is not decided here.
#pragma once

#include <string>
#include <vector>

#include "apps/quern/command.h"

namespace quern::apps {

struct ConfigFile {
  struct Model {
    std::string where;  // "quern.toml:12", the table's first line
    std::vector<OptionText> options;
  };
  std::string path;
  std::vector<OptionText> options;  // of serve, in the order of the file
  std::vector<Model> models;        // one a [[model]] table
};

// Errors are one line that begins with the file's name, and where there is one the line's number: what reading says;
// invalid_file for what is no TOML; invalid_argument for a key that is no option (with the one that may be meant) and
// for a value of a type that it does not take. Ranges are checked by Options::fill.
Result<ConfigFile> read_config(const std::string& path);
// The same of a text. name: for errors.
Result<ConfigFile> parse_config(const std::string& text, const std::string& name);

}  // namespace quern::apps
