#include "running/run_watch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>

namespace ctxgen::plugin {
namespace {

/// Every release's OrtRunOptions is larger: two numbers, a string, flags, a map.
constexpr std::size_t kWindow = 64;

using Window = std::array<unsigned char, kWindow>;

Window bytes_of(const OrtRunOptions* options) {
  Window bytes;
  std::memcpy(bytes.data(), options, bytes.size());
  return bytes;
}

struct ActiveRun {
  const RunWatch* watch;
  const std::atomic<bool>* stop;
};

/// Runs that the thread is in: several where an operator of one session runs another session. Those
/// deeper than this end between nodes. There is nothing to destroy: sessions may be destroyed after
/// the thread's objects.
struct ActiveRuns {
  std::array<ActiveRun, 8> runs;
  std::size_t count;
  [[nodiscard]] std::span<ActiveRun> all() { return std::span(runs).first(count); }
};
constinit thread_local ActiveRuns active{};

}  // namespace

static_assert(sizeof(std::atomic<bool>) == 1 && std::atomic<bool>::is_always_lock_free);

std::optional<std::size_t> find_terminate_flag(const OrtApi& api) noexcept {
  OrtRunOptions* options = nullptr;
  if (OrtStatus* status = api.CreateRunOptions(&options)) {
    api.ReleaseStatus(status);
    return std::nullopt;
  }
  const std::unique_ptr<OrtRunOptions, decltype(api.ReleaseRunOptions)> owner(
      options, api.ReleaseRunOptions);
  const Window before = bytes_of(options);
  OrtStatus* set = api.RunOptionsSetTerminate(options);
  const Window during = bytes_of(options);
  OrtStatus* unset = api.RunOptionsUnsetTerminate(options);
  const Window after = bytes_of(options);
  api.ReleaseStatus(set);
  api.ReleaseStatus(unset);
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < kWindow; ++i) {
    if (before[i] == during[i] && during[i] == after[i]) continue;
    if (found || before[i] != 0 || during[i] != 1 || after[i] != 0) return std::nullopt;
    found = i;
  }
  return found;
}

void RunWatch::begin(const OrtRunOptions* options) noexcept {
  end();  // of a run whose end was not told
  if (!flag_ || options == nullptr || active.count == active.runs.size()) return;
  const auto* flag = reinterpret_cast<const unsigned char*>(options) + *flag_;
  // ONNX Runtime writes a plain bool; reading it as an atomic one is what keeps the compiler from
  // reading it once.
  active.runs[active.count++] = {this, reinterpret_cast<const std::atomic<bool>*>(flag)};
}

void RunWatch::end() noexcept {
  const auto others = std::ranges::remove(active.all(), this, &ActiveRun::watch);
  active.count -= others.size();
}

const std::atomic<bool>* RunWatch::stop() const noexcept {
  for (const ActiveRun& run : active.all())
    if (run.watch == this) return run.stop;
  return nullptr;
}

}  // namespace ctxgen::plugin
