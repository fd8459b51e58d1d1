#pragma once

#include <filesystem>
#include <string>

namespace ctxgen::conformance {

/// How a model is run: by the CPU kernels as it stands, or compiled in memory for dnnl and cpu.
enum class Via { kCpu, kCompile };

enum class Outcome { kPassed, kFailed, kSkipped };

struct CaseResult {
  Outcome outcome = Outcome::kFailed;
  std::size_t partitions = 0;  // how many the compiled model has
  std::string reason;          // one line; empty if passed
};

/// Runs one backend-test folder: model.onnx with every test_data_set_N beside it.
///
/// Passed   every output of every data set equals the stored one. Of models with random operators
///          only types and shapes are compared.
/// Skipped  the model was refused with UNSUPPORTED, and the message names one of its operators.
/// Failed   everything else.
[[nodiscard]] CaseResult run_case(const std::filesystem::path& folder, Via via);

}  // namespace ctxgen::conformance
