#include "api/run.h"

#include <algorithm>

namespace quern::api {

void Signal::notify() {
  {
    const std::lock_guard lock(mutex_);
    set_ = true;
  }
  condition_.notify_one();
}

void Signal::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  condition_.wait_for(lock, timeout, [this] { return set_; });
  set_ = false;
}

std::optional<Problem> Run::start(serve::Lease lease, const Request& request, Prepared prepared,
                                  const std::string& client, std::shared_ptr<Run>* out) {
  auto run = std::make_shared<Run>();
  run->lease_ = std::move(lease);
  run->prepared_ = std::move(prepared);
  run->per_prompt_ = request.n;
  const engine::Engine& engine = *run->lease_->engine;
  const bool chat = request.prompts.empty();
  for (const auto& prompt : run->prepared_.prompts) {
    for (int i = 0; i < request.n; ++i) {
      serve::Request submission;
      if (auto problem = make_submission(*run->lease_, request, prompt, i, &submission)) return problem;
      run->can_end_thinking_ |= submission.insertion.has_value();
      submission.client = client;
      submission.on_ready = [signal = run->signal_] { signal->notify(); };
      auto part = std::make_unique<Part>(Assembler(request, engine, chat ? &prompt.rendered : nullptr));
      serve::Submission taken = run->lease_->scheduler->submit(std::move(submission));
      if (taken.stream == nullptr) return problem_of(taken.refusal);  // the others go away with the run
      part->stream = std::move(taken.stream);
      run->parts_.push_back(std::move(part));
    }
  }
  *out = std::move(run);
  return std::nullopt;
}

void Run::take(size_t i, std::vector<Step>* steps) {
  Part& part = *parts_[i];
  if (part.assembler.ended()) return;
  for (const serve::Event& event : part.stream->poll()) {
    Step step;
    step.choice = i;
    step.progress = part.assembler.take(event);
    step.ends = part.assembler.ended();
    // A stream that ends before its prompt is done begins too, unless it failed.
    if (!part.begun && (std::holds_alternative<serve::PromptDone>(event) ||
                        (step.ends && part.assembler.choice().ending.kind != EndKind::failed))) {
      part.begun = step.begins = true;
    }
    if (step.begins || step.ends || !step.progress.deltas.empty() || !step.progress.scores.empty())
      steps->push_back(std::move(step));
  }
  if (part.assembler.enough()) part.stream->cancel();
}

std::vector<Run::Step> Run::wait(std::chrono::milliseconds timeout) {
  std::vector<Step> steps;
  for (size_t i = 0; i < parts_.size(); ++i) take(i, &steps);
  if (!steps.empty() || done()) return steps;
  signal_->wait(timeout);
  for (size_t i = 0; i < parts_.size(); ++i) take(i, &steps);
  return steps;
}

void Run::rest(std::chrono::steady_clock::time_point until) {
  const auto over = [](const auto& part) {
    return part->assembler.ended() || part->stream->progress().phase == serve::Stream::Progress::Phase::finished;
  };
  while (!std::all_of(parts_.begin(), parts_.end(), over)) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return;
    signal_->wait(left);
  }
}

bool Run::done() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->assembler.ended(); });
}

const Problem* Run::failure() const {
  for (const auto& part : parts_) {
    const Ending& ending = part->assembler.choice().ending;
    if (part->assembler.ended() && ending.kind == EndKind::failed) return &ending.problem;
  }
  return nullptr;
}

void Run::cancel() {
  for (const auto& part : parts_) part->stream->cancel();
}

void Run::abandon() {
  if (done()) return;
  cancel();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!done() && std::chrono::steady_clock::now() < until) wait(std::chrono::milliseconds(20));
}

bool Run::end_thinking() {
  if (!can_end_thinking_) return false;
  for (const auto& part : parts_) part->stream->insert_now();
  return true;
}

std::vector<Choice> Run::choices() const {
  std::vector<Choice> out;
  for (const auto& part : parts_) out.push_back(part->assembler.choice());
  return out;
}

Usage Run::usage() const {
  Usage usage;
  for (size_t i = 0; i < parts_.size(); ++i) usage.add(choice(i).usage, i % static_cast<size_t>(per_prompt_) != 0);
  return usage;
}

}  // namespace quern::api
