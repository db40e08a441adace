// token: between text and the numbers that a model reads.
//
// Owns: tokenizers built from GGUF metadata (byte-level BPE, SentencePiece BPE), detokenizing of streams, chat
//       templates, reasoning and tool-call markup, grammars, samplers.
// Never: devices, weights, files other than through file/, the network.
// In -> out: text or messages -> token ids; logits -> a token id; token ids -> text in whole characters.
#pragma once
