// What a Stream and the engine thread share. Internal to serve/.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "serve/serve.h"

namespace quern::serve {

struct StreamState {
  std::function<void()> on_ready;
  std::atomic<bool> cancelled{false}, insert_now{false};
  std::atomic<Stream::Progress::Phase> phase{Stream::Progress::Phase::queued};
  std::atomic<int> n_prompt{0}, n_prompt_done{0}, n_generated{0};

  mutable std::mutex mutex;
  std::condition_variable ready;
  std::vector<Event> events;  // not yet handed out
  bool handed_finish = false;

  // By the thread that makes events. Finish is the last.
  void push(Event event);
};

}  // namespace quern::serve
