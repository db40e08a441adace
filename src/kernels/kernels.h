// kernels: every computation, found by key.
//
// Owns: ops.h (argument struct per op), registry.h (key -> kernel), layouts of packed weights, ref/ (scalar, complete:
//       the oracle and the fallback), cpu/ (vector kernels, one source per algorithm compiled once per instruction
//       set).
// Never: which model it serves, memory it was not handed, threads of its own, the clock, the environment.
// In -> out: argument structs and a place in a team -> numbers in the buffers they point at.
#pragma once
