#include "tensors/strided_copy.h"

#include <algorithm>
#include <utility>

namespace ctxgen::cpu {
namespace {

// Axes of extent 1 dropped, neighbours merged where both sides allow it.
StridedCopy simplified(const StridedCopy& copy) {
  StridedCopy result{.from_start = copy.from_start, .to_start = copy.to_start};
  for (std::size_t i = 0; i < copy.extents.size(); ++i) {
    const std::int64_t extent = copy.extents[i];
    if (extent == 1) continue;
    const std::size_t last = result.extents.size() - 1;
    if (!result.extents.empty() && result.from_strides[last] == copy.from_strides[i] * extent &&
        result.to_strides[last] == copy.to_strides[i] * extent) {
      result.extents[last] *= extent;
      result.from_strides[last] = copy.from_strides[i];
      result.to_strides[last] = copy.to_strides[i];
    } else {
      result.extents.push_back(extent);
      result.from_strides.push_back(copy.from_strides[i]);
      result.to_strides.push_back(copy.to_strides[i]);
    }
  }
  return result;
}

/// The longest axis innermost where the last one is so short that its rows take longer to begin than to copy.
void lengthen_rows(StridedCopy& copy) {
  constexpr std::int64_t kShortRow = 8;
  if (copy.extents.empty() || copy.extents[copy.extents.size() - 1] >= kShortRow) return;
  const std::size_t last = copy.extents.size() - 1;
  const auto longest =
      static_cast<std::size_t>(std::ranges::max_element(copy.extents) - copy.extents.begin());
  std::swap(copy.extents[longest], copy.extents[last]);
  std::swap(copy.from_strides[longest], copy.from_strides[last]);
  std::swap(copy.to_strides[longest], copy.to_strides[last]);
}

template <class T>
void copy_row(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
              std::int64_t count) {
  if (from_stride == 1 && to_stride == 1)
    std::copy_n(from, count, to);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
}

template <class T>
void copy_box(const T* from, T* to, const StridedCopy& copy) {
  const std::size_t rank = copy.extents.size();
  if (rank == 0) {
    *to = *from;
    return;
  }
  const std::int64_t rows = product(copy.extents, 0, rank - 1);
  Dims position(rank, 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    copy_row(from, copy.from_strides[rank - 1], to, copy.to_strides[rank - 1],
             copy.extents[rank - 1]);
    for (std::size_t i = rank - 1; i-- > 0;) {
      from += copy.from_strides[i];
      to += copy.to_strides[i];
      if (++position[i] < copy.extents[i]) break;
      from -= copy.from_strides[i] * copy.extents[i];
      to -= copy.to_strides[i] * copy.extents[i];
      position[i] = 0;
    }
  }
}

}  // namespace

Status copy_strided(const Tensor& from, Tensor& to, const StridedCopy& copy) {
  if (element_count(copy.extents) == 0) return {};
  StridedCopy simple = simplified(copy);
  lengthen_rows(simple);
  return dispatch_storage(from.type(), [&]<class T>() -> Status {
    copy_box(data_of<T>(from) + simple.from_start, mutable_data_of<T>(to) + simple.to_start,
             simple);
    return {};
  });
}

Dims permuted(const Dims& dims, std::span<const std::size_t> perm) {
  Dims result;
  for (std::size_t axis : perm) result.push_back(dims[axis]);
  return result;
}

Status transpose_into(const Tensor& from, std::span<const std::size_t> perm, Tensor& to) {
  return copy_strided(from, to,
                      {.extents = to.dims(),
                       .from_strides = permuted(strides_of(from.dims()), perm),
                       .to_strides = strides_of(to.dims())});
}

Status fill(Tensor& to, const Tensor& value) {
  return dispatch_storage(to.type(), [&]<class T>() -> Status {
    std::fill_n(mutable_data_of<T>(to), to.element_count(), *data_of<T>(value));
    return {};
  });
}

}  // namespace ctxgen::cpu
