// The kernel registry: {op, weight format, activation format, layout, row class} + instruction set + shape predicate +
// priority -> function. Each tier exports its rows; registry.cpp joins them in one visible list. ref/ always answers.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/ops.h"

namespace quern::kernels {

using KernelFn = void (*)(const void* args, const RunContext& ctx, const Worker& worker);

inline constexpr uint8_t kAnyRowClass = (1U << kRowClassCount) - 1;
inline constexpr uint8_t class_bit(RowClass c) {
  return static_cast<uint8_t>(1U << static_cast<int>(c));
}

// What a kernel serves. Fields that an op does not depend on stay at their first value.
struct Key {
  Op op;
  format::Format weight = format::Format::f32;   // embed, matmul, repack
  ActivationFormat act = ActivationFormat::f32;  // matmul: its x; quantize: its output
  Layout layout = Layout::disk;                  // matmul: of w; repack: of its output
  uint8_t row_classes = kAnyRowClass;            // bits of the classes served
};

struct Shape {
  int64_t n_out = 0,
          n_in = 0;  // matmul: rows and cols; attention: heads per kv head and head_dim; others: n_in is the row length
};

struct Kernel {
  Key key;
  Isa isa = Isa::generic;
  int priority = 0;  // higher wins among those that fit
  const char* name = "";
  KernelFn fn = nullptr;
  bool (*fits)(const Shape&) = nullptr;             // null: every shape
  size_t (*scratch_bytes)(const Shape&) = nullptr;  // per thread; null: none
};

// Wraps a typed kernel `void f(const Args&, const RunContext&, const Worker&)` as a KernelFn.
template <auto kFn>
struct Erased;
template <class Args, void (*kFn)(const Args&, const RunContext&, const Worker&)>
struct Erased<kFn> {
  static void call(const void* args, const RunContext& ctx, const Worker& worker) {
    kFn(*static_cast<const Args*>(args), ctx, worker);
  }
};

// All rows, in a fixed order.
std::span<const Kernel> all_kernels();

struct Query {
  Op op;
  format::Format weight = format::Format::f32;
  ActivationFormat act = ActivationFormat::f32;
  Layout layout = Layout::disk;
  RowClass row_class = RowClass::prefill;
  Shape shape = {};
};

// Chooses among rows whose instruction set is in isa_mask (bits of Isa): highest priority wins, later rows lose ties.
// Null only for a matmul or repack key that nobody serves.
const Kernel* find_kernel(const Query& query, uint32_t isa_mask);

// Many rows are read in tiles, few one by one.
inline ActivationFormat act_for(ActivationFormat in_rows, RowClass row_class) {
  return row_class == RowClass::prefill ? format::in_tiles(in_rows) : in_rows;
}

// How the weights of a format are best computed with on isa_mask: layout and activation format of the matmul kernels of
// the highest priority that serve all row classes.
struct MatmulChoice {
  Layout layout;
  ActivationFormat act;  // in rows
};
MatmulChoice choose_matmul(format::Format weight, const Shape& shape, uint32_t isa_mask);

const char* op_name(Op op);
const char* layout_name(Layout layout);
const char* act_format_name(ActivationFormat format);
const char* row_class_name(RowClass row_class);

}  // namespace quern::kernels
