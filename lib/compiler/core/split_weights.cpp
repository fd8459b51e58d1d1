// ContextBuilder::split_weights: weights that are equal before packing and stored in several layouts.
#include <algorithm>
#include <map>
#include <set>

#include "ctxgen/compiler/context_builder.h"

namespace ctxgen {

std::vector<SplitWeights> ContextBuilder::split_weights(std::size_t provider) const {
  const Bin& bin = *bins_[provider];
  struct Uses {
    std::set<StoreId> blobs;
    std::set<std::string> programs;
  };
  std::map<Hash128, Uses> contents;
  for (const Program& program : bin.programs)
    for (const ProgramWeight& weight : program.weights)
      for (const PackedWeight& packed : weight.packed) {
        Uses& uses = contents[bin.content_of(packed.blob.store_id())];
        uses.blobs.insert(packed.blob.store_id());
        uses.programs.insert(program.name);
      }
  std::map<std::set<std::string>, SplitWeights> groups;
  for (const auto& [content, uses] : contents) {
    if (uses.blobs.size() < 2) continue;
    std::uint64_t bytes = 0, largest = 0;
    for (const StoreId id : uses.blobs) {
      bytes += bin.store.blob(id).bytes.size();
      largest = std::max<std::uint64_t>(largest, bin.store.blob(id).bytes.size());
    }
    SplitWeights& group = groups[uses.programs];
    group.weights += 1;
    group.bytes += bytes;
    group.extra_bytes += bytes - largest;
  }
  std::vector<SplitWeights> list;
  for (auto& [programs, group] : groups) {
    group.programs.assign(programs.begin(), programs.end());
    list.push_back(std::move(group));
  }
  return list;
}

}  // namespace ctxgen
