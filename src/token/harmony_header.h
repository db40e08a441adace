// Reading the headers of harmony messages, well-formed or not. The stream around them: harmony.cpp.
#pragma once

#include "token/harmony.h"

namespace quern::token {

struct HarmonyHeader {
  HarmonyMessage message;  // its fields; no header, content or end
  std::string rest;        // the first words that belong to no field, and all behind them
};

// sections: role first. role_known: the prompt held the role, so that the text begins behind it. With is_complete,
// <|message|> follows, and words out of place are ignored; else they are the rest.
HarmonyHeader read_harmony_header(std::span<const HarmonyParser::Section> sections, bool role_known, bool is_complete);

// Can this be the beginning of a role's section?
bool begins_harmony_role(std::string_view text, bool role_known);

}  // namespace quern::token
