#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onnx_lite/write_model.h"

namespace ctxgen {

/// One file to write: its bytes come from a function that streams them.
struct OutputFile {
  std::filesystem::path path;
  std::function<Status(const ByteSink&)> write;
};

/// Writes all files to temporaries, then renames them in order (bins before models), so that a
/// failure leaves every old file as it was. `before_renames` may still end it when all is on disk.
[[nodiscard]] Status write_files(const std::vector<OutputFile>& files,
                                 const std::function<Status()>& before_renames = {});

/// The bytes that `write` streams, in memory.
[[nodiscard]] Result<Blob> write_to_memory(const std::function<Status(const ByteSink&)>& write);

}  // namespace ctxgen
