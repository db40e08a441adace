// Any bytes as a chat template, rendered over one conversation that touches every kind of value.
#include <nlohmann/json.hpp>
#include <string_view>

#include "token/jinja.h"

using namespace quern::token::jinja;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto kMessages = nlohmann::ordered_json::parse(
      R"([{"role":"system","content":"Be br\u00ebf <|im_end|>"},{"role":"user","content":[{"type":"text","text":"a\nb"}]},
          {"role":"assistant","content":null,"tool_calls":[{"id":"x","function":{"name":"f","arguments":{"a":[1,2.5,true]}}}]}])");
  static const auto kNumber = nlohmann::ordered_json(-7);
  static const auto kText = nlohmann::ordered_json("<s>");
  const Variable variables[] = {{"messages", &kMessages}, {"n", &kNumber}, {"bos_token", &kText, false}};
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  auto parsed = Template::parse(source);
  if (!parsed.ok()) return 0;
  RenderOptions options;
  options.fuel = 20000;
  options.max_memory_bytes = size_t{16} << 20;
  options.now = [] { return std::tm{}; };
  auto rendered = parsed->render(variables, options);
  if (!rendered.ok()) return 0;
  size_t end = 0;  // content spans are sorted, disjoint, non-empty and inside the text
  for (const auto& span : rendered->content) {
    if (span.begin >= span.end || span.end > rendered->text.size() || (end > 0 && span.begin <= end)) __builtin_trap();
    end = span.end;
  }
  return 0;
}
