#include "ctxgen/kernels/recurrent.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "recurrent.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

// Registers for sums: rows times vectors of columns, as many as leave room for what is multiplied.
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr std::int64_t kMostRows = 6;
constexpr std::int64_t kPanelVectors = 4;
/// Vectors of columns whose sums are kept at once. Few rows need more of them: sums wait for each other.
constexpr std::int64_t vectors_of(std::int64_t rows) {
  return kManyRegisters || rows <= 2 ? kPanelVectors : kPanelVectors / 2;
}

/// Adds rows [k, k + kDepth) of b times their numbers to kRows rows of sums: b is read once, in as many
/// streams as processors follow, and the sums stay in the first cache.
template <std::int64_t kRows, std::int64_t kDepth>
HWY_INLINE void stream_block(const Product& p, std::int64_t k, const float* from,
                             std::int64_t from_stride) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  Vector by[kRows][kDepth];
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t i = 0; i < kDepth; ++i) by[r][i] = hn::Set(d, p.a[r * p.a_stride + k + i]);
  const float* b = p.b + k * p.b_stride;
  const auto add = [&](std::int64_t column, auto load, auto store) HWY_ATTR {
    Vector sums[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) sums[r] = load(from + r * from_stride + column);
    for (std::int64_t i = 0; i < kDepth; ++i) {
      const Vector x = load(b + i * p.b_stride + column);
      for (std::int64_t r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(by[r][i], x, sums[r]);
    }
    for (std::int64_t r = 0; r < kRows; ++r) store(sums[r], p.c + r * p.c_stride + column);
  };
  std::int64_t column = 0;
  for (; column + lanes <= p.columns; column += lanes)
    add(
        column, [&](const float* at) HWY_ATTR { return hn::LoadU(d, at); },
        [&](Vector x, float* at) HWY_ATTR { hn::StoreU(x, d, at); });
  const auto rest = static_cast<std::size_t>(p.columns - column);
  if (rest > 0)
    add(
        column, [&](const float* at) HWY_ATTR { return hn::LoadN(d, at, rest); },
        [&](Vector x, float* at) HWY_ATTR { hn::StoreN(x, d, at, rest); });
}

template <std::int64_t kRows>
HWY_NOINLINE void stream_rows(const Product& p) {
  constexpr std::int64_t kDepth = kManyRegisters ? 8 : 8 / kRows;
  std::int64_t k = 0;
  for (; k + kDepth <= p.depth; k += kDepth)
    stream_block<kRows, kDepth>(p, k, k == 0 ? p.start : p.c, k == 0 ? p.start_stride : p.c_stride);
  for (; k < p.depth; ++k)
    stream_block<kRows, 1>(p, k, k == 0 ? p.start : p.c, k == 0 ? p.start_stride : p.c_stride);
}

/// One block of kRows rows and kVectors vectors of columns; kMasked: `rest` columns of one vector.
template <std::int64_t kRows, std::int64_t kVectors, bool kMasked>
HWY_INLINE void multiply_block(const Product& p, std::int64_t row, std::int64_t column,
                               std::size_t rest) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto load = [&](const float* at)
                        HWY_ATTR { return kMasked ? hn::LoadN(d, at, rest) : hn::LoadU(d, at); };
  Vector sums[kRows][kVectors];
  const float* start = p.start + row * p.start_stride + column;
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t v = 0; v < kVectors; ++v)
      sums[r][v] = load(start + r * p.start_stride + v * lanes);
  const float* a = p.a + row * p.a_stride;
  const float* b = p.b + column;
  for (std::int64_t k = 0; k < p.depth; ++k, b += p.b_stride) {
    Vector from[kVectors];
    for (std::int64_t v = 0; v < kVectors; ++v) from[v] = load(b + v * lanes);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const Vector by = hn::Set(d, a[r * p.a_stride + k]);
      for (std::int64_t v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(by, from[v], sums[r][v]);
    }
  }
  float* c = p.c + row * p.c_stride + column;
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t v = 0; v < kVectors; ++v) {
      float* at = c + r * p.c_stride + v * lanes;
      if constexpr (kMasked)
        hn::StoreN(sums[r][v], d, at, rest);
      else
        hn::StoreU(sums[r][v], d, at);
    }
}

/// All columns of kRows rows.
template <std::int64_t kRows>
HWY_NOINLINE void multiply_rows(const Product& p, std::int64_t row) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag()));
  constexpr std::int64_t kVectors = vectors_of(kRows);
  std::int64_t column = 0;
  for (; column + kVectors * lanes <= p.columns; column += kVectors * lanes)
    multiply_block<kRows, kVectors, false>(p, row, column, 0);
  for (; column + lanes <= p.columns; column += lanes)
    multiply_block<kRows, 1, false>(p, row, column, 0);
  if (column < p.columns)
    multiply_block<kRows, 1, true>(p, row, column, static_cast<std::size_t>(p.columns - column));
}

/// All rows times one panel. A last block of one or two rows would be slow: 7 rows are 4 and 3.
HWY_INLINE void multiply_panel(const Product& p) {
  for (std::int64_t row = 0, rows = 0; row < p.rows; row += rows) {
    const std::int64_t left = p.rows - row;
    rows = left > kMostRows && left < kMostRows + 3 ? (left + 1) / 2 : HWY_MIN(left, kMostRows);
    switch (rows) {
      case 1: multiply_rows<1>(p, row); break;
      case 2: multiply_rows<2>(p, row); break;
      case 3: multiply_rows<3>(p, row); break;
      case 4: multiply_rows<4>(p, row); break;
      case 5: multiply_rows<5>(p, row); break;
      default: multiply_rows<kMostRows>(p, row);
    }
  }
}

HWY_NOINLINE void pack(std::int64_t depth, std::int64_t columns, const float* b,
                       std::int64_t b_stride, float* panel);

/// Panel after panel of b, copied to where it stays in the first cache while all rows use it: rows of b
/// that are far apart would take the same few places there.
HWY_NOINLINE void multiply_far(const Product& p) {
  constexpr std::int64_t kDepth = 128;
  const std::int64_t width = kPanelVectors * static_cast<std::int64_t>(hn::Lanes(Tag()));
  HWY_ALIGN float panel[kDepth * kPanelVectors * static_cast<std::int64_t>(hn::MaxLanes(Tag()))];
  for (std::int64_t column = 0; column < p.columns; column += width)
    for (std::int64_t k = 0; k < p.depth; k += kDepth) {
      Product part = p;
      part.depth = HWY_MIN(kDepth, p.depth - k);
      part.columns = HWY_MIN(width, p.columns - column);
      pack(part.depth, part.columns, p.b + k * p.b_stride + column, p.b_stride, panel);
      part.a += k;
      part.b = panel;
      part.b_stride = width;
      part.c += column;
      part.start += column;
      if (k > 0) {
        part.start = part.c;
        part.start_stride = part.c_stride;
      }
      multiply_panel(part);
    }
}

HWY_NOINLINE void multiply(const Product& p) {
  const std::int64_t width = kPanelVectors * static_cast<std::int64_t>(hn::Lanes(Tag()));
  if (p.columns <= width && p.b_stride <= width) return multiply_panel(p);
  if (p.rows == 1) return stream_rows<1>(p);
  if (p.rows == 2) return stream_rows<2>(p);
  multiply_far(p);
}

std::int64_t columns_of_panel() {
  return kPanelVectors * static_cast<std::int64_t>(hn::Lanes(Tag()));
}

HWY_NOINLINE void pack(std::int64_t depth, std::int64_t columns, const float* b,
                       std::int64_t b_stride, float* panel) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t width = kPanelVectors * lanes;
  for (std::int64_t k = 0; k < depth; ++k, b += b_stride, panel += width)
    for (std::int64_t j = 0; j < width; j += lanes) {
      const std::int64_t left = columns - j;
      const Vector x = left >= lanes ? hn::LoadU(d, b + j)
                       : left > 0    ? hn::LoadN(d, b + j, static_cast<std::size_t>(left))
                                     : hn::Zero(d);
      hn::StoreU(x, d, panel + j);
    }
}

/// body(load, store) for each vector of n units: load(p) is what p has there, store(x, p) writes it.
template <class Body>
HWY_INLINE void each_vector(std::int64_t count, const Body& body) {
  const Tag d;
  const auto n = static_cast<std::size_t>(count);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    body([&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); },
         [&](Vector x, float* p) HWY_ATTR { hn::StoreU(x, d, p + i); });
  if (i < n)
    body([&](const float* p) HWY_ATTR { return hn::LoadN(d, p + i, n - i); },
         [&](Vector x, float* p) HWY_ATTR { hn::StoreN(x, d, p + i, n - i); });
}

HWY_NOINLINE void lstm(std::int64_t n, const LstmGates& gates, const float* last_cell, float* cell,
                       float* out) {
  each_vector(n, [&](auto load, auto store) HWY_ATTR {
    const Vector kept = hn::Mul(logistic_of(load(gates.forget)), load(last_cell));
    const Vector c =
        hn::MulAdd(logistic_of(load(gates.input)), tanh_of(load(gates.candidate)), kept);
    const Vector y = hn::Mul(logistic_of(load(gates.output)), tanh_of(c));
    store(c, cell);
    store(y, out);
  });
}

HWY_NOINLINE void first_gates(std::int64_t n, const float* reset, const float* state, float* update,
                              float* kept) {
  each_vector(n, [&](auto load, auto store) HWY_ATTR {
    const Vector r = hn::Mul(logistic_of(load(reset)), load(state));
    store(logistic_of(load(update)), update);
    store(r, kept);
  });
}

/// (1 - update) * candidate + update * state
HWY_INLINE Vector mix(Vector update, Vector candidate, Vector state) {
  return hn::MulAdd(hn::Sub(constant(1.0F), update), candidate, hn::Mul(update, state));
}

HWY_NOINLINE void gru(std::int64_t n, const float* update, const float* candidate,
                      const float* state, float* out) {
  each_vector(n, [&](auto load, auto store) HWY_ATTR {
    store(mix(load(update), tanh_of(load(candidate)), load(state)), out);
  });
}

HWY_NOINLINE void linear_gru(std::int64_t n, const LinearGruGates& gates, const float* state,
                             float* out) {
  each_vector(n, [&](auto load, auto store) HWY_ATTR {
    const Vector candidate =
        hn::MulAdd(logistic_of(load(gates.reset)), load(gates.recurrent), load(gates.candidate));
    store(mix(logistic_of(load(gates.update)), tanh_of(candidate), load(state)), out);
  });
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"
#include "prefetch.h"

namespace ctxgen::kernels {

void multiply(const Product& product) { CTXGEN_DISPATCH(multiply(product)); }

bool streams_one_row() { return has_intel_cores(); }

std::int64_t panel_columns() { CTXGEN_DISPATCH(columns_of_panel()); }

void pack_panel(std::int64_t depth, std::int64_t columns, const float* b, std::int64_t b_stride,
                float* panel) {
  CTXGEN_DISPATCH(pack(depth, columns, b, b_stride, panel));
}

void lstm_cell(std::int64_t n, const LstmGates& gates, const float* last_cell, float* cell,
               float* out) {
  CTXGEN_DISPATCH(lstm(n, gates, last_cell, cell, out));
}

void gru_gates(std::int64_t n, const float* reset, const float* state, float* update, float* kept) {
  CTXGEN_DISPATCH(first_gates(n, reset, state, update, kept));
}

void gru_cell(std::int64_t n, const float* update, const float* candidate, const float* state,
              float* out) {
  CTXGEN_DISPATCH(gru(n, update, candidate, state, out));
}

void linear_gru_cell(std::int64_t n, const LinearGruGates& gates, const float* state, float* out) {
  CTXGEN_DISPATCH(linear_gru(n, gates, state, out));
}

}  // namespace ctxgen::kernels
#endif
