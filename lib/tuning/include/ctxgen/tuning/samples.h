#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen {

/// Arrays by names of inputs; each has one axis more than its input, in front: that of the samples.
struct SampleArrays {
  std::vector<std::pair<std::string, Tensor>> arrays;
  Hash128 hash;  // of the file that they came from
};

/// Inputs of one run each.
struct Samples {
  std::vector<std::vector<NamedValue>> searched;  // choices are made by these
  std::vector<std::vector<NamedValue>>
      held_out;  // every fourth, and the last: only looked at afterwards
};

/// Errors  INVALID_ARGUMENT: an array of no input, an input without one, another type or rank than its input
///         with the samples' axis, other numbers of samples, fewer than two; RESOURCE_LIMIT.
[[nodiscard]] Result<Samples> split_samples(const SampleArrays& arrays,
                                            std::span<const IoInfo> inputs);

}  // namespace ctxgen
