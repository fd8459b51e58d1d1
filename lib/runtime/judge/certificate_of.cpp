#include "judge/certificate_of.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/version.h"
#include "ctxgen/ctxfile/fingerprint.h"
#include "ctxgen/ctxfile/needs.h"
#include "ctxgen/ctxfile/packed_at_load.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/runtime/verify.h"

namespace ctxgen {
namespace {

/// All but the choices, which are those of one program.
bool is_same_proof(Certificate a, Certificate b) {
  a.choices.clear();
  b.choices.clear();
  return a == b;
}

/// Names the library's major version only.
bool is_portable(const ContextInfo& info) {
  return std::ranges::contains(instruction_sets_of(info.fingerprint), "portable");
}

Status check_version(const Certificate& certificate, const OpenContext& context, int threads) {
  const ContextInfo& info = context.reader->info();
  if (certificate.fingerprint != info.fingerprint || certificate.producer != info.producer)
    return fail(ErrorCode::kNotSatisfied,
                "\"{}\": its certificate is of {} for {}, the context binary is by {} for {}",
                context.name, certificate.producer, certificate.fingerprint, info.producer,
                info.fingerprint);
  if (certificate.producer != "ctxgen " CTXGEN_VERSION_STRING)
    return fail(ErrorCode::kNotSatisfied,
                "\"{}\": its certificate is of {}, this is ctxgen " CTXGEN_VERSION_STRING
                ": compile the model again",
                context.name, certificate.producer);
  // A smaller instruction set, and weights that a load packs, give what they gave on the machine of the compile.
  const CompatibilityVerdict verdict = fitness_of(info, *context.loader, threads);
  if (verdict.verdict == Compatibility::kUnsupported)
    return fail(ErrorCode::kNotSatisfied,
                "\"{}\": its certificate cannot be repeated on this machine: {}", context.name,
                verdict.reason);
  const auto* predicts = dynamic_cast<const PredictsPacking*>(context.loader);
  if (predicts == nullptr || is_portable(info) || predicts->is_of_this_library(info.fingerprint))
    return {};
  return fail(
      ErrorCode::kNotSatisfied,
      "\"{}\": its certificate is of another library, {}, here is {}: compile the model again",
      context.name, info.fingerprint, context.loader->fingerprint());
}

Result<ContextSet> open_set(const std::filesystem::path& path, const SessionOptions& options) {
  const auto model = std::make_shared<const Model>(CTXGEN_TRY(read_model_file(path)));
  const ContextPlaces places{path.has_parent_path() ? path.parent_path() : ".", options.bin_source,
                             VerifyBlobs::kNever};
  return open_contexts(model, places, loaders_of(options));
}

}  // namespace

Result<std::optional<Certificate>> read_certificate(const ContextSet& set, int threads) {
  std::optional<Certificate> found;
  std::vector<Hash128> programs;
  for (const ResolvedNode& node : set.nodes) {
    const OpenContext& context = set.contexts[node.context];
    const Program& program = context.reader->programs()[node.program];
    if (!program.certificate) continue;
    CTXGEN_CHECK(check_version(*program.certificate, context, threads));
    programs.push_back(context.reader->program_hash(node.program));
    if (!found) {
      found = program.certificate;
      continue;
    }
    if (!is_same_proof(*found, *program.certificate))
      return fail(ErrorCode::kNotSatisfied, "program \"{}\" has the certificate of another compile",
                  program.name);
    found->choices.insert(found->choices.end(), program.certificate->choices.begin(),
                          program.certificate->choices.end());
  }
  if (!found) return found;
  if (programs.size() != set.nodes.size())
    return fail(ErrorCode::kNotSatisfied, "{} of {} programs have a certificate", programs.size(),
                set.nodes.size());
  std::ranges::sort(programs);
  const auto doubled = std::ranges::unique(programs);
  programs.erase(doubled.begin(), doubled.end());
  if (programs != found->programs)
    return fail(ErrorCode::kNotSatisfied,
                "the certificate is of {} programs, the model has {} of them and others",
                found->programs.size(), programs.size());
  std::ranges::sort(found->choices, {}, &OpChoice::op);
  return found;
}

std::vector<OpPrecision> read_precisions(const ContextSet& set) {
  std::vector<OpPrecision> all;
  for (const ResolvedNode& node : set.nodes) {
    const OpenContext& context = set.contexts[node.context];
    std::ranges::move(context.loader->precisions(context.reader->programs()[node.program]),
                      std::back_inserter(all));
  }
  return all;
}

Result<std::optional<Certificate>> certificate_of(const std::filesystem::path& path,
                                                  const SessionOptions& options) {
  return at_boundary("reading a certificate", [&]() -> Result<std::optional<Certificate>> {
    return read_certificate(CTXGEN_TRY(open_set(path, options)), options.threads);
  });
}

Result<std::vector<TunableOp>> tunable_ops_in(const std::filesystem::path& path,
                                              const SessionOptions& options) {
  return at_boundary("reading what may be tuned", [&]() -> Result<std::vector<TunableOp>> {
    const ContextSet set = CTXGEN_TRY(open_set(path, options));
    std::set<std::pair<std::size_t, std::size_t>> seen;  // many nodes may name one program
    std::vector<TunableOp> all;
    for (const ResolvedNode& node : set.nodes) {
      const OpenContext& context = set.contexts[node.context];
      const auto* tunes = dynamic_cast<const KnowsTuning*>(context.loader);
      if (tunes == nullptr || !seen.emplace(node.context, node.program).second) continue;
      std::ranges::move(CTXGEN_TRY(tunes->tunable_ops(context.reader->programs()[node.program])),
                        std::back_inserter(all));
    }
    return all;
  });
}

}  // namespace ctxgen
