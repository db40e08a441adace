// Reading replies in tests: in pieces of chosen sizes, and replies as one line.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

#include "token/reply.h"

namespace quern::token::testing {

// "reasoning:...|content:...|call NAME:arguments", parts that are empty left out.
inline std::string shown(const Reply& reply) {
  std::string out;
  const auto add = [&](std::string_view text) { out.append(out.empty() ? "" : "|").append(text); };
  if (!reply.reasoning.empty()) add("reasoning:" + reply.reasoning);
  if (!reply.content.empty()) add("content:" + reply.content);
  for (const ReplyCall& call : reply.calls)
    add((call.builtin ? "builtin " : "call ") + call.name + ":" + call.arguments);
  return out;
}

inline void add_to(Reply& reply, const std::vector<ReplyDelta>& deltas) {
  for (const ReplyDelta& delta : deltas) {
    switch (delta.kind) {
      case ReplyDelta::Kind::reasoning:
        reply.reasoning += delta.text;
        break;
      case ReplyDelta::Kind::content:
        reply.content += delta.text;
        break;
      case ReplyDelta::Kind::call:
        EXPECT_EQ(delta.call, reply.calls.size());
        reply.calls.push_back({delta.text, {}, false});
        break;
      case ReplyDelta::Kind::arguments:
        ASSERT_EQ(delta.call + 1, reply.calls.size());
        reply.calls.back().arguments += delta.text;
        break;
    }
  }
}

// Reads pieces, each cut again into parts of at most `limit` bytes (0: not cut), and checks that the deltas, joined,
// are the reply.
inline void read_pieces(ReplyParser& parser, std::span<const TextPiece> pieces, size_t limit = 0,
                        std::mt19937* rng = nullptr) {
  Reply joined;
  for (const TextPiece& piece : pieces) {
    for (size_t at = 0; at < piece.text.size();) {
      const size_t most = limit == 0 ? piece.text.size() : limit;
      const size_t size = rng != nullptr && limit > 1 ? 1 + (*rng)() % most : most;
      add_to(joined, parser.feed({piece.text.substr(at, size), piece.markup}));
      at += size;
    }
  }
  add_to(joined, parser.finish());
  const Reply& reply = parser.reply();
  EXPECT_EQ(joined.reasoning, reply.reasoning);
  EXPECT_EQ(joined.content, reply.content);
  ASSERT_EQ(joined.calls.size(), reply.calls.size());
  for (size_t i = 0; i < joined.calls.size(); ++i) {
    EXPECT_EQ(joined.calls[i].name, reply.calls[i].name);
    EXPECT_EQ(joined.calls[i].arguments, reply.calls[i].arguments);
  }
}

// A text in which markup counts as such.
inline Reply read_reply(ReplyFormat format, std::string_view text, size_t limit = 0, std::mt19937* rng = nullptr,
                        CallFormat calls = CallFormat::none, TextArguments is_text = {}) {
  const auto parser = make_reply_parser(format, nullptr, calls, std::move(is_text));
  const TextPiece piece{text, true};
  read_pieces(*parser, {&piece, 1}, limit, rng);
  return parser->reply();
}

}  // namespace quern::token::testing
