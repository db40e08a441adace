// Lattice suite: dot products, byte shuffles, zips, reductions.
#include "suite_data.h"

namespace quern::lattice::QUERN_ISA {
namespace {

// idot4_narrow of any u8 with bytes within -64 and 64, in groups of four equal products.
template <int N>
void check_dot4_narrow(Report& report) {
  for (int x = 0; x < 256; ++x) {
    for (int y = -64; y <= 64; ++y) {
      u8 a[4 * N];
      i8 b[4 * N];
      i32 got[N], want[N];
      for (int i = 0; i < 4 * N; ++i) a[i] = static_cast<u8>(x), b[i] = static_cast<i8>(y);
      for (int i = 0; i < N; ++i) want[i] = 4 * x * y;
      const auto va = lattice<u8, 4 * N>::load(a);
      const auto vb = lattice<i8, 4 * N>::load(b);
      idot4_narrow(lattice<i32, N>::zero(), va, vb).store(got);
      compare(report, "idot4_narrow", Name<u8, 4 * N>().text, Kind::integer, 4, got, want, N);
    }
  }
}
template <class A>
A limit_a(A x, bool small) {
  if constexpr (kIsSame<A, u8>) return small && x > 127 ? static_cast<A>(255 - x) : x;
  return x;
}
template <class A>
i8 limit_b(i8 x, bool small) {
  if constexpr (kIsSame<A, i8>) return small && x == -128 ? i8{-127} : x;
  return x;
}

// idot4 and idot4_small on N sums: the edge pairs, then blocks where all four products are the same extreme.
template <class A, int N>
void check_dot4(Report& report, bool small) {
  const Inputs<A> in_a;
  const Inputs<i8> in_b;
  const Inputs<i32> in_acc;
  A a[4 * N];
  i8 b[4 * N];
  i32 got[N], want[N];
  for (int round = 0; round < kInputs / (4 * N); ++round) {
    for (int i = 0; i < 4 * N; ++i) {
      // In the second half every group of four repeats one pair: the sums are as large as they get.
      const int at = round * 4 * N + (2 * round * 4 * N < kInputs ? i : i / 4);
      a[i] = limit_a(in_a.a[at], small), b[i] = limit_b<A>(in_b.b[2 * round * 4 * N < kInputs ? at : at / 4], small);
    }
    for (int i = 0; i < N; ++i) {
      const i32 acc = in_acc.b[round * N + i];
      int64_t sum = acc;
      for (int k = 4 * i; k < 4 * i + 4; ++k) sum += int64_t{a[k]} * int64_t{b[k]};
      want[i] = static_cast<i32>(static_cast<u32>(static_cast<uint64_t>(sum)));
    }
    const auto acc = lattice<i32, N>::load(in_acc.b + round * N);
    const auto va = lattice<A, 4 * N>::load(a);
    const auto vb = lattice<i8, 4 * N>::load(b);
    (small ? idot4_small(acc, va, vb) : idot4(acc, va, vb)).store(got);
    compare(report, small ? "idot4_small" : "idot4", Name<A, 4 * N>().text, Kind::integer, 4, got, want, N);
  }
}
// Every pair of byte values, in groups of four equal products and of two against two.
template <class A, int N>
void check_dot4_pairs(Report& report, bool small) {
  for (int x = 0; x < 256; ++x) {
    for (int y = 0; y < 256; y += N) {
      A a[4 * N];
      i8 b[4 * N];
      i32 got[N], want[N];
      for (int i = 0; i < N; ++i) {
        want[i] = 0;
        for (int k = 4 * i; k < 4 * i + 4; ++k) {
          a[k] = limit_a(static_cast<A>(x), small);
          b[k] = limit_b<A>(static_cast<i8>(y + i), small);
          want[i] += a[k] * b[k];
        }
      }
      const auto acc = lattice<i32, N>::zero();
      const auto va = lattice<A, 4 * N>::load(a);
      const auto vb = lattice<i8, 4 * N>::load(b);
      (small ? idot4_small(acc, va, vb) : idot4(acc, va, vb)).store(got);
      compare(report, "equal pairs", Name<A, 4 * N>().text, Kind::integer, 4, got, want, N);
    }
  }
}
template <class A>
void check_dot4_type(Report& report, bool small) {
  check_dot4<A, 4>(report, small);
  check_dot4<A, 8>(report, small);
  check_dot4<A, 16>(report, small);
  check_dot4<A, 32>(report, small);
  check_dot4_pairs<A, 16>(report, small);
}
void dot4_u8(Report& report) {
  check_dot4_type<u8>(report, false);
}
void dot4_i8(Report& report) {
  check_dot4_type<i8>(report, false);
}
void dot4_small_u8(Report& report) {
  check_dot4_type<u8>(report, true);
  check_dot4_narrow<8>(report);
  check_dot4_narrow<16>(report);
}
void dot4_small_i8(Report& report) {
  check_dot4_type<i8>(report, true);
}

template <int N>
void check_dot2(Report& report) {
  const Inputs<i16> in;
  const Inputs<i32> in_acc;
  i32 got[N], want[N];
  for (int i = 0; i < kInputs; i += 2 * N) {
    for (int k = 0; k < N; ++k) {
      int64_t sum = in_acc.b[i / 2 + k];
      sum += int64_t{in.a[i + 2 * k]} * in.b[i + 2 * k] + int64_t{in.a[i + 2 * k + 1]} * in.b[i + 2 * k + 1];
      want[k] = static_cast<i32>(static_cast<u32>(static_cast<uint64_t>(sum)));
    }
    const auto acc = lattice<i32, N>::load(in_acc.b + i / 2);
    idot2(acc, lattice<i16, 2 * N>::load(in.a + i), lattice<i16, 2 * N>::load(in.b + i)).store(got);
    compare(report, "idot2", Name<i32, N>().text, Kind::integer, 4, got, want, N);
  }
  // The one sum that does not fit i32 wraps.
  const auto lowest = lattice<i16, 2 * N>::broadcast(INT16_MIN);
  for (int k = 0; k < N; ++k) want[k] = INT32_MIN;
  idot2(lattice<i32, N>::zero(), lowest, lowest).store(got);
  compare(report, "idot2 of the lowest", Name<i32, N>().text, Kind::integer, 4, got, want, N);
}
void dot2(Report& report) {
  check_dot2<4>(report);
  check_dot2<8>(report);
  check_dot2<16>(report);
  check_dot2<32>(report);
}

template <class Body>
void each_byte(Body body) {
  each_width<i8>(body);
  each_width<u8>(body);
}
void shuffles(Report& report) {
  each_byte([&]<class T, int N>() {
    using L = lattice<T, N>;
    const Inputs<T> table;
    Random random;
    const Name<T, N> label;
    const char* name = label.text;
    T got[N], want[N];
    u8 index[N], low[N];
    for (int i = 0; i < kInputs; i += N) {
      for (int k = 0; k < N; ++k) {
        index[k] = static_cast<u8>(i < 4 * N ? i + k : static_cast<int>(random.next() & 255U));
        low[k] = index[k] & 15;
      }
      const auto vi = lattice<u8, N>::load(index), vlow = lattice<u8, N>::load(low);
      for (int k = 0; k < N; ++k) want[k] = table.b[i + k / 16 * 16 + low[k]];
      shuffle(L::load(table.b + i), vi).store(got);
      compare(report, "shuffle", name, Kind::integer, 1, got, want, N);
      shuffle_small(L::load(table.b + i), vlow).store(got);
      compare(report, "shuffle_small", name, Kind::integer, 1, got, want, N);
      for (int k = 0; k < N; ++k) want[k] = table.b[i + low[k]];
      const auto table16 = lattice<T, 16>::load(table.b + i);
      lookup16(table16, vi).store(got);
      compare(report, "lookup16", name, Kind::integer, 1, got, want, N);
      lookup16_small(table16, vlow).store(got);
      compare(report, "lookup16_small", name, Kind::integer, 1, got, want, N);
    }
  });
}
void zips(Report& report) {
  each_type([&]<class T, int N>() {
    using L = lattice<T, N>;
    const Inputs<T> in;
    constexpr int G = 16 / static_cast<int>(sizeof(T));  // lanes of a group
    const Name<T, N> label;
    const char* name = label.text;
    T got[N], want[N];
    for (int i = 0; i < 16 * N; i += N) {
      const L a = L::load(in.b + i), b = L::load(in.c + i);
      for (int half = 0; half < 2; ++half) {
        for (int k = 0; k < N; ++k) {
          const int from = i + k / G * G + half * G / 2 + k % G / 2;
          want[k] = k % 2 == 0 ? in.b[from] : in.c[from];
        }
        (half == 0 ? zip_lo(a, b) : zip_hi(a, b)).store(got);
        compare(report, half == 0 ? "zip_lo" : "zip_hi", name, Kind::bits, sizeof(T), got, want, N);
      }
      for (int k = 0; k < N; ++k) want[k] = in.b[i + k % G];
      repeat16<L>(lattice<T, G>::load(in.b + i)).store(got);
      compare(report, "repeat16", name, Kind::bits, sizeof(T), got, want, N);
    }
  });
}

// The fixed tree, spelled out in an array.
template <class T, int N, class Step>
T tree(const T* p, Step step) {
  T x[N];
  for (int i = 0; i < N; ++i) x[i] = p[i];
  for (int half = N / 2; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) x[i] = step(x[i], x[i + half]);
  }
  return x[0];
}
template <class T>
T plus(T a, T b) {
  if constexpr (kIsFloat<T>) return a + b;
  return static_cast<T>(static_cast<u32>(a) + static_cast<u32>(b));
}
template <class T, int N>
void check_reduce(Report& report) {
  const Inputs<T> in;
  for (int i = 0; i < kInputs; i += N) {
    const auto v = lattice<T, N>::load(in.c + i);
    const T got[3] = {reduce_add(v), reduce_max(v), reduce_min(v)};
    const T want[3] = {tree<T, N>(in.c + i, plus<T>), tree<T, N>(in.c + i, [](T a, T b) { return a > b ? a : b; }),
                       tree<T, N>(in.c + i, [](T a, T b) { return a < b ? a : b; })};
    compare(report, "reduce add, max, min", Name<T, N>().text, kKindOf<T>, sizeof(T), got, want, 3);
  }
}
template <class T>
void check_reduce4(Report& report) {
  const Inputs<T> in;
  for (int i = 0; i + 64 <= kInputs; i += 64) {
    lattice<T, 16> v[4];
    T want[2][16], got[16];
    for (int k = 0; k < 4; ++k) {
      v[k] = lattice<T, 16>::load(in.c + i + 16 * k);
      for (int j = 0; j < 4; ++j) {
        want[0][4 * k + j] = tree<T, 16>(in.c + i + 16 * k, plus<T>);
        want[1][4 * k + j] = tree<T, 16>(in.c + i + 16 * k, [](T a, T b) { return a > b ? a : b; });
      }
    }
    reduce4_add(v).store(got);
    compare(report, "reduce4 add", Name<T, 16>().text, kKindOf<T>, sizeof(T), got, want[0], 16);
    if constexpr (!kIsFloat<T>) {
      reduce4_max(v).store(got);
      compare(report, "reduce4 max", Name<T, 16>().text, kKindOf<T>, sizeof(T), got, want[1], 16);
    }
  }
}
void reductions(Report& report) {
  check_reduce4<f32>(report);
  check_reduce4<i32>(report);
  each_width<f32>([&]<class T, int N>() { check_reduce<T, N>(report); });
  each_width<i32>([&]<class T, int N>() { check_reduce<T, N>(report); });
  each_width<u32>([&]<class T, int N>() { check_reduce<T, N>(report); });
  check_reduce<f32, 64>(report);
}

// Negative controls: pair sums that saturate at 16 bits, lanes summed in order, an index not masked to its group.
void control_dot_saturates(Report& report) {
  const Inputs<u8> in_a;
  const Inputs<i8> in_b;
  for (int i = 0; i < kInputs; i += 64) {
    i32 got[16] = {}, want[16] = {};
    for (int k = 0; k < 64; k += 2) {
      const i32 sum = in_a.a[i + k] * in_b.b[i + k] + in_a.a[i + k + 1] * in_b.b[i + k + 1];
      want[k / 4] += sum;
      got[k / 4] += sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum;
    }
    compare(report, "saturating pairs", "u8x64", Kind::integer, 4, got, want, 16);
  }
}
void control_sum_in_order(Report& report) {
  const Inputs<f32> in;
  for (int i = 0; i < kInputs; i += 16) {
    f32 got = 0;
    for (int k = 0; k < 16; ++k) got += in.c[i + k];
    const f32 want = tree<f32, 16>(in.c + i, plus<f32>);
    compare(report, "sum in order", "f32x16", Kind::number, 4, &got, &want, 1);
  }
}
void control_shuffle_across(Report& report) {
  const Inputs<u8> in;
  u8 got[64], want[64], index[64];
  for (int k = 0; k < 64; ++k) index[k] = static_cast<u8>(63 - k);
  shuffle(u8x64::load(in.b), u8x64::load(index)).store(got);
  for (int k = 0; k < 64; ++k) want[k] = in.b[index[k]];
  compare(report, "shuffle across groups", "u8x64", Kind::integer, 1, got, want, 64);
}

constexpr lattice_suite::Case kCases[] = {
    QUERN_ROW(dot4_u8),
    QUERN_ROW(dot4_i8),
    QUERN_ROW(dot4_small_u8),
    QUERN_ROW(dot4_small_i8),
    QUERN_ROW(dot2),
    QUERN_ROW(shuffles),
    QUERN_ROW(zips),
    QUERN_ROW(reductions),
    QUERN_CONTROL(control_dot_saturates),
    QUERN_CONTROL(control_sum_in_order),
    QUERN_CONTROL(control_shuffle_across),
};

}  // namespace

lattice_suite::Cases suite_mixes() {
  return {kCases, sizeof kCases / sizeof kCases[0]};
}

}  // namespace quern::lattice::QUERN_ISA
