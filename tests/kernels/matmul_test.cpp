// Every matmul of the registry against ref, bit for bit, over shapes with tails, row counts around every tile size, and
// several team sizes; weights packed by the registry's own repack rows.
#include "fixture.h"
#include "format/quantize.h"
#include "kernels/layout.h"

namespace quern::kernels {
namespace {

struct Case {
  int64_t n_out, n_in;
  int n_rows;
};

class Problem {
 public:
  Problem(format::Format f, ActivationFormat act, const Case& c, uint32_t seed) : format_(f), act_(act), case_(c) {
    const auto weights = random_floats(static_cast<size_t>(c.n_out * c.n_in), seed, 0.2F);
    const size_t row = format::row_bytes(f, static_cast<size_t>(c.n_in));
    disk_.resize(row * static_cast<size_t>(c.n_out));
    for (int64_t r = 0; r < c.n_out; ++r) {
      format::quantize_row(f, weights.data() + r * c.n_in, static_cast<size_t>(c.n_in),
                           disk_.data() + static_cast<size_t>(r) * row);
    }
    const auto x = random_floats(static_cast<size_t>(c.n_rows * c.n_in), seed + 1);
    const auto n = static_cast<size_t>(c.n_in), n_rows = static_cast<size_t>(c.n_rows);
    stride_ = format::activation_stride(act, n);
    x_ = Buffer::allocate(format::activation_bytes(act, n, n_rows), "x").value();
    format::quantize_activation_rows(act, x.data(), n, n_rows, x_.data());
    bias_ = random_floats(static_cast<size_t>(c.n_out), seed + 2);
    residual_ = random_floats(static_cast<size_t>(c.n_rows * c.n_out), seed + 3);
  }

  Shape shape() const { return {case_.n_out, case_.n_in}; }

  std::vector<float> solve(const Kernel& kernel, int n_threads, bool extras) {
    std::vector<float> y(static_cast<size_t>(case_.n_rows * case_.n_out), -7.0F);
    const Buffer packed = pack();
    run(kernel, args(kernel, packed, extras, y.data()), context(), shape(), n_threads);
    return y;
  }

  // This matrix as the gate, the other problem's as its partner.
  std::vector<float> solve_gated(const Problem& up, ActFn fn, const Kernel& kernel, int n_threads, bool extras) {
    std::vector<float> y(static_cast<size_t>(case_.n_rows * case_.n_out), -7.0F);
    const Buffer packed = pack(), packed_up = up.pack();
    MatmulArgs gate = args(kernel, packed, extras, y.data());
    gate.residual = nullptr;
    const GatedMatmulArgs both{gate, kernel.key.layout == Layout::x16 ? packed_up.data() : up.disk_.data(),
                               extras ? up.bias_.data() : nullptr, fn};
    run(kernel, both, context(), shape(), n_threads);
    return y;
  }

  // One thread of two, which has claimed what it may: the other never comes, or has claimed some of its pieces.
  std::vector<float> solve_alone(const Kernel& kernel, int thread, int others_pieces) {
    std::vector<float> y(static_cast<size_t>(case_.n_rows * case_.n_out), -7.0F);
    const Buffer packed = pack();
    const MatmulArgs a = args(kernel, packed, true, y.data());
    const size_t bytes = kernel.scratch_bytes != nullptr ? kernel.scratch_bytes(shape()) : 0;
    const Buffer scratch = Buffer::allocate(bytes + 64, "scratch").value();
    std::vector<int> claimed(2 * Worker::kClaimStride, 0);
    claimed[static_cast<size_t>((1 - thread) * Worker::kClaimStride)] = others_pieces;
    Worker w;
    w.thread = thread;
    w.n_threads = 2;
    w.scratch = scratch.data();
    w.claimed = claimed.data();
    kernel.fn(&a, context(), w);
    return y;
  }

  void damage_weight() { disk_[disk_.size() / 2] ^= std::byte{0x10}; }

 private:
  Buffer pack() const {
    Buffer packed = Buffer::allocate(x16_bytes(format_, case_.n_out, case_.n_in), "w").value();
    const RepackArgs args{format_, disk_.data(), case_.n_out, case_.n_in, packed.data()};
    run(reference({Op::repack, format_}), args, {}, {}, 2);
    return packed;
  }

  RunContext context() const {
    RunContext ctx;
    ctx.n_rows = case_.n_rows;
    return ctx;
  }

  MatmulArgs args(const Kernel& kernel, const Buffer& packed, bool extras, float* y) const {
    MatmulArgs args{};
    args.format = format_;
    args.act = act_;
    args.w = kernel.key.layout == Layout::x16 ? packed.data() : disk_.data();
    args.n_out = case_.n_out;
    args.n_in = case_.n_in;
    args.x = x_.data();
    args.x_stride = stride_;
    args.bias = extras ? bias_.data() : nullptr;
    args.residual = extras ? residual_.data() : nullptr;
    args.y = y;
    args.y_stride = case_.n_out;
    args.rows = RowSet::tokens;
    return args;
  }

  format::Format format_;
  ActivationFormat act_;
  Case case_;
  std::vector<std::byte> disk_;
  Buffer x_;
  size_t stride_ = 0;
  std::vector<float> bias_, residual_;
};

std::vector<Case> cases_for(const Kernel& kernel) {
  const int64_t block = format::format_info(kernel.key.weight).block_weights;
  const int64_t n_in = block == 1 ? 37 : block * 3;
  std::vector<Case> cases;
  for (const int n_rows : {1, 2, 3, 5, 6, 7, 8, 13, 25}) {
    const RowClass row_class = n_rows == 1 ? RowClass::decode : n_rows <= kFewRows ? RowClass::few : RowClass::prefill;
    if ((kernel.key.row_classes & class_bit(row_class)) == 0 && row_class != RowClass::few) continue;
    if ((kernel.key.row_classes & (class_bit(RowClass::few) | class_bit(RowClass::prefill))) == 0 && n_rows > 1)
      continue;
    cases.push_back({48, n_in, n_rows});
    if (n_rows == 1 || n_rows == 7) {
      cases.push_back({1, n_in, n_rows});
      cases.push_back({16, block == 1 ? 16 : block, n_rows});
      cases.push_back({83, n_in, n_rows});
    }
  }
  return cases;
}

TEST(Matmul, EveryRowHasTheBitsOfRef) {
  int n = 0;
  for (const Kernel& kernel : candidates(Op::matmul)) {
    for (const Case& c : cases_for(kernel)) {
      Problem problem(kernel.key.weight, kernel.key.act, c, 17);
      const auto expected = problem.solve(reference(kernel.key), 1, c.n_out != 16);
      for (const int n_threads : {1, 3}) {
        const auto actual = problem.solve(kernel, n_threads, c.n_out != 16);
        ASSERT_TRUE(same_bits(expected.data(), actual.data(), expected.size()))
            << kernel.name << " [" << c.n_out << " x " << c.n_in << "] rows " << c.n_rows << " threads " << n_threads;
        ++n;
      }
    }
  }
  EXPECT_GT(n, 100);
}

TEST(Matmul, EveryGatedRowHasTheBitsOfRef) {
  int n = 0;
  for (const Kernel& kernel : candidates(Op::gated_matmul)) {
    for (const Case& c : cases_for(kernel)) {
      Problem gate(kernel.key.weight, kernel.key.act, c, 17), up(kernel.key.weight, kernel.key.act, c, 71);
      for (const ActFn fn : {ActFn::silu, ActFn::gelu_tanh, ActFn::swiglu_oai}) {
        const bool extras = c.n_out != 16;
        const auto expected = gate.solve_gated(up, fn, reference(kernel.key), 1, extras);
        const auto actual = gate.solve_gated(up, fn, kernel, 3, extras);
        ASSERT_TRUE(same_bits(expected.data(), actual.data(), expected.size()))
            << kernel.name << " [" << c.n_out << " x " << c.n_in << "] rows " << c.n_rows;
        ++n;
      }
    }
  }
  EXPECT_GT(n, 100);
}

// What a thread has not come to, others do: with the same bits, and all of it. The walk is the same for all formats of
// a block size.
TEST(Matmul, AThreadThatIsLateIsHelped) {
  int n_helped = 0;
  for (const Kernel& kernel : candidates(Op::matmul)) {
    const format::Format f = kernel.key.weight;
    const bool decodes = (kernel.key.row_classes & class_bit(RowClass::decode)) != 0;
    if (!decodes || kernel.key.layout != Layout::x16 || (f != format::Format::q8_0 && f != format::Format::q4_k))
      continue;
    // Shares large enough to be divided: a panel of 139 or 147 KB, and two.
    Problem problem(f, kernel.key.act, {48, f == format::Format::q8_0 ? 8192 : 16384, 1}, 17);
    const auto expected = problem.solve(reference(kernel.key), 1, true);
    const auto whole = problem.solve_alone(kernel, 1, 0);
    ASSERT_TRUE(same_bits(expected.data(), whole.data(), expected.size())) << kernel.name;
    ++n_helped;
    const auto without = problem.solve_alone(kernel, 1, 1);
    EXPECT_EQ(without[0], -7.0F) << kernel.name;  // claimed by the other
    EXPECT_TRUE(same_bits(expected.data() + 16, without.data() + 16, 32)) << kernel.name;
  }
  EXPECT_GE(n_helped, 4);
}

TEST(Matmul, ADamagedWeightIsSeen) {
  for (const Kernel& kernel : candidates(Op::matmul)) {
    Problem problem(kernel.key.weight, kernel.key.act,
                    {48, format::format_info(kernel.key.weight).block_weights == 256 ? 256 : 64, 1}, 5);
    const auto expected = problem.solve(reference(kernel.key), 1, false);
    problem.damage_weight();
    const auto actual = problem.solve(kernel, 1, false);
    EXPECT_FALSE(same_bits(expected.data(), actual.data(), expected.size())) << kernel.name;
  }
}

TEST(Matmul, NoRowsIsNoWork) {
  for (const Kernel& kernel : candidates(Op::matmul)) {
    Problem problem(kernel.key.weight, kernel.key.act, {48, 256, 1}, 5);
    MatmulArgs args{};
    args.format = kernel.key.weight;
    args.act = kernel.key.act;
    args.n_out = 48;
    args.n_in = 256;
    RunContext ctx;
    run(kernel, args, ctx, problem.shape(), 2);
  }
}

TEST(Repack, EveryByteOfTheMatrixIsInTheImage) {
  for (int i = 0; i < format::kFormatCount; ++i) {
    const auto f = static_cast<format::Format>(i);
    const size_t n_in = 2 * format::format_info(f).block_weights, bytes = format::row_bytes(f, n_in) * 16;
    std::vector<std::byte> disk(bytes), packed(x16_bytes(f, 16, static_cast<int64_t>(n_in)));
    std::mt19937 rng(3);
    for (std::byte& b : disk) b = static_cast<std::byte>(rng());
    const RepackArgs args{f, disk.data(), 16, static_cast<int64_t>(n_in), packed.data()};
    run(reference({Op::repack, f}), args, {}, {}, 1);
    // A permutation of bits: the number of set bits stays.
    const auto ones = [](const std::vector<std::byte>& v) {
      size_t n = 0;
      for (const std::byte b : v) n += static_cast<size_t>(__builtin_popcount(std::to_integer<unsigned>(b)));
      return n;
    };
    EXPECT_EQ(ones(disk), ones(packed)) << format::format_info(f).name;
    EXPECT_GE(packed.size(), disk.size());
  }
}

}  // namespace
}  // namespace quern::kernels
