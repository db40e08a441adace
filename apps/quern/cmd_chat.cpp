// chat: a conversation. What can be typed besides text is one table of slash commands.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "apps/models/cache.h"
#include "apps/quern/answer.h"
#include "apps/quern/interrupt.h"
#include "apps/quern/line_reader.h"
#include "apps/quern/session_options.h"

namespace quern::apps {
namespace {

constexpr const char* kSettable[] = {"max-tokens",
                                     "temp",
                                     "top-k",
                                     "top-p",
                                     "min-p",
                                     "repeat-penalty",
                                     "repeat-last-n",
                                     "presence-penalty",
                                     "frequency-penalty",
                                     "seed",
                                     "reasoning",
                                     "reasoning-effort",
                                     "thinking"};

class Chat {
 public:
  Chat(Context& context, std::shared_ptr<engine::Engine> engine, std::unique_ptr<engine::Session> session,
       std::unique_ptr<LineReader> reader, Interrupt& interrupt)
      : context_(context),
        engine_(std::move(engine)),
        session_(std::move(session)),
        reader_(std::move(reader)),
        interrupt_(interrupt) {
    conversation_.set_system(context_.options.text("system"));
  }

  void run(bool greets) {
    if (greets) context_.notice("/help lists commands, Ctrl-D leaves");
    while (!done_) {
      const auto message = next_message();
      if (!message) return;
      if (message->empty()) continue;
      if (message->front() == '/' && !multiline_) {
        command(*message);
      } else {
        conversation_.add({"user", *message});
        answer();
      }
    }
  }

 private:
  struct Slash {
    const char* name;
    const char* argument;
    const char* help;
    void (Chat::*call)(const std::string& argument);
  };
  static std::span<const Slash> slashes();

  void say(const std::string& text) const { std::fprintf(stderr, "%s\n", text.c_str()); }

  // A line; lines that end with a backslash go on; in multiline mode, everything up to a line with only a dot.
  std::optional<std::string> next_message() {
    std::string message;
    for (bool first = true;; first = false) {
      auto line = reader_->read(first ? "> " : ". ");
      if (!line) return message.empty() ? std::nullopt : std::optional(message);
      if (multiline_) {
        if (first && !line->empty() && line->front() == '/') {
          command(*line);
          return std::string();
        }
        if (*line == ".") return message;
        message += (first ? "" : "\n") + *line;
      } else if (!line->empty() && line->back() == '\\') {
        message.append(*line, 0, line->size() - 1).append("\n");
      } else {
        return message + *line;
      }
    }
  }

  // Answers the last turn, a question or a call's result. An answer that was stopped is kept as far as it came; what
  // could not be read is taken back.
  void answer() {
    const auto variables = template_variables(context_, *engine_);
    if (!variables.ok()) return give_back(variables.error().message);
    const auto prompt = conversation_prompt(*engine_, conversation_.turns(), context_.options.flag("raw"), *variables);
    if (!prompt.ok()) return give_back(prompt.error().message);
    interrupt_.reset();
    auto answer = stream_answer(context_, *engine_, *session_, *prompt, interrupt_.flag());
    interrupt_.reset();  // that Ctrl-C was for the answer, and is not one at the prompt
    if (!answer.ok()) return give_back(answer.error().message);
    if (answer->cancelled) return give_back("stopped");
    if (!context_.out.flush()) done_ = true;
    conversation_.add(engine::turn_of(answer->reply, conversation_.n_calls()));
    last_ = std::move(answer->stats);
    const std::string hidden = hidden_notice(context_, answer->reply);
    if (!hidden.empty()) say("[" + hidden + "]");
    if (last_->stop == engine::StopReason::cancelled) say("[stopped]");
    if (last_->stop == engine::StopReason::context_full)
      say("[the context is full: /undo or /clear makes room, -c N at the start makes more]");
    if (last_->stop == engine::StopReason::max_tokens) say("[stopped after max-tokens; /set max-tokens N allows more]");
    if (const auto call = conversation_.open_call()) say("[/result TEXT answers the call of " + call->name + "]");
  }

  void give_back(const std::string& why) {
    const char* what = conversation_.turns().back().role == "tool" ? "result" : "question";
    conversation_.drop_last();
    say(fmt::format("[{}; the {} is taken back]", why, what));
  }

  void command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(1, space == std::string::npos ? space : space - 1);
    const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
    for (const Slash& slash : slashes()) {
      if (name == slash.name) return (this->*slash.call)(argument);
    }
    say("[no command /" + name + "; /help lists them]");
  }

  void help(const std::string&) {
    for (const Slash& slash : slashes())
      say(fmt::format("/{:<20} {}", std::string(slash.name) + " " + slash.argument, slash.help));
    say("A line that ends with \\ goes on. Ctrl-C stops an answer, Ctrl-D leaves.");
  }
  void clear(const std::string&) {
    conversation_.clear();
    say("[forgotten]");
  }
  void system(const std::string& text) {
    conversation_.set_system(text);
    say(text.empty() ? "[no system message]" : "[system message set]");
  }
  void save(const std::string& path) {
    if (path.empty()) return say("[/save needs a file name]");
    const auto saved = conversation_.save(path);
    say(saved.ok() ? "[saved]" : "[" + saved.error().message + "]");
  }
  void load(const std::string& path) {
    if (path.empty()) return say("[/load needs a file name]");
    auto loaded = Conversation::load(path);
    if (!loaded.ok()) return say("[" + loaded.error().message + "]");
    conversation_ = *std::move(loaded);
    say(fmt::format("[{} turns]", conversation_.turns().size()));
  }
  void retry(const std::string&) {
    conversation_.drop_answer();
    const auto& turns = conversation_.turns();
    if (turns.empty() || (turns.back().role != "user" && turns.back().role != "tool"))
      return say("[nothing to answer again]");
    // The same seed would give the same answer.
    const auto next = context_.options.set("seed", std::to_string(context_.options.integer("seed") + 1));
    if (!next.ok()) say("[" + next.error().message + "]");
    answer();
  }
  void undo(const std::string&) { say(conversation_.undo() ? "[last question taken back]" : "[nothing to take back]"); }
  void result(const std::string& text) {
    const auto call = conversation_.open_call();
    if (!call) return say("[no call waits for a result]");
    conversation_.add({.role = "tool", .content = text, .call_id = call->id, .tool = call->name});
    const auto next = conversation_.open_call();
    if (!next) return answer();
    say("[/result TEXT answers the call of " + next->name + "]");
  }
  void stats(const std::string&) {
    if (last_) say(stats_line(*last_));
    say(fmt::format("[{} turns, {} of {} positions, {} threads, {}]", conversation_.turns().size(), session_->n_past(),
                    engine_->n_ctx(), engine_->n_threads(), isa_name(engine_->isa())));
  }
  Result<void> change(const std::string& name, const std::string& value) {
    QUERN_TRY_VOID(context_.options.set(name, value));
    const auto variables = template_variables(context_, *engine_);
    if (variables.ok()) return {};
    // What was set before is known to be good, so this option is one that the template cannot follow.
    QUERN_TRY_VOID(context_.options.set(name, "auto"));
    return variables.error();
  }
  void set(const std::string& argument) {
    const size_t space = argument.find(' ');
    const std::string name = argument.substr(0, space);
    const bool known =
        std::any_of(std::begin(kSettable), std::end(kSettable), [&](const char* s) { return name == s; });
    if (!known || space == std::string::npos)
      return say(fmt::format("[/set OPTION VALUE, with one of {}]", fmt::join(kSettable, ", ")));
    const size_t value = argument.find_first_not_of(' ', space);
    const auto done = change(name, value == std::string::npos ? "" : argument.substr(value));
    say(done.ok() ? "[set]" : "[" + done.error().message + "]");
  }
  void multiline(const std::string&) {
    multiline_ = !multiline_;
    say(multiline_ ? "[a message now ends with a line that holds only a dot]" : "[a message is now one line]");
  }
  void quit(const std::string&) { done_ = true; }

  Context& context_;
  std::shared_ptr<engine::Engine> engine_;
  std::unique_ptr<engine::Session> session_;
  std::unique_ptr<LineReader> reader_;
  Interrupt& interrupt_;
  Conversation conversation_;
  std::optional<engine::GenerateStats> last_;
  bool multiline_ = false, done_ = false;
};

std::span<const Chat::Slash> Chat::slashes() {
  static constexpr Slash kRows[] = {
      {"help", "", "this list", &Chat::help},
      {"clear", "", "forget the conversation, keep the system message", &Chat::clear},
      {"system", "TEXT", "set the system message; without TEXT: none", &Chat::system},
      {"save", "FILE", "write the conversation as JSON", &Chat::save},
      {"load", "FILE", "go on with a saved conversation", &Chat::load},
      {"retry", "", "answer the last question again, otherwise", &Chat::retry},
      {"undo", "", "take back the last question and its answer", &Chat::undo},
      {"result", "TEXT", "give the result of a tool call that the model made", &Chat::result},
      {"stats", "", "speed of the last answer, room in the context", &Chat::stats},
      {"set", "OPTION VALUE", "change a sampling option", &Chat::set},
      {"multiline", "", "messages of several lines, on or off", &Chat::multiline},
      {"quit", "", "leave", &Chat::quit},
  };
  return kRows;
}

}  // namespace

int run_chat(Context& context) {
  const auto engine = load_engine(context, engine_options(context));
  if (!engine.ok()) return context.fail(engine.error());
  auto session = (*engine)->new_session();
  if (!session.ok()) return context.fail(session.error());
  if (!context.options.flag("raw") && (*engine)->chat_template() == nullptr) {
    context.notice("no chat template (" + (*engine)->chat_template_error() +
                   "); each message continues the text as it is");
  }
  const auto followed = template_variables(context, **engine);
  if (!followed.ok()) return context.fail(followed.error());
  Interrupt interrupt(Interrupt::Again::nothing);  // for the whole chat: no Ctrl-C ends it
  std::unique_ptr<LineReader> reader;
  const bool on_terminal = ::isatty(0) == 1 && ::isatty(2) == 1;
  if (on_terminal) {
    const auto cache = cache_directory(context.options.text("cache"));
    reader = make_editing_reader(cache.ok() ? *cache + "/chat_history" : "", may_use_attributes(), interrupt);
  } else {
    reader = make_plain_reader();
  }
  Chat(context, *engine, *std::move(session), std::move(reader), interrupt).run(on_terminal);
  return 0;
}

}  // namespace quern::apps
