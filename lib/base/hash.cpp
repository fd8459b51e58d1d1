#include "ctxgen/base/hash.h"

#include <format>
#include <new>

#include <xxhash.h>

#include "ctxgen/base/blob.h"

namespace ctxgen {
namespace {

Hash128 to_hash(XXH128_hash_t hash) { return {.high = hash.high64, .low = hash.low64}; }

}  // namespace

std::string Hash128::hex() const { return std::format("{:016x}{:016x}", high, low); }

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  return to_hash(XXH3_128bits(bytes.data(), bytes.size()));
}

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();  // its own allocator: the state wants 64-byte alignment
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Hasher::add(std::string_view text) {
  add(std::uint64_t{text.size()});
  add(as_bytes(text));
}

void Hasher::add(std::uint64_t number) {
  add(std::as_bytes(std::span(&number, 1)));  // x86-64 is little-endian
}

Hash128 Hasher::finish() const { return to_hash(XXH3_128bits_digest(state_->xxh)); }

}  // namespace ctxgen
