// All logits of llama.cpp for given token ids, as .npy; and the ids of a text. An instrument, not part of the engine:
// built by peer_logits.sh against a llama.cpp build tree, through its public C API only.
//
//   llama_logits MODEL --tokens FILE -o OUT.npy [--window W] [--ubatch N] [-t N] [--fa auto|on|off] [--kv f16|f32]
//                [--no-repack] [--n-ctx N]
//   llama_logits MODEL --tokenize TEXTFILE          prints the ids, no special tokens added or parsed
//   llama_logits MODEL --bos                        prints the id that starts a sequence, or -1
//
// FILE holds ids separated by white space or commas, and comments from # to the end of a line. Each W ids are one
// sequence of their own, from position 0. The defaults are those of llama.cpp's own perplexity tool: batches of 512
// rows, f16 KV, flash attention where supported.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

namespace {

struct Options {
  std::string model, tokens, out, text, fa = "auto", kv = "f16";
  int window = 0, n_ctx = 0, ubatch = 512, threads = 2;
  bool repack = true, bos = false;
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "llama_logits: %s\n", message.c_str());
  std::exit(1);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<llama_token> read_ids(const std::string& path) {
  std::vector<llama_token> ids;
  std::string number;
  bool comment = false;
  for (char c : read_file(path) + "\n") {
    if (c == '#') comment = true;
    if (!comment && std::isdigit(static_cast<unsigned char>(c))) {
      number += c;
    } else if (!number.empty()) {
      ids.push_back(std::stoi(number));
      number.clear();
    }
    if (c == '\n') comment = false;
  }
  if (ids.empty()) fail(path + " holds no token ids");
  return ids;
}

Options parse(int argc, char** argv) {
  Options o;
  if (argc < 2) fail("name a model file");
  o.model = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string a = argv[i];
    auto value = [&]() -> std::string {
      if (i + 1 >= argc) fail(a + " needs a value");
      return argv[++i];
    };
    if (a == "--tokens")
      o.tokens = value();
    else if (a == "-o")
      o.out = value();
    else if (a == "--window")
      o.window = std::stoi(value());
    else if (a == "--n-ctx")
      o.n_ctx = std::stoi(value());
    else if (a == "--ubatch")
      o.ubatch = std::stoi(value());
    else if (a == "-t")
      o.threads = std::stoi(value());
    else if (a == "--fa")
      o.fa = value();
    else if (a == "--kv")
      o.kv = value();
    else if (a == "--no-repack")
      o.repack = false;
    else if (a == "--tokenize")
      o.text = value();
    else if (a == "--bos")
      o.bos = true;
    else
      fail("unknown option " + a);
  }
  return o;
}

// NPY version 1.0, little endian, C order.
void write_header(std::FILE* f, size_t rows, size_t cols) {
  std::string h = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                  std::to_string(cols) + "), }";
  h.append(63 - (10 + h.size()) % 64, ' ');
  h += '\n';
  const unsigned char lead[10] = {0x93,
                                  'N',
                                  'U',
                                  'M',
                                  'P',
                                  'Y',
                                  1,
                                  0,
                                  static_cast<unsigned char>(h.size() & 255),
                                  static_cast<unsigned char>(h.size() >> 8)};
  std::fwrite(lead, 1, sizeof lead, f);
  std::fwrite(h.data(), 1, h.size(), f);
}

void print_ids(const llama_vocab* vocab, const std::string& path) {
  const std::string text = read_file(path);
  std::vector<llama_token> ids(text.size() + 16);
  const int n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), ids.data(),
                               static_cast<int32_t>(ids.size()), false, false);
  if (n < 0) fail("tokenizing failed");
  for (int i = 0; i < n; ++i) std::printf("%d\n", ids[static_cast<size_t>(i)]);
}

llama_context* make_context(llama_model* model, const Options& o, int longest) {
  llama_context_params p = llama_context_default_params();
  p.n_ctx = static_cast<uint32_t>(o.n_ctx ? o.n_ctx : longest);
  p.n_batch = p.n_ubatch = static_cast<uint32_t>(o.ubatch);
  p.n_threads = p.n_threads_batch = o.threads;
  p.swa_full = false;
  p.flash_attn_type = o.fa == "on"    ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                      : o.fa == "off" ? LLAMA_FLASH_ATTN_TYPE_DISABLED
                                      : LLAMA_FLASH_ATTN_TYPE_AUTO;
  p.type_k = p.type_v = o.kv == "f32" ? GGML_TYPE_F32 : GGML_TYPE_F16;
  llama_context* ctx = llama_init_from_model(model, p);
  if (!ctx) fail("no context could be made");
  return ctx;
}

void evaluate(llama_context* ctx, const std::vector<llama_token>& ids, size_t window, size_t step, size_t n_vocab,
              std::FILE* f) {
  llama_batch batch = llama_batch_init(static_cast<int32_t>(step), 0, 1);
  for (size_t start = 0; start < ids.size(); start += window) {
    const size_t end = std::min(ids.size(), start + window);
    llama_memory_clear(llama_get_memory(ctx), true);
    for (size_t at = start; at < end; at += step) {
      const size_t n = std::min(step, end - at);
      batch.n_tokens = static_cast<int32_t>(n);
      for (size_t i = 0; i < n; ++i) {
        batch.token[i] = ids[at + i];
        batch.pos[i] = static_cast<llama_pos>(at + i - start);
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
      }
      if (llama_decode(ctx, batch) != 0) fail("llama_decode failed");
      if (std::fwrite(llama_get_logits(ctx), sizeof(float), n * n_vocab, f) != n * n_vocab) fail("cannot write");
    }
  }
  llama_batch_free(batch);
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  ggml_backend_load_all();
  llama_backend_init();
  llama_model_params mp = llama_model_default_params();
  mp.n_gpu_layers = 0;
  mp.use_extra_bufts = o.repack;
  mp.vocab_only = !o.text.empty() || o.bos;
  llama_model* model = llama_model_load_from_file(o.model.c_str(), mp);
  if (!model) fail("cannot load " + o.model);
  const llama_vocab* vocab = llama_model_get_vocab(model);
  if (o.bos) {
    std::printf("%d\n", llama_vocab_get_add_bos(vocab) ? llama_vocab_bos(vocab) : -1);
  } else if (!o.text.empty()) {
    print_ids(vocab, o.text);
  } else {
    if (o.tokens.empty() || o.out.empty()) fail("give --tokens and -o");
    const std::vector<llama_token> ids = read_ids(o.tokens);
    const size_t window = o.window ? static_cast<size_t>(o.window) : ids.size();
    const size_t n_vocab = static_cast<size_t>(llama_vocab_n_tokens(vocab));
    for (llama_token id : ids) {
      if (static_cast<size_t>(id) >= n_vocab) fail("token id " + std::to_string(id) + " is not in the vocabulary");
    }
    llama_context* ctx = make_context(model, o, static_cast<int>(std::min(window, ids.size())));
    std::FILE* f = std::fopen(o.out.c_str(), "wb");
    if (!f) fail("cannot write " + o.out);
    write_header(f, ids.size(), n_vocab);
    evaluate(ctx, ids, window, static_cast<size_t>(o.ubatch), n_vocab, f);
    if (std::fclose(f) != 0) fail("cannot write " + o.out);
    llama_free(ctx);
  }
  llama_model_free(model);
  return 0;
}
