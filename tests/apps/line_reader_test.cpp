// The line editor and Ctrl-C on a pseudo-terminal.
#include "apps/quern/line_reader.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace quern::apps {
namespace {

// What a program on a terminal of its own ends with; -1 where it does not end. `keys` are typed once it shows "> ".
int on_terminal(const std::function<int()>& program, const std::string& keys = "") {
  int fd = -1;
  const pid_t pid = ::forkpty(&fd, nullptr, nullptr, nullptr);
  if (pid == 0) {
    ::setenv("TERM", "xterm", 1);
    ::alarm(20);  // SIGALRM ends what waits for ever
    ::_exit(program());
  }
  std::string seen;
  bool typed = keys.empty();
  char bytes[256];
  for (ssize_t n = 0; (n = ::read(fd, bytes, sizeof bytes)) > 0;) {
    seen.append(bytes, static_cast<size_t>(n));
    if (typed || seen.find("> ") == std::string::npos) continue;
    typed = ::write(fd, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size());
  }
  ::close(fd);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The instant between the prompt and the read behind it, made long.
TEST(LineReader, ACtrlCBeforeTheFirstKeyGivesTheLineUp) {
  const auto interrupted_before = [](bool by_now) {
    return [by_now] {
      Interrupt interrupt(Interrupt::Again::nothing);
      const auto reader = make_editing_reader("", false, interrupt);
      if (by_now) {
        ::raise(SIGINT);
        if (reader->read("") != std::optional<std::string>("")) return 2;
      }
      // It counted once: this line is read.
      return reader->read("> ") == std::optional<std::string>("naïve") ? 0 : 3;
    };
  };
  EXPECT_EQ(on_terminal(interrupted_before(true), "naïve\r"), 0);
  EXPECT_EQ(on_terminal(interrupted_before(false), "naïve\r"), 0);
}

TEST(LineReader, ACtrlCThatWasForSomethingElseIsNone) {
  const auto program = [] {
    Interrupt interrupt(Interrupt::Again::nothing);
    const auto reader = make_editing_reader("", false, interrupt);
    ::raise(SIGINT);
    if (!interrupt.happened()) return 2;
    interrupt.reset();
    return reader->read("> ") == std::optional<std::string>("text") ? 0 : 3;
  };
  EXPECT_EQ(on_terminal(program, "text\r"), 0);
}

TEST(LineReader, ASignalWhileItWaitsIsOneToo) {
  const auto program = [] {
    Interrupt interrupt(Interrupt::Again::nothing);
    const auto reader = make_editing_reader("", false, interrupt);
    const pid_t self = ::getpid();
    if (::fork() == 0) {
      ::usleep(200'000);
      ::kill(self, SIGINT);
      ::_exit(0);
    }
    return reader->read("> ") == std::optional<std::string>("") ? 0 : 3;
  };
  EXPECT_EQ(on_terminal(program), 0);
}

}  // namespace
}  // namespace quern::apps
