#include <algorithm>
#include <cstring>

#include "ctxgen/kernels/dynamic_quantize.h"
#include "ctxgen/kernels/recurrent.h"

#include "kernels/kernel_loops.h"
#include "kernels/recurrent/kernels_byte_lstm.h"

namespace ctxgen::onednn {
namespace {

constexpr std::int64_t kGates = 4;
constexpr std::int64_t kRowsAtOnce = 96;  // of the product with the inputs
constexpr std::int64_t kWorkOfUnit = 8;   // sums and a cell's functions, in element-wise steps

std::int64_t steps_at_once(const ByteLstmShape& shape) {
  return std::clamp<std::int64_t>(kRowsAtOnce / shape.batch, 1, shape.steps);
}

/// Where the parts of the scratch memory begin, each at a multiple of 64 bytes.
struct Places {
  std::uint64_t steps = 0, source = 0, state = 0, sums = 0, products = 0, product = 0, end = 0;
};

/// Nothing if the sizes pass 2^63 - 1.
std::optional<Places> places_of(const ByteLstmShape& shape) {
  constexpr std::uint64_t kLine = 64, kMost = INT64_MAX;
  const auto chunk = steps_at_once(shape) * shape.batch;
  const auto of_inputs = kernels::scratch_bytes(shape.weights, chunk);
  const auto of_state = kernels::scratch_bytes(shape.recurrent, shape.batch);
  if (!of_inputs || !of_state) return std::nullopt;
  std::uint64_t end = 0;
  bool fits = true;
  const auto take = [&](std::initializer_list<std::int64_t> sizes) {
    const std::uint64_t begin = end;
    std::uint64_t bytes = 1;
    for (const std::int64_t size : sizes)
      fits = fits && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes);
    fits = fits && bytes < kMost && end < kMost;
    if (fits) end += (bytes + kLine - 1) / kLine * kLine;
    return begin;
  };
  Places places;
  places.steps = take({64});
  places.source = take({shape.steps, shape.batch, shape.inputs});
  places.state = take({shape.batch, shape.units});
  places.sums = take({chunk, kGates * shape.units, sizeof(float)});
  places.products = take({shape.batch, kGates * shape.units, sizeof(float)});
  places.product = take({static_cast<std::int64_t>(std::max(*of_inputs, *of_state))});
  places.end = end;
  if (!fits || end > kMost) return std::nullopt;
  return places;
}

/// Bytes with the scale and zero point that they were rounded by.
struct Rounded {
  std::uint8_t *bytes, *zero;
  float* scale;
};

class ByteLstmKernel final : public Kernel {
 public:
  explicit ByteLstmKernel(const ByteLstmShape& shape) : shape_(shape), at_(*places_of(shape)) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const std::int64_t states = shape_.batch * shape_.units;
    std::byte* scratch = args[9 + int{shape_.has_state} + int{shape_.has_cell}];
    const auto floats = [](std::byte* at) { return reinterpret_cast<float*>(at); };
    auto* steps = floats(scratch + at_.steps);
    const Rounded x{.bytes = reinterpret_cast<std::uint8_t*>(scratch + at_.source),
                    .zero = reinterpret_cast<std::uint8_t*>(steps + 1),
                    .scale = steps};
    round(floats(args[0]), shape_.steps * shape_.batch * shape_.inputs, x, workers);
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      Direction one{.x = x,
                    .h = {.bytes = reinterpret_cast<std::uint8_t*>(scratch + at_.state),
                          .zero = reinterpret_cast<std::uint8_t*>(steps + 3),
                          .scale = steps + 2}};
      const auto matrix = [&](const kernels::ByteMatrix& of, int at, bool per_column) {
        return PackedBytes{
            .matrix = of,
            .packed = args[at] + static_cast<std::uint64_t>(d) * kernels::packed_bytes(of),
            .scales = floats(args[at + 2]) + d * (per_column ? of.n : 1),
            .scale_per_column = per_column};
      };
      one.weights = matrix(shape_.weights, 1, shape_.weight_scale_per_column);
      one.recurrent = matrix(shape_.recurrent, 2, shape_.recurrent_scale_per_column);
      one.bias = floats(args[5]) + d * kGates * shape_.units;
      one.y = floats(args[6]) + d * shape_.units;
      one.state = floats(args[7]) + d * states;
      one.cell = floats(args[8]) + d * states;
      start(shape_.has_state ? floats(args[9]) + d * states : nullptr, one.state, states);
      start(shape_.has_cell ? floats(args[9 + int{shape_.has_state}]) + d * states : nullptr,
            one.cell, states);
      one.sums = floats(scratch + at_.sums);
      one.products = floats(scratch + at_.products);
      one.scratch = scratch + at_.product;
      run_direction(one, d == 1 || shape_.reversed, workers);
    }
    return {};
  }

 private:
  /// The matrix of one direction.
  struct PackedBytes {
    kernels::ByteMatrix matrix;
    const std::byte* packed = nullptr;
    const float* scales = nullptr;
    bool scale_per_column = false;
  };

  struct Direction {
    Rounded x, h;
    PackedBytes weights = {}, recurrent = {};
    const float* bias = nullptr;
    float *y = nullptr, *state = nullptr, *cell = nullptr;
    float *sums = nullptr, *products = nullptr;  // [rows at once, 4, units], [batch, 4, units]
    std::byte* scratch = nullptr;                // of a product
  };

  static void start(const float* given, float* state, std::int64_t count) {
    if (given != nullptr)
      std::memcpy(state, given, static_cast<std::size_t>(count) * sizeof(float));
    else
      std::fill_n(state, count, 0.0F);
  }

  static void round(const float* from, std::int64_t count, const Rounded& to, Workers& workers) {
    kernels::dynamic_quantize(
        {.count = count, .x = from, .y = to.bytes, .scale = to.scale, .zero = to.zero}, workers);
  }

  static void multiply(const Rounded& a, std::int64_t rows, const PackedBytes& by,
                       std::byte* scratch, float* out, Workers& workers) {
    kernels::byte_product({.matrix = by.matrix,
                           .rows = rows,
                           .a = a.bytes,
                           .a_zero = a.zero,
                           .packed = by.packed,
                           .out = out,
                           .a_scale = a.scale,
                           .b_scales = by.scales,
                           .scale_per_column = by.scale_per_column,
                           .scratch = scratch},
                          workers);
  }

  void run_direction(const Direction& one, bool backward, Workers& workers) const {
    const std::int64_t at_once = steps_at_once(shape_);
    for (std::int64_t first = 0; first < shape_.steps; first += at_once) {
      const std::int64_t steps = std::min(at_once, shape_.steps - first);
      // In memory the steps of a part run forward, whatever their order.
      const std::int64_t begin = backward ? shape_.steps - first - steps : first;
      Rounded x = one.x;
      x.bytes += begin * shape_.batch * shape_.inputs;
      multiply(x, steps * shape_.batch, one.weights, one.scratch, one.sums, workers);
      for (std::int64_t i = 0; i < steps; ++i) {
        const std::int64_t step = backward ? steps - 1 - i : i;
        run_step(one, one.sums + step * shape_.batch * kGates * shape_.units,
                 one.y + (begin + step) * shape_.batch * shape_.directions * shape_.units, workers);
      }
    }
  }

  /// `sums` [batch, 4, units]: products with the inputs; y: rows of all directions.
  void run_step(const Direction& one, float* sums, float* y, Workers& workers) const {
    const std::int64_t units = shape_.units;
    round(one.state, shape_.batch * units, one.h, workers);
    multiply(one.h, shape_.batch, one.recurrent, one.scratch, one.products, workers);
    parallel_for(
        workers, shape_.batch, work_of(shape_.batch * units, kWorkOfUnit), [&](std::int64_t n) {
          float* gates = sums + n * kGates * units;
          const float* product = one.products + n * kGates * units;
          for (std::int64_t j = 0; j < kGates * units; ++j)
            gates[j] = gates[j] + product[j] + one.bias[j];
          float* cell = one.cell + n * units;
          float* out = y + n * shape_.directions * units;
          kernels::lstm_cell(units,
                             {.input = gates,
                              .forget = gates + 2 * units,
                              .candidate = gates + 3 * units,
                              .output = gates + units},
                             cell, cell, out);
          std::memcpy(one.state + n * units, out, static_cast<std::size_t>(units) * sizeof(float));
        });
  }

  ByteLstmShape shape_;
  Places at_;
};

}  // namespace

std::optional<std::uint64_t> ByteLstmShape::scratch_bytes() const {
  const auto places = places_of(*this);
  if (!places) return std::nullopt;
  return places->end;
}

std::shared_ptr<const Kernel> make_byte_lstm_kernel(const ByteLstmShape& shape) {
  return std::make_shared<ByteLstmKernel>(shape);
}

}  // namespace ctxgen::onednn
