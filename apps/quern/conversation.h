// A conversation as data: its turns, undo and retry, files. How it becomes tokens is conversation_ids().
#pragma once

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
  void add(std::string role, std::string content) { turns_.push_back({std::move(role), std::move(content)}); }
  // Everything but the system message.
  void clear();
  // Takes back the last question and its answer. False where there is none.
  bool undo();
  // Takes back the last answer so that its question can be answered again. False where there is none.
  bool drop_answer();

  Result<void> save(const std::string& path) const;
  static Result<Conversation> load(const std::string& path);

 private:
  std::vector<Turn> turns_;
};

// Token ids of the conversation, ready for the assistant's answer, through the model's chat template; or, raw, of the
// turns' text one after another. Control tokens in what a user wrote stay text unless raw.
Result<std::vector<int32_t>> conversation_ids(engine::Engine& engine, const std::vector<Turn>& turns, bool raw);

// "[prompt 12 tok, 340.1 tok/s | answer 40 tok, 80.2 tok/s]"
std::string stats_line(const engine::GenerateStats& stats);

}  // namespace quern::apps
