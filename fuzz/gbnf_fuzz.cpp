// Any bytes as a GBNF grammar and as a regular expression: refused by name, or a grammar that can be walked.
#include <cstdlib>

#include "grammar/automaton.h"
#include "grammar/grammar.h"

using namespace quern;
using namespace quern::grammar;

namespace {

// Follows one live byte after another; a state of a finished network is never a dead end.
void walk(const Grammar& grammar, uint32_t choice) {
  Automaton automaton(grammar.network());
  automaton.set_work_limit(3000000);
  int32_t state = automaton.start();
  for (int i = 0; i < 60; ++i) {
    choice = choice * 1664525 + 1013904223;
    int32_t next = Automaton::kDead;
    for (unsigned b = 0; b < 256 && next < 0; ++b)
      next = automaton.next(state, static_cast<uint8_t>(b + (choice >> 16)));
    if (automaton.limit() != RunLimit::none) return;
    if (next < 0) {
      if (!automaton.may_end(state)) std::abort();
      return;
    }
    state = next;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& grammar : {Grammar::from_gbnf(text), Grammar::from_pattern(text, size % 2 == 0)}) {
    if (grammar.ok())
      walk(*grammar, static_cast<uint32_t>(size));
    else if (grammar.error().message.empty())
      std::abort();
  }
  return 0;
}
