#include "precision_trial.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/registry/loaders.h"

namespace ctxgen {
namespace {

CompileOptions options_of_trial(CompileOptions options, const ChoiceTable& choices) {
  options.budget = {};
  options.precision = {.table = choices, .certificate = std::nullopt};
  options.progress = {};
  options.cache_dir = std::filesystem::path();
  options.other_files.clear();
  options.bin.clear();
  options.append.clear();
  options.like.clear();
  options.context_file_path.clear();
  options.external_initializers.clear();
  options.external_threshold.reset();
  options.embed = options.strict = options.require_compiled = options.require_runnable = false;
  options.no_clobber = options.force = options.keep_unchanged = options.dry_run = false;
  options.make_folder = options.fail_on_suboptimal = false;
  options.compress_level = 0;
  return options;
}

/// What the programs of a bin say of their ops.
Status add_ops(std::string_view name, const Blob& bin, Trial& trial) {
  const auto reader = CTXGEN_TRY(ContextReader::open(bin, name, VerifyBlobs::kNever));
  trial.fingerprint = reader.info().fingerprint;
  const ProgramLoader* loader = find_loader(default_loaders(), reader.info().source);
  if (loader == nullptr) return {};
  const auto* tunes = dynamic_cast<const KnowsTuning*>(loader);
  for (const Program& program : reader.programs()) {
    std::ranges::move(loader->precisions(program), std::back_inserter(trial.precisions));
    if (tunes != nullptr)
      std::ranges::move(CTXGEN_TRY(tunes->tunable_ops(program)), std::back_inserter(trial.tunable));
  }
  return {};
}

}  // namespace

Result<Trial> make_trial(const ModelInput& input, const CompileOptions& options,
                         const ChoiceTable& choices, std::optional<int> threads) {
  const CompiledModel compiled =
      CTXGEN_TRY(compile_in_memory(input, options_of_trial(options, choices)));
  Trial trial;
  SessionOptions session;
  session.threads = threads.value_or(options.threads);
  session.context_file_path = input.path;
  session.verify_blobs = VerifyBlobs::kNever;  // all of it was just made
  session.bin_source = [&compiled](std::string_view name) -> Result<Blob> {
    for (const auto& [known, blob] : compiled.bins)
      if (known == name) return blob;
    return fail(ErrorCode::kInternal, "no bin \"{}\" was compiled", name);
  };
  for (const auto& [name, bin] : compiled.bins) {
    CTXGEN_CHECK(add_ops(name, bin, trial));
    trial.bytes += bin.bytes.size();
  }
  trial.session = CTXGEN_TRY(Session::open_memory(compiled.model, session));
  return trial;
}

Result<std::vector<Outputs>> run_samples(const Session& session,
                                         std::span<const std::vector<NamedValue>> samples) {
  std::vector<Outputs> all;
  for (const std::vector<NamedValue>& sample : samples)
    all.push_back(CTXGEN_TRY(session.run_values(sample)));
  return all;
}

Result<double> largest_error(std::span<const Outputs> outputs, std::span<const Outputs> references,
                             ErrorNorm norm) {
  CTXGEN_ASSERT(outputs.size() == references.size());
  double largest = 0;
  for (std::size_t s = 0; s < outputs.size(); ++s) {
    if (outputs[s].size() != references[s].size())
      return fail(ErrorCode::kNotSatisfied, "{} outputs cannot be compared with {} of f32",
                  outputs[s].size(), references[s].size());
    for (std::size_t i = 0; i < outputs[s].size(); ++i)
      largest = std::max(largest, CTXGEN_TRY(error_of(outputs[s][i], references[s][i], norm)));
  }
  if (std::ranges::none_of(references, [](const Outputs& all) {
        return std::ranges::any_of(all, has_finite_number);
      }))
    return fail(ErrorCode::kNotSatisfied,
                "in f32 no output has a finite number on {} samples: errors would prove nothing, "
                "give other samples",
                references.size());
  return largest;
}

}  // namespace ctxgen
