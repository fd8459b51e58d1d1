#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <string_view>

#include "ctxgen/base/function_ref.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

// What AtomicFile and AtomicFolder share: names of temporaries, who cleans up after them, and flushing.

/// The folder that a file is in.
[[nodiscard]] std::filesystem::path folder_of(const std::filesystem::path& target);

/// A name of this process in the folder of `target`, another one at each call: ".<name>.ctxgen-<pid>-<n>.tmp".
[[nodiscard]] std::filesystem::path new_temporary_path(const std::filesystem::path& target);

/// The process that such a name is of, or -1 for other names.
[[nodiscard]] pid_t process_of_temporary(std::string_view name);

/// Calls `found` for all that is called like a temporary of `target`.
void for_each_temporary(const std::filesystem::path& target,
                        FunctionRef<void(const std::filesystem::path&, pid_t)> found);

/// Whether a temporary of `process` was left behind: its writer has ended.
[[nodiscard]] bool is_stale_file(const std::filesystem::path& temporary, pid_t process);
[[nodiscard]] bool is_stale_folder(const std::filesystem::path& temporary, pid_t process);

/// The place of a path among those that unlink_live_temporaries() removes, a folder's, too.
class LiveTemporary {
 public:
  LiveTemporary() = default;
  LiveTemporary(LiveTemporary&& other) noexcept;
  LiveTemporary& operator=(LiveTemporary&& other) noexcept;
  ~LiveTemporary() { leave(); }

  /// Requires  it has no place.
  /// Errors    RESOURCE_LIMIT: there is no place left; `target` is what is to be written, for the message.
  [[nodiscard]] Status enter(const std::filesystem::path& path,
                             const std::filesystem::path& target);
  void leave();

 private:
  std::atomic<const char*>* slot_ = nullptr;
};

/// fsync(2); 0, or the error number.
[[nodiscard]] int flush_to_disk(int fd);
/// So that a rename survives a power cut; some file systems refuse it, and that is not an error.
void flush_folder(const std::filesystem::path& folder);

}  // namespace ctxgen
