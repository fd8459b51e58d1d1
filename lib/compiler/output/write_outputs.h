#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onnx_lite/write_model.h"

namespace ctxgen {

/// One file to write: its bytes come from a function that streams them, the same at each call.
struct OutputFile {
  std::filesystem::path path;
  FileReport::Kind kind = FileReport::Kind::kModel;
  std::uint64_t bytes = 0;  // how many there will be
  std::function<Status(const ByteSink&)> write;
};

/// Writes all files to temporaries, then renames them in order (bins before models), so that a
/// failure leaves every old file as it was. With `keep_unchanged` a file that has these bytes already
/// is left alone; with `dry_run` nothing is written, but what would stop a write is an error.
/// `before_renames` may still end it when all is on disk.
[[nodiscard]] Result<std::vector<FileReport>> write_files(
    const std::vector<OutputFile>& files, const CompileOptions& options,
    const std::function<Status()>& before_renames = {});

/// The folder of the outputs, made where CompileOptions::make_folder asks for it; it goes again if
/// nothing came into it.
class OutputFolder {
 public:
  OutputFolder() = default;
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  [[nodiscard]] Status prepare(const std::filesystem::path& folder, const CompileOptions& options);

 private:
  std::filesystem::path made_;
};

/// The bytes that `write` streams, in memory. `expected_bytes`: so many at once, if they are known.
[[nodiscard]] Result<Blob> write_to_memory(const std::function<Status(const ByteSink&)>& write,
                                           std::uint64_t expected_bytes = 0);

}  // namespace ctxgen
