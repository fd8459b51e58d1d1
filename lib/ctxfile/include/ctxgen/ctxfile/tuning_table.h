#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/data_type.h"
#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen {

/// What the time of an op with a constant matrix or filter depends on, besides the machine: ops of one
/// shape are stored in one form.
struct TunedShape {
  std::string op;  // the provider's kind: "matmul", "conv"
  DataType weight = DataType::kFloat, source = DataType::kFloat;
  Dims dims;  // of the constant: [K, N] of a product, ONNX's of a convolution
  std::int64_t group = 1;
  Dims strides = {}, dilations = {};  // of a convolution, for each spatial dim
  /// Of the result (of a convolution: pixels), rounded up to a power of two; 0: any number.
  std::int64_t rows = 0;
  [[nodiscard]] bool operator==(const TunedShape&) const = default;
};
/// Any order, the same everywhere.
[[nodiscard]] std::strong_ordering operator<=>(const TunedShape& a, const TunedShape& b);

/// "conv float32[64, 3, 7, 7], strides [2, 2], 16384 rows".
[[nodiscard]] std::string to_string(const TunedShape& shape);

/// What leaves a constant to the provider's own tables.
inline constexpr std::string_view kTableForm = "table";

struct TuningRow {
  TunedShape shape;
  std::string form;             // the packing, in the provider's words, or kTableForm
  double us = 0, table_us = 0;  // measured: with it, and as the provider's tables have it; 0: not
  /// The precisions (as OpChoice has them) with which ops are faster than with a constant of this type,
  /// the fastest first; nothing: not measured.
  std::optional<std::vector<std::string>> precisions = {};
};

/// In which forms constants are stored, beyond what a provider's tables say.
struct TuningTable {
  std::string library;          // "oneDNN 3.12.1", as ProviderInfo has it; "": there is no table
  std::string instruction_set;  // likewise
  std::string machine;          // where it was measured, for people
  int threads = 0;              // with which; 0: not known
  std::vector<TuningRow> rows;  // by shape, ascending, each once
};

/// The row of a shape, or of it with any number of rows; null: none.
[[nodiscard]] const TuningRow* find_row(const TuningTable& table, const TunedShape& shape);

/// Whether the table changes in which forms constants are stored.
[[nodiscard]] bool steers(const TuningTable& table);

/// A line for each row that changes something, forms or what --max-error tries: what programs depend on, and
/// times do not enter.
[[nodiscard]] std::vector<std::string> effect_of(const TuningTable& table);

/// An op of a program whose constant may be stored in several forms.
struct TunableOp {
  std::string name;      // as OpTiming has it
  std::string constant;  // as OpChoice names the op
  TunedShape shape;
  std::string form;                 // that its first plan uses
  std::vector<std::string> others;  // and could use
};

/// What a ProgramLoader may also be: one whose ops may be tuned.
class KnowsTuning {
 public:
  virtual ~KnowsTuning() = default;
  /// In the order of the program's ops. Those without a plan are left out: what is fast depends on sizes.
  /// Errors  kCorruptContext.
  [[nodiscard]] virtual Result<std::vector<TunableOp>> tunable_ops(
      const Program& program) const = 0;
};

}  // namespace ctxgen
