#include <algorithm>
#include <map>
#include <numeric>

#include "ctxgen/base/checked.h"

#include "plan/planner.h"

namespace ctxgen::onednn {
namespace {

constexpr std::uint64_t kAlignment = 64;

struct Life {
  std::uint32_t first = kNone;
  std::uint32_t last = 0;
  [[nodiscard]] bool overlaps(const Life& other) const {
    return first <= other.last && other.first <= last;
  }
};

std::vector<Life> find_lives(const Plan& plan) {
  std::vector<Life> lives(plan.buffers.size());
  for (std::uint32_t step = 0; step < plan.steps.size(); ++step)
    for (const Arg& arg : plan.steps[step].args) {
      if (arg.location.kind != Location::Kind::kBuffer) continue;
      Life& life = lives[arg.location.index];
      life.first = std::min(life.first, step);
      life.last = step;
    }
  return lives;
}

struct Placed {
  std::uint64_t begin, end;
  Life life;
};

/// The lowest gap that takes `bytes` besides everything that lives at the same time.
std::uint64_t lowest_gap(const std::vector<Placed>& placed, const Life& life, std::uint64_t bytes) {
  std::uint64_t at = 0;
  for (const Placed& other : placed) {  // in order of begin
    if (!life.overlaps(other.life)) continue;
    if (other.begin >= at + bytes) break;
    at = std::max(at, other.end);
  }
  return at;
}

}  // namespace

/// Large buffers first: the small ones then fill the gaps, which comes close to the lower bound.
Status assign_arena(Plan& plan) {
  // Quadratic in the buffers; a program this long is not one that a compiler of ours wrote.
  constexpr std::size_t kMostBuffers = 100'000;
  if (plan.buffers.size() > kMostBuffers)
    return fail(ErrorCode::kResourceLimit, "plan has {} buffers, limit {}", plan.buffers.size(),
                kMostBuffers);
  const std::vector<Life> lives = find_lives(plan);
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].kind == Buffer::Kind::kArena && lives[i].first != kNone) order.push_back(i);
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return plan.buffers[a].bytes > plan.buffers[b].bytes;
  });
  std::vector<Placed> placed;
  for (const std::uint32_t i : order) {
    const std::uint64_t bytes = align_up(plan.buffers[i].bytes, kAlignment);
    const std::uint64_t begin = lowest_gap(placed, lives[i], bytes);
    plan.buffers[i].arena_offset = begin;
    const Placed place{begin, begin + bytes, lives[i]};
    placed.insert(std::ranges::upper_bound(placed, begin, {}, &Placed::begin), place);
    plan.arena_bytes = std::max(plan.arena_bytes, place.end);
    if (plan.arena_bytes > kMaxTensorBytes)
      return fail(ErrorCode::kResourceLimit, "arena of more than {} bytes", kMaxTensorBytes);
  }
  return {};
}

}  // namespace ctxgen::onednn
