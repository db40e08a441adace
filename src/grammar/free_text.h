// Free text as part of a network: every text without a trigger. And the pieces of a form, around it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/network.h"

namespace quern::grammar {

// As networks have it: the name of a marker between bytes that no text has.
std::string spelled(const Piece& piece);
// What shows that free text ends: of a token that is also text either, so that its text does not lead past it.
std::vector<std::string> triggers_of(const Piece& piece);
void add_pieces(NetworkBuilder& b, int32_t from, int32_t to, std::span<const Piece> list);

// From `from`: text without a trigger ends in `ends`, text up to and with one in `found`. not_first: what it does not
// begin with, white space aside. any_token: also control tokens.
void add_free_text(NetworkBuilder& b, int32_t from, int32_t ends, int32_t found,
                   const std::vector<std::string>& triggers, bool any_token,
                   const std::vector<std::string>& not_first = {});

}  // namespace quern::grammar
