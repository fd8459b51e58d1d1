#include <algorithm>
#include <cmath>
#include <compare>
#include <numeric>
#include <optional>

#include "families.h"
#include "kernel/function_kernel.h"

namespace ctxgen::cpu {
namespace {

using Indices = ScratchVector<std::int64_t>;

// NaN equals NaN and is larger than every number.
template <class T>
std::weak_ordering compare(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, std::string>) {
    return a <=> b;
  } else {
    const auto x = load(a);
    const auto y = load(b);
    if (x < y) return std::weak_ordering::less;
    if (y < x) return std::weak_ordering::greater;
    if constexpr (kIsFloating<T>) return std::isnan(x) <=> std::isnan(y);
    return std::weak_ordering::equivalent;
  }
}

// Compares slices i and j of the axis, element by element.
template <class T>
std::weak_ordering compare_slices(const T* data, const AxisSplit& split, std::int64_t i,
                                  std::int64_t j) {
  for (std::int64_t o = 0; o < split.outer; ++o)
    for (std::int64_t k = 0; k < split.inner; ++k) {
      const T* line = data + o * split.extent * split.inner + k;
      const auto order = compare(line[i * split.inner], line[j * split.inner]);
      if (order != 0) return order;
    }
  return std::weak_ordering::equivalent;
}

struct Groups {
  Indices first;    // per group its first slice
  Indices counts;   // and how many slices
  Indices members;  // per slice its group
};

template <class T>
Groups group_slices(const Tensor& input, const AxisSplit& split, bool sorted) {
  const T* data = data_of<T>(input);
  Indices order(static_cast<std::size_t>(split.extent));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(
      order, [&](std::int64_t i, std::int64_t j) { return compare_slices(data, split, i, j) < 0; });
  Groups groups;
  groups.members.resize(order.size());
  for (std::int64_t slice : order) {
    if (groups.first.empty() || compare_slices(data, split, groups.first.back(), slice) != 0) {
      groups.first.push_back(slice);
      groups.counts.push_back(0);
    }
    ++groups.counts.back();
    groups.members[static_cast<std::size_t>(slice)] = std::ssize(groups.first) - 1;
  }
  if (sorted) return groups;
  Indices by_first(groups.first.size());  // groups in the order of their first slices
  std::iota(by_first.begin(), by_first.end(), std::int64_t{0});
  std::ranges::sort(by_first, {},
                    [&](std::int64_t g) { return groups.first[static_cast<std::size_t>(g)]; });
  Groups result;
  Indices new_number(by_first.size());
  for (std::int64_t g : by_first) {
    new_number[static_cast<std::size_t>(g)] = std::ssize(result.first);
    result.first.push_back(groups.first[static_cast<std::size_t>(g)]);
    result.counts.push_back(groups.counts[static_cast<std::size_t>(g)]);
  }
  for (std::int64_t g : groups.members)
    result.members.push_back(new_number[static_cast<std::size_t>(g)]);
  return result;
}

Status put_indices(KernelContext& context, std::size_t index, const Indices& values) {
  if (!context.output_wanted(index)) return {};
  Tensor* output = CTXGEN_TRY(context.make_output(index, DataType::kInt64, {std::ssize(values)}));
  std::ranges::copy(values, output->mutable_elements<std::int64_t>().begin());
  return {};
}

KernelResult make_unique_kernel(const Node& node) {
  std::optional<std::int64_t> axis;
  if (node.attribute("axis") != nullptr) axis = node.int_or("axis", 0);
  return kernel([axis, sorted = node.int_or("sorted", 1) != 0](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    AxisSplit split{.outer = 1, .extent = input->element_count(), .inner = 1};
    Dims dims{split.extent};
    std::size_t at = 0;
    if (axis) {
      at = CTXGEN_TRY(normalize_axis(*axis, input->rank()));
      split = split_at(input->dims(), at);
      dims = input->dims();
    }
    Groups groups;
    CTXGEN_CHECK(dispatch(
        Types<float, double, Half, Bf16, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
              std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, Bit, std::string>{},
        input->type(), [&]<class T>() -> Status {
          groups = group_slices<T>(*input, split, sorted);
          return {};
        }));
    dims[at] = std::ssize(groups.first);
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
    for (std::int64_t o = 0; o < split.outer; ++o)
      for (std::int64_t g = 0; g < dims[at]; ++g)
        copy_elements(*input,
                      (o * split.extent + groups.first[static_cast<std::size_t>(g)]) * split.inner,
                      *output, (o * dims[at] + g) * split.inner, split.inner);
    CTXGEN_CHECK(put_indices(context, 1, groups.first));
    CTXGEN_CHECK(put_indices(context, 2, groups.members));
    return put_indices(context, 3, groups.counts);
  });
}

constexpr OpRow kUniqueRows[] = {
    {kOnnx, "Unique", 11, 11, make_unique_kernel, "numeric, bool, string"},
};

}  // namespace

constinit const std::span<const OpRow> kUniqueOps = kUniqueRows;

}  // namespace ctxgen::cpu
