#include "base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <cstring>

namespace quern {
namespace {
constexpr const char* kNames[kIsaCount] = {"generic", "avx2", "avx512", "neon"};
}  // namespace

const char* isa_name(Isa isa) {
  return kNames[static_cast<int>(isa)];
}

Result<Isa> parse_isa(std::string_view name) {
  for (int i = 0; i < kIsaCount; ++i) {
    if (name == kNames[i]) return static_cast<Isa>(i);
  }
  return Error{Status::invalid_argument,
               "unknown instruction set '" + std::string(name) + "' (generic, avx2, avx512, neon)"};
}

#if defined(__x86_64__)
namespace {

struct Leaf {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Leaf cpuid(uint32_t leaf, uint32_t sub) {
  Leaf r;
  if (__get_cpuid_count(leaf, sub, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

uint64_t xcr0() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

std::string brand() {
  char text[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    const Leaf r = cpuid(0x80000002U + i, 0);
    std::memcpy(text + 16 * i, &r, 16);
  }
  const std::string s(text);
  const size_t first = s.find_first_not_of(' ');
  return first == std::string::npos ? "unknown x86-64" : s.substr(first, s.find_last_not_of(' ') - first + 1);
}

}  // namespace

CpuInfo detect_cpu() {
  CpuInfo info;
  info.name = brand();
  const Leaf one = cpuid(1, 0), seven = cpuid(7, 0), seven1 = cpuid(7, 1);
  const bool osxsave = (one.c >> 27) & 1;
  const uint64_t saved = osxsave ? xcr0() : 0;
  const bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xE6) == 0xE6;
  const struct {
    const char* name;
    bool present;
  } rows[] = {
      {"avx", ymm && ((one.c >> 28) & 1)},          {"f16c", ymm && ((one.c >> 29) & 1)},
      {"fma", ymm && ((one.c >> 12) & 1)},          {"avx2", ymm && ((seven.b >> 5) & 1)},
      {"avx_vnni", ymm && ((seven1.a >> 4) & 1)},   {"avx512f", zmm && ((seven.b >> 16) & 1)},
      {"avx512dq", zmm && ((seven.b >> 17) & 1)},   {"avx512bw", zmm && ((seven.b >> 30) & 1)},
      {"avx512vl", zmm && ((seven.b >> 31) & 1)},   {"avx512_vnni", zmm && ((seven.c >> 11) & 1)},
      {"avx512_vbmi", zmm && ((seven.c >> 1) & 1)}, {"avx512_bf16", zmm && ((seven1.a >> 5) & 1)},
  };
  const auto has = [&](const char* name) {
    for (const auto& row : rows) {
      if (std::strcmp(row.name, name) == 0) return row.present;
    }
    return false;
  };
  for (const auto& row : rows) {
    if (row.present) info.features.emplace_back(row.name);
  }
  if (has("avx2") && has("fma") && has("f16c"))
    info.best = Isa::avx2, info.isa_mask |= 1U << static_cast<int>(Isa::avx2);
  if (info.best == Isa::avx2 && has("avx512f") && has("avx512dq") && has("avx512bw") && has("avx512vl") &&
      has("avx512_vnni")) {
    info.best = Isa::avx512, info.isa_mask |= 1U << static_cast<int>(Isa::avx512);
  }
  return info;
}
#elif defined(__aarch64__)
CpuInfo detect_cpu() {
  CpuInfo info;
  info.name = "aarch64";
  const unsigned long caps = getauxval(AT_HWCAP);
  constexpr unsigned long kAsimdDp = 1UL << 20;  // HWCAP_ASIMDDP
  constexpr unsigned long kAsimdHp = 1UL << 10;  // HWCAP_ASIMDHP
  info.features.emplace_back("asimd");
  if (caps & kAsimdHp) info.features.emplace_back("asimdhp");
  if (caps & kAsimdDp) {
    info.features.emplace_back("asimddp");
    info.best = Isa::neon;
    info.isa_mask |= 1U << static_cast<int>(Isa::neon);
  }
  return info;
}
#else
CpuInfo detect_cpu() {
  CpuInfo info;
  info.name = "unknown";
  return info;
}
#endif

}  // namespace quern
