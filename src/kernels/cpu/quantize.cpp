// Activation quantization: format/activation.h states the rule and both forms, rows and tiles of six rows. Every result
// has the bits of format/activation.cpp. Blocks of 32 are two vectors each, so their many short sums would cost more
// than the arithmetic: four blocks go side by side and share the reductions. Memory: a row is read once and written
// once.
#include "format/activation.h"
#include "kernels/cpu/tier.h"

namespace quern::kernels::QUERN_ISA {
namespace {

// One block of kVectors * 16 values: format/activation.h states the rule. Sums are per kSum vectors.
template <int kVectors, int kSum>
QUERN_FN void quantize_block(const float* x, i8* codes, float* d, i32* sums) {
  const i32x16 magnitude = i32x16::broadcast(0x7fffffff);
  i32x16 largest = i32x16::zero();
  for (int v = 0; v < kVectors; ++v) largest = max(largest, as<i32>(f32x16::load(x + 16 * v)) & magnitude);
  const i32 bits = reduce_max(largest);
  float amax = 0;
  __builtin_memcpy(&amax, &bits, 4);
  const bool finite = bits < 0x7f800000;
  if (!finite || amax < format::kTinyAmax) {
    *d = finite ? 0.0F : __builtin_nanf("");
    __builtin_memset(codes, 0, kVectors * 16);
    __builtin_memset(sums, 0, kVectors / kSum * sizeof(i32));
    return;
  }
  // Whether a step is the best so far: all candidates are tried side by side.
  f32x16 inverse[format::kStepCount], squares[format::kStepCount];
#pragma GCC unroll unroll(4)
  for (int k = 0; k < format::kStepCount; ++k) {
    inverse[k] = f32x16::broadcast(static_cast<float>(127 - k) / amax);
    squares[k] = f32x16::zero();
  }
  for (int v = 0; v < kVectors; ++v) {
    const f32x16 value = f32x16::load(x + 16 * v);
#pragma GCC unroll unroll(4)
    for (int k = 0; k < format::kStepCount; ++k) {
      const f32x16 scaled = value * inverse[k], r = scaled - round(scaled);
      squares[k] = squares[k] + r * r;
    }
  }
  float least = reduce_add(squares[0]), best = 127.0F;
#pragma GCC unroll unroll(4)
  for (int k = 1; k < format::kStepCount; ++k) {
    const float error = reduce_add(squares[k]) * format::kStepWeights[k];
    best = error < least ? static_cast<float>(127 - k) : best;
    least = error < least ? error : least;
  }
  *d = amax / best;
  const f32x16 chosen = f32x16::broadcast(best / amax);
  i32x16 sum = i32x16::zero();
  for (int v = 0; v < kVectors; ++v) {
    const i32x16 q = round_i32(f32x16::load(x + 16 * v) * chosen);
    narrow<i8>(q).store(codes + 16 * v);
    sum = sum + q;
    if (v % kSum == kSum - 1) {
      sums[v / kSum] = reduce_add(sum);
      sum = i32x16::zero();
    }
  }
}

// What becomes of up to kValues values: their codes, a d per block, a sum per kSumWidth codes.
inline constexpr int kValues = 1024;
template <int kBlock>
struct Quantized {
  static constexpr int kSumWidth = kBlock == 32 ? 32 : 16;
  alignas(64) i8 codes[kValues];
  float d[kValues / kBlock];
  i32 sums[kValues / kSumWidth];
};

inline constexpr int kGroup = 128;  // values of four blocks of 32

// Of each group: block b's number in lanes 4 b to 4 b + 3.
struct Groups {
  alignas(64) float amax[kValues / kGroup][16];
  alignas(64) float inverse[kValues / kGroup][16];  // of block b and step k at 4 b + k; later of the chosen step
};

// Whether every block has a scale: is finite, and not too small.
QUERN_FN bool find_amax(const float* x, int n_groups, Groups& out) {
  static constexpr float kSteps[16] = {127, 126, 125, 124, 127, 126, 125, 124, 127, 126, 125, 124, 127, 126, 125, 124};
  const i32x16 magnitude = i32x16::broadcast(0x7fffffff), infinity = i32x16::broadcast(0x7f800000);
  const f32x16 tiny = f32x16::broadcast(format::kTinyAmax), steps = f32x16::load(kSteps);
  auto special = infinity < i32x16::zero();
  for (int g = 0; g < n_groups; ++g, x += kGroup) {
    i32x16 large[4];
#pragma GCC unroll unroll(4)
    for (int b = 0; b < 4; ++b) {
      large[b] = max(as<i32>(f32x16::load(x + 32 * b)) & magnitude, as<i32>(f32x16::load(x + 32 * b + 16)) & magnitude);
    }
    const i32x16 bits = reduce4_max(large);
    const f32x16 amax = as<f32>(bits);
    special = special | (bits >= infinity) | (amax < tiny);
    amax.store_aligned(out.amax[g]);
    (steps / amax).store_aligned(out.inverse[g]);
  }
  return !any(special);
}

// The step of least error: `inverse` becomes the chosen one's, d the blocks' scales.
QUERN_FN void choose_steps(const float* x, int n_groups, Groups& groups, float* d) {
  for (int g = 0; g < n_groups; ++g, x += kGroup) {
    const float* inverse = groups.inverse[g];
    f32x16 least = f32x16::zero(), best = f32x16::broadcast(127.0F);
#pragma GCC unroll unroll(4)
    for (int k = 0; k < format::kStepCount; ++k) {
      f32x16 squares[4];
#pragma GCC unroll unroll(4)
      for (int b = 0; b < 4; ++b) {
        const f32x16 scale = f32x16::broadcast(inverse[4 * b + k]);
        const f32x16 s0 = f32x16::load(x + 32 * b) * scale, s1 = f32x16::load(x + 32 * b + 16) * scale;
        const f32x16 r0 = s0 - round(s0), r1 = s1 - round(s1);
        squares[b] = r0 * r0 + r1 * r1;
      }
      const f32x16 error = reduce4_add(squares) * f32x16::broadcast(format::kStepWeights[k]);
      if (k == 0) {
        least = error;
      } else {
        best = select(error < least, f32x16::broadcast(static_cast<float>(127 - k)), best);
        least = select(error < least, error, least);
      }
    }
    const f32x16 amax = f32x16::load_aligned(groups.amax[g]);
    (best / amax).store_aligned(groups.inverse[g]);
    float all[16];
    (amax / best).store(all);
    for (int b = 0; b < 4; ++b) d[4 * g + b] = all[4 * b];
  }
}

QUERN_FN void round_codes(const float* x, int n_groups, const Groups& groups, i8* codes, i32* sums) {
  for (int g = 0; g < n_groups; ++g, x += kGroup, codes += kGroup) {
    i32x16 total[4];
#pragma GCC unroll unroll(4)
    for (int b = 0; b < 4; ++b) {
      const f32x16 scale = f32x16::broadcast(groups.inverse[g][4 * b]);
      const i32x16 q0 = round_i32(f32x16::load(x + 32 * b) * scale),
                   q1 = round_i32(f32x16::load(x + 32 * b + 16) * scale);
      narrow<i8>(q0).store(codes + 32 * b);
      narrow<i8>(q1).store(codes + 32 * b + 16);
      total[b] = q0 + q1;
    }
    i32 all[16];
    reduce4_add(total).store(all);
    for (int b = 0; b < 4; ++b) sums[4 * g + b] = all[4 * b];
  }
}

template <int kBlock>
QUERN_FN void quantize_values(const float* x, int n, Quantized<kBlock>& out) {
  constexpr int kWidth = Quantized<kBlock>::kSumWidth;
  int done = 0;
  if constexpr (kBlock == 32) {
    Groups groups;
    const int n_groups = n / kGroup;
    if (find_amax(x, n_groups, groups)) {
      choose_steps(x, n_groups, groups, out.d);
      round_codes(x, n_groups, groups, out.codes, out.sums);
      done = n_groups * 4;
    }
  }
  for (int b = done; b < n / kBlock; ++b) {
    quantize_block<kBlock / 16, kWidth / 16>(x + b * kBlock, out.codes + b * kBlock, out.d + b,
                                             out.sums + b * kBlock / kWidth);
  }
}

// x - d * q: what rounding left over.
template <int kBlock>
QUERN_FN void leave_rest(const float* x, int n, const Quantized<kBlock>& q, float* rest) {
  for (int b = 0; b < n / kBlock; ++b) {
    const f32x16 minus_d = f32x16::broadcast(-q.d[b]);
    for (int i = b * kBlock; i < (b + 1) * kBlock; i += 16) {
      const f32x16 codes = to_f32(widen<i32>(lat<i8, 16>::load(q.codes + i)));
      fma(minus_d, codes, f32x16::load(x + i)).store(rest + i);
    }
  }
}

// Where planes go: rows, one after the other.
template <int kBlock>
struct RowForm {
  const QuantizeArgs& a;
  format::ActivationLayout layout;
  explicit RowForm(const QuantizeArgs& args)
      : a(args), layout(format::activation_layout(args.format, static_cast<size_t>(args.n))) {}
  QUERN_FN std::byte* plane(int64_t row, int p) const {
    return a.out + static_cast<size_t>(row) * a.out_stride + static_cast<size_t>(p) * layout.plane_bytes;
  }
  QUERN_FN void put(int64_t row, int p, int at, int n, const Quantized<kBlock>& q) const {
    std::byte* out = plane(row, p);
    constexpr int kWidth = Quantized<kBlock>::kSumWidth;
    __builtin_memcpy(out + at, q.codes, static_cast<size_t>(n));
    __builtin_memcpy(out + layout.d_offset + at / kBlock * 4, q.d, static_cast<size_t>(n / kBlock) * 4);
    __builtin_memcpy(out + layout.sums_offset + at / kWidth * 4, q.sums, static_cast<size_t>(n / kWidth) * 4);
  }
  // The bytes between parts.
  QUERN_FN void end_row(int64_t row, int n_planes) const {
    const auto n = static_cast<size_t>(a.n), d_end = layout.d_offset + n / layout.block * 4,
               sums_end = layout.sums_offset + n / layout.sum_width * 4;
    for (int p = 0; p < n_planes; ++p) {
      std::byte* out = plane(row, p);
      __builtin_memset(out + n, 0, layout.d_offset - n);
      __builtin_memset(out + d_end, 0, layout.sums_offset - d_end);
      __builtin_memset(out + sums_end, 0, layout.plane_bytes - sums_end);
    }
  }
  QUERN_FN void end(int64_t) const {}
};

// Or tiles of six.
template <int kBlock>
struct TileForm {
  static constexpr int kRows = format::kTileRows;
  const QuantizeArgs& a;
  format::ActivationTile layout;
  int n_planes;
  explicit TileForm(const QuantizeArgs& args)
      : a(args),
        layout(format::activation_tile(args.format, static_cast<size_t>(args.n))),
        n_planes(format::plane_count(args.format)) {}
  // Slot of virtual row v; number i of a part whose items are 4 bytes is 4 * kRows * i further.
  QUERN_FN std::byte* slot(int64_t v) const {
    return a.out + static_cast<size_t>(v / kRows) * a.out_stride + static_cast<size_t>(v % kRows) * 4;
  }
  QUERN_FN void put(int64_t row, int p, int at, int n, const Quantized<kBlock>& q) const {
    std::byte* out = slot(row * n_planes + p);
    const u8x32 offset = u8x32::broadcast(0x80);
    for (int i = 0; i < n; i += 32) {
      alignas(32) u32 codes[8];
      as<u32>(as<u8>(i8x32::load(q.codes + i)) ^ offset).store(codes);
#pragma GCC unroll unroll(8)
      for (int j = 0; j < 8; ++j) put_item(out, (at + i) / 4 + j, codes[j]);
    }
    put_items(out + layout.d_offset, at / kBlock, q.d, n / kBlock);
    if constexpr (kBlock == 32) {
      for (int b = 0; b < n / 32; ++b)
        put_item(out + layout.sums_offset, at / 32 + b, q.d[b] * static_cast<float>(q.sums[b]));
    } else {
      i16 by_16[kValues / 16], by_32[kValues / 32];
      for (int i = 0; i < n / 16; ++i) by_16[i] = static_cast<i16>(q.sums[i]);
      for (int i = 0; i < n / 32; ++i) by_32[i] = static_cast<i16>(q.sums[2 * i] + q.sums[2 * i + 1]);
      put_items(out + layout.sums_offset, at / 64, by_32, n / 64);
      put_items(out + layout.sums16_offset, at / 32, by_16, n / 32);
    }
  }
  QUERN_FN void end_row(int64_t, int) const {}
  // Padding, written with the last row.
  QUERN_FN void end(int64_t n_rows) const {
    const int n_d = a.n / kBlock, n_sums = kBlock == 32 ? n_d : a.n / 64, n_sums16 = kBlock == 32 ? 0 : a.n / 32;
    for (int64_t v = n_rows * n_planes; v % kRows != 0; ++v) {
      fill_items(slot(v), a.n / 4, 0x80808080U);
      fill_items(slot(v) + layout.d_offset, n_d, 0);
      fill_items(slot(v) + layout.sums_offset, n_sums, 0);
      fill_items(slot(v) + layout.sums16_offset, n_sums16, 0);
    }
  }

 private:
  static QUERN_FN void fill_items(std::byte* part, int n, u32 item) {
    for (int i = 0; i < n; ++i) __builtin_memcpy(part + i * 4 * kRows, &item, 4);
  }
  template <class T>
  static QUERN_FN void put_item(std::byte* part, int i, T item) {
    static_assert(sizeof item == 4);
    __builtin_memcpy(part + i * 4 * kRows, &item, 4);
  }
  static QUERN_FN void put_items(std::byte* part, int first, const void* items, int n) {
    for (int i = 0; i < n; ++i) {
      __builtin_memcpy(part + (first + i) * 4 * kRows, static_cast<const std::byte*>(items) + 4 * i, 4);
    }
  }
};

template <int kBlock, template <int> class Form>
void quantize(const QuantizeArgs& a, const RunContext& ctx, const Worker& w) {
  const Form<kBlock> form(a);
  const int n_planes = format::plane_count(a.format);
  const int64_t n_rows = row_count(ctx, a.rows);
  const Range r = rows_of(n_rows, w);
  Quantized<kBlock> q{};
  for (int64_t row = r.begin; row < r.end; ++row) {
    for (int at = 0; at < a.n; at += kValues) {
      const int n = a.n - at < kValues ? a.n - at : kValues;
      const float* source = a.in + row * a.n + at;
      float rest[kValues];
      for (int p = 0; p < n_planes; ++p) {
        quantize_values(source, n, q);
        form.put(row, p, at, n, q);
        if (p + 1 < n_planes) leave_rest(source, n, q, rest);
        source = rest;
      }
    }
    form.end_row(row, n_planes);
  }
  if (r.begin < r.end && r.end == n_rows) form.end(n_rows);
}

template <int kBlock, template <int> class Form>
constexpr Kernel row(ActivationFormat act, const char* name) {
  return {{Op::quantize, format::Format::f32, act},
          own_isa(),
          own_priority(),
          name,
          &Erased<&quantize<kBlock, Form>>::call};
}

constexpr Kernel kRows[] = {
    row<32, RowForm>(ActivationFormat::q8_32, QUERN_NAME("quantize_q8_32")),
    row<32, RowForm>(ActivationFormat::q8_32x2, QUERN_NAME("quantize_q8_32x2")),
    row<32, TileForm>(ActivationFormat::q8_32t, QUERN_NAME("quantize_q8_32t")),
    row<32, TileForm>(ActivationFormat::q8_32x2t, QUERN_NAME("quantize_q8_32x2t")),
    row<256, RowForm>(ActivationFormat::q8_256, QUERN_NAME("quantize_q8_256")),
    row<256, RowForm>(ActivationFormat::q8_256x2, QUERN_NAME("quantize_q8_256x2")),
    row<256, TileForm>(ActivationFormat::q8_256t, QUERN_NAME("quantize_q8_256t")),
    row<256, TileForm>(ActivationFormat::q8_256x2t, QUERN_NAME("quantize_q8_256x2t")),
};

}  // namespace

const KernelList kQuantize = {kRows, static_cast<int>(sizeof kRows / sizeof kRows[0])};

}  // namespace quern::kernels::QUERN_ISA
