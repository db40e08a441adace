// Stop strings over a text, in any pieces: what goes out and what stopped it do not depend on the cuts, and are what
// the definition says. The input: stop strings, each ended by a line break, an empty line, the text.
#include <cstdlib>

#include "serve/stop_text.h"

using namespace quern::serve;

namespace {

struct Outcome {
  std::string text, stop;
  bool stopped = false;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const std::vector<std::string>& stops, std::string_view text, size_t step) {
  StopText held(stops);
  std::vector<Piece> out;
  for (size_t at = 0; at < text.size(); at += step)
    held.feed({Piece::Kind::text, std::string(text.substr(at, step))}, out);
  held.flush(out);
  Outcome outcome{plain_text(out), {}, held.matched() != nullptr};
  if (held.matched() != nullptr) outcome.stop = *held.matched();
  return outcome;
}

// Of the stop strings, the one whose first appearance ends first; of several that end there the longest.
Outcome defined(const std::vector<std::string>& stops, std::string_view text) {
  size_t end = std::string_view::npos;
  Outcome outcome{std::string(text), {}, false};
  for (const std::string& stop : stops) {
    const size_t at = text.find(stop);
    if (at == std::string_view::npos) continue;
    const bool sooner = at + stop.size() < end, longer = at + stop.size() == end && stop.size() > outcome.stop.size();
    if (!sooner && !longer) continue;
    end = at + stop.size();
    outcome = {std::string(text.substr(0, at)), stop, true};
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<std::string> stops;
  for (size_t end; stops.size() < 16 && (end = rest.find('\n')) != std::string_view::npos && end > 0;) {
    stops.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  const Outcome whole = run(stops, rest, rest.size() + 1);
  if (whole != run(stops, rest, 1 + data[0] % 16U) || whole != defined(stops, rest)) std::abort();
  return 0;
}
