#pragma once

#include <atomic>

#include <onnxruntime_c_api.h>

#include "ctxgen/base/workers.h"

namespace ctxgen::plugin {

/// The intra-op threads of an ONNX Runtime session, during one call of a kernel.
class SessionWorkers final : public Workers {
 public:
  /// Both outlive it.
  SessionWorkers(const OrtApi& api, const OrtKernelContext& context)
      : api_(api), context_(context) {}
  void parallel_for(std::int64_t count, Task task) override;
  /// Whether ONNX Runtime did not run a loop to its end: the results of the call are worth nothing then.
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  const OrtApi& api_;
  const OrtKernelContext& context_;
  std::atomic<bool> failed_ = false;
};

}  // namespace ctxgen::plugin
