// Ctrl-C as a flag while a model answers; a second one, before the flag is taken down, ends the program.
#pragma once

#include <atomic>

namespace quern::apps {

// While one lives, SIGINT sets flag(). At most one at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();  // what SIGINT did before, it does again
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<bool>* flag() const;
  bool happened() const { return flag()->load(); }
  void reset();

  // Ends the program the way an uncaught SIGINT does, so that a calling shell script stops too.
  [[noreturn]] static void die();
};

}  // namespace quern::apps
