// ScatterND and ScatterElements whose constant indices are a box of the data, in order: what slices of a
// tensor that are assigned to become. Slices of the data around the updates are concatenated.
#include <algorithm>
#include <format>
#include <limits>

#include "ctxgen/base/checked.h"
#include "ctxgen/onednn/op_kinds.h"

#include "../../op_row.h"
#include "../ops.h"

namespace ctxgen::onednn {

namespace {

struct Range {
  std::int64_t first = 0, size = 0;
};

/// What is replaced: ranges of the first axes of the data; of the others everything.
struct Box {
  std::vector<Range> ranges;
  bool reshapes = false;  // updates have other dims than the box
};

Read<std::int64_t> known_dim(const NodeView& n, std::size_t axis) {
  const Dim dim = n.input_dims(0)[axis];
  if (!dim.is_fixed()) return refuse("dim {} of the data is not known", axis);
  return dim.value();
}

Refusal check_reduction(const NodeView& n) {
  const std::string_view reduction = n.node().string_or("reduction", "none");
  if (reduction != "none") return std::format("reduction is \"{}\"", reduction);
  return std::nullopt;
}

struct Indices {
  std::vector<std::int64_t> values;
  Dims dims;
};

Read<Indices> read_indices(const NodeView& n) {
  if (!n.has_input(1) || !n.has_input(2)) return refuse("indices or updates are absent");
  const Tensor* given = n.constant(1);
  if (given == nullptr) return refuse("indices are not constant");
  if (given->rank() == 0 || given->element_count() == 0) return refuse("there are no indices");
  return Indices{CTXGEN_TRY(ints_of(*given, "indices")), given->dims()};
}

/// The range from `first` to `last`, which may count from the end.
Read<Range> range_of(std::int64_t first, std::int64_t last, std::int64_t dim) {
  for (std::int64_t* index : {&first, &last}) {
    if (*index < -dim || *index >= dim) return refuse("index {} is outside of {}", *index, dim);
    if (*index < 0) *index += dim;
  }
  if (last < first) return refuse("indices go backwards");
  return Range{first, last - first + 1};
}

/// Indices [I..., k] of k coordinates each, in row-major order of the box.
Read<Box> read_scatter_nd(const NodeView& n) {
  CTXGEN_REFUSE(check_reduction(n));
  const Indices indices = CTXGEN_TRY(read_indices(n));
  const auto k = static_cast<std::size_t>(indices.dims.back());
  if (k > n.rank(0)) return refuse("{} coordinates for rank {}", k, n.rank(0));
  const std::size_t tuples = indices.values.size() / k;
  Box box;
  std::vector<std::int64_t> dims;
  std::uint64_t count = 1;
  for (std::size_t axis = 0; axis < k; ++axis) {
    dims.push_back(CTXGEN_TRY(known_dim(n, axis)));
    box.ranges.push_back(CTXGEN_TRY(
        range_of(indices.values[axis], indices.values[(tuples - 1) * k + axis], dims.back())));
    const auto grown = checked_mul(count, static_cast<std::uint64_t>(box.ranges.back().size));
    if (!grown || *grown > tuples) return refuse("indices are not all of a box");
    count = *grown;
  }
  if (count != tuples) return refuse("indices are not all of a box");
  for (std::size_t t = 0; t < tuples; ++t) {
    std::size_t left = t;
    for (std::size_t axis = k; axis-- > 0;) {
      const auto size = static_cast<std::size_t>(box.ranges[axis].size);
      const std::int64_t expected = box.ranges[axis].first + static_cast<std::int64_t>(left % size);
      left /= size;
      const std::int64_t index = indices.values[t * k + axis];
      if (index != expected && index != expected - dims[axis])
        return refuse("indices are not in the order of a box");
    }
  }
  box.reshapes = indices.dims.size() - 1 != k;
  for (std::size_t axis = 0; axis < k && !box.reshapes; ++axis)
    box.reshapes = indices.dims[axis] != box.ranges[axis].size;
  return box;
}

/// Indices along one axis, the same at all places of the others, which begin at 0.
Read<Box> read_scatter_elements(const NodeView& n) {
  CTXGEN_REFUSE(check_reduction(n));
  const Indices indices = CTXGEN_TRY(read_indices(n));
  const std::size_t rank = n.rank(0);
  if (indices.dims.size() != rank) return refuse("indices have rank {}", indices.dims.size());
  const auto axis = static_cast<std::size_t>(CTXGEN_TRY(axis_of(n.node().int_or("axis", 0), rank)));
  Box box;
  std::size_t inner = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t dim = CTXGEN_TRY(known_dim(n, i)), size = indices.dims[i];
    if (size > dim) return refuse("{} indices for a dim of {}", size, dim);
    box.ranges.push_back({0, size});
    if (i > axis) inner *= static_cast<std::size_t>(size);
  }
  const auto length = static_cast<std::size_t>(indices.dims[axis]);
  const std::int64_t dim = CTXGEN_TRY(known_dim(n, axis));
  box.ranges[axis] =
      CTXGEN_TRY(range_of(indices.values[0], indices.values[(length - 1) * inner], dim));
  if (box.ranges[axis].size != indices.dims[axis]) return refuse("indices are not a range");
  for (std::size_t i = 0; i < indices.values.size(); ++i) {
    const std::int64_t expected =
        box.ranges[axis].first + static_cast<std::int64_t>(i / inner % length);
    if (indices.values[i] != expected && indices.values[i] != expected - dim)
      return refuse("indices are not a range");
  }
  return box;
}

Read<Box> read_scatter(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n));
  if (!n.has_input(2)) return refuse("updates are absent");
  const Tensor* updates = n.constant(2);
  const DataType type = updates != nullptr ? updates->type() : n.input_value(2).type.element;
  const Tensor* data = n.constant(0);
  if (type != (data != nullptr ? data->type() : n.input_value(0).type.element))
    return refuse("updates of another type");
  if (updates == nullptr && (!n.input_value(2).type.shape || n.rank(2) == 0))
    return refuse("updates of unknown rank, or a scalar");
  if (n.rank(0) == 0) return refuse("the data is a scalar");
  Box box =
      CTXGEN_TRY(n.node().op_type == "ScatterND" ? read_scatter_nd(n) : read_scatter_elements(n));
  const std::vector<Dim> dims = n.input_dims(0);
  const auto unknown = std::ranges::count_if(std::span(dims).subspan(box.ranges.size()),
                                             [](const Dim& dim) { return !dim.is_fixed(); });
  if (box.reshapes && unknown > 1) return refuse("{} dims of the updates are not known", unknown);
  return box;
}

/// Builds the result of a box from the outermost axis that it does not fill inwards.
class BoxWriter {
 public:
  BoxWriter(const NodeView& n, const Box& box, ProgramBuilder& builder)
      : n_(n), box_(box), builder_(builder), result_(builder.value(n.output(0))) {
    dims_ = builder.dims(n.input_dims(0));
    inner_ = dims_;
    for (std::size_t i = 0; i < box.ranges.size(); ++i) inner_[i] = {box.ranges[i].size, -1};
  }

  void write() {
    const std::size_t first = next_partial(0);
    if (first == box_.ranges.size()) return reshape_updates(result_);
    Operand updates = builder_.operand(n_.input(2));
    if (box_.reshapes) {
      const std::uint32_t boxed = temporary("box", inner_);
      reshape_updates(boxed);
      updates = Operand::value(boxed);
    }
    replace(builder_.operand(n_.input(0)), updates, first, result_);
  }

 private:
  /// The first axis from `axis` on of which something stays.
  [[nodiscard]] std::size_t next_partial(std::size_t axis) const {
    while (axis < box_.ranges.size() && box_.ranges[axis].size == dims_[axis].value) ++axis;
    return axis;
  }

  [[nodiscard]] std::uint32_t temporary(std::string_view what, std::vector<ProgramDim> dims) {
    return builder_.temporary(std::format("{}/{}", n_.output_value(0).name, what), std::move(dims),
                              builder_.at(result_).type);
  }

  void reshape_updates(std::uint32_t to) {
    ReshapeParams params;
    for (const ProgramDim& dim : inner_) params.shape.push_back(dim.value);  // -1: not known
    params.allowzero = true;
    ProgramOp op = builder_.op(kind::kReshape, n_);
    encode(params, op);
    builder_.add(std::move(op), {builder_.operand(n_.input(2))}, to);
  }

  /// `to` is `data` with the box put in; `data` has the box's dims before `axis`, where it is partial.
  void replace(Operand data, Operand updates, std::size_t axis, std::uint32_t to) {
    const Range range = box_.ranges[axis];
    const std::int64_t end = range.first + range.size;
    SmallList<Operand> parts;
    if (range.first > 0) parts.push_back(slice(data, axis, 0, range.first));
    const std::size_t next = next_partial(axis + 1);
    if (next == box_.ranges.size()) {
      parts.push_back(updates);
    } else {
      const Operand slab = slice(data, axis, range.first, end);
      const std::uint32_t filled = temporary("slab", dims_up_to(axis + 1));
      replace(slab, updates, next, filled);
      parts.push_back(Operand::value(filled));
    }
    if (end < dims_[axis].value) parts.push_back(slice(data, axis, end, dims_[axis].value));
    ProgramOp op = builder_.op(kind::kConcat, n_);
    encode(ConcatParams{static_cast<std::int64_t>(axis)}, op);
    builder_.add(std::move(op), std::move(parts), to);
  }

  /// The box's dims before `axis`, the data's from there on.
  [[nodiscard]] std::vector<ProgramDim> dims_up_to(std::size_t axis) const {
    std::vector<ProgramDim> dims = dims_;
    std::copy_n(inner_.begin(), axis, dims.begin());
    return dims;
  }

  Operand slice(Operand from, std::size_t axis, std::int64_t first, std::int64_t last) {
    std::vector<ProgramDim> dims = dims_up_to(axis);
    dims[axis] = {last - first, -1};
    const std::uint32_t part = temporary("part", std::move(dims));
    ProgramOp op = builder_.op(kind::kSlice, n_);
    encode(SliceParams{.starts = {first},
                       .ends = {last},
                       .axes = {static_cast<std::int64_t>(axis)},
                       .steps = {1}},
           op);
    builder_.add(std::move(op), {from}, part);
    return Operand::value(part);
  }

  const NodeView& n_;
  const Box& box_;
  ProgramBuilder& builder_;
  std::uint32_t result_;
  std::vector<ProgramDim> dims_, inner_;  // of the data; of the box
};

}  // namespace

Refusal check_scatter(const NodeView& n) { return refusal_of(read_scatter(n)); }

Status lower_scatter(const NodeView& n, ProgramBuilder& builder) {
  const Box box = CTXGEN_TRY(accepted(read_scatter(n), n));
  BoxWriter(n, box, builder).write();
  return {};
}

}  // namespace ctxgen::onednn
