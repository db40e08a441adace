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

// What one call of quantize_values makes of kValues values: their codes, a d per block, a sum per kSumWidth codes.
template <int kValues, int kBlock>
struct Quantized {
  static constexpr int kSumWidth = kBlock == 32 ? 32 : 16;
  i8 codes[kValues];
  float d[kValues / kBlock];
  i32 sums[kValues / kSumWidth];
};

// Four values, each in four lanes, as one value per block.
QUERN_FN void store_fourths(const f32x16& v, float* out) {
  float all[16];
  v.store(all);
  for (int i = 0; i < 4; ++i) out[i] = all[4 * i];
}

// Four blocks of 32. False, and nothing done, where a block is not finite or too small for a scale.
QUERN_FN bool quantize_four(const float* x, Quantized<128, 32>& out) {
  const i32x16 magnitude = i32x16::broadcast(0x7fffffff);
  i32x16 large[4];
#pragma GCC unroll unroll(4)
  for (int b = 0; b < 4; ++b) {
    large[b] = max(as<i32>(f32x16::load(x + 32 * b)) & magnitude, as<i32>(f32x16::load(x + 32 * b + 16)) & magnitude);
  }
  const i32x16 bits = reduce4_max(large);  // block b in lanes 4 b to 4 b + 3
  const f32x16 amax = as<f32>(bits);
  if (any((bits >= i32x16::broadcast(0x7f800000)) | (amax < f32x16::broadcast(format::kTinyAmax)))) return false;
  static constexpr float kSteps[16] = {127, 126, 125, 124, 127, 126, 125, 124, 127, 126, 125, 124, 127, 126, 125, 124};
  float inverse[16];
  (f32x16::load(kSteps) / amax).store(inverse);
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
  store_fourths(amax / best, out.d);
  float chosen[16];
  (best / amax).store(chosen);
  i32x16 total[4];
#pragma GCC unroll unroll(4)
  for (int b = 0; b < 4; ++b) {
    const f32x16 scale = f32x16::broadcast(chosen[4 * b]);
    const i32x16 q0 = round_i32(f32x16::load(x + 32 * b) * scale),
                 q1 = round_i32(f32x16::load(x + 32 * b + 16) * scale);
    narrow<i8>(q0).store(out.codes + 32 * b);
    narrow<i8>(q1).store(out.codes + 32 * b + 16);
    total[b] = q0 + q1;
  }
  i32 sums[16];
  reduce4_add(total).store(sums);
  for (int b = 0; b < 4; ++b) out.sums[b] = sums[4 * b];
  return true;
}

template <int kValues, int kBlock>
QUERN_FN void quantize_values(const float* x, Quantized<kValues, kBlock>& out) {
  if constexpr (kValues == 128 && kBlock == 32) {
    if (quantize_four(x, out)) return;
  }
  constexpr int kWidth = Quantized<kValues, kBlock>::kSumWidth;
  for (int b = 0; b < kValues / kBlock; ++b) {
    quantize_block<kBlock / 16, kWidth / 16>(x + b * kBlock, out.codes + b * kBlock, out.d + b,
                                             out.sums + b * kBlock / kWidth);
  }
}

// x - d * q: what rounding left over.
template <int kValues, int kBlock>
QUERN_FN void leave_rest(const float* x, const Quantized<kValues, kBlock>& q, float* rest) {
  for (int i = 0; i < kValues; i += 16) {
    const f32x16 codes = to_f32(widen<i32>(lat<i8, 16>::load(q.codes + i)));
    fma(f32x16::broadcast(-q.d[i / kBlock]), codes, f32x16::load(x + i)).store(rest + i);
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
  template <int kValues>
  QUERN_FN void put(int64_t row, int p, int at, const Quantized<kValues, kBlock>& q) const {
    std::byte* out = plane(row, p);
    constexpr int kWidth = Quantized<kValues, kBlock>::kSumWidth;
    __builtin_memcpy(out + at, q.codes, sizeof q.codes);
    __builtin_memcpy(out + layout.d_offset + at / kBlock * 4, q.d, sizeof q.d);
    __builtin_memcpy(out + layout.sums_offset + at / kWidth * 4, q.sums, sizeof q.sums);
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
  template <int kValues>
  QUERN_FN void put(int64_t row, int p, int at, const Quantized<kValues, kBlock>& q) const {
    std::byte* out = slot(row * n_planes + p);
    alignas(64) u8 codes[kValues];
    constexpr int kStep = kValues < 64 ? 32 : 64;
    for (int i = 0; i < kValues; i += kStep) {
      const auto v = lat<u8, kStep>::load(reinterpret_cast<const u8*>(q.codes) + i);
      (v ^ lat<u8, kStep>::broadcast(0x80)).store(codes + i);
    }
    put_items<kValues / 4>(out, at / 4, codes);
    put_items<kValues / kBlock>(out + layout.d_offset, at / kBlock, q.d);
    if constexpr (kBlock == 32) {
      float scaled[kValues / 32];
      for (int b = 0; b < kValues / 32; ++b) scaled[b] = q.d[b] * static_cast<float>(q.sums[b]);
      put_items<kValues / 32>(out + layout.sums_offset, at / 32, scaled);
    } else {
      i16 by_16[kValues / 16], by_32[kValues / 32];
      for (int i = 0; i < kValues / 16; ++i) by_16[i] = static_cast<i16>(q.sums[i]);
      for (int i = 0; i < kValues / 32; ++i) by_32[i] = static_cast<i16>(q.sums[2 * i] + q.sums[2 * i + 1]);
      put_items<kValues / 64>(out + layout.sums_offset, at / 64, by_32);
      put_items<kValues / 32>(out + layout.sums16_offset, at / 32, by_16);
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
  template <int kN>
  static QUERN_FN void put_items(std::byte* part, int first, const void* items) {
#pragma GCC unroll unroll(32)
    for (int i = 0; i < kN; ++i) {
      __builtin_memcpy(part + (first + i) * 4 * kRows, static_cast<const std::byte*>(items) + 4 * i, 4);
    }
  }
};

template <int kValues, int kBlock, class Form>
QUERN_FN void quantize_part(const Form& form, const float* x, int64_t row, int at, int n_planes) {
  float rest[kValues];
  const float* source = x + at;
  for (int p = 0; p < n_planes; ++p) {
    Quantized<kValues, kBlock> q;
    quantize_values(source, q);
    form.put(row, p, at, q);
    if (p + 1 < n_planes) leave_rest(source, q, rest);
    source = rest;
  }
}

template <int kBlock, template <int> class Form>
void quantize(const QuantizeArgs& a, const RunContext& ctx, const Worker& w) {
  constexpr int kMost = kBlock == 32 ? 128 : 256;
  const Form<kBlock> form(a);
  const int n_planes = format::plane_count(a.format);
  const int64_t n_rows = row_count(ctx, a.rows);
  const Range r = rows_of(n_rows, w);
  for (int64_t row = r.begin; row < r.end; ++row) {
    const float* x = a.in + row * a.n;
    int at = 0;
    for (; at + kMost <= a.n; at += kMost) quantize_part<kMost, kBlock>(form, x, row, at, n_planes);
    for (; at < a.n; at += kBlock) quantize_part<kBlock, kBlock>(form, x, row, at, n_planes);
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
