// Any stream as a reply, in any pieces: every parser gives the same however the stream is cut, and what harmony read
// can be written and read again.
#include <cstdlib>

#include "token/chat.h"
#include "token/harmony.h"

namespace {

using namespace quern::token;

bool same(const Reply& a, const Reply& b) {
  if (a.reasoning != b.reasoning || a.content != b.content || a.calls.size() != b.calls.size()) return false;
  for (size_t i = 0; i < a.calls.size(); ++i) {
    if (a.calls[i].name != b.calls[i].name || a.calls[i].arguments != b.calls[i].arguments) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 2, size - 2);
  const size_t step = 1 + bytes[1] / 5 % 16;
  const auto format = static_cast<ReplyFormat>(bytes[0] % 4);
  const auto calls = static_cast<CallFormat>(bytes[1] % kCallFormats);
  const auto is_text = [](std::string_view function, std::string_view key) { return function.size() < key.size(); };
  const auto whole = make_reply_parser(format, nullptr, calls, is_text);
  whole->feed({text, true});
  whole->finish();
  const auto cut = make_reply_parser(format, nullptr, calls, is_text);
  for (size_t at = 0; at < text.size(); at += step) cut->feed({text.substr(at, step), true});
  cut->finish();
  if (!same(whole->reply(), cut->reply())) std::abort();
  if (format != ReplyFormat::harmony || size > HarmonyParser::kMaxHeader) return 0;
  const auto& messages = static_cast<const HarmonyParser&>(*whole).messages();
  const auto written = render_harmony(messages);
  HarmonyParser again(false);
  again.follow({"<|start|>user<|message|><|end|>", {}});
  for (const TextPiece& piece : pieces_of(written)) again.feed(piece);
  again.finish();
  if (again.messages().size() != messages.size()) std::abort();
  for (size_t i = 0; i < messages.size(); ++i) {
    const HarmonyMessage& a = messages[i];
    const HarmonyMessage& b = again.messages()[i];
    if (a.content != b.content || a.recipient != b.recipient || a.is_call() != b.is_call()) std::abort();
  }
  return 0;
}
