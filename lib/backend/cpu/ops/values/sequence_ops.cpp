#include <algorithm>
#include <limits>
#include <optional>

#include "families.h"
#include "kernel/attributes.h"
#include "ops/values/sequence_memory.h"
#include "tensors/strided_copy.h"

// Sequences of tensors. A sequence that nothing else can see is changed in place, so that a Loop
// that appends to one does not copy it in every iteration.

namespace ctxgen::cpu {
namespace {

// A position counted from the front. `most`: the largest one allowed.
Result<std::size_t> position_of(const Tensor& tensor, std::size_t size, std::int64_t most) {
  std::int64_t position = CTXGEN_TRY(scalar_int_of(tensor));
  const auto count = static_cast<std::int64_t>(size);
  if (position < -count || position > most)
    return fail(ErrorCode::kInvalidGraph, "position {} is outside of a sequence of {}", position,
                count);
  return static_cast<std::size_t>(position < 0 ? position + count : position);
}

Status check_element(const SequenceValue& sequence, const Tensor& tensor) {
  if (sequence.element == DataType::kUndefined || sequence.element == tensor.type()) return {};
  return fail(ErrorCode::kInvalidGraph, "{} does not go into a sequence of {}",
              name_of(tensor.type()), name_of(sequence.element));
}

// ---- making ----

KernelResult make_construct(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    auto sequence = CTXGEN_TRY(new_sequence(context, context.input_count()));
    for (std::size_t i = 0; i < context.input_count(); ++i) {
      const Tensor* tensor = CTXGEN_TRY(required(context, i));
      CTXGEN_CHECK(check_element(*sequence, *tensor));
      sequence->element = tensor->type();
      sequence->items.emplace_back(*tensor);
    }
    context.set_value(0, std::move(sequence));
    return {};
  });
}

KernelResult make_empty(const Node& node) {
  const std::int64_t type = node.int_or("dtype", static_cast<std::int64_t>(DataType::kFloat));
  if (!is_known_data_type(type))
    return fail(ErrorCode::kUnsupported, "{}: dtype {} is not known", node.describe(), type);
  return kernel([type](KernelContext& context) -> Status {
    auto sequence = CTXGEN_TRY(new_sequence(context, 0));
    sequence->element = static_cast<DataType>(type);
    context.set_value(0, std::move(sequence));
    return {};
  });
}

// ---- looking ----

KernelResult make_at(const Node&) {
  return value_kernel([](KernelContext& context) -> Status {
    const SequenceValue* sequence = CTXGEN_TRY(required_sequence(context, 0));
    const Tensor* position = CTXGEN_TRY(required(context, 1));
    const std::size_t size = sequence->items.size();
    context.set_value(0, sequence->items[CTXGEN_TRY(
                             position_of(*position, size, static_cast<std::int64_t>(size) - 1))]);
    return {};
  });
}

KernelResult make_length(const Node&) {
  return value_kernel([](KernelContext& context) -> Status {
    const SequenceValue* sequence = CTXGEN_TRY(required_sequence(context, 0));
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kInt64, {}));
    output->mutable_elements<std::int64_t>()[0] = static_cast<std::int64_t>(sequence->items.size());
    return {};
  });
}

// ---- changing ----

KernelResult make_insert(const Node&) {
  return value_kernel([](KernelContext& context) -> Status {
    const SequenceValue* given = CTXGEN_TRY(required_sequence(context, 0));
    const Tensor tensor = *CTXGEN_TRY(required(context, 1));
    CTXGEN_CHECK(check_element(*given, tensor));
    std::size_t at = given->items.size();
    if (const Tensor* position = optional_input(context, 2); position != nullptr)
      at = CTXGEN_TRY(position_of(*position, at, static_cast<std::int64_t>(at)));
    RuntimeValue value = CTXGEN_TRY(own_sequence(context, 0, 1));
    SequenceValue& sequence = *value.unique_sequence();
    sequence.element = tensor.type();
    sequence.items.insert(sequence.items.begin() + static_cast<std::ptrdiff_t>(at), tensor);
    context.set_value(0, std::move(value));
    return {};
  });
}

KernelResult make_erase(const Node&) {
  return value_kernel([](KernelContext& context) -> Status {
    const SequenceValue* given = CTXGEN_TRY(required_sequence(context, 0));
    const std::size_t size = given->items.size();
    if (size == 0) return fail(ErrorCode::kInvalidGraph, "the sequence is empty");
    std::size_t at = size - 1;
    if (const Tensor* position = optional_input(context, 1); position != nullptr)
      at = CTXGEN_TRY(position_of(*position, size, static_cast<std::int64_t>(size) - 1));
    RuntimeValue value = CTXGEN_TRY(own_sequence(context, 0, 0));
    SequenceValue& sequence = *value.unique_sequence();
    sequence.items.erase(sequence.items.begin() + static_cast<std::ptrdiff_t>(at));
    context.set_value(0, std::move(value));
    return {};
  });
}

// ---- splitting ----

// Elements [start, start + length) of an axis. Along the first one the bytes are shared.
Result<Tensor> part_of(KernelContext& context, const Tensor& tensor, std::size_t axis,
                       std::int64_t start, std::int64_t length) {
  if (!tensor.is_string() && bits_of(tensor.type()) < 8)
    return fail(ErrorCode::kUnsupported, "splitting {}", name_of(tensor.type()));
  Dims dims = tensor.dims();
  dims[axis] = length;
  const Dims strides = strides_of(tensor.dims());
  if (!checked_size_bytes(tensor.type(), dims))
    return fail(ErrorCode::kResourceLimit, "a part {} is too large", to_string(dims));
  if (axis == 0 && !tensor.is_string()) {
    const auto unit = static_cast<std::uint64_t>(strides[0]) * bits_of(tensor.type()) / 8;
    return Tensor::borrow(tensor.type(), dims, tensor.owner(),
                          tensor.bytes().subspan(static_cast<std::uint64_t>(start) * unit,
                                                 static_cast<std::uint64_t>(length) * unit));
  }
  Tensor part = CTXGEN_TRY(context.make_tensor(tensor.type(), dims));
  CTXGEN_CHECK(copy_strided(tensor, part,
                            {.extents = dims,
                             .from_strides = strides,
                             .to_strides = strides_of(dims),
                             .from_start = start * strides[axis]}));
  return part;
}

// Where the parts are: a list of lengths, or all of one length but the last.
struct Parts {
  ScratchVector<std::int64_t> lengths;
  std::int64_t each = 1;
  std::size_t count = 0;
};

Result<Parts> parts_of(const Tensor* split, std::int64_t extent) {
  Parts parts;
  if (split != nullptr && split->rank() > 0) {
    parts.lengths = CTXGEN_TRY(ints_of(*split));
    parts.count = parts.lengths.size();
    std::int64_t left = extent;
    for (const std::int64_t length : parts.lengths) {
      if (length < 0 || length > left)
        return fail(ErrorCode::kInvalidGraph, "split does not fit the extent {}", extent);
      left -= length;
    }
    if (left != 0)
      return fail(ErrorCode::kInvalidGraph, "split leaves {} of {} over", left, extent);
    return parts;
  }
  if (split != nullptr) parts.each = CTXGEN_TRY(scalar_int_of(*split));
  if (parts.each < 1) return fail(ErrorCode::kInvalidGraph, "split is {}", parts.each);
  parts.count = static_cast<std::size_t>(extent / parts.each + (extent % parts.each != 0 ? 1 : 0));
  return parts;
}

KernelResult make_split(const Node& node) {
  return kernel([axis = node.int_or("axis", 0),
                 keep = node.int_or("keepdims", 1) != 0](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const Tensor* split = optional_input(context, 1);
    const std::size_t at = CTXGEN_TRY(normalize_axis(axis, input->rank()));
    const std::int64_t extent = input->dims()[at];
    const Parts parts = CTXGEN_TRY(parts_of(split, extent));
    auto sequence = CTXGEN_TRY(new_sequence(context, parts.count));
    sequence->element = input->type();
    std::int64_t start = 0;
    for (std::size_t i = 0; i < parts.count; ++i) {
      const std::int64_t length =
          parts.lengths.empty() ? std::min(parts.each, extent - start) : parts.lengths[i];
      Tensor part = CTXGEN_TRY(part_of(context, *input, at, start, length));
      start += length;
      if (split == nullptr && !keep) {
        Dims dims;
        for (std::size_t d = 0; d < input->rank(); ++d)
          if (d != at) dims.push_back(input->dims()[d]);
        part = part.with_dims(dims);
      }
      sequence->items.emplace_back(std::move(part));
    }
    context.set_value(0, std::move(sequence));
    return {};
  });
}

// ---- joining ----

Result<Dims> joined_dims(const SequenceValue& sequence, std::size_t axis, bool stack) {
  Dims dims = sequence.items.front().tensor().dims();
  std::int64_t extent = 0;
  for (const RuntimeValue& item : sequence.items) {
    const Tensor& tensor = item.tensor();
    Dims expected = dims;
    if (!stack && tensor.rank() == dims.size()) expected[axis] = tensor.dims()[axis];
    CTXGEN_CHECK(expect_dims(tensor, "a tensor of the sequence", expected));
    const std::int64_t more = stack ? 1 : tensor.dims()[axis];
    if (extent > std::numeric_limits<std::int64_t>::max() - more)
      return fail(ErrorCode::kResourceLimit, "the joined tensor is too large");
    extent += more;
  }
  if (!stack) {
    dims[axis] = extent;
    return dims;
  }
  Dims stacked;
  for (std::size_t i = 0; i <= dims.size(); ++i) {
    if (i == axis) stacked.push_back(extent);
    if (i < dims.size()) stacked.push_back(dims[i]);
  }
  return stacked;
}

KernelResult make_concat(const Node& node) {
  if (node.attribute("axis") == nullptr)
    return fail(ErrorCode::kInvalidGraph, "{}: attribute \"axis\" is missing", node.describe());
  return value_kernel([axis = node.int_or("axis", 0),
                       stack = node.int_or("new_axis", 0) != 0](KernelContext& context) -> Status {
    const SequenceValue* sequence = CTXGEN_TRY(required_sequence(context, 0));
    if (sequence->items.empty())
      return fail(ErrorCode::kInvalidGraph, "an empty sequence cannot be joined");
    const Tensor& first =
        *CTXGEN_TRY(tensor_of(sequence->items.front(), "an item of the sequence"));
    for (const RuntimeValue& item : sequence->items)
      CTXGEN_CHECK(same_type(*CTXGEN_TRY(tensor_of(item, "an item of the sequence")), first));
    if (!first.is_string() && bits_of(first.type()) < 8)
      return fail(ErrorCode::kUnsupported, "joining {}", name_of(first.type()));
    const std::size_t rank = first.rank() + (stack ? 1 : 0);
    if (rank > kMaxRank)
      return fail(ErrorCode::kUnsupported, "rank {} is above {}", rank, kMaxRank);
    const std::size_t at = CTXGEN_TRY(normalize_axis(axis, rank));
    const Dims dims = CTXGEN_TRY(joined_dims(*sequence, at, stack));
    Tensor* output = CTXGEN_TRY(context.make_output(0, first.type(), dims));
    const AxisSplit whole = split_at(dims, at);
    std::int64_t start = 0;
    for (const RuntimeValue& item : sequence->items) {
      const std::int64_t length = stack ? 1 : item.tensor().dims()[at];
      const std::int64_t run = length * whole.inner;
      for (std::int64_t o = 0; o < whole.outer; ++o)
        copy_elements(item.tensor(), o * run, *output, (o * whole.extent + start) * whole.inner,
                      run);
      start += length;
    }
    return {};
  });
}

// ---- mapping ----

struct SequenceMap {
  std::shared_ptr<const Graph> body;

  [[nodiscard]] Status run(KernelContext& context) const {
    const std::size_t count = CTXGEN_TRY(required_sequence(context, 0))->items.size();
    for (std::size_t i = 1; i < context.input_count(); ++i) {
      const RuntimeValue* value = CTXGEN_TRY(required_value(context, i));
      if (value->kind() == RuntimeValue::Kind::kSequence && value->sequence().items.size() != count)
        return fail(ErrorCode::kInvalidGraph, "input {} has {} items, the first has {}", i,
                    value->sequence().items.size(), count);
    }
    ScratchVector<std::shared_ptr<SequenceValue>> results;
    for (std::size_t i = 0; i < context.output_count(); ++i) {
      results.push_back(CTXGEN_TRY(new_sequence(context, count)));
      results.back()->element = body->value(body->outputs[i]).type.element;
    }
    for (std::size_t n = 0; n < count; ++n) CTXGEN_CHECK(run_one(context, n, results));
    for (std::size_t i = 0; i < results.size(); ++i) context.set_value(i, std::move(results[i]));
    return {};
  }

 private:
  [[nodiscard]] Status run_one(KernelContext& context, std::size_t n,
                               ScratchVector<std::shared_ptr<SequenceValue>>& results) const {
    ScratchVector<RuntimeValue> arguments;
    for (std::size_t i = 0; i < context.input_count(); ++i) {
      const RuntimeValue& value = *context.value(i);
      const bool each = value.kind() == RuntimeValue::Kind::kSequence;
      arguments.push_back(each ? value.sequence().items[n] : value);
    }
    auto outputs = CTXGEN_TRY(context.run_body(*body, arguments));
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Tensor* tensor = CTXGEN_TRY(tensor_of(outputs[i], "an output of the body"));
      CTXGEN_CHECK(check_element(*results[i], *tensor));
      results[i]->element = tensor->type();
      results[i]->items.push_back(std::move(outputs[i]));
    }
    return {};
  }
};

KernelResult make_map(const Node& node) {
  SequenceMap map{CTXGEN_TRY(graph_attribute(node, "body"))};
  if (map.body->outputs.size() < node.outputs.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} outputs, its body makes {}", node.describe(),
                node.outputs.size(), map.body->outputs.size());
  return value_kernel([map](KernelContext& context) { return map.run(context); });
}

constexpr OpRow kSequenceRows[] = {
    {kOnnx, "ConcatFromSequence", 11, 11, make_concat, "types of whole bytes, strings"},
    {kOnnx, "SequenceAt", 11, 11, make_at, "all types"},
    {kOnnx, "SequenceConstruct", 11, 11, make_construct, "all types"},
    {kOnnx, "SequenceEmpty", 11, 11, make_empty, "all types"},
    {kOnnx, "SequenceErase", 11, 11, make_erase, "all types"},
    {kOnnx, "SequenceInsert", 11, 11, make_insert, "all types"},
    {kOnnx, "SequenceLength", 11, 11, make_length, "all types"},
    {kOnnx, "SequenceMap", 17, 17, make_map, "all types"},
    {kOnnx, "SplitToSequence", 11, 24, make_split, "types of whole bytes, strings"},
};

}  // namespace

constinit const std::span<const OpRow> kSequenceOps = kSequenceRows;

}  // namespace ctxgen::cpu
