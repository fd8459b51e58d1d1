#include "ctxgen/tuning/proof.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/boundary.h"
#include "ctxgen/tuning/error_norm.h"

#include "precision_trial.h"

namespace ctxgen {
namespace {

/// Sums in another order differ by some units of the last place of f32.
constexpr double kShareApart = 0.05, kApart = 1e-5;

Status check_error(std::string_view which, double found, double certified, double bound) {
  if (!(found <= bound))
    return fail(ErrorCode::kNotSatisfied,
                "certificate: on the {} an output is {:.3g} from f32, the "
                "bound is {}",
                which, found, bound);
  if (std::fabs(found - certified) <= kShareApart * std::max(found, certified) + kApart) return {};
  return fail(ErrorCode::kNotSatisfied,
              "certificate: on the {} the largest error is {:.3g}, it says {:.3g}", which, found,
              certified);
}

using Choices = std::set<std::pair<std::string, std::string>>;  // (op, what it computes in)

Choices narrow_ops(std::span<const OpPrecision> ops) {
  Choices narrow;
  for (const OpPrecision& one : ops)
    if (one.precision != "f32") narrow.emplace(one.op, one.precision);
  return narrow;
}

/// The certificate has to name all that a choice made narrow, and nothing else. What is narrow in the source was
/// not chosen.
Status check_choices(const Certificate& certificate, Choices narrow, const Choices& in_source) {
  for (const auto& [op, choice] : certificate.choices)
    if (!narrow.contains({op, choice}))
      return fail(ErrorCode::kNotSatisfied,
                  "certificate: it says that \"{}\" is {}, which it is not", op, choice);
  for (const auto& [op, choice] : certificate.choices) narrow.erase({op, choice});
  for (const auto& one : in_source) narrow.erase(one);
  if (narrow.empty()) return {};
  return fail(ErrorCode::kNotSatisfied, "certificate: \"{}\" is {}, of which it says nothing",
              narrow.begin()->first, narrow.begin()->second);
}

Status check_counts(const Certificate& certificate, const Samples& samples) {
  if (certificate.searched == samples.searched.size() &&
      certificate.held_out == samples.held_out.size())
    return {};
  return fail(
      ErrorCode::kNotSatisfied,
      "certificate: it says {} samples of the search and {} held out, the file has {} and {}",
      certificate.searched, certificate.held_out, samples.searched.size(), samples.held_out.size());
}

/// Where a model with these outputs has each of `wanted`.
Result<std::vector<std::size_t>> places_of(std::span<const IoInfo> wanted,
                                           std::span<const IoInfo> outputs) {
  std::vector<std::size_t> places;
  for (const IoInfo& output : wanted) {
    const auto found = std::ranges::find(outputs, output.name, &IoInfo::name);
    if (found == outputs.end())
      return fail(ErrorCode::kNotSatisfied,
                  "certificate: the source has no output \"{}\": give the model that was compiled",
                  output.name);
    places.push_back(static_cast<std::size_t>(found - outputs.begin()));
  }
  return places;
}

/// The outputs of each run at these places.
Result<std::vector<Outputs>> run_for(const Session& session, std::span<const std::size_t> places,
                                     std::span<const std::vector<NamedValue>> samples) {
  std::vector<Outputs> runs = CTXGEN_TRY(run_samples(session, samples));
  for (Outputs& all : runs) {
    Outputs ordered;
    for (const std::size_t place : places) ordered.push_back(all[place]);
    all = std::move(ordered);
  }
  return runs;
}

}  // namespace

Result<RepeatedProof> repeat_proof(const Session& context, const Certificate& certificate,
                                   const ModelInput& source, const CompileOptions& options,
                                   const SampleArrays& arrays) {
  return at_boundary("repeating a proof", [&]() -> Result<RepeatedProof> {
    if (arrays.hash != certificate.samples)
      return fail(ErrorCode::kNotSatisfied,
                  "certificate: it is of the samples with hash {}, these have {}",
                  certificate.samples.hex(), arrays.hash.hex());
    const ErrorNorm norm = CTXGEN_TRY(norm_named(certificate.norm));
    const Trial f32 = CTXGEN_TRY(make_trial(source, options, {}));
    const Samples samples = CTXGEN_TRY(split_samples(arrays, context.inputs()));
    CTXGEN_CHECK(check_counts(certificate, samples));
    CTXGEN_CHECK(
        check_choices(certificate, narrow_ops(context.precisions()), narrow_ops(f32.precisions)));
    const auto places = CTXGEN_TRY(places_of(context.outputs(), f32.session->outputs()));
    const auto error_on = [&](const auto& share) -> Result<double> {
      const auto outputs = CTXGEN_TRY(run_samples(context, share));
      return largest_error(outputs, CTXGEN_TRY(run_for(*f32.session, places, share)), norm);
    };
    RepeatedProof proof;
    proof.searched_error = CTXGEN_TRY(error_on(samples.searched));
    proof.held_out_error = CTXGEN_TRY(error_on(samples.held_out));
    CTXGEN_CHECK(check_error("samples of the search", proof.searched_error,
                             certificate.searched_error, certificate.bound));
    CTXGEN_CHECK(check_error("samples held out", proof.held_out_error, certificate.held_out_error,
                             certificate.bound));
    return proof;
  });
}

}  // namespace ctxgen
