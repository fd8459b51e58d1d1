#pragma once

#include <span>
#include <string>

#include "ctxgen/base/hash.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/executable.h"

#include "stages/import_model.h"
#include "stages/provider_list.h"

namespace ctxgen {

/// The key of a compile: one hash over everything that decides the bytes of its outputs and whether it
/// succeeds. Equal keys mean equal outputs: content of the models and of what was read for them,
/// the names that stand in the outputs, options, versions, and the target (each provider's
/// fingerprint). No paths, no number of jobs.
///
/// `bin_references`: how the context models name the bin, per provider, empty where there is none; then
/// the files of the sources that they need.
/// Cost: one pass over all files; nothing is inferred or compiled.
struct KeyOfCompile {
  Hash128 hash;
  std::string parts;  // CompileReport::key_parts
};
[[nodiscard]] KeyOfCompile key_of(std::span<const ImportedModel> models,
                                  const ProviderList& providers, const CompileTarget& target,
                                  std::span<const std::string> bin_references,
                                  const CompileOptions& options);

}  // namespace ctxgen
