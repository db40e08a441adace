// Lattice suite: loads, stores, views, and integer operators.
#include "suite_data.h"

namespace quern::lattice::QUERN_ISA {
namespace {

template <class T>
T wrap(int64_t x) {
  return static_cast<T>(static_cast<uint64_t>(x));
}
template <class T>
constexpr int64_t kLow = kIsSigned<T> ? -(int64_t{1} << (kLaneBits<T> - 1)) : 0;
template <class T>
constexpr int64_t kHigh = (int64_t{1} << (kLaneBits<T> - (kIsSigned<T> ? 1 : 0))) - 1;
template <class T>
T clamp(int64_t x) {
  return static_cast<T>(x < kLow<T> ? kLow<T> : x > kHigh<T> ? kHigh<T> : x);
}
template <class Body>
void each_small(Body body) {
  each_width<i8>(body);
  each_width<u8>(body);
  each_width<i16>(body);
  each_width<u16>(body);
}
template <class Body>
void each_signed(Body body) {
  each_width<i8>(body);
  each_width<i16>(body);
  each_width<i32>(body);
}
template <class T>
T shifted_left(T a, int count) {
  return static_cast<T>(static_cast<u32>(a) << (count & (kLaneBits<T> - 1)));
}
template <class T>
T shifted_right(T a, int count) {
  return static_cast<T>(static_cast<int64_t>(a) >> (count & (kLaneBits<T> - 1)));
}

constexpr Kind kInt = Kind::integer;
QUERN_CASE2(add, each_integer, kInt, a + b, wrap<T>(int64_t{a} + int64_t{b}))
QUERN_CASE2(sub, each_integer, kInt, a - b, wrap<T>(int64_t{a} - int64_t{b}))
QUERN_CASE2(mul, each_integer, kInt, a* b, static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)))
QUERN_CASE2(bit_and, each_integer, kInt, a& b, static_cast<T>(a& b))
QUERN_CASE2(bit_or, each_integer, kInt, a | b, static_cast<T>(a | b))
QUERN_CASE2(bit_xor, each_integer, kInt, a ^ b, static_cast<T>(a ^ b))
QUERN_CASE1(bit_not, each_integer, kInt, ~a, static_cast<T>(~a))
QUERN_CASE1(negate, each_integer, kInt, -a, wrap<T>(-int64_t{a}))
QUERN_CASE2(shift_left, each_integer, kInt, a << b, shifted_left(a, static_cast<int>(b)))
QUERN_CASE2(shift_right, each_integer, kInt, a >> b, shifted_right(a, static_cast<int>(b)))
QUERN_CASE2(minimum, each_integer, kInt, min(a, b), a < b ? a : b)
QUERN_CASE2(maximum, each_integer, kInt, max(a, b), a > b ? a : b)
QUERN_CASE1(absolute, each_signed, kInt, abs(a), wrap<T>(a < 0 ? -int64_t{a} : int64_t{a}))
QUERN_CASE2(add_saturating, each_small, kInt, add_sat(a, b), clamp<T>(int64_t{a} + int64_t{b}))
QUERN_CASE2(sub_saturating, each_small, kInt, sub_sat(a, b), clamp<T>(int64_t{a} - int64_t{b}))
QUERN_CASE2(equal, each_integer, kInt, a == b, a == b ? -1 : 0)
QUERN_CASE2(not_equal, each_integer, kInt, a != b, a != b ? -1 : 0)
QUERN_CASE2(less, each_integer, kInt, a < b, a < b ? -1 : 0)
QUERN_CASE2(less_equal, each_integer, kInt, a <= b, a <= b ? -1 : 0)
QUERN_CASE2(greater, each_integer, kInt, a > b, a > b ? -1 : 0)
QUERN_CASE2(greater_equal, each_integer, kInt, a >= b, a >= b ? -1 : 0)
QUERN_CASE3(select_by_compare, each_integer, kInt, select(a < b, a, c), a < b ? a : c)
// A mask lane is true wherever it is not 0.
QUERN_CASE3(select_by_value, each_integer, kInt, select(as<mask_of<T>>(a), b, c), a != 0 ? b : c)

// Shifts by one count for all lanes, inside and outside of the lane width.
void shift_scalar(Report& report) {
  each_integer([&]<class T, int N>() {
    const Inputs<T> in;
    T got[N], want[N];
    for (int count = -9; count <= 2 * kLaneBits<T>; ++count) {
      for (int i = 0; i < 16 * N; i += N) {
        const auto v = lattice<T, N>::load(in.a + i);
        (v << count).store(got);
        for (int k = 0; k < N; ++k) want[k] = shifted_left(in.a[i + k], count);
        compare(report, "shift left by an int", Name<T, N>().text, kInt, sizeof(T), got, want, N);
        (v >> count).store(got);
        for (int k = 0; k < N; ++k) want[k] = shifted_right(in.a[i + k], count);
        compare(report, "shift right by an int", Name<T, N>().text, kInt, sizeof(T), got, want, N);
      }
    }
  });
}

// Compound forms against the plain ones.
void compound(Report& report) {
  each_integer([&]<class T, int N>() {
    using L = lattice<T, N>;
    const Inputs<T> in;
    T got[9][N], want[9][N];
    for (int i = 0; i < kInputs; i += N) {
      const L a = L::load(in.a + i), b = L::load(in.b + i);
      L r[9] = {a, a, a, a, a, a, a, a, a};
      (r[0] += b).store(got[0]), (a + b).store(want[0]);
      (r[1] -= b).store(got[1]), (a - b).store(want[1]);
      (r[2] *= b).store(got[2]), (a * b).store(want[2]);
      (r[3] &= b).store(got[3]), (a & b).store(want[3]);
      (r[4] |= b).store(got[4]), (a | b).store(want[4]);
      (r[5] ^= b).store(got[5]), (a ^ b).store(want[5]);
      (r[6] <<= b).store(got[6]), (a << b).store(want[6]);
      (r[7] >>= b).store(got[7]), (a >> b).store(want[7]);
      (r[8] >>= 3).store(got[8]), (a >> 3).store(want[8]);
      compare(report, "compound", Name<T, N>().text, kInt, sizeof(T), got, want, 9 * N);
      for (int k = 0; k < 9; ++k) r[k].store(got[k]);
      compare(report, "compound target", Name<T, N>().text, kInt, sizeof(T), got, want, 9 * N);
    }
  });
}

// load and store at every offset that the element allows, aligned forms, lane, broadcast, zero, iota.
void memory(Report& report) {
  each_type([&]<class T, int N>() {
    using L = lattice<T, N>;
    const Inputs<T> in;
    const Name<T, N> label;
    const char* name = label.text;
    constexpr size_t kBytes = sizeof(T) * N;
    alignas(64) unsigned char buffer[kBytes + 12];
    alignas(64) T aligned[N];
    constexpr unsigned char kZeros[8] = {};
    T got[N];
    for (int i = 0; i < 8 * N; i += N) {
      for (size_t offset = 0; offset < 8; offset += sizeof(T)) {
        std::memcpy(buffer + offset, in.a + i, kBytes);
        alignas(64) unsigned char out[kBytes + 12] = {};
        L::load(reinterpret_cast<const T*>(buffer + offset)).store(reinterpret_cast<T*>(out + offset));
        compare(report, "load and store", name, Kind::bits, 1, out + offset, in.a + i, static_cast<int>(kBytes));
        compare(report, "bytes after a store", name, Kind::bits, 1, out + offset + kBytes, kZeros, 4);
        compare(report, "bytes before a store", name, Kind::bits, 1, out, kZeros, static_cast<int>(offset));
      }
      std::memcpy(aligned, in.a + i, kBytes);
      L::load_aligned(aligned).store_aligned(aligned);
      compare(report, "aligned load and store", name, Kind::bits, sizeof(T), aligned, in.a + i, N);
      const L v = L::load(in.a + i);
      for (int k = 0; k < N; ++k) got[k] = v.lane(k);
      compare(report, "lane", name, Kind::bits, sizeof(T), got, in.a + i, N);
      T want[N];
      for (int k = 0; k < N; ++k) want[k] = in.a[i];
      L::broadcast(in.a[i]).store(got);
      compare(report, "broadcast", name, Kind::bits, sizeof(T), got, want, N);
      std::memcpy(buffer + 1, in.a + i, 4 < kBytes ? 4 : kBytes);
      for (size_t k = 0; k < kBytes; k += 4) std::memcpy(reinterpret_cast<unsigned char*>(want) + k, buffer + 1, 4);
      L::broadcast4(buffer + 1).store(got);
      compare(report, "broadcast4", name, Kind::bits, sizeof(T), got, want, N);
    }
    T want[N] = {};
    L::zero().store(got);
    compare(report, "zero", name, Kind::bits, sizeof(T), got, want, N);
    for (int k = 0; k < N; ++k) want[k] = static_cast<T>(k);
    L::iota().store(got);
    compare(report, "iota", name, Kind::bits, sizeof(T), got, want, N);
    prefetch(in.a);
    prefetch_nta(in.a);
  });
}

template <class U, class T, int N>
void check_view(Report& report, const Inputs<T>& in) {
  const auto v = as<U>(lattice<T, N>::load(in.a + 64));
  static_assert(decltype(v)::kBytes == lattice<T, N>::kBytes);
  U got[decltype(v)::kLanes];
  v.store(got);
  compare(report, "as", Name<T, N>().text, Kind::bits, 1, got, in.a + 64, lattice<T, N>::kBytes);
}
void views(Report& report) {
  each_type([&]<class T, int N>() {
    using L = lattice<T, N>;
    const Inputs<T> in;
    const Name<T, N> label;
    const char* name = label.text;
    check_view<i8, T, N>(report, in);
    check_view<u8, T, N>(report, in);
    check_view<i16, T, N>(report, in);
    check_view<u16, T, N>(report, in);
    check_view<i32, T, N>(report, in);
    check_view<u32, T, N>(report, in);
    check_view<f32, T, N>(report, in);
    T got[2 * N];
    combine(L::load(in.b), L::load(in.c)).store(got);
    compare(report, "combine", name, Kind::bits, sizeof(T), got, in.b, N);
    compare(report, "combine", name, Kind::bits, sizeof(T), got + N, in.c, N);
    if constexpr (L::kBytes > 16) {
      lower(L::load(in.b)).store(got);
      upper(L::load(in.b)).store(got + N / 2);
      compare(report, "lower and upper", name, Kind::bits, sizeof(T), got, in.b, N);
    }
  });
}

void any_all(Report& report) {
  each_integer([&]<class T, int N>() {
    using L = lattice<T, N>;
    u8 got[2 * N + 4], want[2 * N + 4];
    for (int i = 0; i < N; ++i) {
      T one[N] = {}, rest[N];
      one[i] = T(1);
      for (int k = 0; k < N; ++k) rest[k] = static_cast<T>(k == i ? ~u32{2} : ~u32{0});
      got[2 * i] = any(L::load(one)), want[2 * i] = 1;
      got[2 * i + 1] = all(L::load(rest)), want[2 * i + 1] = 0;
    }
    got[2 * N] = any(L::zero()), want[2 * N] = 0;
    got[2 * N + 1] = all(~L::zero()), want[2 * N + 1] = 1;
    got[2 * N + 2] = any(~L::zero()), want[2 * N + 2] = 1;
    got[2 * N + 3] = all(L::zero()), want[2 * N + 3] = 0;
    compare(report, "any and all", Name<T, N>().text, kInt, 1, got, want, 2 * N + 4);
  });
}

// Negative controls: each is wrong in few lanes only.
QUERN_CASE2(control_add_saturates, each_small, kInt, add_sat(a, b), wrap<T>(int64_t{a} + int64_t{b}))
QUERN_CASE2(control_shift_to_nothing, each_integer, kInt, select(b < L::broadcast(T(kLaneBits<T>)), a << b, L::zero()),
            shifted_left(a, static_cast<int>(b)))
QUERN_CASE2(control_last_lane, each_integer, kInt, select(L::iota() == L::broadcast(T(N - 1)), a - b, a + b),
            wrap<T>(int64_t{a} + int64_t{b}))

constexpr lattice_suite::Case kCases[] = {
    QUERN_ROW(add),
    QUERN_ROW(sub),
    QUERN_ROW(mul),
    QUERN_ROW(bit_and),
    QUERN_ROW(bit_or),
    QUERN_ROW(bit_xor),
    QUERN_ROW(bit_not),
    QUERN_ROW(negate),
    QUERN_ROW(shift_left),
    QUERN_ROW(shift_right),
    QUERN_ROW(shift_scalar),
    QUERN_ROW(minimum),
    QUERN_ROW(maximum),
    QUERN_ROW(absolute),
    QUERN_ROW(add_saturating),
    QUERN_ROW(sub_saturating),
    QUERN_ROW(equal),
    QUERN_ROW(not_equal),
    QUERN_ROW(less),
    QUERN_ROW(less_equal),
    QUERN_ROW(greater),
    QUERN_ROW(greater_equal),
    QUERN_ROW(select_by_compare),
    QUERN_ROW(select_by_value),
    QUERN_ROW(compound),
    QUERN_ROW(memory),
    QUERN_ROW(views),
    QUERN_ROW(any_all),
    QUERN_CONTROL(control_add_saturates),
    QUERN_CONTROL(control_shift_to_nothing),
    QUERN_CONTROL(control_last_lane),
};

}  // namespace

lattice_suite::Cases suite_integers() {
  return {kCases, sizeof kCases / sizeof kCases[0]};
}

}  // namespace quern::lattice::QUERN_ISA
