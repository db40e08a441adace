// file: model files as validated views, and the files that Quern itself writes.
//
// Owns: reading GGUF (versions 2 and 3, one file or a set of shards; every count, length and offset is checked before
// it
//       is used), metadata values and their typed conversion, writing GGUF, reading and writing .npy arrays.
// Never: arithmetic on weights; what a key or a tensor means to a model; keeping a copy of what the mapping holds.
// In -> out: a path -> metadata and tensors that point into the mapped file.
#pragma once

#include "file/gguf.h"
#include "file/gguf_writer.h"
#include "file/npy.h"
