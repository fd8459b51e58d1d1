#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// What one op is to become, or became, in place of f32: an option of its provider, "weights=bf16"
/// (docs/cli.md, provider options).
struct OpChoice {
  std::string op;  // by the name of its constant, which stays as it is when ops are fused
  std::string choice;
  [[nodiscard]] bool operator==(const OpChoice&) const = default;
};

/// By op, ascending, each once. What is not in it is as options for all say.
using ChoiceTable = std::vector<OpChoice>;

/// The proof that the outputs of a model with narrow ops are near those that it has in f32: what was measured
/// on samples when it was compiled, and of which programs. It is part of each of them, and of no program's hash.
struct Certificate {
  double bound = 0;                    // that no output passes, on no sample
  std::string norm;                    // "max", "rms" or "mean" (docs/precision.md)
  Hash128 samples;                     // of the file
  std::uint64_t searched = 0;          // samples that choices were made by
  std::uint64_t held_out = 0;          // samples that were only looked at afterwards
  double searched_error = 0;           // the largest of an output
  double held_out_error = 0;           // likewise
  std::string producer;                // "ctxgen 0.1.0"
  std::string fingerprint;             // of the target: format, library, instruction set
  ChoiceTable choices;                 // of the ops of this program that are not f32
  std::vector<Hash128> programs = {};  // of all programs of the model, ascending
  [[nodiscard]] bool operator==(const Certificate&) const = default;
};

/// "every output within 0.01 of f32 (max): ...".
[[nodiscard]] std::string to_string(const Certificate& certificate);

/// Errors  kCorruptContext: numbers that none can be made of, or not one of a program with this hash.
[[nodiscard]] Status check_certificate(const Certificate& certificate, const Hash128& program);

}  // namespace ctxgen
