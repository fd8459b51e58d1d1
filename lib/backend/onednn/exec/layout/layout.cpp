#include "layout/layout.h"

#include <cstdlib>

namespace ctxgen::onednn {

Dims plain_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<std::int64_t>(dims[i], 1);
  return strides;
}

Dims strides_of(Layout layout, const Dims& dims) {
  if (layout == Layout::kPlain || dims.size() < 3) return plain_strides(dims);
  Dims strides(dims.size(), 1);
  std::int64_t step = std::max<std::int64_t>(dims[1], 1);
  for (std::size_t i = dims.size(); i-- > 2;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(dims[i], 1);
  }
  strides[0] = step;
  return strides;
}

bool layouts_coincide(const Dims& dims) {
  return dims.size() < 3 || dims[1] == 1 || volume(dims, 2) == 1;
}

bool is_layout(const Dims& dims, const Dims& strides, Layout layout) {
  const Dims expected = strides_of(layout, dims);
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1 && strides[i] != expected[i]) return false;
  return true;
}

Layout nearest_layout(const Dims& dims, const Dims& strides) {
  if (dims.size() < 3 || dims[1] == 1) return Layout::kPlain;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (i != 1 && dims[i] != 1 && std::abs(strides[i]) <= std::abs(strides[1]))
      return Layout::kPlain;
  return layouts_coincide(dims) ? Layout::kPlain : Layout::kChannelsLast;
}

std::optional<Dims> reshaped_strides(const Dims& dims, const Dims& strides, const Dims& to) {
  Dims result(to.size(), 1);
  std::size_t from = 0, next = 0;
  while (from < dims.size() && next < to.size()) {
    // The fewest dims on both sides that hold equally many elements.
    std::size_t from_end = from + 1, next_end = next + 1;
    std::int64_t have = dims[from], want = to[next];
    while (have != want) {
      if (have < want)
        have *= dims[from_end++];
      else
        want *= to[next_end++];
    }
    std::int64_t step = 0, inner = 0;  // of the dim after, and how many steps it is long
    for (std::size_t i = from_end; i-- > from;) {
      if (dims[i] == 1) continue;
      if (inner != 0 && strides[i] != step * inner) return std::nullopt;
      if (inner == 0) result[next_end - 1] = strides[i];
      step = strides[i];
      inner = dims[i];
    }
    for (std::size_t i = next_end - 1; i-- > next;) result[i] = result[i + 1] * to[i + 1];
    from = from_end;
    next = next_end;
  }
  return result;  // dims that are left have one element
}

dnnl::memory::dims to_dnnl(const Dims& dims) { return {dims.begin(), dims.end()}; }

bool is_any(const dnnl::memory::desc& md) {
  return md.get_format_kind() == dnnl::memory::format_kind::any;
}

dnnl::memory::data_type dnnl_type(DataType type) {
  using dnnl_data = dnnl::memory::data_type;
  switch (type) {
    case DataType::kFloat: return dnnl_data::f32;
    case DataType::kFloat16: return dnnl_data::f16;
    case DataType::kBfloat16: return dnnl_data::bf16;
    case DataType::kBool:  // reorders only move it
    case DataType::kUint8: return dnnl_data::u8;
    case DataType::kInt8: return dnnl_data::s8;
    case DataType::kInt32: return dnnl_data::s32;
    default: return dnnl_data::undef;
  }
}

std::uint64_t element_bytes(DataType type) { return bits_of(type) / 8; }

dnnl::memory::desc make_md(const Dims& dims, const Dims& strides, DataType type) {
  if (dims.empty()) return {dnnl::memory::dims{1}, dnnl_type(type), dnnl::memory::dims{1}};
  return {to_dnnl(dims), dnnl_type(type), to_dnnl(strides)};
}

std::int64_t volume(const Dims& dims, std::size_t first) {
  std::int64_t product = 1;
  for (std::size_t i = first; i < dims.size(); ++i) product *= dims[i];
  return product;
}

}  // namespace ctxgen::onednn
