#include <onnx/checker.h>
#include <onnx/common/version.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ctxgen/base/log.h"
#include "ctxgen/onnx/infer.h"
#include "guard.h"
#include "skeleton.h"

namespace ctxgen {
namespace {

// What the checker refuses although runtimes run it: operators that a runtime has in a domain of
// ONNX's (LayerNormalization before opset 17), and names of the text that are used again inside of
// subgraphs.
constexpr std::string_view kChecker = "onnx checker";
constexpr std::array<std::string_view, 4> kHarmless{"No Op registered for ", "No opset import for domain ",
                                                    "Field 'shape' of ",
                                                    "Op registered for "};  // but deprecated

// By how the text begins: names of the model stand in it, too.
bool is_harmless(std::string_view message) {
  message.remove_prefix(std::min(kChecker.size() + 2, message.size()));
  return std::ranges::any_of(
      kHarmless, [&](std::string_view begin) { return message.starts_with(begin); });
}

// The checker's texts have several lines, the first of which says what is wrong.
std::string first_line(std::string message) {
  if (const auto end = message.find('\n'); end != std::string::npos) message.resize(end);
  return message;
}

}  // namespace

Status check_with_onnx(const Model& model) {
  Status status = guarded(kChecker, [&model]() -> Status {
    const Skeleton skeleton = build_skeleton(model, SkeletonUse::kCheck);
    onnx::checker::check_model(skeleton.model);
    return {};
  });
  if (status) return {};
  Error error = std::move(status).error();
  error.message = first_line(std::move(error.message));
  if (error.code != ErrorCode::kInvalidGraph) return std::unexpected(std::move(error));
  if (!is_harmless(error.message)) return std::unexpected(std::move(error));
  log(LogLevel::kDebug, "{}", error.message);
  return {};
}

std::string onnx_version() { return onnx::LAST_RELEASE_VERSION; }

}  // namespace ctxgen
