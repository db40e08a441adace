// One request while it runs: its streams (a choice each), what came of them, waiting for more and for a client's
// hang-up.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "api/assembler.h"
#include "api/prepare.h"
#include "serve/model_pool.h"

namespace quern::api {

// Wakes who waits for any of several streams.
class Signal {
 public:
  void notify();
  void wait(std::chrono::milliseconds timeout);  // until notified since the last wait, or the timeout

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool set_ = false;
};

class Run {
 public:
  // Submits all choices, prompt by prompt, or none.
  static std::optional<Problem> start(serve::Lease lease, const Request& request, Prepared prepared,
                                      const std::string& client, std::shared_ptr<Run>* out);

  struct Step {
    size_t choice = 0;
    bool begins = false;  // the prompt is done
    Progress progress;
    bool ends = false;
  };
  // What came since; waits up to the timeout for the first.
  std::vector<Step> wait(std::chrono::milliseconds timeout);
  // Waits without looking at what came, until then or until all answers have ended: who is not woken for each token
  // leaves the cores to the engine.
  void rest(std::chrono::steady_clock::time_point until);
  bool done() const;
  const Problem* failure() const;  // of a choice that failed
  void cancel();                   // by any thread
  // cancel(), and waits a while for the ends, so that figures count them.
  void abandon();
  bool end_thinking();  // by any thread; false where no answer can

  size_t n_choices() const { return parts_.size(); }
  const Choice& choice(size_t i) const { return parts_[i]->assembler.choice(); }
  std::vector<Choice> choices() const;
  Usage usage() const;  // prompts count once, however many choices they have
  const Prepared& prepared() const { return prepared_; }
  int per_prompt() const { return per_prompt_; }
  const serve::Lease& lease() const { return lease_; }

 private:
  struct Part {
    explicit Part(Assembler a) : assembler(std::move(a)) {}
    std::unique_ptr<serve::Stream> stream;
    Assembler assembler;
    bool begun = false;
  };
  void take(size_t i, std::vector<Step>* steps);

  serve::Lease lease_;  // outlives the streams
  Prepared prepared_;
  int per_prompt_ = 1;
  bool can_end_thinking_ = false;
  std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace quern::api
