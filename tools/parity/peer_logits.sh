#!/usr/bin/env bash
# Builds llama_logits against a llama.cpp build tree if it is missing or older than its source, then runs it.
#
#   peer_logits.sh MODEL --tokens ids.txt -o out.npy [...]      (see llama_logits.cpp)
#   peer_logits.sh --path                                       builds only and prints the program's path
#
# The tree is $LLAMA_CPP_BUILD; else the build beside the newest unpacked source in ~/.cache/quern-peers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${LLAMA_CPP_BUILD:-$HOME/.cache/quern-peers/build-llama.cpp}
[ -f "$build/CMakeCache.txt" ] || {
  echo "peer_logits.sh: no llama.cpp build in $build; set LLAMA_CPP_BUILD" >&2
  exit 1
}
source=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
[ -d "$source/include" ] || { echo "peer_logits.sh: the source of $build is gone ($source)" >&2; exit 1; }
out=${XDG_CACHE_HOME:-$HOME/.cache}/quern-peers/llama_logits
if [ ! -x "$out" ] || [ "$here/llama_logits.cpp" -nt "$out" ] || [ "$build/bin/libllama.so" -nt "$out" ]; then
  mkdir -p "$(dirname "$out")"
  "${CXX:-g++}" -std=c++17 -O2 -Wall -Wextra "$here/llama_logits.cpp" -I "$source/include" -I "$source/ggml/include" \
    -L "$build/bin" -lllama -lggml -lggml-base -Wl,-rpath,"$build/bin" -o "$out.$$"
  mv "$out.$$" "$out"
fi
if [ "${1:-}" = --path ]; then echo "$out"; else exec "$out" "$@"; fi
