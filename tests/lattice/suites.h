// The suites that were built, one per tier of this target (suite_isas.inc is written by CMake: X(generic) X(avx2) …).
#pragma once

#include <vector>

#include "base/cpu.h"
#include "suite.h"

#define X(isa)                                                             \
  namespace quern::lattice::isa {                                          \
  lattice_suite::Cases suite_integers();                                   \
  lattice_suite::Cases suite_floats();                                     \
  lattice_suite::Cases suite_converts();                                   \
  lattice_suite::Cases suite_mixes();                                      \
  void suite_evaluate(lattice_suite::Function, const float*, float*, int); \
  }
#include "suite_isas.inc"
#undef X

namespace quern::lattice_suite {

struct Built {
  Isa isa;
  const char* name;
  Suite suite;
};

inline std::vector<Built> built_suites() {
  return {
#define X(isa)                                                                                                         \
  {Isa::isa,                                                                                                           \
   #isa,                                                                                                               \
   {lattice::isa::suite_integers, lattice::isa::suite_floats, lattice::isa::suite_converts, lattice::isa::suite_mixes, \
    lattice::isa::suite_evaluate}},
#include "suite_isas.inc"
#undef X
  };
}

}  // namespace quern::lattice_suite
