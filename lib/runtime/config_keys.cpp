#include "ctxgen/runtime/config_keys.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace ctxgen {
namespace {

constexpr std::size_t kMaxKeySize = 128, kMaxValueSize = 1024;  // ONNX Runtime's

Result<bool> boolean(std::string_view key, std::string_view value) {
  if (value == "0" || value == "1") return value == "1";
  return fail(ErrorCode::kInvalidArgument, "{}=\"{}\": expected 0 or 1", key, value);
}

constexpr std::array kKeys{
    SessionConfigKey{
        "ctxgen.require_signed", "FILE",
        "a public key or certificates (PEM): refuse files that their holder did not sign"},
    SessionConfigKey{"ctxgen.signature", "FILE",
                     "the signature, if it is not model.sig in the model's folder"},
    SessionConfigKey{"ep.context_enable", "0", "1 would compile, which a session does not do"},
    SessionConfigKey{"ep.context_file_path", "FILE",
                     "of a model from memory: its folder holds the context binary"},
    SessionConfigKey{"ep.context_source_model_path", "FILE",
                     "the source of a weightless model, if it is not where the compile saw it"},
    SessionConfigKey{"ep.share_ep_contexts", "0|1",
                     "1: joins the process's group of sessions, which open each binary once"},
    SessionConfigKey{"ep.stop_share_ep_contexts", "0|1", "1: the last session of the group"},
    SessionConfigKey{"session.disable_cpu_ep_fallback", "0|1",
                     "1: refuse a model with a node that a CPU kernel would run"},
    SessionConfigKey{"session.disable_model_compile", "1",
                     "a session never compiles, so 1 changes nothing"},
    SessionConfigKey{"session.fail_on_suboptimal_compiled_model", "0|1",
                     "1: refuse a model that runs here but should be compiled again"},
    SessionConfigKey{"session.model_external_initializers_file_folder_path", "DIR",
                     "folder of external data; never moves the context binary"},
};

Status set_known(SessionOptions& options, std::string_view key, std::string_view value) {
  if (key == "ctxgen.require_signed") {
    options.required_signature.key = value;
    return {};
  }
  if (key == "ctxgen.signature") {
    options.required_signature.signature = value;
    return {};
  }
  if (key == "ep.context_file_path") {
    options.context_file_path = value;
    return {};
  }
  if (key == "ep.context_source_model_path") {
    options.source_model_path = value;
    return {};
  }
  if (key == "session.model_external_initializers_file_folder_path") {
    options.external_data_folder = value;
    return {};
  }
  const bool on = CTXGEN_TRY(boolean(key, value));
  if (key == "ep.share_ep_contexts") options.share_ep_contexts = on;
  if (key == "ep.stop_share_ep_contexts") options.stop_share_ep_contexts = on;
  if (key == "session.fail_on_suboptimal_compiled_model") options.fail_on_suboptimal = on;
  if (key == "session.disable_cpu_ep_fallback") options.disable_cpu_fallback = on;
  if (key == "ep.context_enable" && on)
    return fail(ErrorCode::kInvalidArgument,
                "{}=1: a session does not compile; ctxgen compile and "
                "ctxgen_compiler.h do",
                key);
  if (key == "session.disable_model_compile" && !on)
    return fail(ErrorCode::kInvalidArgument, "{}=0: a session never compiles", key);
  return {};
}

}  // namespace

std::span<const SessionConfigKey> session_config_keys() { return kKeys; }

Status set_session_config(SessionOptions& options, std::string_view key, std::string_view value) {
  if (key.size() > kMaxKeySize || value.size() > kMaxValueSize)
    return fail(ErrorCode::kInvalidArgument,
                "a key of {} and a value of {} characters, more than {} and {}", key.size(),
                value.size(), kMaxKeySize, kMaxValueSize);
  if (std::ranges::contains(kKeys, key, &SessionConfigKey::name))
    return set_known(options, key, value);
  std::string known;
  for (const SessionConfigKey& one : kKeys)
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  return fail(ErrorCode::kInvalidArgument,
              "key \"{}\" does not apply to a session; expected one of {}", key, known);
}

}  // namespace ctxgen
