#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/base/short_text.h"
#include "ctxgen/base/small_list.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/blob_ref.h"
#include "ctxgen/ctxfile/certificate.h"

namespace ctxgen {

/// A dimension of a program's value: a number, a symbol of the program, or unknown.
struct ProgramDim {
  std::int64_t value = -1;   // >= 0: this number
  std::int32_t symbol = -1;  // >= 0: index into Program::symbols; both negative: unknown
  [[nodiscard]] bool operator==(const ProgramDim&) const = default;
};

/// A buffer of the program: an input, an output or an intermediate tensor.
struct ProgramValue {
  std::string name;  // the ONNX value's name: interface values are matched by it, others for logs
  DataType type = DataType::kUndefined;
  std::vector<ProgramDim> dims;
  bool has_rank = true;  // false: dims is empty and the rank is unknown until planning
  [[nodiscard]] bool operator==(const ProgramValue&) const = default;
};

/// One stored form of a weight. `layout` is opaque outside the provider that wrote it (dnnl: a
/// format tag's number and dims); empty means dense row-major.
struct PackedWeight {
  std::vector<std::byte> layout;
  BlobRef blob;
  [[nodiscard]] bool operator==(const PackedWeight&) const = default;
};

/// A constant of the program, stored in one or several layouts.
struct ProgramWeight {
  std::string name;  // for logs and inspect; not part of the program's identity
  DataType type = DataType::kUndefined;
  Dims dims;
  std::vector<PackedWeight> packed;
  [[nodiscard]] bool operator==(const ProgramWeight&) const = default;
};

/// What an op reads: a value, a weight, or nothing (an absent optional input).
struct Operand {
  enum class Kind : std::uint8_t { kNone, kValue, kWeight };
  Kind kind = Kind::kNone;
  std::uint32_t index = 0;
  [[nodiscard]] static Operand value(std::uint32_t i) { return {Kind::kValue, i}; }
  [[nodiscard]] static Operand weight(std::uint32_t i) { return {Kind::kWeight, i}; }
  [[nodiscard]] bool operator==(const Operand&) const = default;
};

/// A named parameter of an op.
struct ProgramParam {
  ShortText name;
  std::variant<std::int64_t, double, ShortText, SmallList<std::int64_t>, SmallList<double>> value;
  [[nodiscard]] bool operator==(const ProgramParam&) const = default;
};

/// An element-wise step fused after an op, applied in order.
struct PostOp {
  ShortText kind;  // the provider's word ("relu", "add", ...)
  float alpha = 0.0F;
  float beta = 0.0F;
  Operand operand;  // the second operand of binary kinds
  [[nodiscard]] bool operator==(const PostOp&) const = default;
};

/// One lowered operation. Kinds and their parameters belong to the provider that wrote the program
/// (oneDNN: ctxgen/onednn/op_kinds.h).
struct ProgramOp {
  ShortText kind;
  std::string name;  // of the ONNX node it came from (the last one where several were fused)
  SmallList<Operand> inputs;
  SmallList<std::uint32_t> outputs;  // indices of values
  std::vector<ProgramParam> params;
  std::vector<PostOp> post_ops;
  [[nodiscard]] bool operator==(const ProgramOp&) const = default;
};

/// A plan made ahead of time: the program specialised for concrete input dims.
struct StoredPlan {
  std::vector<Dims> input_dims;     // one per program input, in order
  std::uint64_t arena_bytes = 0;    // intermediate values of one run
  std::uint64_t scratch_bytes = 0;  // largest scratchpad of one op
  std::vector<std::byte> payload;   // the provider's; checked by the provider when loaded
  [[nodiscard]] bool operator==(const StoredPlan&) const = default;
};

/// The serialised, lowered form of one partition: ops over buffers with symbolic dims.
///
/// Rules (checked by validate()): indices in range; inputs and outputs are values; every value is
/// an input or the output of exactly one op; ops are in an order in which each value is written
/// before it is read; at least one output.
struct Program {
  std::string name;    // partition_name: unique in the context binary
  std::string source;  // provider that wrote it, e.g. "CtxgenDnnlExecutionProvider"
  std::vector<std::string> symbols;
  std::vector<ProgramValue> values;
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  std::vector<ProgramWeight> weights;
  std::vector<ProgramOp> ops;
  std::vector<StoredPlan> plans;
  // A partition may have a program for each of several instruction sets. One of them, for the
  // smallest, has the partition's name; the others say so in variant_of. No part of the hash.
  std::string isa = {};         // the provider's word; empty: what the fingerprint says
  std::string variant_of = {};  // partition_name that this program is another form of
  /// Where precision was chosen by a bound on errors; no part of the hash.
  std::optional<Certificate> certificate = {};
  [[nodiscard]] bool operator==(const Program&) const = default;
};

/// Errors  INVALID_GRAPH (kCorruptContext) naming the program and the rule that is broken. A blob that
///         is still in a WeightStore breaks one.
[[nodiscard]] Status validate(const Program& program, std::uint64_t blob_count);

}  // namespace ctxgen
