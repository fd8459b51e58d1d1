#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/compiler/source_index.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/source_weights.h"
#include "ctxgen/partition/provider.h"
#include "ctxgen/trust/signed_files.h"

#include "context_data.h"
#include "ort_edge.h"

namespace ctxgen::plugin {

/// When weights in files, and entries of the cache, are read to be compared with their hashes: when the file changed
/// since that was done, or each time.
enum class VerifyCache : std::uint8_t { kAuto, kAlways };

/// What a session says: ONNX Runtime's own keys, and ours, which users give as options of the EP and
/// ONNX Runtime hands on as `ep.<name in lower case>.<key>`.
struct EpOptions {
  std::filesystem::path context_file_path;  // ep.context_file_path: for models from memory
  /// session.model_external_initializers_file_folder_path: ONNX Runtime may give it as the folder
  /// of the model.
  std::filesystem::path external_data_folder;
  SourceModel source_model;             // ep.context_source_model_path, or a buffer (1.29)
  bool share_ep_contexts = false;       // ep.share_ep_contexts
  bool stop_share_ep_contexts = false;  // ep.stop_share_ep_contexts
  bool generates = false;               // ep.context_enable
  bool fail_on_suboptimal = false;      // session.fail_on_suboptimal_compiled_model
  int threads = 0;                      // threads: 0: physical cores that the process may use
  std::size_t kept_plans = 8;           // kept_plans
  bool session_workers = false;         // workers: openmp, session
  VerifyBlobs verify_blobs = VerifyBlobs::kAuto;      // verify_blobs: auto, always, never
  RequiredSignature required_signature;               // require_signed: a key; signature: a file
  bool disable_compile = false;                       // session.disable_model_compile
  bool embeds = false;                                // ep.context_embed_mode
  WeightlessMode weightless = WeightlessMode::kNone;  // ep.enable_weightless*
  std::string node_prefix;                            // ep.context_node_name_prefix
  std::filesystem::path cache_dir;                    // cache_dir: of programs of earlier sessions
  std::uint64_t cache_max_bytes = CacheFolder::kDefaultMaxBytes;  // cache_max_bytes
  VerifyCache verify_cache = VerifyCache::kAuto;                  // verify_cache: auto, always
  std::vector<std::pair<std::string, std::string>> provider_options = {};  // the provider's own
  ContextData data = {};  // the application's functions for context binaries
};

/// `provider`: whose name the EP has; its options are options of the EP.
/// Errors  INVALID_ARGUMENT: an unknown option of the EP, or a value that is none of its values.
[[nodiscard]] Result<EpOptions> read_options(const OrtApis& ort, const Provider& provider,
                                             const OrtSessionOptions& options);

/// Options that are set while the session lives. There are none of ours; ONNX Runtime's hint about
/// the kind of work changes nothing.
/// Errors  INVALID_ARGUMENT: any other key, or an invalid value.
[[nodiscard]] Status check_dynamic_option(std::string_view ep, std::string_view key,
                                          std::string_view value);

}  // namespace ctxgen::plugin
