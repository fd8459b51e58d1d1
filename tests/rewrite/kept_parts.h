#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "ctxgen/compiler/compile.h"

namespace ctxgen::test {

/// What a context model changed of its source though it had no reason to; empty if nothing. An
/// independent judge: it knows ONNX's messages and the output contract (docs/architecture.md), and
/// nothing of how ctxgen rewrites.
///
/// In  folder: of the source's external data. report: of the compile, for how many nodes may be gone.
[[nodiscard]] std::vector<std::string> lost_parts(const onnx::ModelProto& source,
                                                  const onnx::ModelProto& context,
                                                  const std::filesystem::path& folder,
                                                  const ModelReport& report);

}  // namespace ctxgen::test
