#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/runtime/session.h"

namespace ctxgen::cli {

/// One data set in the layout of ONNX's backend tests: input_N.pb and output_N.pb, N counting the
/// inputs that have no default, and the outputs, of the model.
struct TestDataSet {
  std::string name;  // the folder's, for messages
  std::vector<NamedValue> inputs;
  std::vector<RuntimeValue> outputs;  // output_0.pb on; may be fewer than the model has
};

/// The data sets in `folder`: each test_data_set_*, in order, or the folder itself.
/// Errors  IO_ERROR (no such folder), INVALID_ARGUMENT (no data set, more files than inputs or
///         outputs), those of read_value.
[[nodiscard]] Result<std::vector<std::filesystem::path>> find_data_sets(
    const std::filesystem::path& folder);
[[nodiscard]] Result<TestDataSet> read_data_set(const std::filesystem::path& folder,
                                                std::span<const IoInfo> inputs,
                                                std::span<const IoInfo> outputs);

}  // namespace ctxgen::cli
