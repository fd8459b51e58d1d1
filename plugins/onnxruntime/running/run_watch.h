#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include <onnxruntime_c_api.h>

namespace ctxgen::plugin {

/// The place in OrtRunOptions of the flag that RunOptionsSetTerminate sets; nothing if that cannot
/// be told.
///
/// ONNX Runtime looks at the flag between nodes only, and up to 1.30 offers no call that reads it:
/// a context model of one node would run to its end. So its place is measured with options made for
/// that: the one byte among the first that is 0, 1 once the flag is set, and 0 again. Where not
/// exactly one byte does so, runs end between nodes as they do without this.
[[nodiscard]] std::optional<std::size_t> find_terminate_flag(const OrtApi& api) noexcept;

/// Tells the kernels of one session whether the run that calls them is to end.
///
/// Threads   At the start of a run ONNX Runtime tells its options on the thread of the run, where
///           it calls the kernels, too. With ORT_PARALLEL it calls them on others, which know of no
///           run: they are not stopped inside a node.
/// Lifetime  the options of a run live until end().
class RunWatch {
 public:
  explicit RunWatch(std::optional<std::size_t> flag) : flag_(flag) {}
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;
  ~RunWatch() { end(); }

  void begin(const OrtRunOptions* options) noexcept;
  void end() noexcept;
  /// The flag of the run that the calling thread is in; nullptr: there is none.
  [[nodiscard]] const std::atomic<bool>* stop() const noexcept;

 private:
  std::optional<std::size_t> flag_;
};

}  // namespace ctxgen::plugin
