#include "ep_options.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ctxgen/base/suggest.h"

#include "ort_tables.h"

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

template <class T>
Result<T> parse_number(std::string_view key, std::string_view value, T least, T greatest) {
  T number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least ||
      number > greatest)
    return fail(ErrorCode::kInvalidArgument, "option \"{}\" is \"{}\", expected {} to {}", key,
                value, least, greatest);
  return number;
}

Result<VerifyBlobs> parse_verify(std::string_view value) {
  if (value == "auto") return VerifyBlobs::kAuto;
  if (value == "always") return VerifyBlobs::kAlways;
  if (value == "never") return VerifyBlobs::kNever;
  return fail(ErrorCode::kInvalidArgument,
              "option \"verify_blobs\" is \"{}\", expected auto, always or never", value);
}

Result<VerifyCache> parse_verify_cache(std::string_view value) {
  if (value == "auto") return VerifyCache::kAuto;
  if (value == "always") return VerifyCache::kAlways;
  return fail(ErrorCode::kInvalidArgument,
              "option \"verify_cache\" is \"{}\", expected auto or always", value);
}

Result<bool> parse_workers(std::string_view value) {
  if (value == "openmp" || value == "session") return value == "session";
  return fail(ErrorCode::kInvalidArgument,
              "option \"workers\" is \"{}\", expected openmp or session", value);
}

constexpr std::string_view kOwnOptions[] = {"threads",      "kept_plans",     "verify_blobs",
                                            "workers",      "cache_dir",      "cache_max_bytes",
                                            "verify_cache", "require_signed", "signature"};

auto unknown_option(const Provider& provider, std::string_view key) {
  std::vector<std::string> names(std::begin(kOwnOptions), std::end(kOwnOptions));
  std::ranges::copy(provider.option_names(), std::back_inserter(names));
  return fail(ErrorCode::kInvalidArgument, "{} has no option \"{}\"{}; it has {}",
              provider.source(), key, did_you_mean(key, names), list_text(names));
}

Status set_own(EpOptions& options, const Provider& provider, std::string_view key,
               std::string_view value) {
  if (key == "threads") {
    options.threads = CTXGEN_TRY(parse_number(key, value, 0, 4096));
  } else if (key == "kept_plans") {
    options.kept_plans = static_cast<std::size_t>(CTXGEN_TRY(parse_number(key, value, 1, 4096)));
  } else if (key == "verify_blobs") {
    options.verify_blobs = CTXGEN_TRY(parse_verify(value));
  } else if (key == "workers") {
    options.session_workers = CTXGEN_TRY(parse_workers(value));
  } else if (key == "cache_dir") {
    options.cache_dir = value;
  } else if (key == "verify_cache") {
    options.verify_cache = CTXGEN_TRY(parse_verify_cache(value));
  } else if (key == "require_signed") {
    options.required_signature.key = value;
  } else if (key == "signature") {
    options.required_signature.signature = value;
  } else if (key == "cache_max_bytes") {
    options.cache_max_bytes = CTXGEN_TRY(parse_number<std::uint64_t>(key, value, 0, UINT64_MAX));
  } else if (std::ranges::contains(provider.option_names(), key)) {
    options.provider_options.emplace_back(key, value);
  } else {
    return unknown_option(provider, key);
  }
  return {};
}

/// The keys of several releases, of which the newest says the mode. That of 1.29 says none: it asks for what the device
/// offers, which is everything (factory.cpp).
Result<WeightlessMode> weightless_of(std::span<const char* const> keys,
                                     std::span<const char* const> values) {
  std::optional<WeightlessMode> mode;
  bool external = false, any = false;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string_view key = keys[i], value = values[i];
    if (key == "ep.enable_weightless_mode")
      mode = static_cast<WeightlessMode>(CTXGEN_TRY(parse_number(key, value, 0, 2)));
    else if (key == "ep.enable_weightless_ep_context_nodes")
      external = CTXGEN_TRY(parse_flag(key, value));
    else if (key == "ep.enable_weightless")
      any = CTXGEN_TRY(parse_flag(key, value));
  }
  if (external && mode && *mode != WeightlessMode::kExternalOnly)
    return fail(ErrorCode::kInvalidArgument,
                "ep.enable_weightless_ep_context_nodes=1 is mode 1 of ep.enable_weightless_mode, "
                "which is {}",
                static_cast<int>(*mode));
  if (mode) return *mode;
  return external ? WeightlessMode::kExternalOnly
         : any    ? WeightlessMode::kAll
                  : WeightlessMode::kNone;
}

Status set(EpOptions& options, const Provider& provider, std::string_view key,
           std::string_view value) {
  if (const std::string prefix = prefix_of(provider.source()); key.starts_with(prefix))
    return set_own(options, provider, key.substr(prefix.size()), value);
  const std::pair<std::string_view, bool*> flags[] = {
      {"ep.context_enable", &options.generates},
      {"ep.context_embed_mode", &options.embeds},
      {"ep.share_ep_contexts", &options.share_ep_contexts},
      {"ep.stop_share_ep_contexts", &options.stop_share_ep_contexts},
      {"session.fail_on_suboptimal_compiled_model", &options.fail_on_suboptimal},
      {"session.disable_model_compile", &options.disable_compile},
  };
  for (const auto& [name, flag] : flags)
    if (key == name) *flag = CTXGEN_TRY(parse_flag(key, value));
  if (key == "ep.context_file_path") options.context_file_path = value;
  if (key == "ep.context_node_name_prefix") options.node_prefix = value;
  if (key == "ep.context_source_model_path") options.source_model.path = value;
  if (key == "session.model_external_initializers_file_folder_path")
    options.external_data_folder = value;
  return {};  // the others are ONNX Runtime's
}

/// What the application has in memory of the source of a weightless model; its bytes live as long as the session.
Result<Blob> source_model_buffer(const OrtApis& ort, const OrtSessionOptions& session) {
  constexpr int kFirstWithSourceBuffers = 29;
  if (ort.minor_version < kFirstWithSourceBuffers) return Blob();
  const void* data = nullptr;
  std::size_t size = 0;
  CTXGEN_CHECK(
      from_ort(*ort.api,
               static_cast<const EpApiTable&>(*ort.ep).SessionOptionsGetWeightlessSourceModelBuffer(
                   &session, &data, &size)));
  if (data == nullptr) return Blob();
  return Blob{nullptr, {static_cast<const std::byte*>(data), size}};
}

}  // namespace

Result<EpOptions> read_options(const OrtApis& ort, const Provider& provider,
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
  for (std::size_t i = 0; i < count; ++i) CTXGEN_CHECK(set(options, provider, keys[i], values[i]));
  options.weightless = CTXGEN_TRY(weightless_of(std::span(keys, count), std::span(values, count)));
  options.data = CTXGEN_TRY(ContextData::of(ort, session));
  options.source_model.bytes = CTXGEN_TRY(source_model_buffer(ort, session));
  CTXGEN_CHECK(provider.check_options(options.provider_options));
  if (options.required_signature.key.empty() && !options.required_signature.signature.empty())
    return fail(ErrorCode::kInvalidArgument, "option \"signature\" without \"require_signed\"");
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
