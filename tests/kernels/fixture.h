// What kernel tests share: random data, the registry rows that this processor can run, exact comparison.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/arena.h"
#include "base/cpu.h"
#include "kernels/registry.h"

namespace quern::kernels {

inline std::vector<float> random_floats(size_t n, uint32_t seed, float spread = 1.0F) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> v(n);
  for (float& x : v) x = normal(rng);
  return v;
}

inline RunContext rows_only(int n_rows) {
  RunContext ctx;
  ctx.n_rows = n_rows;
  return ctx;
}

// Every registry row but ref's for an op that this processor can run.
inline std::vector<Kernel> candidates(Op op) {
  const CpuInfo cpu = detect_cpu();
  std::vector<Kernel> found;
  for (const Kernel& kernel : all_kernels()) {
    if (kernel.key.op == op && kernel.priority > 0 && cpu.supports(kernel.isa)) found.push_back(kernel);
  }
  return found;
}

inline const Kernel& reference(const Key& key) {
  const Kernel* kernel = find_kernel({key.op, key.weight, key.act, Layout::disk, RowClass::prefill, {}}, 0);
  for (const Kernel& row : all_kernels()) {
    if (row.priority == 0 && row.key.op == key.op && row.key.weight == key.weight && row.key.act == key.act)
      kernel = &row;
  }
  EXPECT_NE(kernel, nullptr);
  return *kernel;
}

// Runs a kernel as a team of n would, one thread after the other, each with its own scratch.
template <class Args>
void run(const Kernel& kernel, const Args& args, const RunContext& ctx, const Shape& shape, int n_threads) {
  const size_t bytes = kernel.scratch_bytes != nullptr ? kernel.scratch_bytes(shape) : 0;
  auto scratch = Buffer::allocate(bytes + 64, "test scratch");
  ASSERT_TRUE(scratch.ok());
  for (int t = 0; t < n_threads; ++t) {
    std::memset(scratch->data(), 0xA5, bytes);
    kernel.fn(&args, ctx, {t, n_threads, scratch->data()});
  }
}

// The same bits everywhere.
template <class T>
::testing::AssertionResult same_bits(const T* expected, const T* actual, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (std::memcmp(expected + i, actual + i, sizeof(T)) != 0) {
      return ::testing::AssertionFailure()
             << "element " << i << ": expected " << +expected[i] << ", got " << +actual[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace quern::kernels
