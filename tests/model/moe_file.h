// Small GGUF files of networks with experts, to be changed in one thing and loaded. Weights of f32 tensors are 0, 1, 2,
// ... in file order, others are zero bytes: what matters is what binds where.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "file/gguf.h"
#include "file/gguf_writer.h"
#include "format/format.h"
#include "model/model.h"

namespace quern::model::testing {

using file::OwnedValue;

constexpr uint32_t kF32 = 0, kF16 = 1;
// The shape of all files: experts' widths differ from every other number.
constexpr uint64_t kDim = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 8, kFf = 48, kVocab = 40, kExperts = 8, kUsed = 2,
                   kFfExpert = 16, kLayers = 4;

class ModelFile {
 public:
  explicit ModelFile(std::string arch) : arch_(std::move(arch)) {
    keys_.emplace_back("general.architecture", OwnedValue::of(arch_));
    for (const auto& [key, n] :
         std::initializer_list<std::pair<const char*, uint64_t>>{{"block_count", kLayers},
                                                                 {"context_length", 4096},
                                                                 {"embedding_length", kDim},
                                                                 {"feed_forward_length", kFf},
                                                                 {"attention.head_count", kHeads},
                                                                 {"attention.head_count_kv", kKvHeads},
                                                                 {"attention.key_length", kHeadDim},
                                                                 {"attention.value_length", kHeadDim}})
      set(key, n);
    set("attention.layer_norm_rms_epsilon", 1e-5F);
    tensor("token_embd.weight", {kDim, kVocab});
    tensor("output_norm.weight", {kDim});
    tensor("output.weight", {kDim, kVocab});
  }

  // Keys are without the architecture's prefix. Another value replaces the old one.
  ModelFile& set(const std::string& key, OwnedValue value) {
    drop_key(key);
    keys_.emplace_back(arch_ + "." + key, std::move(value));
    return *this;
  }
  template <std::integral T>
  ModelFile& set(const std::string& key, T n) {
    return set(key, OwnedValue::of(static_cast<uint64_t>(n)));
  }
  ModelFile& set(const std::string& key, float x) { return set(key, OwnedValue::of(x)); }
  ModelFile& drop_key(const std::string& key) {
    std::erase_if(keys_, [&](const auto& entry) { return entry.first == arch_ + "." + key; });
    return *this;
  }
  ModelFile& tensor(const std::string& name, std::vector<uint64_t> shape, uint32_t type = kF32) {
    drop(name);
    tensors_.push_back({name, std::move(shape), type});
    return *this;
  }
  ModelFile& drop(const std::string& name) {
    std::erase_if(tensors_, [&](const Declared& t) { return t.name == name; });
    return *this;
  }

  ModelFile& attention(const std::string& b) {
    tensor(b + "attn_norm.weight", {kDim});
    tensor(b + "attn_q.weight", {kDim, kHeads * kHeadDim});
    tensor(b + "attn_k.weight", {kDim, kKvHeads * kHeadDim});
    tensor(b + "attn_v.weight", {kDim, kKvHeads * kHeadDim});
    return tensor(b + "attn_output.weight", {kHeads * kHeadDim, kDim});
  }
  ModelFile& feed_forward(const std::string& b, uint64_t width = kFf, const std::string& part = "") {
    tensor(b + "ffn_gate" + part + ".weight", {kDim, width});
    tensor(b + "ffn_up" + part + ".weight", {kDim, width});
    return tensor(b + "ffn_down" + part + ".weight", {width, kDim});
  }
  ModelFile& experts(const std::string& b, uint64_t width = kFfExpert) {
    tensor(b + "ffn_gate_inp.weight", {kDim, kExperts});
    tensor(b + "ffn_gate_exps.weight", {kDim, width, kExperts});
    tensor(b + "ffn_up_exps.weight", {kDim, width, kExperts});
    return tensor(b + "ffn_down_exps.weight", {width, kDim, kExperts});
  }

  std::string write() const {
    std::string path = ::testing::TempDir() + "quern_moe_test.gguf";
    auto out = file::GgufWriter::create(path).value();
    for (const auto& [key, value] : keys_) EXPECT_TRUE(out.add(key, value).ok());
    for (const Declared& t : tensors_) EXPECT_TRUE(out.declare(t.name, t.type, t.shape).ok());
    EXPECT_TRUE(out.begin().ok());
    for (const Declared& t : tensors_) {
      const auto block = format::ggml_block(t.type).value();
      uint64_t n = 1;
      for (const uint64_t d : t.shape) n *= d;
      std::vector<std::byte> bytes(n / block.block_weights * block.block_bytes);
      if (t.type == kF32) {
        std::vector<float> values(n);
        std::iota(values.begin(), values.end(), 0.0F);
        std::memcpy(bytes.data(), values.data(), bytes.size());
      }
      EXPECT_TRUE(out.write(bytes).ok());
    }
    EXPECT_TRUE(out.finish().ok());
    return path;
  }

 private:
  struct Declared {
    std::string name;
    std::vector<uint64_t> shape;
    uint32_t type;
  };
  std::string arch_;
  std::vector<std::pair<std::string, OwnedValue>> keys_;
  std::vector<Declared> tensors_;
};

struct Loaded {
  std::unique_ptr<file::GgufFile> file;
  std::unique_ptr<Model> model;
  const Spec& spec() const { return model->spec; }
  const LayerSpec& layer(size_t i) const { return model->spec.layers.at(i); }
  const RopeSpec& rope(size_t i) const { return layer(i).rope; }
  const Weight* weight(size_t i, Role role) const { return model->layers.at(i).get(role); }
};

inline Loaded load(const ModelFile& made) {
  auto file = file::GgufFile::open(made.write());
  EXPECT_TRUE(file.ok()) << file.error().message;
  Loaded loaded{std::make_unique<file::GgufFile>(*std::move(file)), nullptr};
  auto model = load_model(*loaded.file, 0);
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  if (model.ok()) loaded.model = *std::move(model);
  return loaded;
}

inline std::string block(uint64_t i) {
  return "blk." + std::to_string(i) + ".";
}

inline ModelFile with_experts(const std::string& arch) {
  ModelFile f(arch);
  return f.set("expert_count", kExperts).set("expert_used_count", kUsed).set("expert_feed_forward_length", kFfExpert);
}

inline ModelFile gpt_oss() {
  ModelFile f = with_experts("gpt-oss");
  f.set("attention.sliding_window", 128).set("rope.freq_base", 150000.0F);
  f.set("rope.scaling.type", OwnedValue::of("yarn")).set("rope.scaling.factor", 32.0F);
  f.set("rope.scaling.original_context_length", 64);
  for (uint64_t i = 0; i < kLayers; ++i) {
    const std::string b = block(i);
    f.attention(b).experts(b);
    f.tensor(b + "attn_q.bias", {kHeads * kHeadDim}).tensor(b + "attn_k.bias", {kKvHeads * kHeadDim});
    f.tensor(b + "attn_v.bias", {kKvHeads * kHeadDim}).tensor(b + "attn_output.bias", {kDim});
    f.tensor(b + "attn_sinks.weight", {kHeads}).tensor(b + "post_attention_norm.weight", {kDim});
    f.tensor(b + "ffn_gate_inp.bias", {kExperts}).tensor(b + "ffn_gate_exps.bias", {kFfExpert, kExperts});
    f.tensor(b + "ffn_up_exps.bias", {kFfExpert, kExperts}).tensor(b + "ffn_down_exps.bias", {kDim, kExperts});
  }
  return f;
}

inline ModelFile qwen3moe() {
  ModelFile f = with_experts("qwen3moe");
  for (uint64_t i = 0; i < kLayers; ++i) {
    const std::string b = block(i);
    f.attention(b).experts(b).tensor(b + "ffn_norm.weight", {kDim});
    f.tensor(b + "attn_q_norm.weight", {kHeadDim}).tensor(b + "attn_k_norm.weight", {kHeadDim});
  }
  return f;
}

inline ModelFile qwen2moe() {
  ModelFile f = with_experts("qwen2moe");
  f.set("expert_shared_feed_forward_length", 24);
  for (uint64_t i = 0; i < kLayers; ++i) {
    const std::string b = block(i);
    f.attention(b).experts(b).feed_forward(b, 24, "_shexp").tensor(b + "ffn_norm.weight", {kDim});
    f.tensor(b + "ffn_gate_inp_shexp.weight", {kDim});
  }
  return f;
}

// One dense layer, three of experts, and a next-token block that is one of them and more.
inline ModelFile glm4moe() {
  ModelFile f = with_experts("glm4moe");
  f.set("block_count", kLayers + 1).set("nextn_predict_layers", 1).set("leading_dense_block_count", 1);
  f.set("expert_shared_count", 1).set("expert_gating_func", 2).set("expert_weights_scale", 1.5F);
  f.set("expert_weights_norm", OwnedValue::of(true)).set("rope.dimension_count", kHeadDim / 2);
  for (uint64_t i = 0; i < kLayers + 1; ++i) {
    const std::string b = block(i);
    f.attention(b).tensor(b + "post_attention_norm.weight", {kDim});
    if (i == 0) {
      f.feed_forward(b);
    } else {
      f.experts(b).feed_forward(b, kFfExpert, "_shexp").tensor(b + "exp_probs_b.bias", {kExperts});
    }
  }
  f.tensor(block(kLayers) + "nextn.eh_proj.weight", {2 * kDim, kDim});
  return f.tensor(block(kLayers) + "nextn.enorm.weight", {kDim});
}

inline ModelFile dense(const std::string& arch) {
  ModelFile f(arch);
  for (uint64_t i = 0; i < kLayers; ++i)
    f.attention(block(i)).feed_forward(block(i)).tensor(block(i) + "ffn_norm.weight", {kDim});
  return f;
}

// Experts in every second layer.
inline ModelFile llama4() {
  ModelFile f = with_experts("llama4");
  f.set("interleave_moe_layer_step", 2).set("expert_used_count", 1);
  for (uint64_t i = 0; i < kLayers; ++i) {
    const std::string b = block(i);
    f.attention(b).tensor(b + "ffn_norm.weight", {kDim});
    if (i % 2 == 0) {
      f.feed_forward(b);
    } else {
      f.experts(b).feed_forward(b, kFfExpert, "_shexp");
    }
  }
  return f;
}

}  // namespace quern::model::testing
