// base: what every other folder stands on.
//
// Owns: Result and Status (errors from outside), CHECK (bugs), log, Arena and aligned memory, memory-mapped files, CPU
//       features and topology, Team (threads), the option table and the environment, progress display.
// Never: a word about models, formats or tokens; reading a clock or the environment on behalf of a hot path.
// In -> out: the operating system -> small, tested C++ types.
#pragma once
