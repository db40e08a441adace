// Headers are a few words; each word is taken for the first field that it fits and that is still open.
#include "token/harmony_header.h"

#include <algorithm>
#include <array>

namespace quern::token {
namespace {

using Section = HarmonyParser::Section;

constexpr std::string_view kTo = "to=";
constexpr std::string_view kAssistant = "assistant";
constexpr auto kRoles = std::to_array<std::string_view>({"assistant", "user", "system", "developer", "tool"});
constexpr auto kChannels = std::to_array<std::string_view>({"analysis", "commentary", "final"});
constexpr size_t kMaxWord = 32;  // of a content type in front of which nothing says that it is one

// Takes the next word off text.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kWhiteSpace));
  text.remove_prefix(word.size());
  return word;
}

bool is_role(std::string_view word) {
  return std::find(kRoles.begin(), kRoles.end(), word) != kRoles.end() || word.find('.') != std::string_view::npos;
}

// The known channel that a word begins with ("commentary?"), or none.
std::string_view known_channel(std::string_view word) {
  for (const std::string_view channel : kChannels) {
    if (word.starts_with(channel)) return channel;
  }
  return {};
}

class HeaderReader {
 public:
  HeaderReader(bool role_known, bool is_complete) : role_open_(!role_known), is_complete_(is_complete) {}

  void read(const Section& section) {
    std::string_view left = section.text;
    for (bool first = true;; first = false) {
      std::string_view behind = left;
      const std::string_view word = next_word(behind);
      if (word.empty()) return;
      if (!take(section.kind, word, first) && !is_complete_) {
        if (!header_.rest.empty()) header_.rest += ' ';
        header_.rest += left.substr(left.find_first_not_of(kWhiteSpace));
        return;
      }
      left = behind;
    }
  }

  HarmonyHeader header_;

 private:
  bool takes_role(std::string_view word) const {
    return role_open_ ? !word.starts_with(kTo) && (is_complete_ || is_role(word)) : word == kAssistant;
  }

  bool take(Section::Kind kind, std::string_view word, bool first) {
    HarmonyMessage& m = header_.message;
    if (kind == Section::Kind::role && first && takes_role(word)) {
      if (!word.starts_with(kAssistant)) m.role = word;
      return true;
    }
    if (kind == Section::Kind::channel && first) {
      const std::string_view known = known_channel(word);
      if (known.empty() && !is_complete_) return false;
      m.channel = known.empty() ? word : known;
      return true;
    }
    if (word.starts_with(kTo)) {
      const bool is_to_nobody = m.recipient.empty() || m.recipient == kAssistant;
      if (has_recipient_ && !(is_complete_ && is_to_nobody)) return false;
      has_recipient_ = true;
      m.recipient = word.substr(kTo.size());
      m.recipient_first = kind == Section::Kind::role;
      return true;
    }
    if (!is_complete_ || !m.content_type.empty()) return false;
    m.content_type = word;
    m.constrained = kind == Section::Kind::constrain;
    return true;
  }

  bool role_open_;
  bool is_complete_;
  bool has_recipient_ = false;
};

}  // namespace

HarmonyHeader read_harmony_header(std::span<const Section> sections, bool role_known, bool is_complete) {
  HeaderReader reader(role_known, is_complete);
  for (const Section& section : sections) reader.read(section);
  return std::move(reader.header_);
}

bool begins_harmony_role(std::string_view text, bool role_known) {
  const auto fits = [&](std::string_view word, std::string_view whole) {  // `word` may go on where the text ends
    return text.empty() ? whole.starts_with(word) : word == whole;
  };
  std::string_view word = next_word(text);
  if (word.empty()) return true;
  if ((!role_known && !word.starts_with(kTo)) || fits(word, kAssistant)) word = next_word(text);
  if (word.empty()) return true;
  if (!word.starts_with(kTo) && !fits(word, kTo)) return false;
  word = next_word(text);
  return word.size() <= kMaxWord && next_word(text).empty();
}

}  // namespace quern::token
