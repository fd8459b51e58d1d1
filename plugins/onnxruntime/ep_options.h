#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "ctxgen/ctxfile/context_file.h"
#include "ort_edge.h"

namespace ctxgen::plugin {

/// What a session says: ONNX Runtime's own keys, and ours, which users give as options of the EP and
/// ONNX Runtime hands on as `ep.ctxgendnnlexecutionprovider.<key>`.
struct EpOptions {
  std::filesystem::path context_file_path;  // ep.context_file_path: for models from memory
  bool share_ep_contexts = false;           // ep.share_ep_contexts
  bool stop_share_ep_contexts = false;      // ep.stop_share_ep_contexts
  bool generates = false;                   // ep.context_enable
  bool fail_on_suboptimal = false;          // session.fail_on_suboptimal_compiled_model
  int threads = 0;                          // threads: 0: physical cores that the process may use
  std::size_t kept_plans = 8;               // kept_plans
  VerifyBlobs verify_blobs = VerifyBlobs::kAuto;  // verify_blobs: auto, always, never
};

/// Errors  INVALID_ARGUMENT: an unknown option of the EP, or a value that is none of its values.
[[nodiscard]] Result<EpOptions> read_options(const OrtApis& ort, const OrtSessionOptions& options);

}  // namespace ctxgen::plugin
