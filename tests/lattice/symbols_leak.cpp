// Negative control of tools/check_isa_symbols.py: an inline function outside of its tier's namespace, not inlined.
namespace quern {

__attribute__((noinline)) inline int shared_by_tiers(int x) {
  return x * 3;
}

namespace lattice::avx2 {
int use(int x);
int use(int x) {
  return shared_by_tiers(x);
}
}  // namespace lattice::avx2

}  // namespace quern
