// Every other op of the registry against ref, bit for bit: widths with tails, several row counts and team sizes.
#include <cmath>
#include <limits>

#include "fixture.h"

namespace quern::kernels {
namespace {

// Calls make(out) for the arguments that write to out, for ref and for every candidate, and compares all of out.
template <class Make>
void compare(Op op, size_t n_out, const std::vector<float>& initial, const RunContext& ctx, const Shape& shape,
             const Make& make) {
  int n = 0;
  for (const Kernel& kernel : candidates(op)) {
    if (kernel.fits != nullptr && !kernel.fits(shape)) continue;
    std::vector<float> expected(n_out, -7.0F), actual(n_out, -7.0F);
    std::copy(initial.begin(), initial.end(), expected.begin());
    std::copy(initial.begin(), initial.end(), actual.begin());
    run(reference(kernel.key), make(expected.data()), ctx, shape, 1);
    for (const int n_threads : {1, 2, 5}) {
      std::copy(initial.begin(), initial.end(), actual.begin());
      run(kernel, make(actual.data()), ctx, shape, n_threads);
      ASSERT_TRUE(same_bits(expected.data(), actual.data(), n_out))
          << kernel.name << " width " << shape.n_in << " threads " << n_threads;
    }
    ++n;
  }
  EXPECT_GT(n, 0) << op_name(op);
}

constexpr int kWidths[] = {1, 15, 16, 17, 64, 200, 576};

TEST(Ops, RmsNorm) {
  for (const int n : kWidths) {
    const auto in = random_floats(static_cast<size_t>(7 * n), 1), weight = random_floats(static_cast<size_t>(n), 2);
    compare(Op::rms_norm, static_cast<size_t>(7 * n), {}, rows_only(7), {0, n},
            [&](float* out) { return RmsNormArgs{in.data(), weight.data(), n, 1e-5F, RowSet::tokens, false, out}; });
    const int32_t out_rows[] = {1, 4, 6};
    RunContext ctx = rows_only(7);
    ctx.out_rows = out_rows;
    ctx.n_out = 3;
    compare(Op::rms_norm, static_cast<size_t>(3 * n), {}, ctx, {0, n},
            [&](float* out) { return RmsNormArgs{in.data(), weight.data(), n, 1e-5F, RowSet::outputs, true, out}; });
  }
}

TEST(Ops, AddAndActivations) {
  for (const int n : kWidths) {
    const auto a = random_floats(static_cast<size_t>(5 * n), 1, 4.0F), b = random_floats(static_cast<size_t>(5 * n), 2);
    compare(Op::add, a.size(), {}, rows_only(5), {0, n}, [&](float* out) {
      return AddArgs{a.data(), b.data(), n, out};
    });
    for (const ActFn fn : {ActFn::silu, ActFn::gelu_tanh, ActFn::swiglu_oai}) {
      compare(Op::act_mul, a.size(), {}, rows_only(5), {0, n},
              [&](float* out) { return ActMulArgs{a.data(), b.data(), n, fn, RowSet::tokens, out}; });
    }
    compare(Op::softcap, a.size(), a, rows_only(5), {0, n}, [&](float* x) {
      return SoftcapArgs{x, n, 30.0F, RowSet::tokens};
    });
  }
}

TEST(Ops, ActivationsAreTheFunctionsTheyClaim) {
  const std::vector<float> gate = {-20.0F, -1.5F, -0.1F, 0.0F, 0.3F, 2.0F, 30.0F};
  const std::vector<float> up(gate.size(), 2.0F);
  for (const ActFn fn : {ActFn::silu, ActFn::gelu_tanh}) {
    std::vector<float> out(gate.size());
    run(reference({Op::act_mul}),
        ActMulArgs{gate.data(), up.data(), static_cast<int>(gate.size()), fn, RowSet::tokens, out.data()}, rows_only(1),
        {}, 1);
    for (size_t i = 0; i < gate.size(); ++i) {
      const double x = gate[i];
      const double expected =
          2.0 * (fn == ActFn::silu ? x / (1 + std::exp(-x))
                                   : 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
      EXPECT_NEAR(out[i], expected, 2e-6 * (1 + std::fabs(expected))) << x;
    }
  }
}

TEST(Ops, SwigluIsClampedOnTheSidesItClaims) {
  const std::vector<float> gate = {-20.0F, -1.0F, 2.0F, 7.0F, 9.0F, 1.0F, 1.0F};
  const std::vector<float> up = {1.0F, -3.0F, 0.5F, 6.0F, 7.5F, -9.0F, 80.0F};
  std::vector<float> out(gate.size());
  run(reference({Op::act_mul}),
      ActMulArgs{gate.data(), up.data(), static_cast<int>(gate.size()), ActFn::swiglu_oai, RowSet::tokens, out.data()},
      rows_only(1), {}, 1);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = std::min(7.0, static_cast<double>(gate[i])), u = std::clamp(static_cast<double>(up[i]), -7.0, 7.0);
    const double expected = g / (1 + std::exp(-1.702 * g)) * (u + 1);
    EXPECT_NEAR(out[i], expected, 2e-6 * (1 + std::fabs(expected))) << gate[i] << " " << up[i];
  }
}

TEST(Ops, TemperatureGrowsWithThePosition) {
  const std::vector<int32_t> positions = {0, 7, 8, 90};
  RunContext ctx = rows_only(4);
  ctx.positions = positions.data();
  std::vector<float> x(8, 2.0F);
  run(reference({Op::temperature}), TemperatureArgs{x.data(), 2, 0.1, 8, 1}, ctx, {}, 2);
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_NEAR(x[2 * r], 2.0 * (1 + 0.1 * std::log(1 + std::floor((positions[r] + 1) / 8.0))), 1e-6);
    EXPECT_EQ(x[2 * r], x[2 * r + 1]);
  }
  EXPECT_NE(x[0], x[4]);
}

TEST(Ops, HeadNormAndRope) {
  const int n_rows = 5, n_heads = 3;
  std::vector<int32_t> positions = {0, 1, 77, 4095, 100000};
  RunContext ctx = rows_only(n_rows);
  ctx.positions = positions.data();
  for (const int head_dim : {16, 24, 64, 80}) {
    const auto x = random_floats(static_cast<size_t>(n_rows * n_heads * head_dim), 1),
               weight = random_floats(static_cast<size_t>(head_dim), 2);
    compare(Op::head_norm, x.size(), x, ctx, {0, head_dim}, [&](float* v) {
      return HeadNormArgs{v, weight.data(), n_heads, head_dim, 1e-6F};
    });
    for (const bool neox : {false, true}) {
      for (const int n_pairs : {head_dim / 2, head_dim / 4}) {
        std::vector<float> table(static_cast<size_t>(n_rows * 4 * n_pairs));
        run(reference({Op::rope_table}), RopeTableArgs{n_pairs, neox, 10000.0, 1.0, 1.0F, nullptr, table.data()}, ctx,
            {}, 1);
        compare(Op::rope, x.size(), x, ctx, {0, head_dim},
                [&](float* v) { return RopeArgs{v, table.data(), n_heads, head_dim, n_pairs, neox}; });
      }
    }
  }
}

TEST(Ops, RopeRotatesByPositionTimesFrequency) {
  const int32_t position = 3;
  RunContext ctx = rows_only(1);
  ctx.positions = &position;
  float table[8], x[4] = {1, 0, 0, 1};
  run(reference({Op::rope_table}), RopeTableArgs{2, false, 100.0, 0.5, 1.0F, nullptr, table}, ctx, {}, 1);
  run(reference({Op::rope}), RopeArgs{x, table, 1, 4, 2, false}, ctx, {}, 1);
  EXPECT_NEAR(x[0], std::cos(1.5), 1e-6);
  EXPECT_NEAR(x[1], std::sin(1.5), 1e-6);
  EXPECT_NEAR(x[2], -std::sin(0.15), 1e-6);
  EXPECT_NEAR(x[3], std::cos(0.15), 1e-6);
}

// Widths with and without a rest after groups of blocks; rows that fill no tile; special values.
TEST(Ops, Quantize) {
  for (const Kernel& kernel : candidates(Op::quantize)) {
    const bool by_32 = format::one_plane(format::in_rows(kernel.key.act)) == ActivationFormat::q8_32;
    for (const int n : {by_32 ? 32 : 256, by_32 ? 576 : 512, by_32 ? 1184 : 1280}) {
      for (const int n_rows : {1, 6, 8}) {
        auto x = random_floats(static_cast<size_t>(n * 8), 9, 3.0F);
        std::fill(x.begin() + n, x.begin() + 2 * n, 0.0F);
        x[static_cast<size_t>(2 * n)] = std::numeric_limits<float>::infinity();
        x[static_cast<size_t>(3 * n + 30)] = std::numeric_limits<float>::quiet_NaN();
        for (int i = 4 * n; i < 5 * n; ++i) x[static_cast<size_t>(i)] *= 1e-38F;
        const auto width = static_cast<size_t>(n), rows = static_cast<size_t>(n_rows);
        const size_t bytes = format::activation_bytes(kernel.key.act, width, rows);
        // Rows are written whole; of tiles, what lies between parts is left.
        const unsigned char before = format::is_tiled(kernel.key.act) ? 0 : 0xEE;
        std::vector<unsigned char> expected(bytes), actual(bytes, before), by_ref(bytes, before);
        format::quantize_activation_rows(kernel.key.act, x.data(), width, rows,
                                         reinterpret_cast<std::byte*>(expected.data()));
        const auto args = [&](std::vector<unsigned char>& out) {
          return QuantizeArgs{x.data(),
                              n,
                              kernel.key.act,
                              RowSet::tokens,
                              reinterpret_cast<std::byte*>(out.data()),
                              format::activation_stride(kernel.key.act, width)};
        };
        run(kernel, args(actual), rows_only(n_rows), {}, 3);
        run(reference(kernel.key), args(by_ref), rows_only(n_rows), {}, 1);
        EXPECT_TRUE(same_bits(expected.data(), actual.data(), expected.size()))
            << kernel.name << " " << n << " x " << n_rows;
        EXPECT_TRUE(same_bits(expected.data(), by_ref.data(), expected.size())) << n << " x " << n_rows;
      }
    }
  }
}

// Keys and values of several sequences in their pages, then attention, in both forms.
struct Sequences {
  int n_heads, n_kv_heads, head_dim;
  std::vector<std::vector<float>> pages_memory;
  std::vector<std::vector<std::byte*>> tables;
  std::vector<std::byte* const*> kinds;
  std::vector<Span> spans;
  KvPlace place;

  Sequences(int heads, int kv_heads, int hd, const std::vector<std::pair<int, int>>& positions_and_rows)
      : n_heads(heads), n_kv_heads(kv_heads), head_dim(hd) {
    place = {0, 0, 0, kv_heads, hd};
    place.v_offset = place.head_bytes() * static_cast<size_t>(kv_heads);
    int row = 0;
    for (const auto& [first, n] : positions_and_rows) {
      std::vector<std::byte*> table;
      for (int page = 0; page * kPagePositions < first + n; ++page) {
        pages_memory.emplace_back(2 * place.v_offset / sizeof(float), 0.0F);
        table.push_back(reinterpret_cast<std::byte*>(pages_memory.back().data()));
      }
      tables.push_back(std::move(table));
      spans.push_back({row, n, first, nullptr});
      row += n;
    }
    kinds.resize(tables.size());
    for (size_t i = 0; i < tables.size(); ++i) {
      kinds[i] = tables[i].data();
      spans[i].pages = &kinds[i];
    }
  }
  RunContext context(const std::vector<Span>& s) const {
    RunContext ctx;
    ctx.spans = s.data();
    ctx.n_spans = static_cast<int>(s.size());
    for (const Span& span : s) ctx.n_rows += span.n_rows;
    return ctx;
  }
  // Stores positions [0, first + n) of each sequence.
  void fill(uint32_t seed) const {
    for (const Span& span : spans) {
      const int n = span.first_position + span.n_rows;
      const auto k = random_floats(static_cast<size_t>(n * n_kv_heads * head_dim), seed++),
                 v = random_floats(k.size(), seed++);
      run(reference({Op::kv_store}), KvStoreArgs{k.data(), v.data(), place}, context({{0, n, 0, span.pages}}), {}, 1);
    }
  }
};

TEST(Ops, KvStore) {
  for (const int head_dim : {16, 80, 256}) {
    const Sequences expected(4, 2, head_dim, {{60, 9}, {0, 3}}), actual(4, 2, head_dim, {{60, 9}, {0, 3}});
    auto k = random_floats(static_cast<size_t>(12 * 2 * head_dim), 1), v = random_floats(k.size(), 2);
    k[5] = 1e30F;
    v[7] = -std::numeric_limits<float>::infinity();
    int n = 0;
    for (const Kernel& kernel : candidates(Op::kv_store)) {
      run(reference(kernel.key), KvStoreArgs{k.data(), v.data(), expected.place}, expected.context(expected.spans), {},
          1);
      run(kernel, KvStoreArgs{k.data(), v.data(), actual.place}, actual.context(actual.spans), {0, head_dim}, 5);
      for (size_t i = 0; i < expected.pages_memory.size(); ++i) {
        EXPECT_TRUE(
            same_bits(expected.pages_memory[i].data(), actual.pages_memory[i].data(), expected.pages_memory[i].size()))
            << kernel.name;
      }
      ++n;
    }
    EXPECT_GT(n, 0);
  }
}

TEST(Ops, Attention) {
  const struct {
    int heads, kv_heads, head_dim, window;
    float softcap;
    bool sinks;
  } shapes[] = {{9, 3, 64, 0, 0, false},
                {4, 1, 256, 48, 0, false},
                {2, 2, 16, 5, 20.0F, false},
                {8, 2, 80, 0, 0, true},
                {6, 6, 32, 64, 0, false}};
  for (const auto& s : shapes) {
    for (const auto& layout :
         std::vector<std::vector<std::pair<int, int>>>{{{0, 1}}, {{200, 1}}, {{0, 70}}, {{60, 9}, {0, 3}, {129, 2}}}) {
      const Sequences seq(s.heads, s.kv_heads, s.head_dim, layout);
      seq.fill(11);
      const RunContext ctx = seq.context(seq.spans);
      const auto q = random_floats(static_cast<size_t>(ctx.n_rows * s.heads * s.head_dim), 5),
                 sinks = random_floats(static_cast<size_t>(s.heads), 6);
      compare(Op::attention, q.size(), {}, ctx, {s.heads / s.kv_heads, s.head_dim}, [&](float* out) {
        return AttentionArgs{
            q.data(), seq.place, s.heads, s.window, 0.125F, s.softcap, s.sinks ? sinks.data() : nullptr, out};
      });
    }
  }
}

// Parts of pages merged have the bits of the whole, of every tier, whoever computes which part.
TEST(Ops, AttentionPartsMergedAreTheWhole) {
  const struct {
    int heads, kv_heads, head_dim, window;
    float softcap;
    bool sinks;
  } shapes[] = {
      {9, 3, 64, 0, 0, false}, {4, 1, 256, 48, 0, false}, {8, 2, 80, 0, 20.0F, true}, {8, 1, 32, 64, 0, false}};
  for (const auto& s : shapes) {
    for (const int position : {0, 1, 63, 64, 200, 450}) {
      const Sequences seq(s.heads, s.kv_heads, s.head_dim, {{position, 1}});
      seq.fill(11);
      const RunContext ctx = seq.context(seq.spans);
      const auto q = random_floats(static_cast<size_t>(s.heads * s.head_dim), 5),
                 sinks = random_floats(static_cast<size_t>(s.heads), 6);
      AttentionArgs whole{q.data(), seq.place, s.heads, s.window, 0.125F, s.softcap, s.sinks ? sinks.data() : nullptr,
                          nullptr};
      const Shape shape{s.heads / s.kv_heads, s.head_dim};
      std::vector<float> expected(q.size()), actual(q.size());
      whole.out = expected.data();
      run(reference({Op::attention}), whole, ctx, shape, 1);
      const int max_pages = 450 / kPagePositions + 2;
      int n = 0;
      for (const Kernel& parts : all_kernels()) {
        if (parts.key.op != Op::attention_parts) continue;
        for (const Kernel& merge : all_kernels()) {
          if (merge.key.op != Op::attention_merge || merge.isa != parts.isa) continue;
          if ((parts.fits != nullptr && !parts.fits(shape)) || !detect_cpu().supports(parts.isa)) continue;
          for (const int n_threads : {1, 2, 5}) {
            std::vector<float> memory(static_cast<size_t>(s.heads * max_pages * (s.head_dim + 16)), NAN);
            std::fill(actual.begin(), actual.end(), -7.0F);
            run(parts, AttentionPartsArgs{whole, max_pages, memory.data()}, ctx, shape, n_threads);
            AttentionArgs of = whole;
            of.out = actual.data();
            run(merge, AttentionMergeArgs{of, max_pages, memory.data()}, ctx, shape, n_threads);
            ASSERT_TRUE(same_bits(expected.data(), actual.data(), actual.size()))
                << parts.name << " position " << position << " window " << s.window << " threads " << n_threads;
            ++n;
          }
        }
      }
      EXPECT_GT(n, 3);
    }
  }
}

// Against softmax in double precision: the window is exactly `window` keys wide, sinks take their share.
TEST(Ops, AttentionIsSoftmaxOverTheVisibleKeys) {
  const int hd = 16, n = 150, window = 70;
  const Sequences seq(1, 1, hd, {{0, n}});
  const auto k = random_floats(static_cast<size_t>(n * hd), 1), v = random_floats(static_cast<size_t>(n * hd), 2),
             q = random_floats(static_cast<size_t>(n * hd), 3);
  const RunContext ctx = seq.context(seq.spans);
  run(reference({Op::kv_store}), KvStoreArgs{k.data(), v.data(), seq.place}, ctx, {}, 1);
  const float sink = 0.7F;
  std::vector<float> out(q.size());
  run(reference({Op::attention}), AttentionArgs{q.data(), seq.place, 1, window, 0.25F, 0, &sink, out.data()}, ctx,
      {1, hd}, 1);
  for (int i = 0; i < n; ++i) {
    double total = std::exp(static_cast<double>(sink));
    std::vector<double> expected(hd);
    for (int j = std::max(0, i - window + 1); j <= i; ++j) {
      double dot = 0;
      for (int d = 0; d < hd; ++d)
        dot += static_cast<double>(q[static_cast<size_t>(i * hd + d)]) * k[static_cast<size_t>(j * hd + d)];
      const double p = std::exp(0.25 * dot);
      total += p;
      for (int d = 0; d < hd; ++d) expected[static_cast<size_t>(d)] += p * v[static_cast<size_t>(j * hd + d)];
    }
    for (int d = 0; d < hd; ++d)
      EXPECT_NEAR(out[static_cast<size_t>(i * hd + d)], expected[static_cast<size_t>(d)] / total, 3e-3) << i;
  }
}

}  // namespace
}  // namespace quern::kernels
