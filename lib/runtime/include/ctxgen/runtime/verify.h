#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/certificate.h"
#include "ctxgen/ctxfile/tuning_table.h"
#include "ctxgen/runtime/compare.h"
#include "ctxgen/runtime/numerics.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen {

/// What was found of one part, the worst last.
enum class Integrity {
  kIntact,
  kNotCovered,   // nothing to compare it with: no hash was recorded
  kNotCompiled,  // a plain model: there is nothing to verify
  kChanged,      // another tool saved the model with another content
  kDamaged,
};

/// One part of a context model that was looked at whole.
struct IntegrityFinding {
  std::string what;    // "model_ctx.onnx", "model_dnnl.bin", a partition's name
  std::string detail;  // what it holds; or what is wrong with it
  Integrity state = Integrity::kIntact;
};

/// Reads every byte of a context model's binaries: headers, manifests, blobs against their hashes,
/// padding against zero; what stays in the model, and the file of external initializers, against
/// their hashes; and that nodes, programs and metadata belong together.
///
/// Errors  IO_ERROR, INVALID_GRAPH where the model itself cannot be read. What is wrong with a
///         context is a finding.
[[nodiscard]] Result<std::vector<IntegrityFinding>> verify_integrity(
    const std::filesystem::path& path, const SessionOptions& options = {});

/// What was proved of a context model's errors when it was compiled, with the choices of all of its programs; nothing
/// where nothing was. Touches no weights.
///
/// Errors  NOT_SATISFIED: the certificate is of other programs, of another compile or another version than what it is
///         with, of another version than this process, or for an instruction set that the machine lacks; as those of a
///         session else.
[[nodiscard]] Result<std::optional<Certificate>> certificate_of(const std::filesystem::path& path,
                                                                const SessionOptions& options = {});

/// The ops of a context model whose constants may be stored in several forms, program by program. Touches no weights.
/// Errors  as those of a session.
[[nodiscard]] Result<std::vector<TunableOp>> tunable_ops_in(const std::filesystem::path& path,
                                                            const SessionOptions& options = {});

/// How a compiled model and its source round. Partitions compute in f32 where the source may round
/// after each operator: of the two paths to an output of the model the coarser one counts.
/// Errors  INVALID_ARGUMENT (the two have other inputs or outputs: another model's source).
[[nodiscard]] Result<NumericPaths> common_paths(const Session& context, const Session& reference);

/// An output of a partition, a value in it, or an output of the model.
struct ValueComparison {
  std::string partition;  // "": an output of the model
  std::string value;
  Comparison comparison;
  std::string node = {};  // of a value inside of a partition: ObservedValue::inner_node
};

/// Appends `one`; where its value is there already, the worse of both stays in that place.
void merge_comparison(std::vector<ValueComparison>& all, ValueComparison one);

struct OutputVerification {
  std::vector<ValueComparison> outputs;
  /// Outputs of partitions, in the order in which they ran first, each partition on the reference's
  /// inputs, so that none answers for the one before it. In bodies that loop: the worst of all runs.
  std::vector<ValueComparison> partitions;
  /// Values inside of partitions, in the order in which they are made; empty unless the context's session
  /// shows them (SessionOptions::inner_values). Errors grow from the partition's inputs on. What has another shape than
  /// the source's value of that name, or other than floating elements on one side, is left out.
  std::vector<ValueComparison> nodes;
  /// Outputs of partitions that the reference has no value for (it came from inside an operator).
  std::vector<std::string> without_reference;

  /// On inputs with NaN or infinity: the first value that differs in other elements than those where
  /// one side is a NaN or an infinity; nullptr if there is none. Where a partition handles those
  /// otherwise than its source, what the model's outputs are is a consequence and does not count, nor
  /// what comes from a quantiser, which makes numbers of them.
  [[nodiscard]] const ValueComparison* finite_difference() const;
};

/// Runs a context model and the plain model that it was made from on the same inputs, and compares
/// what comes out of the model and of each partition.
///
/// `reference`  the source on CPU kernels, which sum products in double precision. Of its bodies what
///              every iteration gives is kept until it is compared.
/// `paths`      of common_paths(); they say how far each value may be from the reference's.
/// Errors  those of a run.
[[nodiscard]] Result<OutputVerification> verify_outputs(const Session& context,
                                                        const Session& reference,
                                                        std::span<const NamedValue> inputs,
                                                        const NumericPaths& paths,
                                                        const ToleranceOverrides& tolerance = {});

}  // namespace ctxgen
