#pragma once

#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/certificate.h"
#include "ctxgen/runtime/session.h"
#include "ctxgen/tuning/samples.h"

namespace ctxgen {

/// What a repeated proof found.
struct RepeatedProof {
  double searched_error = 0, held_out_error = 0;
};

/// Runs a context model, and the model that it was compiled from in f32, on the samples of its certificate.
///
/// `context` is open; `source` is compiled in memory as `options` say.
/// Errors  NOT_SATISFIED: samples of another file, numbers of them or choices that are not the certificate's, an error above the bound, or one that is not the certificate's
///         (by more than a twentieth, which sums in another order on another machine do not reach); those of a
///         compile and of runs.
[[nodiscard]] Result<RepeatedProof> repeat_proof(const Session& context,
                                                 const Certificate& certificate,
                                                 const ModelInput& source,
                                                 const CompileOptions& options,
                                                 const SampleArrays& samples);

}  // namespace ctxgen
