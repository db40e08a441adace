// Inputs of the lattice suite: edge values in every combination, then random ones; and the loops over types and widths.
// Part of each tier's objects, so everything is in the tier's namespace.
#pragma once

#include "lattice/lattice.h"
#include "suite.h"

namespace quern::lattice::QUERN_ISA {

using lattice_suite::compare;
using lattice_suite::Kind;
using lattice_suite::Report;

inline constexpr int kInputs = 4096;  // a multiple of every lane count

template <class T>
const char* type_name() {
  constexpr const char* kIntegers[2][5] = {{"", "u8", "u16", "", "u32"}, {"", "i8", "i16", "", "i32"}};
  return kIsFloat<T> ? "f32" : kIntegers[kIsSigned<T>][sizeof(T)];
}

// "i8x64"
template <class T, int N>
struct Name {
  char text[12];
  Name() {
    int at = 0;
    for (const char* t = type_name<T>(); *t != 0; ++t) text[at++] = *t;
    text[at++] = 'x';
    for (int unit = 100; unit > 0; unit /= 10) {
      if (N >= unit) text[at++] = static_cast<char>('0' + N / unit % 10);
    }
    text[at] = 0;
  }
};

struct Random {
  uint64_t state = 0x9e3779b97f4a7c15ULL;
  u32 next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<u32>(state >> 24);
  }
};

inline f32 from_bits(u32 bits) {
  f32 x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// Edge values of T; i counts from 0 and wraps.
template <class T>
T edge(int i) {
  if constexpr (kIsFloat<T>) {
    constexpr u32 kEdges[] = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000,
                              0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001,  // 0 1 inf NaN
                              0x7f7fffff, 0xff7fffff, 0x00800000, 0x80800000,
                              0x00000001, 0x80000001, 0x007fffff, 0x3f000000,  // limits, 0.5
                              0xbf000000, 0x3fc00000, 0x40200000, 0x4b000000,
                              0xcb000000, 0x4affffff, 0x4f000000, 0xcf000000,  // x.5 2^23 2^31
                              0x4effffff, 0xcf000001, 0x3effffff, 0x3f7fffff,
                              0x3f800001, 0xc0200000, 0x477ff000, 0x33000000};
    return from_bits(kEdges[static_cast<u32>(i) % (sizeof kEdges / sizeof kEdges[0])]);
  } else {
    constexpr u32 kTop = 1U << (kLaneBits<T> - 1);
    constexpr u32 kEdges[] = {0,
                              1,
                              2,
                              3,
                              0x0f,
                              0x10,
                              0x7e,
                              0x7f,
                              0x80,
                              0x81,
                              0xfe,
                              0xff,
                              0x55,
                              0xaa,
                              kTop,
                              kTop - 1,
                              kTop + 1,
                              ~0U,
                              ~0U - 1U,
                              ~0U - 2U,
                              7,
                              8,
                              9,
                              kTop >> 1,
                              0x7fffU & ~0x80U,
                              0x8000U | 0x7fU};
    return static_cast<T>(kEdges[static_cast<u32>(i) % (sizeof kEdges / sizeof kEdges[0])]);
  }
}
template <class T>
constexpr int kEdgeCount = kIsFloat<T> ? 32 : 26;

template <class T>
T random_value(Random& random) {
  const u32 bits = random.next();
  if constexpr (kIsFloat<T>) {
    switch (random.next() % 4) {
      case 0:
        return from_bits(bits);  // any exponent
      case 1:
        return static_cast<f32>(static_cast<i32>(bits) >> 20) * 0.5F;  // whole and half
      default:
        return static_cast<f32>(static_cast<i32>(bits)) * 0x1p-24F;  // up to 128
    }
  } else {
    return static_cast<T>(bits);
  }
}

// Three operands: all pairs of edges in a and b, with c walking through them; random values mixed with edges after
// that.
template <class T>
struct Inputs {
  T a[kInputs], b[kInputs], c[kInputs];
  Inputs() {
    constexpr int E = kEdgeCount<T>;
    Random random;
    for (int i = 0; i < kInputs; ++i) {
      if (i < E * E) {
        a[i] = edge<T>(i / E), b[i] = edge<T>(i % E), c[i] = edge<T>(i * 7 + i / E);
      } else {
        a[i] = random_value<T>(random), b[i] = random_value<T>(random), c[i] = random_value<T>(random);
        if (random.next() % 8 == 0) b[i] = edge<T>(static_cast<int>(random.next() % 32));
        if (random.next() % 8 == 0) c[i] = edge<T>(static_cast<int>(random.next() % 32));
      }
    }
  }
};

template <class T>
constexpr Kind kKindOf = kIsFloat<T> ? Kind::number : Kind::integer;

// Runs body.operator()<T, N>() for each width from 16 to 64 bytes, and 128 where the first of these are one register.
template <class T, class Body>
void each_width(Body body) {
  constexpr int S = static_cast<int>(sizeof(T));
  body.template operator()<T, 16 / S>();
  body.template operator()<T, 32 / S>();
  body.template operator()<T, 64 / S>();
  if constexpr (kRegBytes > 16) body.template operator()<T, 128 / S>();
}
template <class Body>
void each_integer(Body body) {
  each_width<i8>(body);
  each_width<u8>(body);
  each_width<i16>(body);
  each_width<u16>(body);
  each_width<i32>(body);
  each_width<u32>(body);
}
template <class Body>
void each_type(Body body) {
  each_integer(body);
  each_width<f32>(body);
}

// One operation on lattice<T, N>, lane by lane against a scalar function. `vector` takes up to three lattices, `scalar`
// up to three elements.
template <class T, int N, class Vector, class Scalar>
void check1(Report& report, const char* what, Kind kind, Vector vector, Scalar scalar) {
  using L = lattice<T, N>;
  const Inputs<T> in;
  using R = typename decltype(vector(L::zero()))::element;
  R got[N], want[N];
  for (int i = 0; i < kInputs; i += N) {
    vector(L::load(in.a + i)).store(got);
    for (int k = 0; k < N; ++k) want[k] = static_cast<R>(scalar(in.a[i + k]));
    compare(report, what, Name<T, N>().text, kind, sizeof(R), got, want, N);
  }
}
template <class T, int N, class Vector, class Scalar>
void check2(Report& report, const char* what, Kind kind, Vector vector, Scalar scalar) {
  using L = lattice<T, N>;
  const Inputs<T> in;
  using R = typename decltype(vector(L::zero(), L::zero()))::element;
  R got[N], want[N];
  for (int i = 0; i < kInputs; i += N) {
    vector(L::load(in.a + i), L::load(in.b + i)).store(got);
    for (int k = 0; k < N; ++k) want[k] = static_cast<R>(scalar(in.a[i + k], in.b[i + k]));
    compare(report, what, Name<T, N>().text, kind, sizeof(R), got, want, N);
  }
}
template <class T, int N, class Vector, class Scalar>
void check3(Report& report, const char* what, Kind kind, Vector vector, Scalar scalar) {
  using L = lattice<T, N>;
  const Inputs<T> in;
  using R = typename decltype(vector(L::zero(), L::zero(), L::zero()))::element;
  R got[N], want[N];
  for (int i = 0; i < kInputs; i += N) {
    vector(L::load(in.a + i), L::load(in.b + i), L::load(in.c + i)).store(got);
    for (int k = 0; k < N; ++k) want[k] = static_cast<R>(scalar(in.a[i + k], in.b[i + k], in.c[i + k]));
    compare(report, what, Name<T, N>().text, kind, sizeof(R), got, want, N);
  }
}

// A case: one vector and one scalar expression of a (and b, c) on every type that `each` runs; T and L = lattice<T, N>
// are known in them.
#define QUERN_CASE1(id, each, kind, vector_expr, scalar_expr)                                   \
  void id(Report& report) {                                                                     \
    each([&]<class T, int N>() {                                                                \
      using L = lattice<T, N>;                                                                  \
      check1<T, N>(                                                                             \
          report, #id, kind, [](L a) { return vector_expr; }, [](T a) { return scalar_expr; }); \
    });                                                                                         \
  }
#define QUERN_CASE2(id, each, kind, vector_expr, scalar_expr)                                             \
  void id(Report& report) {                                                                               \
    each([&]<class T, int N>() {                                                                          \
      using L = lattice<T, N>;                                                                            \
      check2<T, N>(                                                                                       \
          report, #id, kind, [](L a, L b) { return vector_expr; }, [](T a, T b) { return scalar_expr; }); \
    });                                                                                                   \
  }
#define QUERN_CASE3(id, each, kind, vector_expr, scalar_expr)                                                       \
  void id(Report& report) {                                                                                         \
    each([&]<class T, int N>() {                                                                                    \
      using L = lattice<T, N>;                                                                                      \
      check3<T, N>(                                                                                                 \
          report, #id, kind, [](L a, L b, L c) { return vector_expr; }, [](T a, T b, T c) { return scalar_expr; }); \
    });                                                                                                             \
  }
#define QUERN_ROW(id) \
  { #id, id, false }
#define QUERN_CONTROL(id) \
  { #id, id, true }

}  // namespace quern::lattice::QUERN_ISA
