// Experts: routing against its definition in doubles, rows in order of experts, and every kernel of these ops against
// ref, bit for bit. Matmuls run over few rows (entries) and many (places), with and without biases and weighing.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "fixture.h"
#include "format/quantize.h"
#include "kernels/layout.h"

namespace quern::kernels {
namespace {

struct RouteCase {
  int n_experts, n_used;
  Gating gating;
  bool bias, renormalize;
  float scale;
  int n_groups, n_groups_used;
};

const RouteCase kRoutes[] = {
    {32, 4, Gating::softmax_chosen, false, false, 1.0F, 0, 0}, {128, 8, Gating::softmax, false, true, 1.0F, 0, 0},
    {60, 4, Gating::softmax, false, false, 1.0F, 0, 0},        {16, 4, Gating::sigmoid, true, true, 2.5F, 4, 2},
    {6, 6, Gating::softmax, false, true, 1.0F, 0, 0},          {16, 1, Gating::sigmoid, false, false, 1.0F, 0, 0},
    {8, 3, Gating::sigmoid, true, true, 0.5F, 2, 1},
};

RouteArgs route_args(const RouteCase& c, const float* logits, const float* bias, ExpertChoice* out) {
  return {logits,     c.bias ? bias : nullptr, c.n_experts, c.n_used, c.gating, c.renormalize, c.scale,
          c.n_groups, c.n_groups_used,         out};
}

// The definition of kernels/ops.h, in doubles.
std::vector<std::pair<int, double>> expected_choices(const RouteCase& c, const float* logits, const float* bias) {
  const auto n = static_cast<size_t>(c.n_experts);
  std::vector<double> value(n), score(n);
  double sum = 0;
  for (size_t e = 0; e < n; ++e) sum += std::exp(static_cast<double>(logits[e]));
  for (size_t e = 0; e < n; ++e) {
    const double x = logits[e];
    value[e] = c.gating == Gating::softmax   ? std::exp(x) / sum
               : c.gating == Gating::sigmoid ? 1 / (1 + std::exp(-x))
                                             : x;
    score[e] = value[e] + (c.bias ? static_cast<double>(bias[e]) : 0.0);
  }
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  if (c.n_groups > 1) {
    const int size = c.n_experts / c.n_groups;
    std::vector<std::pair<double, int>> worth;
    for (int g = 0; g < c.n_groups; ++g) {
      std::vector<double> s(score.begin() + g * size, score.begin() + (g + 1) * size);
      std::sort(s.rbegin(), s.rend());
      worth.emplace_back(-(s[0] + s[1]), g);
    }
    std::sort(worth.begin(), worth.end());
    order.clear();
    for (int i = 0; i < c.n_groups_used; ++i) {
      for (int e = 0; e < size; ++e) order.push_back(worth[static_cast<size_t>(i)].second * size + e);
    }
  }
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return score[static_cast<size_t>(a)] > score[static_cast<size_t>(b)]; });
  order.resize(static_cast<size_t>(c.n_used));
  std::vector<std::pair<int, double>> out;
  double total = 0;
  for (const int e : order) {
    const double v = value[static_cast<size_t>(e)];
    out.emplace_back(e, c.gating == Gating::softmax_chosen ? std::exp(v) : v);
    total += out.back().second;
  }
  for (auto& [e, w] : out) {
    if (c.renormalize || c.gating == Gating::softmax_chosen) w /= total;
    w *= static_cast<double>(c.scale);
  }
  return out;
}

TEST(Experts, RouteIsWhatItClaims) {
  for (const RouteCase& c : kRoutes) {
    const auto logits = random_floats(static_cast<size_t>(5 * c.n_experts), 3, 2.0F),
               bias = random_floats(static_cast<size_t>(c.n_experts), 4, 0.5F);
    std::vector<ExpertChoice> out(static_cast<size_t>(5 * c.n_used));
    run(reference({Op::route}), route_args(c, logits.data(), bias.data(), out.data()), rows_only(5), {}, 2);
    for (int row = 0; row < 5; ++row) {
      const auto expected = expected_choices(c, logits.data() + row * c.n_experts, bias.data());
      for (int j = 0; j < c.n_used; ++j) {
        const ExpertChoice& choice = out[static_cast<size_t>(row * c.n_used + j)];
        EXPECT_EQ(choice.expert, expected[static_cast<size_t>(j)].first);
        EXPECT_NEAR(choice.weight, expected[static_cast<size_t>(j)].second, 1e-6);
      }
    }
  }
}

TEST(Experts, EveryRouteHasTheBitsOfRef) {
  for (const Kernel& kernel : candidates(Op::route)) {
    for (const RouteCase& c : kRoutes) {
      auto logits = random_floats(static_cast<size_t>(7 * c.n_experts), 5, 3.0F);
      const auto bias = random_floats(static_cast<size_t>(c.n_experts), 6, 0.5F);
      std::fill(logits.begin(), logits.begin() + c.n_experts, 1.5F);  // all equal
      logits[static_cast<size_t>(c.n_experts)] = std::numeric_limits<float>::quiet_NaN();
      logits[static_cast<size_t>(2 * c.n_experts + 1)] = std::numeric_limits<float>::infinity();
      std::fill_n(logits.begin() + 3 * c.n_experts, c.n_experts, std::numeric_limits<float>::quiet_NaN());
      const auto n = static_cast<size_t>(7 * c.n_used);
      std::vector<ExpertChoice> expected(n), actual(n);
      run(reference({Op::route}), route_args(c, logits.data(), bias.data(), expected.data()), rows_only(7), {}, 1);
      run(kernel, route_args(c, logits.data(), bias.data(), actual.data()), rows_only(7), {c.n_experts, c.n_used}, 3);
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(actual[i].expert, expected[i].expert) << kernel.name << " " << c.n_experts << " choice " << i;
        const bool both_none = std::isnan(actual[i].weight) && std::isnan(expected[i].weight);
        EXPECT_TRUE(both_none || same_bits(&expected[i].weight, &actual[i].weight, 1)) << kernel.name << " " << i;
        EXPECT_TRUE(actual[i].expert >= 0 && actual[i].expert < c.n_experts);
      }
    }
  }
  EXPECT_FALSE(candidates(Op::route).empty());
}

// Some choices of n_rows tokens: distinct within a token, one expert chosen by all, one by none.
std::vector<ExpertChoice> some_choices(int n_rows, int n_used, int n_experts) {
  std::mt19937 rng(11);
  std::vector<ExpertChoice> choices;
  for (int r = 0; r < n_rows; ++r) {
    std::vector<int32_t> experts(static_cast<size_t>(n_experts) - 2);
    std::iota(experts.begin(), experts.end(), 2);
    std::shuffle(experts.begin(), experts.end(), rng);
    experts.insert(experts.begin() + r % n_used, 1);  // expert 0: never
    for (int j = 0; j < n_used; ++j)
      choices.push_back({experts[static_cast<size_t>(j)], 0.1F + 0.07F * static_cast<float>(j)});
  }
  return choices;
}

TEST(Experts, BucketsHoldEachEntryOnceInOrderOfExperts) {
  const int n_rows = 29, n_used = 3, n_experts = 7;
  const auto choices = some_choices(n_rows, n_used, n_experts);
  std::vector<int32_t> data(static_cast<size_t>(bucket_ints(n_rows * n_used, n_experts)), -99);
  run(reference({Op::bucket}), BucketArgs{choices.data(), n_experts, n_used, data.data()}, rows_only(n_rows), {}, 2);
  const Buckets b(data.data(), n_experts, n_rows * n_used);
  EXPECT_EQ(b.count[0], 0);
  EXPECT_EQ(b.count[1], n_rows);
  EXPECT_LE(int64_t{b.first_tile[n_experts]} * format::kTileRows, place_count(n_rows * n_used, n_experts));
  std::set<int32_t> places;
  for (int i = 0; i < n_rows * n_used; ++i) {
    const int e = choices[static_cast<size_t>(i)].expert, place = b.place_of[i];
    EXPECT_TRUE(places.insert(place).second);
    EXPECT_GE(place, b.first_tile[e] * format::kTileRows);
    EXPECT_LT(place, b.first_tile[e] * format::kTileRows + b.count[e]);
    EXPECT_EQ(b.entry_of[place], i);
  }
  EXPECT_EQ(std::count(b.entry_of, b.entry_of + b.first_tile[n_experts] * format::kTileRows, -1),
            b.first_tile[n_experts] * format::kTileRows - n_rows * n_used);
}

// A stack of experts and rows for them, in the form that a kernel wants.
class Problem {
 public:
  static constexpr int kExperts = 5, kUsed = 3;
  Problem(const Kernel& kernel, int64_t n_out, int64_t n_in, int n_rows, bool x_by_token, bool many)
      : kernel_(kernel), n_out_(n_out), n_in_(n_in), n_rows_(n_rows), many_(many) {
    const format::Format f = kernel.key.weight;
    for (auto* stack : {&gate_, &up_}) {
      const auto weights = random_floats(static_cast<size_t>(kExperts * n_out * n_in), seed_++, 0.2F);
      const size_t row = format::row_bytes(f, static_cast<size_t>(n_in));
      stack->resize(row * static_cast<size_t>(kExperts * n_out));
      for (int64_t r = 0; r < kExperts * n_out; ++r)
        format::quantize_row(f, weights.data() + r * n_in, static_cast<size_t>(n_in),
                             stack->data() + static_cast<size_t>(r) * row);
    }
    bias_ = random_floats(static_cast<size_t>(kExperts * n_out), seed_++);
    up_bias_ = random_floats(static_cast<size_t>(kExperts * n_out), seed_++);
    residual_ = random_floats(static_cast<size_t>(n_rows * n_out), seed_++);
    choices_ = some_choices(n_rows, kUsed, kExperts);
    buckets_.resize(static_cast<size_t>(bucket_ints(n_rows * kUsed, kExperts)));
    run(reference({Op::bucket}), BucketArgs{choices_.data(), kExperts, kUsed, buckets_.data()}, rows_only(n_rows), {},
        1);
    n_routed_ = static_cast<int>(many_ ? place_count(n_rows * kUsed, kExperts) : n_rows * kUsed);
    const int n_x = x_by_token ? n_rows : n_routed_;
    const auto x = random_floats(static_cast<size_t>(n_x) * static_cast<size_t>(n_in), seed_++);
    const auto n = static_cast<size_t>(n_in);
    x_.resize(format::activation_bytes(kernel.key.act, n, static_cast<size_t>(n_x)) + 64);
    x_data_ = x_.data() + (64 - reinterpret_cast<uintptr_t>(x_.data()) % 64) % 64;
    if (kernel.key.act == ActivationFormat::f32) {
      std::memcpy(x_data_, x.data(), x.size() * sizeof(float));
    } else {
      format::quantize_activation_rows(kernel.key.act, x.data(), n, static_cast<size_t>(n_x), x_data_);
    }
    x_by_token_ = x_by_token;
  }

  MatmulArgs matmul(const std::byte* w, bool extras, float* y) const {
    MatmulArgs m{};
    m.format = kernel_.key.weight;
    m.act = kernel_.key.act;
    m.w = w;
    m.n_out = n_out_;
    m.n_in = n_in_;
    m.x = x_data_;
    m.x_stride = format::activation_stride(kernel_.key.act, static_cast<size_t>(n_in_));
    m.bias = extras ? bias_.data() : nullptr;
    m.y = y;
    m.y_stride = n_out_;
    m.rows = RowSet::routed;
    return m;
  }

  // What the kernel (or ref) writes.
  std::vector<float> solve(const Kernel& kernel, int n_threads, bool extras, bool weigh, bool weigh_sum = true) {
    const bool disk = kernel.key.layout == Layout::disk;
    const bool pair = kernel.key.op == Op::expert_gated;
    const auto gate = disk ? gate_ : packed(gate_), up = disk || !pair ? up_ : packed(up_);
    const std::byte* gate_data = disk ? gate.data() : aligned(gate);
    const std::byte* up_data = disk ? up.data() : aligned(up);
    const size_t bytes =
        disk ? format::row_bytes(kernel_.key.weight, static_cast<size_t>(n_in_)) * static_cast<size_t>(n_out_)
             : x16_bytes(kernel_.key.weight, n_out_, n_in_);
    const Routed routed{kExperts, kUsed, bytes, choices_.data(), many_ ? buckets_.data() : nullptr, x_by_token_, weigh};
    const bool sums = kernel.key.op == Op::expert_sum;
    std::vector<float> y(static_cast<size_t>(sums ? n_rows_ : n_routed_) * static_cast<size_t>(n_out_), -7.0F);
    MatmulArgs m = matmul(gate_data, extras, y.data());
    RunContext ctx = rows_only(n_rows_);
    ctx.n_routed = n_routed_;
    const Shape shape{n_out_, n_in_};
    if (sums) {
      if (extras) {
        y = residual_;
        m.y = y.data();
        m.residual = y.data();
      }
      run(kernel, ExpertSumArgs{m, routed, weigh_sum}, ctx, shape, n_threads);
    } else if (kernel.key.op == Op::expert_gated) {
      run(kernel, ExpertGatedArgs{{m, up_data, extras ? up_bias_.data() : nullptr, ActFn::swiglu_oai}, routed}, ctx,
          shape, n_threads);
    } else {
      run(kernel, ExpertMatmulArgs{m, routed}, ctx, shape, n_threads);
    }
    return y;
  }

 private:
  static const std::byte* aligned(const std::vector<std::byte>& v) {
    return v.data() + (64 - reinterpret_cast<uintptr_t>(v.data()) % 64) % 64;
  }
  std::vector<std::byte> packed(const std::vector<std::byte>& disk) const {
    std::vector<std::byte> out(x16_bytes(kernel_.key.weight, kExperts * n_out_, n_in_) + 64);
    const RepackArgs args{kernel_.key.weight, disk.data(), kExperts * n_out_, n_in_,
                          const_cast<std::byte*>(aligned(out))};
    run(reference({Op::repack, kernel_.key.weight}), args, {}, {}, 1);
    return out;
  }

  const Kernel& kernel_;
  int64_t n_out_, n_in_;
  int n_rows_, n_routed_ = 0;
  bool many_, x_by_token_ = false;
  uint32_t seed_ = 21;
  std::vector<std::byte> gate_, up_, x_;
  std::byte* x_data_ = nullptr;
  std::vector<float> bias_, up_bias_, residual_;
  std::vector<ExpertChoice> choices_;
  std::vector<int32_t> buckets_;
};

struct Form {
  int n_rows;
  bool x_by_token, many;
};

// What the kernel may be asked.
std::vector<Form> forms_of(const Kernel& kernel) {
  if (kernel.key.op == Op::expert_sum) return {{1, false, false}};
  if (format::is_tiled(kernel.key.act)) return {{9, false, true}, {40, false, true}};
  std::vector<Form> forms = {{1, true, false}, {2, false, false}, {7, true, false}};
  if (kernel.key.act == ActivationFormat::f32) forms.insert(forms.end(), {{13, false, true}, {13, true, true}});
  return forms;
}

void every_row_has_the_bits_of_ref(Op op) {
  int n = 0;
  const std::vector<bool> both = {false, true}, no = {false};
  for (const Kernel& kernel : candidates(op)) {
    const int64_t block = format::format_info(kernel.key.weight).block_weights;
    for (const Form& form : forms_of(kernel)) {
      Problem problem(kernel, 48, block == 1 ? 37 : block * 2, form.n_rows, form.x_by_token, form.many);
      for (const bool extras : both) {
        for (const bool weigh : op == Op::expert_gated ? no : both) {
          const auto expected = problem.solve(reference(kernel.key), 1, extras, weigh);
          for (const int n_threads : {1, 3}) {
            const auto actual = problem.solve(kernel, n_threads, extras, weigh);
            ASSERT_TRUE(same_bits(expected.data(), actual.data(), expected.size()))
                << kernel.name << " rows " << form.n_rows << " by token " << form.x_by_token << " many " << form.many
                << " extras " << extras << " weigh " << weigh << " threads " << n_threads;
            ++n;
          }
        }
      }
    }
  }
  EXPECT_GT(n, 10);
}

TEST(Experts, EveryMatmulHasTheBitsOfRef) {
  every_row_has_the_bits_of_ref(Op::expert_matmul);
}
TEST(Experts, EveryGatedMatmulHasTheBitsOfRef) {
  every_row_has_the_bits_of_ref(Op::expert_gated);
}
TEST(Experts, EverySumHasTheBitsOfRef) {
  every_row_has_the_bits_of_ref(Op::expert_sum);
}

// The sum that one op makes is what expert_matmul and combine make, whether products, sums, both or neither are
// weighed.
TEST(Experts, ASumIsTheCombinedMatmul) {
  const auto choices = some_choices(1, Problem::kUsed, Problem::kExperts);
  std::vector<Kernel> sums, combines = candidates(Op::combine);
  for (const Kernel& kernel : candidates(Op::expert_sum)) {
    if (kernel.key.weight == format::Format::q8_0) sums.push_back(kernel);
  }
  sums.push_back(reference({Op::expert_sum, format::Format::q8_0, ActivationFormat::q8_32}));
  combines.push_back(reference({Op::combine}));
  ASSERT_GT(sums.size(), 1U);
  for (const Kernel& sum : sums) {
    Problem problem(sum, 32, 64, 1, false, false);
    for (const bool weigh_products : {false, true}) {
      const auto parts = problem.solve(reference({Op::expert_matmul, format::Format::q8_0, ActivationFormat::q8_32}), 1,
                                       false, weigh_products);
      for (const bool weigh : {false, true}) {
        const auto whole = problem.solve(sum, 1, false, weigh_products, weigh);
        for (const Kernel& combine : combines) {
          std::vector<float> out(32);
          const CombineArgs args{parts.data(),      choices.data(), nullptr, 32,
                                 Problem::kExperts, Problem::kUsed, weigh,   out.data()};
          run(combine, args, rows_only(1), {0, 32}, 1);
          EXPECT_TRUE(same_bits(whole.data(), out.data(), out.size())) << sum.name << " " << combine.name;
          double first = 0;
          for (size_t j = 0; j < choices.size(); ++j)
            first += (weigh ? static_cast<double>(choices[j].weight) : 1.0) * static_cast<double>(parts[32 * j]);
          EXPECT_NEAR(out[0], first, 1e-5);
        }
      }
    }
  }
}

TEST(Experts, CombineAndRowGateHaveTheBitsOfRef) {
  const int n_rows = 9, n_used = 3, n_experts = 6;
  const auto choices = some_choices(n_rows, n_used, n_experts);
  std::vector<int32_t> buckets(static_cast<size_t>(bucket_ints(n_rows * n_used, n_experts)));
  run(reference({Op::bucket}), BucketArgs{choices.data(), n_experts, n_used, buckets.data()}, rows_only(n_rows), {}, 1);
  for (const int n : {1, 16, 37, 200}) {
    const auto in = random_floats(static_cast<size_t>(place_count(n_rows * n_used, n_experts) * n), 1);
    const auto width = static_cast<size_t>(n_rows * n);
    for (const Kernel& kernel : candidates(Op::combine)) {
      for (const bool many : {false, true}) {
        for (const bool weigh : {false, true}) {
          std::vector<float> expected(width), actual(width);
          const auto args = [&](std::vector<float>& out) {
            return CombineArgs{in.data(), choices.data(), many ? buckets.data() : nullptr, n, n_experts, n_used,
                               weigh,     out.data()};
          };
          run(reference({Op::combine}), args(expected), rows_only(n_rows), {}, 1);
          run(kernel, args(actual), rows_only(n_rows), {0, n}, 2);
          EXPECT_TRUE(same_bits(expected.data(), actual.data(), width)) << kernel.name << " " << n;
        }
      }
    }
    const auto x = random_floats(static_cast<size_t>(n_rows * 45), 2), w = random_floats(45, 3, 0.3F);
    for (const Kernel& kernel : candidates(Op::row_gate)) {
      std::vector<float> expected(width), actual(width);
      run(reference({Op::row_gate}), RowGateArgs{x.data(), w.data(), in.data(), 45, n, expected.data()},
          rows_only(n_rows), {}, 1);
      run(kernel, RowGateArgs{x.data(), w.data(), in.data(), 45, n, actual.data()}, rows_only(n_rows), {0, n}, 2);
      EXPECT_TRUE(same_bits(expected.data(), actual.data(), width)) << kernel.name << " " << n;
    }
  }
}

TEST(Experts, GatherPutsRowsWhereTheirExpertsAre) {
  const int n_rows = 11, n_used = 2, n_experts = 5, n = 512;
  const auto choices = some_choices(n_rows, n_used, n_experts);
  std::vector<int32_t> data(static_cast<size_t>(bucket_ints(n_rows * n_used, n_experts)));
  run(reference({Op::bucket}), BucketArgs{choices.data(), n_experts, n_used, data.data()}, rows_only(n_rows), {}, 1);
  const Buckets b(data.data(), n_experts, n_rows * n_used);
  const auto x = random_floats(static_cast<size_t>(n_rows * n), 1);
  std::vector<Kernel> all = candidates(Op::gather);
  for (const ActivationFormat act : {ActivationFormat::q8_32t, ActivationFormat::q8_256t})
    all.push_back(reference({Op::gather, format::Format::f32, act}));
  for (const Kernel& kernel : all) {
    const ActivationFormat act = kernel.key.act, rows = format::in_rows(act);
    const size_t stride = format::activation_stride(rows, n);
    std::vector<std::byte> in(stride * n_rows), row(stride);
    format::quantize_activation_rows(rows, x.data(), n, n_rows, in.data());
    const auto n_places = static_cast<size_t>(place_count(n_rows * n_used, n_experts));
    std::vector<std::byte> out(format::activation_bytes(act, n, n_places));
    run(kernel,
        GatherArgs{in.data(), stride, data.data(), n, n_experts, n_used, act, out.data(),
                   format::activation_stride(act, n)},
        rows_only(n_rows), {0, n}, 2);
    for (int i = 0; i < n_rows * n_used; ++i) {
      const auto place = static_cast<size_t>(b.place_of[i]);
      format::take_from_tile(act, out.data() + place / format::kTileRows * format::activation_stride(act, n), n,
                             static_cast<int>(place % format::kTileRows), row.data());
      ASSERT_EQ(std::memcmp(row.data(), in.data() + static_cast<size_t>(i / n_used) * stride, stride), 0)
          << kernel.name << " entry " << i;
    }
  }
}

// A spoiled weight of a chosen expert changes the result; one of an expert that nobody chose does not.
TEST(Experts, OnlyChosenExpertsAreRead) {
  for (const int expert : {0, 1}) {
    const Kernel& kernel = reference({Op::expert_matmul, format::Format::f32, ActivationFormat::f32});
    const auto choices = some_choices(4, 2, 4);
    std::vector<float> w = random_floats(4 * 16 * 8, 1), x = random_floats(4 * 8, 2), before(8 * 16), after(8 * 16);
    const auto solve = [&](std::vector<float>& y) {
      MatmulArgs m{};
      m.format = format::Format::f32;
      m.w = reinterpret_cast<const std::byte*>(w.data());
      m.n_out = 16;
      m.n_in = 8;
      m.x = reinterpret_cast<const std::byte*>(x.data());
      m.x_stride = 32;
      m.y = y.data();
      m.y_stride = 16;
      run(kernel, ExpertMatmulArgs{m, {4, 2, 16 * 8 * 4, choices.data(), nullptr, true, false}}, rows_only(4), {16, 8},
          1);
    };
    solve(before);
    w[static_cast<size_t>(expert * 16 * 8 + 3)] += 1.0F;
    solve(after);
    EXPECT_EQ(before == after, expert == 0);
  }
}

}  // namespace
}  // namespace quern::kernels
