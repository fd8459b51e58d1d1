#include <format>
#include <map>
#include <optional>
#include <tuple>

#include "ctxgen/onednn/kind_traits.h"
#include "ctxgen/onednn/op_kinds.h"

#include "editor.h"
#include "fuse.h"

namespace ctxgen::onednn {

namespace {

using DimList = std::vector<ProgramDim>;

bool known(const ProgramDim& dim) { return dim.value >= 0 || dim.symbol >= 0; }

/// Derives dims of results from dims of operands. Equal windows over equal dims give equal symbols:
/// that is what tells a residual addition from a broadcast when sizes are not numbers.
class DimDeriver {
 public:
  explicit DimDeriver(Program& program) : program_(&program) {}

  void derive(const ProgramOp& op) {
    std::optional<DimList> dims = result_dims(op);
    if (!dims) return;
    ProgramValue& result = program_->values[op.outputs[0]];
    if (!result.has_rank || result.dims.size() != dims->size()) return;
    for (std::size_t i = 0; i < dims->size(); ++i) {
      if (result.dims[i].value < 0 && known((*dims)[i])) result.dims[i] = (*dims)[i];
    }
  }

 private:
  [[nodiscard]] DimList dims(const Operand& operand) const { return dims_of(*program_, operand); }

  /// floor((dim + offset) / stride) + 1, as a number, the same symbol, or one made for it.
  ProgramDim window(const ProgramDim& dim, std::int64_t offset, std::int64_t stride) {
    if (dim.value >= 0) {
      if (dim.value + offset < 0) return {};
      return {.value = (dim.value + offset) / stride + 1};
    }
    if (dim.symbol < 0) return {};
    if (stride == 1 && offset == -1) return dim;
    const auto [found, added] = derived_.try_emplace(
        {dim.symbol, offset, stride}, static_cast<std::int32_t>(program_->symbols.size()));
    if (added) {
      const std::string from = program_->symbols[static_cast<std::size_t>(dim.symbol)];
      program_->symbols.push_back(std::format("({}{:+})/{}+1", from, offset, stride));
    }
    return {.symbol = found->second};
  }

  DimList window_dims(const Operand& src, const WindowParams& params,
                      std::span<const std::int64_t> kernel, const ProgramDim& channels) {
    DimList result = dims(src);
    const auto& [strides, dilations, pads, auto_pad] = params;
    const bool same = !auto_pad.empty();
    result[1] = channels;
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      // SAME_*: ceil(dim / stride), whatever the kernel.
      const std::int64_t reach = dilations[i] * (kernel[i] - 1) + 1;
      const std::int64_t offset = same ? -1 : pads[i] + pads[i + kernel.size()] - reach;
      result[i + 2] = window(result[i + 2], offset, strides[i]);
    }
    return result;
  }

  std::optional<DimList> matmul_dims(const ProgramOp& op) const {
    DimList a = dims(op.inputs[0]), b = dims(op.inputs[1]);
    const auto split = [](DimList& list, bool transposed) {
      std::pair last(list[list.size() - 2], list.back());
      if (transposed) std::swap(last.first, last.second);
      list.resize(list.size() - 2);
      return last;
    };
    const auto params = params_of<MatmulParams>(op);
    const ProgramDim rows = split(a, params.trans_a).first;
    const ProgramDim columns = split(b, params.trans_b).second;
    DimList result = broadcast_dims(std::move(a), std::move(b));
    result.push_back(rows);
    result.push_back(columns);
    return result;
  }

  std::optional<DimList> result_dims(const ProgramOp& op) {
    const std::string_view kind = op.kind;
    if (kind == kind::kConv || kind == kind::kQConv) {
      const Dims& weights = program_->weights[op.inputs[1].index].dims;
      return window_dims(op.inputs[0], params_of<ConvParams>(op).window, weights.span().subspan(2),
                         {.value = weights[0]});
    }
    if (kind == kind::kComputedConv) {
      const DimList weights = dims(op.inputs[1]);
      IntList kernel;
      for (std::size_t i = 2; i < weights.size(); ++i) kernel.push_back(weights[i].value);
      return window_dims(op.inputs[0], params_of<ConvParams>(op).window, kernel, weights[0]);
    }
    if (kind == kind::kPool) {
      const auto params = params_of<PoolParams>(op);
      if (params.ceil_mode) return std::nullopt;
      return window_dims(op.inputs[0], params.window, params.kernel, dims(op.inputs[0])[1]);
    }
    if (kind == kind::kBinary) return broadcast_dims(dims(op.inputs[0]), dims(op.inputs[1]));
    if (kind == kind::kSelect)
      return broadcast_dims(dims(op.inputs[0]),
                            broadcast_dims(dims(op.inputs[1]), dims(op.inputs[2])));
    if (traits_of(op).matrix) return matmul_dims(op);
    if (kind == kind::kTranspose) {
      const DimList source = dims(op.inputs[0]);
      DimList result;
      for (const std::int64_t axis : params_of<TransposeParams>(op).perm) {
        result.push_back(source[static_cast<std::size_t>(axis)]);
      }
      return result;
    }
    if (kind == kind::kConcat) {
      DimList result = dims(op.inputs[0]);
      result[static_cast<std::size_t>(params_of<ConcatParams>(op).axis)] = {};
      return result;
    }
    if (traits_of(op).keeps_dims) return dims(op.inputs[0]);
    return std::nullopt;
  }

  Program* program_;
  std::map<std::tuple<std::int32_t, std::int64_t, std::int64_t>, std::int32_t> derived_;
};

}  // namespace

void derive_dims(Lowered& lowered) {
  DimDeriver deriver(lowered.program);
  for (const ProgramOp& op : lowered.program.ops) deriver.derive(op);
}

}  // namespace ctxgen::onednn
