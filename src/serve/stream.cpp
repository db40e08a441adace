// Streams: events from the engine thread to whoever reads. The engine thread holds the lock only to append.
#include "serve/serve.h"
#include "serve/stream_state.h"

namespace quern::serve {

void StreamState::push(Event event) {
  bool tell = std::holds_alternative<Finish>(event);
  {
    const std::lock_guard lock(mutex);
    tell = tell || events.empty();  // else the reader has been told, and has not come yet
    events.push_back(std::move(event));
  }
  if (!tell) return;
  ready.notify_all();
  if (on_ready) on_ready();
}

namespace {

std::vector<Event> take(StreamState& state) {
  std::vector<Event> events = std::exchange(state.events, {});
  if (!events.empty() && std::holds_alternative<Finish>(events.back())) state.handed_finish = true;
  return events;
}

}  // namespace

Stream::~Stream() {
  cancel();
}

std::vector<Event> Stream::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  state_->ready.wait_for(lock, timeout, [&] { return !state_->events.empty() || state_->handed_finish; });
  return take(*state_);
}

std::vector<Event> Stream::poll() {
  const std::lock_guard lock(state_->mutex);
  return take(*state_);
}

bool Stream::finished() const {
  const std::lock_guard lock(state_->mutex);
  return state_->handed_finish;
}

void Stream::cancel() {
  state_->cancelled.store(true, std::memory_order_relaxed);
}

void Stream::insert_now() {
  state_->insert_now.store(true, std::memory_order_relaxed);
}

Stream::Progress Stream::progress() const {
  const auto read = [](const std::atomic<int>& value) { return value.load(std::memory_order_relaxed); };
  return {state_->phase.load(std::memory_order_relaxed), read(state_->n_prompt), read(state_->n_prompt_done),
          read(state_->n_generated)};
}

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::eog:
      return "eog";
    case FinishReason::stop:
      return "stop";
    case FinishReason::max_tokens:
      return "max_tokens";
    case FinishReason::context_full:
      return "context_full";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::shutdown:
      return "shutdown";
    case FinishReason::error:
      return "error";
  }
  return "";
}

std::string plain_text(std::span<const Piece> pieces) {
  std::string text;
  for (const Piece& piece : pieces) {
    if (piece.kind != Piece::Kind::control) text += piece.text;
  }
  return text;
}

std::vector<token::ReplyDelta> feed(token::ReplyParser& parser, std::span<const Piece> pieces) {
  std::vector<token::ReplyDelta> deltas;
  for (const Piece& piece : pieces) {
    const bool markup = piece.kind != Piece::Kind::text && parser.knows(piece.text);
    if (piece.kind == Piece::Kind::control && !markup) continue;
    for (auto& delta : parser.feed({piece.text, markup})) deltas.push_back(std::move(delta));
  }
  return deltas;
}

}  // namespace quern::serve
