// /v1/embeddings: inputs as ids, and vectors as the answer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/request.h"

namespace quern::engine {
class Engine;
}

namespace quern::api {

// Each input as ids. Text gets the special tokens that the model wants around it; control tokens in it stay text.
// Problems: a model without embeddings, dimensions that are not its own, an input without tokens, ids that are none,
// one that is too long. Size is looked at before a text is tokenized.
std::optional<Problem> prepare_inputs(const engine::Engine& engine, const EmbeddingRequest& request,
                                      std::vector<TokenIds>* out);

// The body of the answer. It is written straight to text: as a tree of numbers it would take many times the memory.
std::string embeddings_body(const std::string& model, std::span<const std::vector<float>> vectors, bool base64,
                            int64_t n_tokens);

// Base 64 with padding.
std::string base64_of(std::span<const std::byte> bytes);

}  // namespace quern::api
