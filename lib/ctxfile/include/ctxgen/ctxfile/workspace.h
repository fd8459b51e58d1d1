#pragma once

#include <sys/types.h>

#include <compare>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/context_file.h"

namespace ctxgen {

/// What tells two context binaries, or two states of one, apart without opening them.
struct ContextFileKey {
  dev_t folder_device = 0, device = 0;
  ino_t folder_inode = 0, inode = 0;
  off_t size = 0;
  time_t seconds = 0;
  long nanoseconds = 0;
  std::string relative;  // to the folder: a path that was found to stay in it
  [[nodiscard]] auto operator<=>(const ContextFileKey&) const = default;
};

/// The context binaries of a group of sessions (ONNX Runtime's ep.share_ep_contexts): the first session
/// that needs one opens it, later ones take their programs from there without opening the file. What
/// is taken stays; everything lives while a session of the group does, whichever that is.
///
/// Threads  all members may be called from several threads at once.
class Workspace {
 public:
  /// The process's group: there is one at a time.
  [[nodiscard]] static std::shared_ptr<Workspace> join();
  /// Ends the group for those who come later: they start another one (ep.stop_share_ep_contexts).
  static void stop(const std::shared_ptr<Workspace>& group);

  using Opener = std::function<Result<ContextReader>()>;
  /// The context binary `relative` below `folder`. `open` is called by the first who asks while
  /// others wait; its error stays its own. Verified as `verify` says, once.
  [[nodiscard]] Result<std::shared_ptr<const ContextReader>> get(
      const std::filesystem::path& folder, std::string_view relative, VerifyBlobs verify,
      const Opener& open);

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<const ContextReader> reader;
    bool verified = false;
  };
  [[nodiscard]] std::shared_ptr<Entry> entry_of(const ContextFileKey& key);

  std::mutex mutex_;
  std::map<ContextFileKey, std::shared_ptr<Entry>> entries_;
};

}  // namespace ctxgen
