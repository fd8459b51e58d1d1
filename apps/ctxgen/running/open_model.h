#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/runtime/session.h"

#include "flags/model_flags.h"

namespace ctxgen::cli {

/// A model ready to run.
struct OpenModel {
  std::unique_ptr<Session> session;
  bool is_context = false;                // it was a context model already
  std::optional<CompiledModel> compiled;  // in memory just now
  double compile_ms = 0;
  double load_ms = 0;  // Session::open alone
};

/// Whether a model holds EPContext nodes, of whatever source. `external_data_folder`: "" for the
/// model's own.
[[nodiscard]] Result<bool> is_context_model(const std::string& path,
                                            const std::string& external_data_folder);

/// Errors  INVALID_ARGUMENT if the model has no external data, so that the folder would not be looked into.
[[nodiscard]] Status check_external_data(const std::string& path,
                                         const std::string& external_data_folder);

/// Opens a context model as it is, and a plain model after compiling it in memory; for provider cpu
/// alone, a plain model runs unchanged.
///
/// `compile_flag`  a flag about compiling that the user gave, "" if none: INVALID_ARGUMENT for a
///                 context model, which is compiled already. Likewise ModelFlags::verify_blobs for a
///                 plain one.
/// `inner_values`  as SessionOptions has it.
[[nodiscard]] Result<OpenModel> open_model(const std::string& path, const ModelFlags& flags,
                                           const std::string& compile_flag,
                                           bool inner_values = false);

}  // namespace ctxgen::cli
