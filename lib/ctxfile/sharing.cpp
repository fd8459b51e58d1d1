#include "ctxgen/ctxfile/sharing.h"

#include <algorithm>
#include <map>
#include <set>

namespace ctxgen {

std::vector<SharedBlobs> find_shared_blobs(std::span<const ProgramUser> users,
                                           std::span<const std::uint64_t> blob_bytes) {
  struct Uses {
    std::set<std::size_t> users;  // indices
    std::uint64_t count = 0;
  };
  std::map<BlobIndex, Uses> uses;
  for (std::size_t u = 0; u < users.size(); ++u)
    for (const ProgramWeight& weight : users[u].program->weights)
      for (const PackedWeight& packed : weight.packed) {
        Uses& of_blob = uses[packed.blob.bin_index()];
        of_blob.users.insert(u);
        of_blob.count += 1;
      }
  std::map<std::set<std::size_t>, SharedBlobs> groups;
  for (const auto& [blob, of_blob] : uses) {
    if (of_blob.count < 2 || blob.value >= blob_bytes.size()) continue;
    SharedBlobs& group = groups[of_blob.users];
    group.blobs += 1;
    group.bytes += blob_bytes[blob.value];
    group.saved_bytes += blob_bytes[blob.value] * (of_blob.count - 1);
  }
  std::vector<SharedBlobs> list;
  for (auto& [indices, group] : groups) {
    for (const std::size_t index : indices) group.users.push_back(users[index].name);
    list.push_back(std::move(group));
  }
  std::ranges::stable_sort(list, std::ranges::greater{}, &SharedBlobs::saved_bytes);
  return list;
}

}  // namespace ctxgen
