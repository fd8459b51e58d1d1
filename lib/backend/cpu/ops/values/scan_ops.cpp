#include <algorithm>
#include <vector>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/value_kernel.h"
#include "tensors/strided_copy.h"

// Scan. Version 8 runs one sequence per entry of a batch axis, later ones have free axes instead.

namespace ctxgen::cpu {
namespace {

struct Scan {
  std::shared_ptr<const Graph> body;
  std::size_t states = 0, scanned = 0, stacked = 0;
  std::vector<std::int64_t> input_axes{}, output_axes{};
  std::vector<bool> input_reverse{}, output_reverse{};
};

// The part of `tensor` at `position` of `axis`. Along the first axis its bytes are shared.
Result<Tensor> slice_at(KernelContext& context, const Tensor& tensor, std::size_t axis,
                        std::int64_t position) {
  if (!tensor.is_string() && bits_of(tensor.type()) < 8)
    return fail(ErrorCode::kUnsupported, "scanned tensors of type {}", name_of(tensor.type()));
  Dims dims;
  for (std::size_t i = 0; i < tensor.rank(); ++i)
    if (i != axis) dims.push_back(tensor.dims()[i]);
  const std::int64_t count = element_count(dims);
  if (axis == 0 && !tensor.is_string()) {
    const auto bytes = static_cast<std::uint64_t>(count) * bits_of(tensor.type()) / 8;
    return Tensor::borrow(
        tensor.type(), dims, tensor.owner(),
        tensor.bytes().subspan(static_cast<std::uint64_t>(position) * bytes, bytes));
  }
  Tensor slice = CTXGEN_TRY(context.make_tensor(tensor.type(), dims));
  const Dims strides = strides_of(tensor.dims());
  StridedCopy copy{
      .extents = dims, .to_strides = strides_of(dims), .from_start = position * strides[axis]};
  for (std::size_t i = 0; i < tensor.rank(); ++i)
    if (i != axis) copy.from_strides.push_back(strides[i]);
  CTXGEN_CHECK(copy_strided(tensor, slice, copy));
  return slice;
}

// One stacked output, made when its first element is known.
class ScanOutput {
 public:
  // `lead`: the dims that stand for the iterations.
  ScanOutput(std::size_t index, std::int64_t axis, const Dims& lead)
      : index_(index), axis_(axis), lead_(lead) {}

  [[nodiscard]] Status write(KernelContext& context, const Tensor& slice, std::int64_t row) {
    if (output_ == nullptr) CTXGEN_CHECK(start(context, slice));
    if (slice.type() != output_->type() || !(slice.dims() == slice_dims_))
      return fail(ErrorCode::kInvalidGraph, "is {} {}, but was {} {} before", name_of(slice.type()),
                  to_string(slice.dims()), name_of(output_->type()), to_string(slice_dims_));
    const std::int64_t count = slice.element_count();
    if (place_ == 0) {
      copy_elements(slice, 0, *output_, row * count, count);
      return {};
    }
    const Dims strides = strides_of(output_->dims());
    StridedCopy copy{.extents = slice.dims(),
                     .from_strides = strides_of(slice.dims()),
                     .to_start = row * strides[place_]};
    for (std::size_t i = 0; i < strides.size(); ++i)
      if (i != place_) copy.to_strides.push_back(strides[i]);
    return copy_strided(slice, *output_, copy);
  }
  // Nothing was written.
  [[nodiscard]] Status finish(KernelContext& context, const ValueType& type) const {
    if (output_ != nullptr) return {};
    const std::size_t rank = type.has_rank() ? type.rank() : 0;
    return make_empty_output(context, index_, type, lead_,
                             CTXGEN_TRY(normalize_axis(axis_, rank + 1)));
  }

 private:
  [[nodiscard]] Status start(KernelContext& context, const Tensor& slice) {
    const std::size_t rank = slice.rank() + lead_.size();
    if (rank > kMaxRank || (!slice.is_string() && bits_of(slice.type()) < 8))
      return fail(ErrorCode::kUnsupported, "stacked tensors {} of rank {}", name_of(slice.type()),
                  slice.rank());
    place_ = CTXGEN_TRY(normalize_axis(axis_, slice.rank() + 1));
    slice_dims_ = slice.dims();
    Dims dims;
    for (std::size_t i = 0; i <= slice.rank(); ++i) {
      if (i == place_)
        for (const std::int64_t dim : lead_) dims.push_back(dim);
      if (i < slice.rank()) dims.push_back(slice_dims_[i]);
    }
    output_ = CTXGEN_TRY(context.make_output(index_, slice.type(), dims));
    if (lead_.size() > 1 && !slice.is_string() && !output_->bytes().empty())
      std::memset(output_->mutable_bytes().data(), 0, output_->bytes().size());  // short sequences
    return {};
  }

  std::size_t index_;
  std::int64_t axis_;
  Dims lead_;
  std::size_t place_ = 0;
  Dims slice_dims_;
  Tensor* output_ = nullptr;
};

// One sequence.
struct Sequence {
  ScratchVector<Tensor> inputs;
  ScratchVector<std::size_t> axes;
  std::int64_t length = 0;
  std::int64_t first_row = 0;  // of the outputs
};

Status run_sequence(const Scan& scan, KernelContext& context, const Sequence& sequence,
                    ScratchVector<RuntimeValue>& state, ScratchVector<ScanOutput>& outputs) {
  for (std::int64_t t = 0; t < sequence.length; ++t) {
    ScratchVector<RuntimeValue> arguments;
    for (RuntimeValue& value : state) arguments.push_back(std::exchange(value, RuntimeValue()));
    for (std::size_t i = 0; i < scan.scanned; ++i) {
      const std::int64_t at = scan.input_reverse[i] ? sequence.length - 1 - t : t;
      arguments.push_back(CTXGEN_TRY(slice_at(context, sequence.inputs[i], sequence.axes[i], at)));
    }
    auto made = CTXGEN_TRY(context.run_body(*scan.body, arguments));
    for (std::size_t i = 0; i < scan.states; ++i) state[i] = std::move(made[i]);
    for (std::size_t i = 0; i < scan.stacked; ++i) {
      RuntimeValue& slice = made[scan.states + i];
      const std::string what = std::format("scan output {}", i);
      const Tensor* tensor = CTXGEN_TRY(tensor_of(slice, what));
      const std::int64_t at = scan.output_reverse[i] ? sequence.length - 1 - t : t;
      CTXGEN_CHECK_AT(outputs[i].write(context, *tensor, sequence.first_row + at), "{}", what);
      context.recycle(std::move(slice));
    }
  }
  return {};
}

Status finish_outputs(const Scan& scan, KernelContext& context,
                      const ScratchVector<ScanOutput>& outputs) {
  for (std::size_t i = 0; i < scan.stacked; ++i)
    CTXGEN_CHECK(
        outputs[i].finish(context, scan.body->value(scan.body->outputs[scan.states + i]).type));
  return {};
}

// ---- versions 9 and later ----

Result<Sequence> whole_sequence(const Scan& scan, const KernelContext& context) {
  Sequence sequence;
  for (std::size_t i = 0; i < scan.scanned; ++i) {
    const Tensor* input = CTXGEN_TRY(required(context, scan.states + i));
    const std::size_t axis = CTXGEN_TRY(normalize_axis(scan.input_axes[i], input->rank()));
    const std::int64_t length = input->dims()[axis];
    if (i > 0 && length != sequence.length)
      return fail(ErrorCode::kInvalidGraph, "scan input {} has length {}, the first has {}", i,
                  length, sequence.length);
    sequence.length = length;
    sequence.inputs.push_back(*input);
    sequence.axes.push_back(axis);
  }
  return sequence;
}

Status run_scan(const Scan& scan, KernelContext& context) {
  const Sequence sequence = CTXGEN_TRY(whole_sequence(scan, context));
  ScratchVector<RuntimeValue> state;
  for (std::size_t i = 0; i < scan.states; ++i) {
    static_cast<void>(CTXGEN_TRY(required_value(context, i)));
    state.push_back(context.take(i));
  }
  ScratchVector<ScanOutput> outputs;
  for (std::size_t i = 0; i < scan.stacked; ++i)
    outputs.emplace_back(scan.states + i, scan.output_axes[i], Dims{sequence.length});
  CTXGEN_CHECK(run_sequence(scan, context, sequence, state, outputs));
  for (std::size_t i = 0; i < scan.states; ++i) context.set_value(i, std::move(state[i]));
  return finish_outputs(scan, context, outputs);
}

// ---- version 8 ----

struct Batch {
  std::int64_t size = 0, length = 0;
  ScratchVector<std::int64_t> lengths;
};

Result<Batch> batch_of(const Scan& scan, const KernelContext& context) {
  Batch batch;
  for (std::size_t i = 0; i < scan.states + scan.scanned; ++i) {
    const Tensor* input = CTXGEN_TRY(required(context, 1 + i));
    const bool is_scanned = i >= scan.states;
    CTXGEN_CHECK(expect_rank(*input, std::format("input {}", 1 + i), is_scanned ? 2 : 1));
    if (i > 0 && input->dims()[0] != batch.size)
      return fail(ErrorCode::kInvalidGraph, "input {} has batch size {}, the first has {}", 1 + i,
                  input->dims()[0], batch.size);
    batch.size = input->dims()[0];
    if (!is_scanned) continue;
    if (i > scan.states && input->dims()[1] != batch.length)
      return fail(ErrorCode::kInvalidGraph, "input {} has length {}, the first has {}", 1 + i,
                  input->dims()[1], batch.length);
    batch.length = input->dims()[1];
  }
  batch.lengths.assign(static_cast<std::size_t>(batch.size), batch.length);
  const Tensor* given = optional_input(context, 0);
  if (given == nullptr) return batch;
  batch.lengths = CTXGEN_TRY(ints_of(*given));
  if (std::ssize(batch.lengths) != batch.size ||
      std::ranges::any_of(batch.lengths, [&](auto n) { return n < 0 || n > batch.length; }))
    return fail(ErrorCode::kInvalidGraph, "sequence_lens does not fit {} sequences of length {}",
                batch.size, batch.length);
  return batch;
}

Status run_batch(const Scan& scan, KernelContext& context) {
  const Batch batch = CTXGEN_TRY(batch_of(scan, context));
  ScratchVector<ScanOutput> outputs, finals;
  for (std::size_t i = 0; i < scan.states; ++i) finals.emplace_back(i, 0, Dims{batch.size});
  for (std::size_t i = 0; i < scan.stacked; ++i)
    outputs.emplace_back(scan.states + i, 0, Dims{batch.size, batch.length});
  for (std::int64_t b = 0; b < batch.size; ++b) {
    ScratchVector<RuntimeValue> state;
    for (std::size_t i = 0; i < scan.states; ++i)
      state.push_back(CTXGEN_TRY(slice_at(context, *context.input(1 + i), 0, b)));
    Sequence sequence{.inputs = {},
                      .axes = ScratchVector<std::size_t>(scan.scanned, 0),
                      .length = batch.lengths[static_cast<std::size_t>(b)],
                      .first_row = b * batch.length};
    for (std::size_t i = 0; i < scan.scanned; ++i)
      sequence.inputs.push_back(
          CTXGEN_TRY(slice_at(context, *context.input(1 + scan.states + i), 0, b)));
    CTXGEN_CHECK(run_sequence(scan, context, sequence, state, outputs));
    for (std::size_t i = 0; i < scan.states; ++i)
      CTXGEN_CHECK(finals[i].write(context, *CTXGEN_TRY(tensor_of(state[i], "a state output")), b));
  }
  for (std::size_t i = 0; i < scan.states; ++i)
    CTXGEN_CHECK(finals[i].finish(context, scan.body->value(scan.body->outputs[i]).type));
  return finish_outputs(scan, context, outputs);
}

// ---- attributes ----

Result<std::vector<std::int64_t>> list_of(const Node& node, std::string_view name,
                                          std::size_t count) {
  std::vector<std::int64_t> values = ints_or(node, name, {});
  if (values.empty()) values.assign(count, 0);
  if (values.size() != count)
    return fail(ErrorCode::kInvalidGraph, "{}: attribute \"{}\" has {} values, expected {}",
                node.describe(), name, values.size(), count);
  return values;
}

Result<std::vector<bool>> directions_of(const Node& node, std::string_view name,
                                        std::size_t count) {
  const auto values = CTXGEN_TRY(list_of(node, name, count));
  std::vector<bool> reverse;
  for (const std::int64_t value : values) {
    if (value != 0 && value != 1)
      return fail(ErrorCode::kInvalidGraph, "{}: attribute \"{}\" has the direction {}",
                  node.describe(), name, value);
    reverse.push_back(value == 1);
  }
  return reverse;
}

// `first`: the first input that is a state.
Result<Scan> read_scan(const Node& node, std::size_t first) {
  Scan scan{.body = CTXGEN_TRY(graph_attribute(node, "body"))};
  const std::int64_t scanned = node.int_or("num_scan_inputs", 0);
  const auto inputs = std::ssize(node.inputs) - static_cast<std::ptrdiff_t>(first);
  if (scanned < 1 || scanned > inputs)
    return fail(ErrorCode::kInvalidGraph, "{}: num_scan_inputs is {}, expected 1 to {}",
                node.describe(), scanned, inputs);
  scan.scanned = static_cast<std::size_t>(scanned);
  scan.states = static_cast<std::size_t>(inputs) - scan.scanned;
  const std::size_t outputs = scan.body->outputs.size();
  if (outputs < scan.states || node.outputs.size() > outputs)
    return fail(ErrorCode::kInvalidGraph, "{}: the body has {} outputs, the node {} and {} states",
                node.describe(), outputs, node.outputs.size(), scan.states);
  scan.stacked = outputs - scan.states;
  return scan;
}

KernelResult make_scan_8(const Node& node) {
  Scan scan = CTXGEN_TRY(read_scan(node, 1));
  scan.input_reverse = CTXGEN_TRY(directions_of(node, "directions", scan.scanned));
  scan.output_reverse.assign(scan.stacked, false);
  return value_kernel([scan](KernelContext& context) { return run_batch(scan, context); });
}

KernelResult make_scan(const Node& node) {
  Scan scan = CTXGEN_TRY(read_scan(node, 0));
  scan.input_axes = CTXGEN_TRY(list_of(node, "scan_input_axes", scan.scanned));
  scan.output_axes = CTXGEN_TRY(list_of(node, "scan_output_axes", scan.stacked));
  scan.input_reverse = CTXGEN_TRY(directions_of(node, "scan_input_directions", scan.scanned));
  scan.output_reverse = CTXGEN_TRY(directions_of(node, "scan_output_directions", scan.stacked));
  return value_kernel([scan](KernelContext& context) { return run_scan(scan, context); });
}

constexpr OpRow kScanRows[] = {
    {kOnnx, "Scan", 8, 8, make_scan_8, "types of whole bytes, strings"},
    {kOnnx, "Scan", 9, 25, make_scan, "types of whole bytes, strings"},
};

}  // namespace

constinit const std::span<const OpRow> kScanOps = kScanRows;

}  // namespace ctxgen::cpu
