#include "apps/models/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

namespace quern::apps {
namespace {

struct Actions {
  posix_spawn_file_actions_t raw;
  Actions() { posix_spawn_file_actions_init(&raw); }
  ~Actions() { posix_spawn_file_actions_destroy(&raw); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
};

struct Attributes {
  posix_spawnattr_t raw;
  Attributes() { posix_spawnattr_init(&raw); }
  ~Attributes() { posix_spawnattr_destroy(&raw); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
};

// A pipe's two ends; the child gets the writing one.
struct Pipe {
  int ends[2] = {-1, -1};
  bool open() { return ::pipe2(ends, O_CLOEXEC) == 0; }
  void close(int which) {
    if (ends[which] >= 0) ::close(ends[which]);
    ends[which] = -1;
  }
  Pipe() = default;
  ~Pipe() { close(0), close(1); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

Result<pid_t> spawn(const std::vector<std::string>& argv, const Actions& actions) {
  std::vector<char*> raw;
  raw.reserve(argv.size() + 1);
  for (const std::string& arg : argv) raw.push_back(const_cast<char*>(arg.c_str()));
  raw.push_back(nullptr);
  // The child must not inherit that we ignore or catch signals.
  Attributes attributes;
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGINT);
  posix_spawnattr_setsigdefault(&attributes.raw, &defaults);
  posix_spawnattr_setflags(&attributes.raw, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, raw[0], &actions.raw, &attributes.raw, raw.data(), environ);
  if (failed != 0) return Error{Status::io_error, argv[0] + ": cannot start: " + std::strerror(failed)};
  return child;
}

int exit_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Reads both pipes until the child has closed them.
void drain(Pipe& out, Pipe& err, Captured& captured) {
  pollfd polled[2] = {{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}};
  std::string* const texts[2] = {&captured.out, &captured.err};
  std::vector<char> buffer(1 << 16);
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    if (::poll(polled, 2, -1) < 0 && errno != EINTR) return;
    for (int i = 0; i < 2; ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      const ssize_t n = ::read(polled[i].fd, buffer.data(), buffer.size());
      if (n == 0 || (n < 0 && errno != EINTR)) polled[i].fd = -1;
      if (n > 0) texts[i]->append(buffer.data(), std::min(static_cast<size_t>(n), kMaxCaptured - texts[i]->size()));
    }
  }
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& argv, const std::string& output_path,
                        const std::function<void()>& tick) {
  Actions actions;
  posix_spawn_file_actions_addopen(&actions.raw, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions.raw, 1, output_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions.raw, 1, 2);
  QUERN_TRY(const pid_t child, spawn(argv, actions));
  for (;;) {
    int status = 0;
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child) return exit_status(status);
    if (done < 0 && errno != EINTR) return Error{Status::io_error, argv[0] + ": lost: " + std::strerror(errno)};
    if (tick) tick();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

Result<Captured> capture_program(const std::vector<std::string>& argv) {
  Pipe out, err;
  if (!out.open() || !err.open())
    return Error{Status::io_error, std::string("cannot make a pipe: ") + std::strerror(errno)};
  Actions actions;
  posix_spawn_file_actions_addopen(&actions.raw, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions.raw, out.ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions.raw, err.ends[1], 2);
  QUERN_TRY(const pid_t child, spawn(argv, actions));
  out.close(1);
  err.close(1);
  Captured captured;
  drain(out, err, captured);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return Error{Status::io_error, argv[0] + ": lost: " + std::strerror(errno)};
  }
  captured.status = exit_status(status);
  return captured;
}

}  // namespace quern::apps
