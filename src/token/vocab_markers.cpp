// Names of end-of-generation and turn markup over model families. Files carry no such list; the names are public chat
// formats. "</s>" is not here: in many vocabularies it is an HTML tag, so there only its type or the eos key counts.
#include <array>

#include "token/vocab.h"

namespace quern::token {
namespace {

// In order of preference where a file names no eot token.
constexpr auto kEndOfTurn = std::to_array<std::string_view>({
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
});

constexpr auto kOtherEnds = std::to_array<std::string_view>({
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<|eom_id|>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<reponame>",
    "<|file_sep|>",
});

constexpr auto kEndsIfControl = std::to_array<std::string_view>({"</s>", "<PAD>", "[PAD]", "<REPO>"});

constexpr auto kTurns = std::to_array<std::string_view>({
    "<|im_start|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<start_of_turn>",
    "<|begin_of_text|>",
    "<|python_tag|>",
    "<|start|>",
    "<|message|>",
    "<|channel|>",
    "<|constrain|>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|tool|>",
    "<|turn>",
    "<|channel>",
    "<channel|>",
    "<|tool>",
    "<tool|>",
    "<|tool_call>",
    "<tool_call|>",
    "<tool_response|>",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜begin▁of▁sentence｜>",
});

}  // namespace

std::span<const std::string_view> end_of_turn_names() {
  return kEndOfTurn;
}
std::span<const std::string_view> other_end_names() {
  return kOtherEnds;
}
std::span<const std::string_view> end_names_if_control() {
  return kEndsIfControl;
}
std::span<const std::string_view> turn_names() {
  return kTurns;
}

}  // namespace quern::token
