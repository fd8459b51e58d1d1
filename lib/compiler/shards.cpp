#include "ctxgen/compiler/shards.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/onnx_lite/read_model.h"

namespace ctxgen {
namespace {

/// Smaller ones (shapes, scales, biases of zeros) are equal in models that have nothing to do with each other.
constexpr std::uint64_t kSharedFrom = 65536;

/// Sets of models that are joined one by one.
class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  /// The first of the models that are in one group with `model`.
  std::size_t of(std::size_t model) {
    while (parent_[model] != model) model = parent_[model] = parent_[parent_[model]];
    return model;
  }
  void join(std::size_t a, std::size_t b) {
    a = of(a);
    b = of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

Result<std::uint64_t> join_by_weights(std::size_t index, const std::filesystem::path& path,
                                      std::map<Hash128, std::size_t>& owners, Groups& groups) {
  const Model model = CTXGEN_TRY(read_model_file(path));
  std::uint64_t bytes = 0;
  for (const Value& value : model.graph.values()) {
    if (!value.initializer || value.initializer->is_string()) continue;
    const auto content = value.initializer->bytes();
    bytes += content.size();
    if (content.size() < kSharedFrom) continue;
    const auto [owner, added] = owners.try_emplace(hash_bytes(content), index);
    if (!added) groups.join(owner->second, index);
  }
  return bytes;
}

}  // namespace

std::vector<std::size_t> shards_by_name(std::span<const std::string> names, std::size_t shards) {
  std::vector<std::size_t> result;
  for (const std::string& name : names) {
    Hasher hasher;
    hasher.add(std::string_view(name));
    result.push_back(static_cast<std::size_t>(hasher.finish().low % shards));
  }
  return result;
}

std::vector<std::size_t> shards_by_weights(std::span<const std::filesystem::path> models,
                                           std::size_t shards) {
  Groups groups(models.size());
  std::map<Hash128, std::size_t> owners;
  std::vector<std::uint64_t> bytes_of(models.size());
  for (std::size_t m = 0; m < models.size(); ++m)
    bytes_of[m] = at_boundary("reading a model", [&] {
                    return join_by_weights(m, models[m], owners, groups);
                  }).value_or(0);
  std::vector<std::uint64_t> bytes(models.size());  // by group
  for (std::size_t m = 0; m < models.size(); ++m) bytes[groups.of(m)] += bytes_of[m];
  std::vector<std::size_t> order;  // groups, the largest first
  for (std::size_t m = 0; m < models.size(); ++m)
    if (groups.of(m) == m) order.push_back(m);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t g) { return bytes[g]; });
  // Bytes, then numbers: models without weights are spread, too.
  std::vector<std::pair<std::uint64_t, std::size_t>> load(shards);
  std::vector<std::size_t> shard_of(models.size());
  for (const std::size_t group : order) {
    const auto least = std::ranges::min_element(load);
    shard_of[group] = static_cast<std::size_t>(least - load.begin());
    least->first += bytes[group];
    least->second += 1;
  }
  std::vector<std::size_t> result;
  for (std::size_t m = 0; m < models.size(); ++m) result.push_back(shard_of[groups.of(m)]);
  return result;
}

}  // namespace ctxgen
