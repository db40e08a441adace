// What keys and values depend on, as one number.
#include <xxhash.h>

#include "engine/state.h"
#include "exec/image.h"

namespace quern::engine {
namespace {

// Raised when a change of the program changes a bit of keys or values, or where they lie in a page.
constexpr uint64_t kKvVersion = 1;

}  // namespace

KvPages Engine::kv_pages() const {
  KvPages pages{kernels::kPagePositions, {}};
  for (const plan::KvKind& kind : state_->kv_layout.kinds) pages.bytes.push_back(kind.page_bytes);
  return pages;
}

Result<std::array<uint64_t, 2>> Engine::kv_identity() const {
  const State& s = *state_;
  QUERN_TRY(const exec::ImageKey key, exec::image_key(s.file, plan::pack_requests(*s.model, s.isa_mask)));
  std::string text = "keys and values " QUERN_VERSION;
  const auto add = [&](uint64_t number) { text += " " + std::to_string(number); };
  for (const uint64_t number :
       {kKvVersion, key.identity[0], key.identity[1], key.flavour, static_cast<uint64_t>(key.source_mtime_ns),
        uint64_t{s.isa_mask}, static_cast<uint64_t>(s.n_ctx), uint64_t{kernels::kPagePositions}})
    add(number);
  for (const plan::KvKind& kind : s.kv_layout.kinds) {
    for (const int number : {kind.n_kv_heads, kind.head_dim, kind.window}) add(static_cast<uint64_t>(number));
    add(kind.page_bytes);
  }
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return std::array<uint64_t, 2>{hash.high64, hash.low64};
}

}  // namespace quern::engine
