// The stream of harmony messages, and writing them. One header: harmony_header.cpp.
#include "token/harmony.h"

#include <algorithm>
#include <array>

#include "token/harmony_header.h"

namespace quern::token {
namespace {

constexpr auto kNames = std::to_array<std::string_view>(
    {"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"});
enum Name : size_t { kStart, kEnd, kMessage, kChannel, kConstrain, kReturn, kCall };

constexpr std::string_view kFunctions = "functions.";
constexpr std::string_view kBetweenParts = "\n\n";  // between messages that are one part of the reply

// Not the model's own role: a message that it made up.
bool is_outside_role(const HarmonyMessage& message) {
  constexpr auto kOutside = std::to_array<std::string_view>({"user", "system", "developer", "tool"});
  return std::find(kOutside.begin(), kOutside.end(), message.role) != kOutside.end() ||
         message.role.find('.') != std::string::npos ||
         (message.role != "assistant" && message.recipient == "assistant");
}

HarmonyEnd end_of(size_t name) {
  return name == kReturn ? HarmonyEnd::done : name == kCall ? HarmonyEnd::call : HarmonyEnd::end;
}

std::string_view end_name(HarmonyEnd end) {
  switch (end) {
    case HarmonyEnd::open:
      return {};
    case HarmonyEnd::end:
      return kNames[kEnd];
    case HarmonyEnd::done:
      return kNames[kReturn];
    case HarmonyEnd::call:
      return kNames[kCall];
  }
  return {};
}

// The header as text, or nothing where text in it could be taken for markup or for more of the role.
std::string raw_header(std::span<const HarmonyParser::Section> sections, bool role_known) {
  std::string out = role_known ? "assistant" : "";
  const std::string& first = sections.front().text;
  if (role_known && !first.empty() && !first.starts_with(" to=")) return {};
  for (const auto& section : sections) {
    if (section.text.find('<') != std::string::npos) return {};
    if (section.kind == HarmonyParser::Section::Kind::channel) out += kNames[kChannel];
    if (section.kind == HarmonyParser::Section::Kind::constrain) out += kNames[kConstrain];
    out += section.text;
  }
  return out;
}

}  // namespace

bool HarmonyMessage::is_call() const {
  constexpr auto kPeople = std::to_array<std::string_view>({"", "all", "user", "assistant"});
  return std::find(kPeople.begin(), kPeople.end(), recipient) == kPeople.end() && !is_outside_role(*this);
}

HarmonyParser::HarmonyParser(bool in_text) : ReplyParser({kNames.begin(), kNames.end()}, in_text) {
  begin_header(true);
}

void HarmonyParser::on_prompt(std::span<const TextPiece> pieces) {
  size_t from = pieces.size();
  while (from > 0 &&
         !(pieces[from - 1].markup && pieces[from - 1].text.find(kNames[kStart]) != std::string_view::npos)) {
    --from;
  }
  if (from == 0) return;
  const TextPiece& piece = pieces[from - 1];
  state_ = State::between;
  take({piece.text.substr(piece.text.rfind(kNames[kStart])), true});
  for (const TextPiece& later : pieces.subspan(from)) take(later);
  forget();
  if (state_ != State::body) return messages_.clear();
  HarmonyMessage open = std::move(messages_.back());
  messages_.clear();
  open.content.clear();
  begin_body(std::move(open));
}

void HarmonyParser::begin_header(bool role_known) {
  state_ = State::header;
  role_known_ = role_known;
  sections_.assign(1, {Section::Kind::role, {}});
  header_bytes_ = 0;
  gap_.clear();
}

void HarmonyParser::on_text(std::string_view text) {
  if (state_ == State::header) return header_text(text);
  if (state_ == State::body) return body_text(text);
  gap_ += text;
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return;
  begin_body({});
  body_text(std::exchange(gap_, {}));
}

void HarmonyParser::header_text(std::string_view text) {
  const std::string_view fits = text.substr(0, kMaxHeader + 1 - header_bytes_);
  sections_.back().text += fits;
  header_bytes_ += fits.size();
  // Models that refuse leave all markup out: such an answer must not wait for a <|message|> that never comes.
  const bool may_go_on = sections_.size() > 1 || begins_harmony_role(sections_[0].text, role_known_);
  if (header_bytes_ <= kMaxHeader && may_go_on) return;
  header_is_text();
  if (fits.size() < text.size()) body_text(text.substr(fits.size()));
}

void HarmonyParser::on_markup(size_t name) {
  if (state_ == State::header) return header_markup(name);
  switch (name) {
    case kStart:
      close(HarmonyEnd::open);
      return begin_header(false);
    case kChannel:
      close(HarmonyEnd::open);
      begin_header(true);
      return header_markup(name);
    case kMessage:
      if (state_ == State::between) begin_body({});
      return;
    case kConstrain:
      return;
    default:
      return close(end_of(name));
  }
}

void HarmonyParser::header_markup(size_t name) {
  switch (name) {
    case kChannel:
    case kConstrain:
      header_bytes_ += kNames[name].size();
      if (header_bytes_ > kMaxHeader) return header_is_text();
      sections_.push_back({name == kChannel ? Section::Kind::channel : Section::Kind::constrain, {}});
      return;
    case kMessage: {
      HarmonyMessage message = read_harmony_header(sections_, role_known_, true).message;
      message.header = raw_header(sections_, role_known_);
      return begin_body(std::move(message));
    }
    case kStart:
      end_header(HarmonyEnd::open);
      return begin_header(false);
    default:
      return end_header(end_of(name));
  }
}

// No <|message|> came: the words that are no header begin the message.
void HarmonyParser::header_is_text() {
  HarmonyHeader header = read_harmony_header(sections_, role_known_, false);
  begin_body(std::move(header.message));
  if (!header.rest.empty()) body_text(header.rest);
}

// The message ends in its header. Without words beside the header there is none, but for a call without arguments.
void HarmonyParser::end_header(HarmonyEnd end) {
  const HarmonyHeader header = read_harmony_header(sections_, role_known_, false);
  if (!header.rest.empty() || (end == HarmonyEnd::call && header.message.is_call())) header_is_text();
  close(end);
}

void HarmonyParser::begin_body(HarmonyMessage message) {
  state_ = State::body;
  is_new_ = true;
  message.end = HarmonyEnd::open;
  if (message.is_call()) {
    part_ = Kind::arguments;
    const std::string_view recipient = message.recipient;
    const bool builtin = !recipient.starts_with(kFunctions);
    begin_call(builtin ? recipient : recipient.substr(kFunctions.size()), builtin);
  } else {
    part_ = message.channel == "analysis" || is_outside_role(message) ? Kind::reasoning : Kind::content;
  }
  messages_.push_back(std::move(message));
}

void HarmonyParser::body_text(std::string_view text) {
  if (is_new_ && part_ != Kind::arguments) {
    const std::string& before = part_ == Kind::reasoning ? reply().reasoning : reply().content;
    if (!before.empty()) emit(part_, kBetweenParts);
  }
  is_new_ = false;
  messages_.back().content += text;
  emit(part_, text);
}

void HarmonyParser::close(HarmonyEnd end) {
  if (state_ == State::body) messages_.back().end = end;
  state_ = State::between;
  gap_.clear();
}

void HarmonyParser::on_finish() {
  if (state_ == State::header) return end_header(HarmonyEnd::open);
  close(HarmonyEnd::open);
}

namespace {

class Writer {
 public:
  void markup(std::string_view text) { out_.text += text; }
  void content(std::string_view text) {
    const size_t begin = out_.text.size();
    out_.text += text;
    add_span(out_.content, begin, out_.text.size());
  }
  jinja::Rendered out_;
};

void write_header(const HarmonyMessage& m, Writer& writer) {
  if (!m.header.empty()) return writer.markup(m.header);
  const std::string recipient = m.recipient.empty() ? "" : " to=" + m.recipient;
  writer.content(m.role);
  if (m.recipient_first || m.channel.empty()) writer.content(recipient);
  if (!m.channel.empty()) {
    writer.markup(kNames[kChannel]);
    writer.content(m.channel);
    if (!m.recipient_first) writer.content(recipient);
  }
  if (m.content_type.empty()) return;
  writer.content(" ");
  // Behind a bare role a word would be text.
  const bool bare = m.channel.empty() && m.recipient.empty();
  if (m.constrained || bare) writer.markup(kNames[kConstrain]);
  writer.content(m.content_type);
}

}  // namespace

jinja::Rendered render_harmony(std::span<const HarmonyMessage> messages) {
  Writer writer;
  for (const HarmonyMessage& m : messages) {
    writer.markup(kNames[kStart]);
    write_header(m, writer);
    writer.markup(kNames[kMessage]);
    writer.content(m.content);
    writer.markup(end_name(m.end));
  }
  return std::move(writer.out_);
}

std::vector<HarmonyMessage> harmony_messages(const Reply& reply) {
  std::vector<HarmonyMessage> out;
  const auto add = [&](std::string_view channel, std::string_view content, HarmonyEnd end) -> HarmonyMessage& {
    HarmonyMessage& m = out.emplace_back();
    m.channel = channel;
    m.content = content;
    m.end = end;
    return m;
  };
  if (!reply.reasoning.empty()) add("analysis", reply.reasoning, HarmonyEnd::end);
  if (reply.calls.empty()) {
    add("final", reply.content, HarmonyEnd::done);
    return out;
  }
  if (!reply.content.empty()) add("commentary", reply.content, HarmonyEnd::end);
  for (const ReplyCall& call : reply.calls) {
    HarmonyMessage& m = add(call.builtin ? "analysis" : "commentary", call.arguments, HarmonyEnd::call);
    m.recipient = (call.builtin ? "" : std::string(kFunctions)) + call.name;
    if (call.builtin) continue;
    m.content_type = "json";
    m.constrained = true;
  }
  return out;
}

}  // namespace quern::token
