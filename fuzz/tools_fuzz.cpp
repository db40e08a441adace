// Names, schemas and markup of any bytes as calls of tools: refused by name, or a grammar that can be walked. The
// input: a byte of options, then name, schema, the four parts of the form, and four more where arguments stand in tags,
// each ended by a line break.
#include <algorithm>
#include <cstdlib>

#include "grammar/automaton.h"
#include "grammar/grammar.h"

using namespace quern::grammar;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto next = [&] {
    const std::string part(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    return part;
  };
  const std::string name = next(), schema = next();
  const Function functions[] = {{name, schema}, {"other", ""}};
  CallForm form = {{{next()}}, {{next()}}, {{next()}}, {{next(), (data[0] & 8) != 0}}};
  if ((data[0] & 128) != 0) form.tags = {{{next()}}, {{next()}}, {{next()}}, {{next(), (data[0] & 8) != 0}, {"\n"}}};
  ToolOptions options;
  options.mode = (data[0] & 1) != 0 ? CallMode::automatic : CallMode::required;
  options.text_between = (data[0] & 2) != 0;
  if ((data[0] & 64) != 0) options.not_first = {{next()}, {"<", true, true}};
  options.max_calls = data[0] / 16U % 4U;
  options.schema.space = (data[0] & 4) != 0 ? JsonSpace::compact : JsonSpace::indented;
  const auto grammar = Grammar::from_tools(functions, form, options);
  if (!grammar.ok()) {
    if (grammar.error().message.empty()) std::abort();
    return 0;
  }
  Automaton automaton(grammar->network());
  automaton.set_work_limit(3000000);
  int32_t state = automaton.start();
  uint32_t choice = static_cast<uint32_t>(size);
  for (int i = 0; i < 60; ++i) {
    choice = choice * 1664525 + 1013904223;
    int32_t following = Automaton::kDead;
    for (unsigned b = 0; b < 256 && following < 0; ++b)
      following = automaton.next(state, static_cast<uint8_t>(b + (choice >> 16U)));
    if (automaton.limit() != RunLimit::none) return 0;
    if (following < 0) break;
    state = following;
  }
  return 0;
}
