// Ctrl-C as a flag that a running answer looks at.
#pragma once

#include <atomic>

namespace quern::apps {

// While one lives, SIGINT sets flag(). At most one at a time.
class Interrupt {
 public:
  // again: what a second Ctrl-C does before reset() takes the flag down.
  enum class Again { ends_program, nothing };
  explicit Interrupt(Again again);
  ~Interrupt();  // what SIGINT did before, it does again
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<bool>* flag() const;
  bool happened() const { return flag()->load(); }
  // Readable from a Ctrl-C until reset(), for who waits for something else too; -1 where the system gave no pipe.
  int descriptor() const { return pipe_[0]; }
  void reset();

  // Ends the program the way an uncaught SIGINT does, so that a calling shell script stops too.
  [[noreturn]] static void die();

 private:
  int pipe_[2] = {-1, -1};
};

}  // namespace quern::apps
