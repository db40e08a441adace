#include "apps/quern/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace quern::apps {
namespace {

// A signal handler can reach nothing but a static.
std::atomic<bool> g_interrupted{false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<bool> g_again_ends{true};    // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_interrupt(int) {
  if (!g_interrupted.exchange(true) || !g_again_ends) return;
  std::signal(SIGINT, SIG_DFL);
  ::raise(SIGINT);
}

}  // namespace

Interrupt::Interrupt(Again again) {
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
}

const std::atomic<bool>* Interrupt::flag() const {
  return &g_interrupted;
}
void Interrupt::reset() {
  g_interrupted = false;
}

void Interrupt::die() {
  std::signal(SIGINT, SIG_DFL);
  ::raise(SIGINT);
  ::_exit(130);
}

}  // namespace quern::apps
