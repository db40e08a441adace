#include "apps/quern/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace quern::apps {
namespace {

// A signal handler can reach nothing but a static.
std::atomic<bool> g_interrupted{false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<bool> g_again_ends{true};    // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int> g_pipe{-1};             // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void on_interrupt(int) {
  const int saved = errno;
  const int fd = g_pipe;
  // A full pipe is readable, which is all that counts.
  if (fd >= 0 && ::write(fd, "", 1) < 0) errno = saved;
  if (!g_interrupted.exchange(true) || !g_again_ends) return;
  std::signal(SIGINT, SIG_DFL);
  ::raise(SIGINT);
}

}  // namespace

Interrupt::Interrupt(Again again) {
  if (::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) pipe_[0] = pipe_[1] = -1;
  g_pipe = pipe_[1];
  g_interrupted = false;
  g_again_ends = again == Again::ends_program;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
}

Interrupt::~Interrupt() {
  std::signal(SIGINT, SIG_DFL);
  g_pipe = -1;
  for (const int fd : pipe_) {
    if (fd >= 0) ::close(fd);
  }
}

const std::atomic<bool>* Interrupt::flag() const {
  return &g_interrupted;
}
void Interrupt::reset() {
  char bytes[64];
  while (pipe_[0] >= 0 && ::read(pipe_[0], bytes, sizeof bytes) > 0) {
  }
  g_interrupted = false;
}

void Interrupt::die() {
  std::signal(SIGINT, SIG_DFL);
  ::raise(SIGINT);
  ::_exit(130);
}

}  // namespace quern::apps
