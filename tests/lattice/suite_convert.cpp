// Lattice suite: widening, narrowing, i32 <-> f32, and the f16 and bf16 formats. The scalar side of f16 and bf16 works
// in double with ldexp and nearbyint, by another way than any backend.
#include "suite_data.h"

namespace quern::lattice::QUERN_ISA {
namespace {

// Widening S to D with N lanes; the halves too.
template <class D, class S, int N>
void check_widen(Report& report) {
  using L = lattice<S, N>;
  const Inputs<S> in;
  D got[N], want[N];
  for (int i = 0; i < kInputs; i += N) {
    for (int k = 0; k < N; ++k) want[k] = static_cast<D>(in.b[i + k]);
    widen<D>(L::load(in.b + i)).store(got);
    compare(report, type_name<D>(), Name<S, N>().text, Kind::integer, sizeof(D), got, want, N);
    if constexpr (sizeof(D) == 2 * sizeof(S)) {
      widen_lo<D>(L::load(in.b + i)).store(got);
      widen_hi<D>(L::load(in.b + i)).store(got + N / 2);
      compare(report, "widen_lo, widen_hi", Name<S, N>().text, Kind::integer, sizeof(D), got, want, N);
    }
  }
}
void widening(Report& report) {
  each_width<i8>([&]<class S, int N>() {
    check_widen<i16, S, N>(report);
    check_widen<i32, S, N>(report);
  });
  each_width<u8>([&]<class S, int N>() {
    check_widen<i16, S, N>(report);
    check_widen<u16, S, N>(report);
    check_widen<i32, S, N>(report);
    check_widen<u32, S, N>(report);
  });
  each_width<i16>([&]<class S, int N>() { check_widen<i32, S, N>(report); });
  each_width<u16>([&]<class S, int N>() {
    check_widen<i32, S, N>(report);
    check_widen<u32, S, N>(report);
  });
}

// Narrowing to N lanes of D.
template <class D, class S, int N>
void check_narrow(Report& report) {
  const Inputs<S> in;
  constexpr int64_t kTop = int64_t{1} << (kLaneBits<D> - (kIsSigned<D> ? 1 : 0));
  constexpr int64_t kLow = kIsSigned<D> ? -kTop : 0;
  D got[N], want[N];
  for (int i = 0; i < kInputs; i += N) {
    // Every second value is brought near the limits of D.
    S x[N];
    for (int k = 0; k < N; ++k)
      x[k] = k % 2 == 0 ? in.b[i + k] : static_cast<S>(in.b[i + k] >> (kLaneBits<S> - kLaneBits<D> - 2));
    for (int k = 0; k < N; ++k) want[k] = static_cast<D>(x[k] < kLow ? kLow : x[k] >= kTop ? kTop - 1 : x[k]);
    narrow<D>(lattice<S, N>::load(x)).store(got);
    compare(report, "narrow", Name<D, N>().text, Kind::integer, sizeof(D), got, want, N);
  }
}
void narrowing(Report& report) {
  each_width<i8>([&]<class D, int N>() {
    check_narrow<D, i16, N>(report);
    check_narrow<D, i32, N>(report);
  });
  each_width<u8>([&]<class D, int N>() {
    check_narrow<D, i16, N>(report);
    check_narrow<D, i32, N>(report);
  });
  each_width<i16>([&]<class D, int N>() { check_narrow<D, i32, N>(report); });
  each_width<u16>([&]<class D, int N>() { check_narrow<D, i32, N>(report); });
}

template <class Body>
void each_i32_u32(Body body) {
  each_width<i32>(body);
  each_width<u32>(body);
}
template <class Body>
void each_float(Body body) {
  each_width<f32>(body);
}
i32 nearest_i32(f32 x) {
  const double r = __builtin_nearbyint(static_cast<double>(x));
  return r >= -2147483648.0 && r < 2147483648.0 ? static_cast<i32>(r) : INT32_MIN;
}
QUERN_CASE1(to_float, each_i32_u32, Kind::bits, to_f32(a), static_cast<f32>(a))
QUERN_CASE1(to_float_b, each_i32_u32, Kind::bits, to_f32(a* a), static_cast<f32>(static_cast<T>(u32(a) * u32(a))))
QUERN_CASE1(to_integer, each_float, Kind::integer, round_i32(a), nearest_i32(a))
QUERN_CASE1(to_integer_b, each_float, Kind::integer, round_i32(a* L::broadcast(0.37F)), nearest_i32(a * 0.37F))

// --- f16 and bf16. -------------------------------------------------------------------------------------------------

f32 half_value(u16 h) {
  const u32 sign = (h & 0x8000U) << 16, exponent = (h >> 10) & 31U, fraction = h & 0x3ffU;
  if (exponent == 31) return from_bits(sign | 0x7f800000U | (fraction << 13) | (fraction != 0 ? 0x400000U : 0));
  const int scale = exponent == 0 ? -24 : static_cast<int>(exponent) - 25;
  const double size = __builtin_ldexp(static_cast<double>(exponent == 0 ? fraction : fraction + 1024U), scale);
  return static_cast<f32>(sign != 0 ? -size : size);
}
u16 half_bits(f32 x) {
  u32 bits;
  std::memcpy(&bits, &x, 4);
  const u32 sign = (bits >> 16) & 0x8000U;
  if (x != x) return static_cast<u16>(sign | 0x7e00U | ((bits >> 13) & 0x3ffU));
  const double size = __builtin_fabs(static_cast<double>(x));
  if (size >= 65520.0) return static_cast<u16>(sign | 0x7c00U);
  int exponent = size == 0.0 ? -14 : __builtin_ilogb(size);
  if (exponent < -14) exponent = -14;
  // Units of the last place: 1024 to 2048 of them, or fewer for a denormal. 2048 carries into the exponent by itself.
  const u32 units = static_cast<u32>(__builtin_nearbyint(__builtin_ldexp(size, 10 - exponent)));
  return static_cast<u16>(sign | (units < 1024 ? units : (static_cast<u32>(exponent + 15) << 10) + (units - 1024)));
}
u16 bf16_bits(f32 x) {
  u32 bits;
  std::memcpy(&bits, &x, 4);
  const u32 low = bits >> 16;
  if (x != x) return static_cast<u16>(low | 0x40U);
  if ((bits & 0x7fffffffU) == 0x7f800000U) return static_cast<u16>(low);
  // The neighbour above may be infinity, which stands for 2^128 in rounding.
  const auto size = [](u32 h) {
    const u32 exponent = (h >> 7) & 255U, fraction = h & 127U;
    const u32 units = exponent == 0 ? fraction : fraction + 128U;
    return __builtin_ldexp(static_cast<double>(units), (exponent == 0 ? 1 : static_cast<int>(exponent)) - 134);
  };
  const double below = __builtin_fabs(static_cast<double>(x)) - size(low);
  const double above = size(low + 1) - __builtin_fabs(static_cast<double>(x));
  return static_cast<u16>(below < above || (below == above && low % 2 == 0) ? low : low + 1);
}

// Every half.
void f16_load(Report& report) {
  each_width<f32>([&]<class T, int N>() {
    if constexpr (N >= 8) {
      for (u32 first = 0; first < 65536; first += N) {
        u16 h[N];
        f32 got[N], want[N];
        for (int k = 0; k < N; ++k) h[k] = static_cast<u16>(first + static_cast<u32>(k)), want[k] = half_value(h[k]);
        lattice<T, N>::load_f16(h).store(got);
        compare(report, "load_f16", Name<T, N>().text, Kind::bits, 4, got, want, N);
        for (int k = 0; k < N; ++k) want[k] = from_bits(u32{h[k]} << 16);
        lattice<T, N>::load_bf16(h).store(got);
        compare(report, "load_bf16", Name<T, N>().text, Kind::bits, 4, got, want, N);
      }
    }
  });
}

// Around the value of every half (or every bf16) and the middle to the next: the value, and one float to either side.
template <class Narrow, class Vector>
void check_store(Report& report, const char* what, bool bf16, Narrow scalar, Vector vector) {
  f32 x[32];
  u16 got[32], want[32];
  int n = 0;
  const auto add = [&](f32 value) {
    x[n] = value, want[n] = scalar(value);
    if (++n == 32) {
      vector(x, got);
      compare(report, what, "f32", Kind::bits, 2, got, want, 32);
      n = 0;
    }
  };
  for (u32 h = 0; h < 65536; ++h) {
    u32 bits;
    const f32 value = bf16 ? from_bits(h << 16) : half_value(static_cast<u16>(h));
    std::memcpy(&bits, &value, 4);
    // The middle between neighbours, of normal numbers and of denormals (whose middle needs the float's own rounding).
    const u32 half_step = bf16 ? 0x8000U : 0x1000U;
    const u32 around[] = {bits, bits - 1, bits + 1, bits + half_step, bits + half_step - 1, bits + half_step + 1};
    for (const u32 b : around) {
      add(from_bits(b));
    }
    if (!bf16 && (h & 0x7c00U) == 0) {
      const f32 middle = (value < 0 ? -0x1p-25F : 0x1p-25F) + value;
      u32 m;
      std::memcpy(&m, &middle, 4);
      for (u32 b = m - 1; b != m + 2; ++b) add(from_bits(b));
    }
  }
  const Inputs<f32> in;
  for (int i = 0; i < kInputs; ++i) add(in.b[i]);
}
template <int N>
void check_store_width(Report& report) {
  check_store(report, "store_f16", false, half_bits, [](const f32* x, u16* out) {
    for (int i = 0; i < 32; i += N) lattice<f32, N>::load(x + i).store_f16(out + i);
  });
  check_store(report, "store_bf16", true, bf16_bits, [](const f32* x, u16* out) {
    for (int i = 0; i < 32; i += N) lattice<f32, N>::load(x + i).store_bf16(out + i);
  });
}
void f16_store(Report& report) {
  check_store_width<8>(report);
  check_store_width<16>(report);
  check_store_width<32>(report);
}

// Negative controls: truncation instead of rounding, and a narrowing that wraps.
void control_bf16_truncates(Report& report) {
  check_store(report, "truncation", true, bf16_bits, [](const f32* x, u16* out) {
    const auto bits = as<u32>(f32x32::load(x)) >> 16;
    narrow<u16>(as<i32>(bits)).store(out);
  });
}
void control_narrow_wraps(Report& report) {
  const Inputs<i32> in;
  for (int i = 0; i < kInputs; i += 16) {
    i8 got[16], want[16];
    for (int k = 0; k < 16; ++k) want[k] = static_cast<i8>(in.b[i + k]);
    narrow<i8>(i32x16::load(in.b + i)).store(got);
    compare(report, "narrow", "i8x16", Kind::integer, 1, got, want, 16);
  }
}

constexpr lattice_suite::Case kCases[] = {
    QUERN_ROW(widening),
    QUERN_ROW(narrowing),
    QUERN_ROW(to_float),
    QUERN_ROW(to_float_b),
    QUERN_ROW(to_integer),
    QUERN_ROW(to_integer_b),
    QUERN_ROW(f16_load),
    QUERN_ROW(f16_store),
    QUERN_CONTROL(control_bf16_truncates),
    QUERN_CONTROL(control_narrow_wraps),
};

}  // namespace

lattice_suite::Cases suite_converts() {
  return {kCases, sizeof kCases / sizeof kCases[0]};
}

}  // namespace quern::lattice::QUERN_ISA
