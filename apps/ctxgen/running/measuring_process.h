#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "ctxgen/base/status.h"

#include "running/bench_measure.h"

namespace ctxgen::cli {

/// A process that measures one model and does nothing else, so that memory and first-use costs are the model's.
/// It is forked early and waits: what this process does meanwhile, a compile for instance, is not in its memory.
class MeasuringProcess {
 public:
  /// Requires  nothing in this process has used oneDNN or OpenMP (a fork would not survive that).
  [[nodiscard]] static Result<MeasuringProcess> start(const BenchRequest& request);
  MeasuringProcess(MeasuringProcess&&) noexcept;
  MeasuringProcess& operator=(MeasuringProcess&&) noexcept;
  /// Ends a process that was not asked to measure.
  ~MeasuringProcess();

  /// Measures the model of the request, once. Numbers, inputs_text: no samples, no ops.
  [[nodiscard]] Result<BenchResult> measure();
  /// The context model that was made of it instead: flags about compiling are left out.
  [[nodiscard]] Result<BenchResult> measure(const std::string& compiled);

 private:
  struct Impl;
  explicit MeasuringProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// start() and measure() at once.
[[nodiscard]] Result<BenchResult> measure_apart(const BenchRequest& request);

}  // namespace ctxgen::cli
