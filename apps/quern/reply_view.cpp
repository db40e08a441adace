// Where the parts of a shown reply begin and end.
#include "apps/quern/reply_view.h"

namespace quern::apps {

void ReplyView::write(std::string_view text) {
  if (text.empty()) return;
  good_ = out_->write(text);
  any_ = true;
  last_ = text.back();
}

void ReplyView::plain() {
  if (dim_) good_ = out_->write("\x1b[0m") && out_->flush();
  dim_ = false;
}

// The first piece of a part. Behind reasoning an empty line.
void ReplyView::begin(Kind part) {
  const Kind before = part_;
  const bool follows = any_;
  part_ = part;
  plain();
  if (follows && last_ != '\n') write("\n");
  if (follows && before == Kind::reasoning) write("\n");
  if (part == Kind::reasoning && reasoning_ == Reasoning::marked) write("[reasoning]\n");
  if (part == Kind::content && follows && reasoning_ == Reasoning::marked) write("[answer]\n");
  if (part != Kind::reasoning || reasoning_ != Reasoning::dimmed) return;
  good_ = out_->write("\x1b[2m");
  dim_ = true;
}

bool ReplyView::show(std::span<const token::ReplyDelta> deltas) {
  for (const token::ReplyDelta& delta : deltas) {
    if (delta.kind == Kind::reasoning && reasoning_ == Reasoning::hidden) continue;
    const Kind part = delta.kind == Kind::arguments ? Kind::call : delta.kind;
    if (part != part_ || delta.kind == Kind::call) begin(part);
    if (delta.kind == Kind::call) {
      write("[call " + delta.text + "] ");
    } else {
      write(delta.text);
    }
  }
  return good_ && (deltas.empty() || out_->flush());
}

bool ReplyView::finish() {
  plain();
  if (last_ != '\n') write("\n");
  return good_ && out_->flush();
}

ReplyView::Reasoning reasoning_view(const Context& context) {
  const std::string& word = context.options.text("reasoning");
  const bool terminal = context.out.is_terminal();
  if (word == "hide" || (word == "auto" && !terminal)) return ReplyView::Reasoning::hidden;
  return terminal && may_use_attributes() ? ReplyView::Reasoning::dimmed : ReplyView::Reasoning::marked;
}

}  // namespace quern::apps
