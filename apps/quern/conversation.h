// A conversation as data: its turns, undo and retry, files. How it becomes tokens is conversation_prompt().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/prompt.h"

namespace quern::apps {

using engine::Turn;

class Conversation {
 public:
  const std::vector<Turn>& turns() const { return turns_; }
  void set_system(const std::string& text);  // the first turn; empty: none
  void add(Turn turn) { turns_.push_back(std::move(turn)); }
  // The first call of the last answer that has no result yet; nothing where all have one.
  std::optional<engine::TurnCall> open_call() const;
  size_t n_calls() const;  // in all turns
  // Everything but the system message.
  void clear();
  // Takes back the last question and all that follows it. False where there is none.
  bool undo();
  // Takes back the last answer so that what stands before it can be answered again. False where there is none.
  bool drop_answer();
  // Takes back the last turn, whatever it is.
  void drop_last() { turns_.pop_back(); }

  Result<void> save(const std::string& path) const;
  static Result<Conversation> load(const std::string& path);

 private:
  std::vector<Turn> turns_;
};

// The prompt of the conversation, ready for the assistant's answer, through the model's chat template with these
// variables; or, raw, the ids of the turns' text one after another. Control tokens in what a user wrote stay text
// unless raw.
Result<engine::ChatPrompt> conversation_prompt(engine::Engine& engine, const std::vector<Turn>& turns, bool raw,
                                               const token::Json& variables);

// "[prompt 12 tok, 340.1 tok/s | answer 40 tok, 80.2 tok/s]"
std::string stats_line(const engine::GenerateStats& stats);

}  // namespace quern::apps
