#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/option_table.h"

#include "output/appended_bin.h"
#include "output/external_initializers.h"

namespace ctxgen {
namespace {

Status check_sharing(const CompileOptions& options, std::size_t models) {
  if (models > 1 && options.share_ep_contexts == false)
    return fail(ErrorCode::kInvalidArgument,
                "ep.share_ep_contexts=0 cannot be combined with a batch of {} models: they share "
                "one context binary",
                models);
  const bool shares = options.share_ep_contexts == true;
  if (shares && options.embed)
    return fail(
        ErrorCode::kInvalidArgument,
        "ep.share_ep_contexts=1 cannot be combined with {} (ep.context_embed_mode=1): a context binary inside a model cannot be shared",
        option_name(options, &CompileOptions::embed));
  if (options.stop_share_ep_contexts == true && !shares && models == 1)
    return fail(ErrorCode::kInvalidArgument,
                "ep.stop_share_ep_contexts=1 without ep.share_ep_contexts=1: there is no group to "
                "end");
  if (options.stop_share_ep_contexts == false && (shares || models > 1))
    return fail(ErrorCode::kInvalidArgument,
                "ep.stop_share_ep_contexts=0 cannot be combined with ep.share_ep_contexts=1 here: "
                "the models of one compile are a whole group, which ends with it");
  return {};
}

/// A remote cache has whole compiles only; an option for it that would do nothing is refused.
Status check_remote_cache(const CompileOptions& options) {
  if (options.cache_url.empty()) return {};
  const std::string url = option_name(options, &CompileOptions::cache_url);
  if (!options.append.empty())
    return fail(ErrorCode::kInvalidArgument,
                "{} cannot be combined with {}: what comes of it depends on the bin", url,
                option_name(options, &CompileOptions::append));
  if (options.initializer_location)
    return fail(ErrorCode::kInvalidArgument, "{} cannot be combined with {}", url,
                option_name(options, &CompileOptions::initializer_location));
  return {};
}

/// A context model is that of one model.
Status check_like(const CompileOptions& options, std::size_t models) {
  if (options.like.empty() || models <= 1) return {};
  return fail(ErrorCode::kInvalidArgument, "{} is for one model, got {}",
              option_name(options, &CompileOptions::like), models);
}

/// A search compares one model with what it is in f32.
Status check_budget(const CompileOptions& options, std::size_t models) {
  if (options.budget.request.empty()) return {};
  const std::string budget = option_name(options, &CompileOptions::budget);
  const std::pair<bool, OptionSlot> ruled_out[] = {
      {options.subgraphs, &CompileOptions::subgraphs},
      {options.isas.size() > 1, &CompileOptions::isas},
      {options.weightless != WeightlessMode::kNone, &CompileOptions::weightless},
  };
  for (const auto& [given, slot] : ruled_out)
    if (given)
      return fail(ErrorCode::kInvalidArgument, "{} cannot be combined with {}", budget,
                  option_name(options, slot));
  if (models > 1)
    return fail(ErrorCode::kInvalidArgument,
                "{} cannot be combined with a batch of {} models: samples are of one", budget,
                models);
  for (const auto& [provider, option] : options.provider_options)
    if (option.first == "weights" || option.first == "precision" || option.first == "fpmath")
      return fail(ErrorCode::kInvalidArgument,
                  "{} cannot be combined with {}:{}: one chooses for each operator, the other says "
                  "it of all",
                  budget, provider, option.first);
  return {};
}

Status check_tuning(const CompileOptions& options) {
  if (options.tuning.library.empty()) return {};
  const auto slot = ruled_out_by_tuning(options);
  if (!slot) return {};
  return fail(ErrorCode::kInvalidArgument, "{} cannot be combined with {}",
              option_name(options, &CompileOptions::tuning), option_name(options, *slot));
}

/// ONNX Runtime's rule: a file name with an extension, else it is taken for a folder.
Status check_context_path(const CompileOptions& options, std::size_t models) {
  const auto& path = options.context_file_path;
  if (path.empty()) return {};
  if (models > 1)
    return fail(
        ErrorCode::kInvalidArgument,
        "ep.context_file_path \"{}\" cannot be combined with a batch of {} models: it names "
        "one output",
        path.string(), models);
  std::error_code ignored;
  if (path.extension().string().size() < 2 || std::filesystem::is_directory(path, ignored))
    return fail(
        ErrorCode::kInvalidArgument,
        "ep.context_file_path \"{}\" should not point to a folder: expected a file name with "
        "an extension",
        path.string());
  return {};
}

/// A part's weights are in no file of the source.
Status check_part(const CompileOptions& options, std::size_t models) {
  if (options.input_names.empty() && options.output_names.empty()) return {};
  const std::string name =
      option_name(options, options.input_names.empty() ? OptionSlot(&CompileOptions::output_names)
                                                       : OptionSlot(&CompileOptions::input_names));
  if (models > 1)
    return fail(ErrorCode::kInvalidArgument,
                "{} cannot be combined with a batch of {} models: it names values of one", name,
                models);
  if (options.weightless != WeightlessMode::kNone)
    return fail(ErrorCode::kInvalidArgument,
                "{} cannot be combined with ep.enable_weightless_mode: weights of a part do not "
                "stay in the source",
                name);
  return {};
}

}  // namespace

Status check_options(const CompileOptions& options, std::size_t models) {
  const auto name = [&](OptionSlot slot) { return option_name(options, slot); };
  if (options.embed && models > 1)
    return fail(ErrorCode::kInvalidArgument,
                "{} (ep.context_embed_mode=1) cannot be combined with a batch of {} models: "
                "they share one context binary",
                name(&CompileOptions::embed), models);
  if (options.embed && !options.bin.empty())
    return fail(ErrorCode::kInvalidArgument,
                "{} (ep.context_embed_mode=1) cannot be combined with {}",
                name(&CompileOptions::embed), name(&CompileOptions::bin));
  if (options.embed && options.subgraphs)
    return fail(ErrorCode::kInvalidArgument,
                "{} (ep.context_embed_mode=1) cannot be combined with {}: every graph "
                "with compiled nodes would hold the whole context",
                name(&CompileOptions::embed), name(&CompileOptions::subgraphs));
  if (options.keep_unchanged && options.no_clobber)
    return fail(ErrorCode::kInvalidArgument,
                "{} cannot be combined with {}: one keeps existing outputs, the other refuses them",
                name(&CompileOptions::keep_unchanged), name(&CompileOptions::no_clobber));
  if (options.force && options.no_clobber)
    return fail(
        ErrorCode::kInvalidArgument,
        "{} cannot be combined with {}: one replaces a bin that others use, the other replaces "
        "nothing",
        name(&CompileOptions::force), name(&CompileOptions::no_clobber));
  if (options.force && options.embed)
    return fail(ErrorCode::kInvalidArgument, "{} cannot be combined with {}: no bin is written",
                name(&CompileOptions::force), name(&CompileOptions::embed));
  if (options.weightless != WeightlessMode::kNone && options.isas.size() > 1)
    return fail(ErrorCode::kInvalidArgument,
                "ep.enable_weightless_mode cannot be combined with {} of several instruction sets: "
                "weights that stay in the sources are packed for none of them",
                name(&CompileOptions::isas));
  CTXGEN_CHECK(check_part(options, models));
  CTXGEN_CHECK(check_budget(options, models));
  CTXGEN_CHECK(check_like(options, models));
  CTXGEN_CHECK(check_tuning(options));
  CTXGEN_CHECK(check_append_options(options));
  CTXGEN_CHECK(check_remote_cache(options));
  CTXGEN_CHECK(check_sharing(options, models));
  CTXGEN_CHECK(check_context_path(options, models));
  return check_external_options(options);
}

std::optional<OptionSlot> ruled_out_by_tuning(const CompileOptions& options) {
  if (options.portable) return &CompileOptions::portable;
  if (options.isas.size() > 1) return &CompileOptions::isas;
  if (options.weightless != WeightlessMode::kNone) return &CompileOptions::weightless;
  return std::nullopt;
}

}  // namespace ctxgen
