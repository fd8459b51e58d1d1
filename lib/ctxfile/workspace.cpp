#include "ctxgen/ctxfile/workspace.h"

#include <sys/stat.h>

#include <utility>

namespace ctxgen {
namespace {

struct CurrentGroup {
  std::mutex mutex;
  std::weak_ptr<Workspace> group;
};

CurrentGroup& current_group() {
  static auto* const current = new CurrentGroup;  // sessions may outlive static objects
  return *current;
}

/// Nothing where there is no such file; opening it says why.
std::optional<ContextFileKey> key_of(const std::filesystem::path& folder,
                                     std::string_view relative) {
  struct stat in{}, file{};
  const std::filesystem::path base = folder.empty() ? "." : folder;
  if (::stat(base.c_str(), &in) != 0 || ::stat((base / relative).c_str(), &file) != 0) return {};
  ContextFileKey key;
  key.folder_device = in.st_dev;
  key.folder_inode = in.st_ino;
  key.device = file.st_dev;
  key.inode = file.st_ino;
  key.size = file.st_size;
  key.seconds = file.st_mtim.tv_sec;
  key.nanoseconds = file.st_mtim.tv_nsec;
  key.relative = relative;
  return key;
}

}  // namespace

std::shared_ptr<Workspace> Workspace::join() {
  CurrentGroup& current = current_group();
  const std::lock_guard lock(current.mutex);
  if (auto group = current.group.lock()) return group;
  auto group = std::make_shared<Workspace>();
  current.group = group;
  return group;
}

void Workspace::stop(const std::shared_ptr<Workspace>& group) {
  CurrentGroup& current = current_group();
  const std::lock_guard lock(current.mutex);
  if (current.group.lock() == group) current.group.reset();
}

std::shared_ptr<Workspace::Entry> Workspace::entry_of(const ContextFileKey& key) {
  const std::lock_guard lock(mutex_);
  auto& entry = entries_[key];
  if (!entry) entry = std::make_shared<Entry>();
  return entry;
}

Result<std::shared_ptr<const ContextReader>> Workspace::get(const std::filesystem::path& folder,
                                                            std::string_view relative,
                                                            VerifyBlobs verify,
                                                            const Opener& open) {
  const auto key = key_of(folder, relative);
  if (!key) return std::make_shared<const ContextReader>(CTXGEN_TRY(open()));
  const std::shared_ptr<Entry> entry = entry_of(*key);
  const std::lock_guard lock(entry->mutex);
  if (!entry->reader) {
    entry->reader = std::make_shared<const ContextReader>(CTXGEN_TRY(open()));
    entry->verified = verify == VerifyBlobs::kAlways;
  } else if (verify == VerifyBlobs::kAlways && !entry->verified) {
    CTXGEN_CHECK(entry->reader->verify_blobs());
    entry->verified = true;
  }
  return entry->reader;
}

}  // namespace ctxgen
