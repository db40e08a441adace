// Loading: what each architecture's rows make of a file, and how damaged or unknown files are refused by name. Files
// are tiny models (tools/make_testdata.py), rewritten with one thing changed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "file/gguf_writer.h"
#include "model/arch/arch.h"
#include "model/model.h"

namespace quern::model {
namespace {

using file::GgufFile;
using file::OwnedValue;

std::string tiny(const std::string& name) {
  const char* data = std::getenv("QUERN_TEST_DATA");
  return std::string(data != nullptr ? data : "build/testdata") + "/tiny/" + name + ".gguf";
}

struct Edit {
  std::function<std::optional<OwnedValue>(std::string_view key)> set_key = {};  // another value for a key
  std::function<bool(std::string_view key)> drop_key = {};
  std::optional<std::pair<std::string, OwnedValue>> add = {};  // one key more
  std::function<bool(std::string_view tensor)> drop_tensor = {};
  std::function<void(std::string_view tensor, uint32_t& type, std::array<uint64_t, 4>& shape)> change_tensor = {};
};

std::string rewritten(const std::string& name, const Edit& edit) {
  const auto in = GgufFile::open(tiny(name));
  EXPECT_TRUE(in.ok()) << in.error().message << "; run tools/make_testdata.py";
  std::string path = ::testing::TempDir() + "quern_model_test.gguf";
  auto out = file::GgufWriter::create(path).value();
  for (const file::MetaEntry& entry : in->metadata().entries()) {
    if (edit.drop_key && edit.drop_key(entry.key)) continue;
    std::optional<OwnedValue> changed = edit.set_key ? edit.set_key(entry.key) : std::nullopt;
    EXPECT_TRUE(out.add(entry.key, changed ? std::move(*changed) : OwnedValue::copy(entry.value)).ok());
  }
  EXPECT_TRUE(!edit.add || out.add(edit.add->first, edit.add->second).ok());
  std::vector<std::pair<const file::Tensor*, size_t>> kept;
  for (const file::Tensor& tensor : in->tensors()) {
    if (edit.drop_tensor && edit.drop_tensor(tensor.name)) continue;
    uint32_t type = tensor.ggml_type;
    std::array<uint64_t, 4> shape = tensor.shape;
    if (edit.change_tensor) edit.change_tensor(tensor.name, type, shape);
    EXPECT_TRUE(out.declare(tensor.name, type, std::span(shape).first(tensor.n_dims)).ok());
    const auto block = format::ggml_block(type).value();
    uint64_t elements = 1;
    for (const uint64_t d : shape) elements *= d;
    kept.emplace_back(&tensor, elements / block.block_weights * block.block_bytes);
  }
  EXPECT_TRUE(out.begin().ok());
  for (const auto& [tensor, bytes] : kept) {
    std::vector<std::byte> data(tensor->data, tensor->data + std::min<uint64_t>(tensor->bytes, bytes));
    data.resize(bytes);
    EXPECT_TRUE(out.write(data).ok());
  }
  EXPECT_TRUE(out.finish().ok());
  return path;
}

// The error of loading it; fails the test where it loads.
Error refusal(const std::string& path) {
  const auto file = GgufFile::open(path);
  EXPECT_TRUE(file.ok()) << file.error().message;
  const auto model = load_model(*file, 0);
  EXPECT_FALSE(model.ok());
  return model.ok() ? Error{Status::ok, ""} : model.error();
}

void expect_named(const Error& error, Status status, const std::vector<std::string>& parts) {
  EXPECT_EQ(error.status, status) << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
  for (const std::string& part : parts)
    EXPECT_NE(error.message.find(part), std::string::npos) << part << " in: " << error.message;
}

Edit set(const std::string& key, const OwnedValue& value) {
  return {.set_key = [=](std::string_view k) { return k == key ? std::optional(value) : std::nullopt; }};
}

TEST(Load, AMissingKeyIsNamed) {
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.attention.head_count",
                          "llama.feed_forward_length", "llama.attention.layer_norm_rms_epsilon"}) {
    const Edit edit{.drop_key = [=](std::string_view k) { return k == key; }};
    expect_named(refusal(rewritten("llama", edit)), Status::invalid_file, {key, "quern_model_test.gguf"});
  }
}

TEST(Load, AFileWithoutAnArchitectureIsNamed) {
  const Edit edit{.drop_key = [](std::string_view k) { return k == "general.architecture"; }};
  expect_named(refusal(rewritten("llama", edit)), Status::not_found, {"general.architecture", "quern_model_test.gguf"});
}

TEST(Load, SenselessNumbersAreNamed) {
  expect_named(refusal(rewritten("llama", set("llama.block_count", OwnedValue::of(uint32_t{0})))), Status::invalid_file,
               {"block_count"});
  expect_named(refusal(rewritten("llama", set("llama.block_count", OwnedValue::of(uint32_t{4000000000})))),
               Status::invalid_file, {"block_count"});
  expect_named(refusal(rewritten("llama", set("llama.block_count", OwnedValue::of("four")))), Status::invalid_file,
               {"llama.block_count"});
  expect_named(refusal(rewritten("llama", set("llama.attention.head_count", OwnedValue::of(uint32_t{3})))),
               Status::invalid_file, {"head_count"});
  expect_named(refusal(rewritten("llama", set("llama.attention.head_count_kv", OwnedValue::of(uint32_t{0})))),
               Status::invalid_file, {"head_count_kv"});
  expect_named(refusal(rewritten("llama", set("llama.attention.layer_norm_rms_epsilon", OwnedValue::of(NAN)))),
               Status::invalid_file, {"epsilon"});
  expect_named(refusal(rewritten("llama", set("llama.feed_forward_length", OwnedValue::array<uint32_t>({384})))),
               Status::invalid_file, {});
}

TEST(Load, PoolingIsWhatTheFileSays) {
  const auto with = [](uint32_t number) {
    return rewritten("llama", {.add = std::pair("llama.pooling_type", OwnedValue::of(number))});
  };
  const auto pooling = [](const std::string& path) {
    const auto file = GgufFile::open(path);
    return load_model(*file, 0).value()->spec.pooling;
  };
  EXPECT_EQ(pooling(tiny("llama")), Pooling::unstated);
  const Pooling by_number[] = {Pooling::none, Pooling::mean, Pooling::cls, Pooling::last, Pooling::rank};
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(pooling(with(i)), by_number[i]);
  expect_named(refusal(with(5)), Status::invalid_file, {"pooling_type"});
}

TEST(Load, AttentionToLaterTokensIsRefused) {
  const auto with = [](bool causal) {
    return rewritten("llama", {.add = std::pair("llama.attention.causal", OwnedValue::of(causal))});
  };
  expect_named(refusal(with(false)), Status::unsupported, {"attention.causal"});
  const auto file = GgufFile::open(with(true));
  EXPECT_TRUE(load_model(*file, 0).ok());
}

TEST(Load, UnknownArchitecturesListTheKnownOnes) {
  expect_named(refusal(rewritten("llama", set("general.architecture", OwnedValue::of("llama9")))), Status::unsupported,
               {"llama9", "qwen3", "gemma3"});
}

TEST(Load, AMissingTensorIsNamedAndAnOptionalOneIsNot) {
  for (const char* name : {"token_embd.weight", "blk.1.attn_q.weight", "blk.0.ffn_down.weight", "output_norm.weight"}) {
    const Edit edit{.drop_tensor = [=](std::string_view t) { return t == name; }};
    expect_named(refusal(rewritten("llama", edit)), Status::invalid_file, {name});
  }
  const auto file =
      GgufFile::open(rewritten("llama", {.drop_tensor = [](std::string_view t) { return t == "output.weight"; }}));
  const auto tied = load_model(*file, 0);
  ASSERT_TRUE(tied.ok()) << tied.error().message;
  EXPECT_FALSE((*tied)->globals.has(Role::output));
}

TEST(Load, AWrongShapeIsNamedWithBothShapes) {
  const Edit edit{.change_tensor = [](std::string_view t, uint32_t&, std::array<uint64_t, 4>& shape) {
    if (t == "blk.1.attn_k.weight") shape[1] += 32;
  }};
  expect_named(refusal(rewritten("llama", edit)), Status::invalid_file, {"blk.1.attn_k.weight", "expected"});
}

TEST(Load, AFormatQuernDoesNotReadIsNamed) {
  const Edit edit{.change_tensor = [](std::string_view t, uint32_t& type, std::array<uint64_t, 4>& shape) {
    if (t != "blk.0.ffn_gate.weight") return;
    type = 16;  // IQ2_XXS
    shape[0] = 256;
  }};
  const auto error = refusal(rewritten("llama", edit));
  EXPECT_NE(error.message.find("blk.0.ffn_gate.weight"), std::string::npos) << error.message;
}

TEST(Load, VectorsInOtherFormatsAreWidened) {
  const Edit edit{.change_tensor = [](std::string_view t, uint32_t& type, std::array<uint64_t, 4>&) {
    if (t == "output_norm.weight") type = 1;  // F16
  }};
  const auto file = GgufFile::open(rewritten("llama", edit));
  const auto model = load_model(*file, 0);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->globals.get(Role::output_norm)->format, format::Format::f32);
}

TEST(Load, RowsBecomeTheRightSpec) {
  const auto layers = [](const std::string& name) {
    const auto file = GgufFile::open(tiny(name));
    return load_model(*file, 0).value()->spec;
  };
  const Spec gemma3 = layers("gemma3");
  ASSERT_GE(gemma3.layers.size(), 6U);
  for (size_t i = 0; i < gemma3.layers.size(); ++i) {
    const bool global = (i + 1) % 6 == 0;
    EXPECT_EQ(gemma3.layers[i].window, global ? 0 : 16) << i;
    EXPECT_EQ(gemma3.layers[i].rope.base == 10000.0, !global) << i;
  }
  EXPECT_EQ(gemma3.embed_scale, std::sqrt(static_cast<float>(gemma3.n_dim)));
  const Spec gemma2 = layers("gemma2");
  EXPECT_GT(gemma2.layers[0].window, 0);
  EXPECT_EQ(gemma2.layers[1].window, 0);
  EXPECT_GT(gemma2.layers[0].attn_softcap, 0);
  EXPECT_GT(gemma2.logit_softcap, 0);
  EXPECT_EQ(layers("llama").layers[0].rope.kind, RopeKind::norm);
  EXPECT_EQ(layers("qwen3").layers[0].rope.kind, RopeKind::neox);
}

TEST(Load, FusedTensorsAreSlicesOfOne) {
  const auto file = GgufFile::open(tiny("phi3"));
  const auto model = load_model(*file, 0).value();
  const WeightSet& layer = model->layers[0];
  const Weight &q = *layer.get(Role::attn_q), &k = *layer.get(Role::attn_k), &v = *layer.get(Role::attn_v);
  EXPECT_EQ(q.data + q.bytes(), k.data);
  EXPECT_EQ(k.data + k.bytes(), v.data);
  EXPECT_EQ(layer.get(Role::ffn_gate)->data + layer.get(Role::ffn_gate)->bytes(), layer.get(Role::ffn_up)->data);
  EXPECT_TRUE(model->unused_tensors.empty());
}

TEST(Load, LongRopeFactorsFollowTheContext) {
  const auto file = GgufFile::open(tiny("phi3-long"));
  const auto divisors = [&](int n_ctx) {
    const auto model = load_model(*file, n_ctx).value();
    const float* d = model->spec.layers[0].rope.divisors;
    return std::vector<float>(d, d + 4);
  };
  EXPECT_NE(divisors(16), divisors(100000));
}

TEST(Arch, ListAndRowsAreConsistent) {
  EXPECT_EQ(architecture_names(),
            (std::vector<std::string>{"llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "qwen2moe", "qwen3moe",
                                      "glm4moe", "gpt-oss", "mistral3", "llama4"}));
  for (const std::string& name : architecture_names()) {
    const Arch& arch = *find_arch(name);
    for (const TensorRow& row : arch.tensors) {
      EXPECT_TRUE(row.parts.empty() || row.part < static_cast<int>(row.parts.size())) << row.name;
      EXPECT_EQ(row.parts.empty() || row.parts[static_cast<size_t>(row.part)] == row.rows, true) << row.name;
    }
  }
  EXPECT_EQ(find_arch("nothing"), nullptr);
}

}  // namespace
}  // namespace quern::model
