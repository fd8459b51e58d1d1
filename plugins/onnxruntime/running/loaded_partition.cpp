#include "running/loaded_partition.h"

#include <map>
#include <utility>

namespace ctxgen::plugin {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<LoadedPartition::Key, std::weak_ptr<LoadedPartition>> partitions;
};

/// For the life of the process: sessions may end after static objects.
Registry& registry() {
  static auto* const partitions = new Registry;
  return *partitions;
}

}  // namespace

Result<std::unique_ptr<ExecutionState>> LoadedPartition::take_state() {
  {
    const std::lock_guard lock(mutex_);
    if (!parked_.empty()) {
      auto state = std::move(parked_.back());
      parked_.pop_back();
      return state;
    }
  }
  return executable_->make_state();
}

void LoadedPartition::give_back(std::unique_ptr<ExecutionState> state) {
  const std::lock_guard lock(mutex_);
  parked_.push_back(std::move(state));
}

Result<std::shared_ptr<LoadedPartition>> LoadedPartition::shared(const Key& key, const Load& load) {
  Registry& known = registry();
  const auto find = [&]() -> std::shared_ptr<LoadedPartition> {
    const auto found = known.partitions.find(key);
    return found == known.partitions.end() ? nullptr : found->second.lock();
  };
  {
    const std::lock_guard lock(known.mutex);
    if (auto found = find()) return found;
  }
  auto made = std::make_shared<LoadedPartition>(CTXGEN_TRY(load()));
  const std::lock_guard lock(known.mutex);
  if (auto found = find()) return found;
  std::erase_if(known.partitions, [](const auto& one) { return one.second.expired(); });
  known.partitions.insert_or_assign(key, made);
  return made;
}

}  // namespace ctxgen::plugin
