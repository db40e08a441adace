#include "apps/quern/line_reader.h"

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <iostream>

namespace quern::apps {
namespace {

constexpr int kHistoryLines = 1000;
constexpr wchar_t kCtrlC = L'\3';
constexpr char kEscape = '\1';  // libedit: what stands between two of these takes no room on the screen

class EditingReader : public LineReader {
 public:
  EditingReader(std::string history_path, bool bold, Interrupt& interrupt)
      : history_path_(std::move(history_path)), bold_(bold), interrupt_(&interrupt) {
    // Without a UTF-8 locale libedit would cut characters into bytes.
    if (std::setlocale(LC_CTYPE, "") == nullptr || std::strstr(std::setlocale(LC_CTYPE, nullptr), "UTF-8") == nullptr)
      std::setlocale(LC_CTYPE, "C.UTF-8");
    editor_ = el_init("quern", stdin, stderr, stderr);
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    if (!history_path_.empty()) history(history_, &event, H_LOAD, history_path_.c_str());
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT_ESC, &EditingReader::prompt, kEscape);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, history, history_);
    // While a line is edited Ctrl-C is a key like any other, which gives the line up.
    el_set(editor_, EL_SETTY, "-d", "-isig", nullptr);
    el_set(editor_, EL_ADDFN, "quern-give-up", "give the line up", &EditingReader::give_up);
    el_set(editor_, EL_BIND, "^C", "quern-give-up", nullptr);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_set(editor_, EL_GETCFN, &EditingReader::next_character);
  }
  ~EditingReader() override {
    el_end(editor_);
    history_end(history_);
  }
  EditingReader(const EditingReader&) = delete;
  EditingReader& operator=(const EditingReader&) = delete;

  std::optional<std::string> read(const std::string& text) override {
    prompt_ = bold_ ? std::string{kEscape} + "\x1b[1m" + kEscape + text + kEscape + "\x1b[0m" + kEscape : text;
    gave_up_ = false;
    int n = 0;
    const char* line = el_gets(editor_, &n);
    if (gave_up_) return std::string();
    if (line == nullptr || n <= 0) return std::nullopt;
    std::string out(line, static_cast<size_t>(n));
    while (!out.empty() && (out.back() == '\n' || out.back() == '\r')) out.pop_back();
    if (!out.empty()) remember(out);
    return out;
  }

 private:
  static EditingReader* self(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return static_cast<EditingReader*>(data);
  }
  // A key, or the Ctrl-C that came as a signal because it fell before the keys were taken over: libedit's own reading
  // would see nothing of it until the next key.
  static int next_character(EditLine* editor, wchar_t* out) {
    Interrupt& interrupt = *self(editor)->interrupt_;
    std::mbstate_t state{};
    for (;;) {
      pollfd waits[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupt.descriptor(), POLLIN, 0}};
      if (::poll(waits, 2, -1) < 0) {
        if (errno == EINTR) continue;
        return -1;
      }
      if (waits[1].revents != 0) {
        interrupt.reset();
        *out = kCtrlC;
        return 1;
      }
      char byte = 0;
      const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return static_cast<int>(got);
      const size_t length = std::mbrtowc(out, &byte, 1, &state);
      if (length == static_cast<size_t>(-2)) continue;  // the character goes on
      if (length != static_cast<size_t>(-1)) return 1;  // 0: the NUL character
      state = std::mbstate_t{};                         // bytes that are no character are left out
    }
  }
  static char* prompt(EditLine* editor) { return self(editor)->prompt_.data(); }
  static unsigned char give_up(EditLine* editor, int) {
    self(editor)->gave_up_ = true;
    return CC_NEWLINE;
  }
  void remember(const std::string& line) {
    HistEvent event;
    history(history_, &event, H_ENTER, line.c_str());
    if (!history_path_.empty()) history(history_, &event, H_SAVE, history_path_.c_str());
  }

  std::string history_path_, prompt_;
  bool bold_;
  Interrupt* interrupt_;
  bool gave_up_ = false;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
};

class PlainReader : public LineReader {
 public:
  std::optional<std::string> read(const std::string&) override {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return line;
  }
};

}  // namespace

std::unique_ptr<LineReader> make_editing_reader(const std::string& history_path, bool bold, Interrupt& interrupt) {
  return std::make_unique<EditingReader>(history_path, bold, interrupt);
}
std::unique_ptr<LineReader> make_plain_reader() {
  return std::make_unique<PlainReader>();
}

}  // namespace quern::apps
