#pragma once

#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/base/status.h"
#include "ctxgen/partition/provider.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen::cli {

/// One input of a run, as it is told.
struct InputSize {
  std::string name, type;
  Dims dims;
  std::vector<std::string>
      assumed;  // dims that were taken as 1 because no size was given; "?": without a name
  bool random = false;
};

/// The tensors among `values`, those in `given` (names) from files, the others random under `shapes`.
[[nodiscard]] std::vector<InputSize> input_sizes(std::span<const IoInfo> infos,
                                                 std::span<const NamedValue> values,
                                                 std::span<const std::string> given,
                                                 const ShapeProfile& shapes);

/// `[{"name", "type", "dims", "random"}]`.
void write_input_sizes(JsonWriter& json, std::span<const InputSize> inputs);

/// Whose sizes are worth a line: those that the model leaves open, or all.
enum class ShownInputs { kOpen, kAll };

/// A line for each such input; "" if there is none.
[[nodiscard]] std::string input_sizes_text(std::span<const IoInfo> infos,
                                           std::span<const InputSize> inputs, ShownInputs which);

/// The error of a run, with the unspecified sizes: they may be its cause.
[[nodiscard]] Error with_assumed_sizes(Error error, std::span<const InputSize> inputs);

/// What --input gave.
struct GivenInputs {
  std::span<const NamedValue> values;
  std::vector<std::string>
      raw;  // names of those from raw bytes, whose sizes are those of --dim and --shape
  bool compiles = false;  // the model is compiled in memory: plans are made for the sizes
};

/// Errors  INVALID_ARGUMENT: --dim or --shape that says something else than an input from a file, or that has no effect
///         because all inputs that it concerns come from files.
[[nodiscard]] Status check_sizes_used(std::span<const IoInfo> infos, const GivenInputs& given,
                                      const ShapeProfile& shapes);

}  // namespace ctxgen::cli
