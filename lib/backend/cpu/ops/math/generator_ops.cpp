#include <algorithm>
#include <cmath>

#include "families.h"
#include "kernel/string_memory.h"
#include "tensors/indices.h"
#include "tensors/strided_copy.h"

namespace ctxgen::cpu {
namespace {

// ---- Constant, ConstantOfShape ----

template <class T>
Result<Tensor> tensor_of(const Dims& dims, std::span<const T> values) {
  Tensor tensor = CTXGEN_TRY(Tensor::allocate(kDataTypeOf<T>, dims));
  std::ranges::copy(values, tensor.mutable_elements<T>().begin());
  return tensor;
}

Result<Tensor> constant_value(const Node& node) {
  for (const Attribute& a : node.attributes) {
    if (a.name == "value" && a.tensors.size() == 1) return a.tensors[0].aligned();
    if (a.name == "sparse_value" && a.tensors.size() == 1) return a.tensors[0].aligned();
    if (a.name == "value_float") return tensor_of<float>({}, std::span(&a.f, 1));
    if (a.name == "value_int") return tensor_of<std::int64_t>({}, std::span(&a.i, 1));
    if (a.name == "value_floats")
      return tensor_of<float>({static_cast<std::int64_t>(a.floats.size())}, a.floats);
    if (a.name == "value_ints")
      return tensor_of<std::int64_t>({static_cast<std::int64_t>(a.ints.size())}, a.ints);
    if (a.name == "value_string") return Tensor::of_strings({}, {a.s});
    if (a.name == "value_strings")
      return Tensor::of_strings({static_cast<std::int64_t>(a.strings.size())}, a.strings);
  }
  return fail(ErrorCode::kUnsupported, "{}: has no value of a known kind", node.describe());
}

KernelResult make_constant(const Node& node) {
  const Tensor value = CTXGEN_TRY(constant_value(node));
  return kernel([value](KernelContext& context) -> Status {
    context.set_output(0, value);
    return {};
  });
}

Result<Dims> shape_input(const KernelContext& context, std::size_t index) {
  const Tensor* shape = CTXGEN_TRY(required(context, index));
  const auto values = CTXGEN_TRY(ints_of(*shape));
  if (values.size() > kMaxRank)
    return fail(ErrorCode::kUnsupported, "rank {} is above {}", values.size(), kMaxRank);
  const Dims dims(values);
  if (!checked_element_count(dims))
    return fail(ErrorCode::kInvalidGraph, "{} is not a shape", to_string(dims));
  return dims;
}

KernelResult make_constant_of_shape(const Node& node) {
  Tensor value;
  if (const Attribute* a = node.attribute("value"); a != nullptr && a->tensors.size() == 1) {
    value = CTXGEN_TRY(a->tensors[0].aligned());
    if (value.element_count() != 1)
      return fail(ErrorCode::kInvalidGraph, "{}: value has shape {}", node.describe(),
                  to_string(value.dims()));
  } else {
    const float zero = 0;
    value = CTXGEN_TRY(tensor_of<float>({1}, std::span(&zero, 1)));
  }
  const std::uint64_t length = value.is_string() ? longest_of(value.strings()) : 0;
  return kernel([value, length](KernelContext& context) -> Status {
    const Dims dims = CTXGEN_TRY(shape_input(context, 0));
    if (value.is_string()) CTXGEN_CHECK(check_strings(context, dims, length));
    Tensor* output = CTXGEN_TRY(context.make_output(0, value.type(), dims));
    return fill(*output, value);
  });
}

// ---- Range, EyeLike, OneHot, Trilu ----

template <class T>
Status range(KernelContext& context) {
  const double start = CTXGEN_TRY(scalar_of(*context.input(0)));
  const double limit = CTXGEN_TRY(scalar_of(*context.input(1)));
  const double delta = CTXGEN_TRY(scalar_of(*context.input(2)));
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (!(count < 9e15))  // also a delta of 0, and NaN
    return fail(ErrorCode::kInvalidGraph, "cannot count from {} to {} by {}", start, limit, delta);
  Tensor* output =
      CTXGEN_TRY(context.make_output(0, kElementTypeOf<T>, {static_cast<std::int64_t>(count)}));
  const T first = *data_of<T>(*context.input(0));
  const T step = *data_of<T>(*context.input(2));
  std::int64_t i = 0;
  for (T& to : output->mutable_elements<T>()) {
    if constexpr (std::is_integral_v<T>)
      to = static_cast<T>(static_cast<std::uint64_t>(first) +
                          static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step));
    else
      to = store<T>(static_cast<double>(load(first)) +
                    static_cast<double>(i) * static_cast<double>(load(step)));
    ++i;
  }
  return {};
}

// Opset 27 says in which type 16-bit floats are counted: float, or double as here, which holds all of them
// exactly and rounds once.
KernelResult make_range(const Node& node) {
  const std::int64_t stash = node.opset < 27 ? 1 : node.int_or("stash_type", 1);
  const bool known = stash == static_cast<std::int64_t>(DataType::kFloat) ||
                     stash == static_cast<std::int64_t>(DataType::kDouble);
  return kernel([stash, known](KernelContext& context) -> Status {
    const Tensor* start = CTXGEN_TRY(required(context, 0));
    if (!known && (start->type() == DataType::kFloat16 || start->type() == DataType::kBfloat16))
      return fail(ErrorCode::kUnsupported, "stash_type {}", stash);
    for (std::size_t i : {1, 2}) {
      const Tensor* other = CTXGEN_TRY(required(context, i, start->type()));
      if (other->element_count() != 1 || start->element_count() != 1)
        return fail(ErrorCode::kInvalidGraph, "start, limit and delta are not scalars");
    }
    return dispatch(NumericTypes{}, start->type(), [&]<class T>() { return range<T>(context); });
  });
}

KernelResult make_eye_like(const Node& node) {
  const std::int64_t type = node.int_or("dtype", 0);
  if (type != 0 && !is_known_data_type(type))
    return fail(ErrorCode::kUnsupported, "{}: type number {}", node.describe(), type);
  return kernel([type, k = node.int_or("k", 0)](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*input, "input", 2, 2));
    const DataType element = type == 0 ? input->type() : static_cast<DataType>(type);
    Tensor* output = CTXGEN_TRY(context.make_output(0, element, input->dims()));
    return dispatch(NumericAndBoolTypes{}, element, [&]<class T>() -> Status {
      const std::int64_t columns = input->dims()[1];
      T* to = mutable_data_of<T>(*output);
      for (std::int64_t r = 0; r < input->dims()[0]; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
          to[r * columns + c] = store<T>(c - r == k ? 1.0f : 0.0f);
      return {};
    });
  });
}

// Positions of the hot elements: any numeric type, negative ones from the end, others nowhere.
Result<ScratchVector<std::int64_t>> hot_positions(const Tensor& indices, std::int64_t depth) {
  ScratchVector<std::int64_t> positions;
  CTXGEN_CHECK(dispatch(NumericTypes{}, indices.type(), [&]<class T>() -> Status {
    for (const T& element : indices.elements<T>()) {
      const auto value = static_cast<double>(load(element));
      const bool inside =
          value >= -static_cast<double>(depth) && value < static_cast<double>(depth);
      std::int64_t index = inside ? static_cast<std::int64_t>(value) : -1;
      if (inside && index < 0) index += depth;
      positions.push_back(index);
    }
    return {};
  }));
  return positions;
}

KernelResult make_one_hot(const Node& node) {
  return kernel([axis = node.int_or("axis", -1)](KernelContext& context) -> Status {
    const Tensor* indices = CTXGEN_TRY(required(context, 0));
    const Tensor* depth_tensor = CTXGEN_TRY(required(context, 1));
    const Tensor* values = CTXGEN_TRY(required(context, 2));
    const double depth_value = CTXGEN_TRY(scalar_of(*depth_tensor));
    if (!(depth_value >= 0 && depth_value < 9e15))
      return fail(ErrorCode::kInvalidGraph, "depth is {}", depth_value);
    if (indices->rank() == kMaxRank)
      return fail(ErrorCode::kUnsupported, "the output's rank is above {}", kMaxRank);
    CTXGEN_CHECK(expect_dims(*values, "values", {2}));
    const auto depth = static_cast<std::int64_t>(depth_value);
    const std::size_t at = CTXGEN_TRY(normalize_axis(axis, indices->rank() + 1));
    Dims dims(indices->dims().span().first(at));
    dims.push_back(depth);
    for (std::int64_t dim : indices->dims().span().subspan(at)) dims.push_back(dim);
    const auto positions = CTXGEN_TRY(hot_positions(*indices, depth));
    Tensor* output = CTXGEN_TRY(context.make_output(0, values->type(), dims));
    const AxisSplit split = split_at(dims, at);
    return dispatch_storage(values->type(), [&]<class T>() -> Status {
      T* to = mutable_data_of<T>(*output);
      const T* pair = data_of<T>(*values);
      std::fill_n(to, output->element_count(), pair[0]);
      for (std::int64_t o = 0; o < split.outer; ++o)
        for (std::int64_t i = 0; i < split.inner; ++i) {
          const std::int64_t hot = positions[static_cast<std::size_t>(o * split.inner + i)];
          if (hot >= 0) to[(o * split.extent + hot) * split.inner + i] = pair[1];
        }
      return {};
    });
  });
}

KernelResult make_trilu(const Node& node) {
  return kernel([upper = node.int_or("upper", 1) != 0,
                 param = int_param(node, "k", 1)](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*input, "input", 2));
    const auto diagonal = CTXGEN_TRY(param.get(context));
    const std::int64_t rows = input->dims()[input->rank() - 2];
    const std::int64_t columns = input->dims().back();
    const std::int64_t k = std::clamp(diagonal.value_or(0), -rows, columns);
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
    return dispatch_storage(input->type(), [&]<class T>() -> Status {
      const T* from = data_of<T>(*input);
      T* to = mutable_data_of<T>(*output);
      const std::int64_t matrices = product(input->dims(), 0, input->rank() - 2);
      for (std::int64_t i = 0; i < matrices * rows; ++i)
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::int64_t distance = c - i % rows;
          const bool keep = upper ? distance >= k : distance <= k;
          to[i * columns + c] = keep ? from[i * columns + c] : T{};
        }
      return {};
    });
  });
}

// ---- windows of signal processing ----

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), N one less for symmetric windows.
KernelResult window_kernel(const Node& node, double a0, double a1, double a2) {
  const std::int64_t type = node.int_or("output_datatype", 1);
  if (!is_known_data_type(type))
    return fail(ErrorCode::kUnsupported, "{}: type number {}", node.describe(), type);
  return kernel([=, periodic = node.int_or("periodic", 1) != 0](KernelContext& context) -> Status {
    const Tensor* size_tensor = CTXGEN_TRY(required(context, 0));
    const std::int64_t size = CTXGEN_TRY(scalar_int_of(*size_tensor));
    if (size < 0) return fail(ErrorCode::kInvalidGraph, "size is {}", size);
    Tensor* output = CTXGEN_TRY(context.make_output(0, static_cast<DataType>(type), {size}));
    const double period =
        static_cast<double>(periodic ? size : std::max<std::int64_t>(size - 1, 1));
    return dispatch(NumericTypes{}, output->type(), [&]<class T>() -> Status {
      for (std::int64_t n = 0; n < size; ++n) {
        const double angle = 2 * M_PI * static_cast<double>(n) / period;
        mutable_data_of<T>(*output)[n] =
            store<T>(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
      }
      return {};
    });
  });
}

KernelResult make_hann(const Node& node) { return window_kernel(node, 0.5, 0.5, 0); }
KernelResult make_hamming(const Node& node) { return window_kernel(node, 25.0 / 46, 21.0 / 46, 0); }
KernelResult make_blackman(const Node& node) { return window_kernel(node, 0.42, 0.5, 0.08); }

constexpr std::string_view kAll = "all types of a byte and more";

constexpr OpRow kGeneratorRows[] = {
    {kOnnx, "BlackmanWindow", 17, 17, make_blackman, "numeric"},
    {kOnnx, "Constant", 1, 25, make_constant, "all tensor types"},
    {kOnnx, "ConstantOfShape", 9, 25, make_constant_of_shape, kAll},
    {kOnnx, "EyeLike", 9, 22, make_eye_like, "numeric, bool"},
    {kOnnx, "HammingWindow", 17, 17, make_hamming, "numeric"},
    {kOnnx, "HannWindow", 17, 17, make_hann, "numeric"},
    {kOnnx, "OneHot", 9, 11, make_one_hot, "indices and depth numeric, values of all types"},
    {kOnnx, "Range", 11, 27, make_range, "numeric"},
    {kOnnx, "Trilu", 14, 14, make_trilu, kAll},
};

}  // namespace

constinit const std::span<const OpRow> kGeneratorOps = kGeneratorRows;

}  // namespace ctxgen::cpu
