#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/ctxfile/program.h"

#include "ep_options.h"
#include "ort_edge.h"

namespace ctxgen::plugin {

/// The context of a session that ONNX Runtime has make a context model (ep.context_enable): a file
/// next to that model, what the application keeps with a function of its own, or a payload in the model.
///
/// Sharing  sessions with ep.share_ep_contexts write one file, named after the first of them: each adds
///          its programs. ep.stop_share_ep_contexts ends that with its session.
class GeneratedContext {
 public:
  /// `model`: the path that the model came from, empty for one from memory. `provider`: its short name.
  /// Errors  INVALID_ARGUMENT: no path says where the file goes; a session of the group writes to another
  ///         folder; what is there is no context binary.
  [[nodiscard]] static Result<GeneratedContext> plan(const EpOptions& options,
                                                     const std::filesystem::path& model,
                                                     std::string_view provider);

  /// What earlier sessions of the group wrote.
  [[nodiscard]] const std::optional<ContextReader>& earlier() const { return earlier_; }
  /// Of the context model, where it is known.
  [[nodiscard]] const std::optional<std::filesystem::path>& folder() const { return folder_; }
  /// Writes the file, whole or not at all, gives it to the application, or makes the payload.
  [[nodiscard]] Status write(const OrtApis& ort, const ContextContent& content);
  /// The attributes of one node; the first one has the context.
  [[nodiscard]] EpContextAttributes complete(EpContextAttributes attributes, bool first) const;

 private:
  /// Whether sessions of the group wrote a context already, to which this one adds.
  [[nodiscard]] Result<bool> join_group();

  std::filesystem::path bin_;  // empty: embedded
  std::optional<std::filesystem::path> folder_;
  ContextData data_;
  std::string model_name_, payload_;
  std::optional<ContextReader> earlier_;
  bool shares_ = false, ends_group_ = false;
};

/// The EPContext node that ONNX Runtime writes in place of `fused`. It has the values of `program`: what is
/// computed of constants is in the program, and an input of `fused` only.
[[nodiscard]] Result<OrtNode*> make_context_node(const OrtApis& ort, const OrtNode& fused,
                                                 const Program& program,
                                                 const EpContextAttributes& attributes);

}  // namespace ctxgen::plugin
