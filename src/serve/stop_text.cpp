#include "serve/stop_text.h"

#include <algorithm>

namespace quern::serve {

PatternScan::PatternScan(std::string pattern) : pattern_(std::move(pattern)), fallback_(pattern_.size(), 0) {
  size_t border = 0;
  for (size_t i = 1; i < pattern_.size(); ++i) {
    while (border > 0 && pattern_[i] != pattern_[border]) border = fallback_[border - 1];
    if (pattern_[i] == pattern_[border]) ++border;
    fallback_[i] = static_cast<uint32_t>(border);
  }
}

size_t PatternScan::feed(char byte) {
  if (state_ == pattern_.size()) state_ = fallback_[state_ - 1];
  while (state_ > 0 && pattern_[state_] != byte) state_ = fallback_[state_ - 1];
  if (pattern_[state_] == byte) ++state_;
  return state_;
}

StopText::StopText(const std::vector<std::string>& stops) {
  scans_.reserve(stops.size());
  for (const std::string& stop : stops) scans_.emplace_back(stop);
}

void StopText::feed(Piece piece, std::vector<Piece>& out) {
  if (matched_ != nullptr || piece.text.empty()) return;
  if (piece.kind == Piece::Kind::control) {
    flush(out);
    for (const PatternScan& scan : scans_) {
      if (scan.pattern() == piece.text) matched_ = &scan.pattern();
    }
    if (matched_ == nullptr) out.push_back(std::move(piece));
    return;
  }
  const size_t before = held_.size();
  held_ += piece.text;
  if (!segments_.empty() && piece.kind == Piece::Kind::text && segments_.back().kind == Piece::Kind::text) {
    segments_.back().end = held_.size();
  } else {
    segments_.push_back({piece.kind, held_.size()});
  }
  size_t may_begin = 0;  // the longest beginning of a stop string that the text ends with
  for (size_t i = before; i < held_.size(); ++i) {
    may_begin = 0;
    for (PatternScan& scan : scans_) {
      const size_t state = scan.feed(held_[i]);
      may_begin = std::max(may_begin, state);
      if (state == scan.pattern().size() && (matched_ == nullptr || state > matched_->size()))
        matched_ = &scan.pattern();
    }
    if (matched_ == nullptr) continue;
    release(i + 1 - matched_->size(), true, out);
    held_.clear();
    segments_.clear();
    return;
  }
  release(held_.size() - may_begin, false, out);
}

void StopText::flush(std::vector<Piece>& out) {
  release(held_.size(), true, out);
  for (PatternScan& scan : scans_) scan.reset();
}

// The first n bytes. A user-defined token that reaches beyond them stays, or with `cut` gives what is before.
void StopText::release(size_t n, bool cut, std::vector<Piece>& out) {
  size_t begin = 0, i = 0;
  for (; i < segments_.size() && begin < n; ++i) {
    const Segment& segment = segments_[i];
    const bool whole = segment.end <= n;
    if (!whole && segment.kind == Piece::Kind::defined && !cut) break;
    const size_t end = std::min(segment.end, n);
    out.push_back({whole ? segment.kind : Piece::Kind::text, held_.substr(begin, end - begin)});
    begin = end;
    if (!whole) break;
  }
  held_.erase(0, begin);
  segments_.erase(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(i));
  for (Segment& segment : segments_) segment.end -= begin;
}

}  // namespace quern::serve
