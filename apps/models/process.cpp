#include "apps/models/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace

Result<int> run_program(const std::vector<std::string>& argv, const std::string& output_path,
                        const std::function<void()>& tick) {
  std::vector<char*> raw;
  raw.reserve(argv.size() + 1);
  for (const std::string& arg : argv) raw.push_back(const_cast<char*>(arg.c_str()));
  raw.push_back(nullptr);

  Actions actions;
  posix_spawn_file_actions_addopen(&actions.raw, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions.raw, 1, output_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions.raw, 1, 2);
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
  for (;;) {
    int status = 0;
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (done < 0 && errno != EINTR) return Error{Status::io_error, argv[0] + ": lost: " + std::strerror(errno)};
    if (tick) tick();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace quern::apps
