// Token ids of llama.cpp for tools/tokenizer_compare.py, which builds this against an existing build of llama.cpp.
// tokenizer_peer MODEL.gguf [--special]: strings in and ids out as tokenize_lines does it.
#include <llama.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

void only_errors(ggml_log_level level, const char* text, void*) {
  if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  llama_log_set(only_errors, nullptr);
  llama_backend_init();
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* model = llama_model_load_from_file(argv[1], params);
  if (model == nullptr) return 1;
  const llama_vocab* vocab = llama_model_get_vocab(model);
  const bool special = argc > 2 && std::strcmp(argv[2], "--special") == 0;
  std::string text;
  std::vector<llama_token> ids(64);
  uint32_t bytes = 0;
  while (std::fread(&bytes, sizeof bytes, 1, stdin) == 1) {
    text.resize(bytes);
    if (std::fread(text.data(), 1, bytes, stdin) != bytes) return 1;
    const auto encode = [&] {
      return llama_tokenize(vocab, text.data(), static_cast<int32_t>(bytes), ids.data(),
                            static_cast<int32_t>(ids.size()), false, special);
    };
    int32_t n = encode();
    if (n < 0) {
      ids.resize(static_cast<size_t>(-n));
      n = encode();
    }
    std::string line = "[";
    for (int32_t i = 0; i < n; ++i) line += (i > 0 ? "," : "") + std::to_string(ids[static_cast<size_t>(i)]);
    std::puts((line += "]").c_str());
  }
  llama_model_free(model);
  return 0;
}
