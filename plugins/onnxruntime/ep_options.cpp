#include "ep_options.h"

#include <charconv>
#include <memory>
#include <string>
#include <string_view>

namespace ctxgen::plugin {
namespace {

/// "ep.ctxgendnnlexecutionprovider.", where ONNX Runtime puts the options of an EP.
std::string prefix_of(std::string_view ep) {
  std::string prefix = "ep.";
  for (const char c : ep) prefix += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return prefix + ".";
}

Result<bool> parse_flag(std::string_view key, std::string_view value) {
  if (value == "0" || value == "1") return value == "1";
  return fail(ErrorCode::kInvalidArgument, "option \"{}\" is \"{}\", expected 0 or 1", key, value);
}

Result<int> parse_number(std::string_view key, std::string_view value, int least, int greatest) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least ||
      number > greatest)
    return fail(ErrorCode::kInvalidArgument, "option \"{}\" is \"{}\", expected {} to {}", key,
                value, least, greatest);
  return number;
}

Status set_own(EpOptions& options, std::string_view ep, std::string_view key,
               std::string_view value) {
  if (key == "threads") {
    options.threads = CTXGEN_TRY(parse_number(key, value, 0, 4096));
  } else if (key == "kept_plans") {
    options.kept_plans = static_cast<std::size_t>(CTXGEN_TRY(parse_number(key, value, 1, 4096)));
  } else if (key == "verify_blobs") {
    if (value == "auto")
      options.verify_blobs = VerifyBlobs::kAuto;
    else if (value == "always")
      options.verify_blobs = VerifyBlobs::kAlways;
    else if (value == "never")
      options.verify_blobs = VerifyBlobs::kNever;
    else
      return fail(ErrorCode::kInvalidArgument,
                  "option \"verify_blobs\" is \"{}\", expected auto, always or never", value);
  } else {
    return fail(ErrorCode::kInvalidArgument,
                "{} has no option \"{}\"; it has threads, kept_plans, verify_blobs", ep, key);
  }
  return {};
}

Status set(EpOptions& options, std::string_view ep, std::string_view key, std::string_view value) {
  if (const std::string prefix = prefix_of(ep); key.starts_with(prefix))
    return set_own(options, ep, key.substr(prefix.size()), value);
  if (key == "ep.context_file_path") options.context_file_path = value;
  if (key == "session.model_external_initializers_file_folder_path")
    options.external_data_folder = value;
  if (key == "ep.context_enable") options.generates = CTXGEN_TRY(parse_flag(key, value));
  if (key == "ep.share_ep_contexts") options.share_ep_contexts = CTXGEN_TRY(parse_flag(key, value));
  if (key == "ep.stop_share_ep_contexts")
    options.stop_share_ep_contexts = CTXGEN_TRY(parse_flag(key, value));
  if (key == "session.fail_on_suboptimal_compiled_model")
    options.fail_on_suboptimal = CTXGEN_TRY(parse_flag(key, value));
  return {};  // the others are ONNX Runtime's
}

}  // namespace

Result<EpOptions> read_options(const OrtApis& ort, std::string_view ep,
                               const OrtSessionOptions& session) {
  OrtKeyValuePairs* pairs = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetSessionOptionsConfigEntries(&session, &pairs)));
  const std::unique_ptr<OrtKeyValuePairs, decltype(ort.api->ReleaseKeyValuePairs)> owner(
      pairs, ort.api->ReleaseKeyValuePairs);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  std::size_t count = 0;
  ort.api->GetKeyValuePairs(pairs, &keys, &values, &count);
  EpOptions options;
  for (std::size_t i = 0; i < count; ++i) CTXGEN_CHECK(set(options, ep, keys[i], values[i]));
  if (options.stop_share_ep_contexts && !options.share_ep_contexts)
    return fail(ErrorCode::kInvalidArgument,
                "ep.stop_share_ep_contexts without ep.share_ep_contexts: there is no group to end");
  return options;
}

Status check_dynamic_option(std::string_view ep, std::string_view key, std::string_view value) {
  if (key != "ep.dynamic.workload_type")
    return fail(ErrorCode::kInvalidArgument,
                "{} has no option \"{}\" that can be set while a session lives", ep, key);
  if (value == "Default" || value == "Efficient") return {};
  return fail(ErrorCode::kInvalidArgument, "option \"{}\" is \"{}\", expected Default or Efficient",
              key, value);
}

}  // namespace ctxgen::plugin
