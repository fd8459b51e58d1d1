#include "kinds/quantized/byte_conv_lines.h"

#include <algorithm>

#include "ctxgen/base/checked.h"
#include "ctxgen/kernels/byte_windows.h"
#include "ctxgen/kernels/lane_share.h"

#include "kernels/kernel_loops.h"

namespace ctxgen::onednn {

namespace {

class ByteLinesKernel final : public Kernel {
 public:
  ByteLinesKernel(const ByteForm& form, const ByteLinesForm& lines) : form_(form), lines_(lines) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const kernels::ByteProduct product = form_.product(args);
    std::byte* scratch = args[0];
    const std::int64_t parts = lines_.windows.images * lines_.parts_of_image;
    parallel_for(workers, lines_.lanes, form_.work(lines_.windows.rows()), [&](std::int64_t lane) {
      const auto [first, end] = kernels::lane_share(parts, lines_.lanes, lane);
      for (std::int64_t i = first; i < end; ++i)
        run_part(product, i, scratch + static_cast<std::uint64_t>(lane) * lines_.lane_bytes);
    });
    return {};
  }

 private:
  void run_part(kernels::ByteProduct product, std::int64_t part, std::byte* scratch) const {
    const kernels::Windows& w = lines_.windows;
    const std::int64_t image = part / lines_.parts_of_image;
    const std::int64_t line = part % lines_.parts_of_image * lines_.part_lines;
    const std::int64_t count = std::min(lines_.part_lines, w.result[0] - line);
    std::int64_t columns = w.size[1];
    if (lines_.lane_bytes > 0) {
      auto* padded = reinterpret_cast<std::uint8_t*>(scratch);
      const std::uint8_t fill = product.a_zero == nullptr ? 0 : *product.a_zero;
      kernels::pad_lines(w, product.a, fill, image, line, count, padded);
      product.a = padded;
      columns = kernels::seen_columns(w);
    } else {
      product.a += (image * w.size[0] + line * w.stride[0]) * columns * w.channels;
    }
    const std::int64_t line_bytes = columns * w.channels;
    product.rows = count * w.result[1];
    product.a_stride = w.stride[1] * w.channels;
    product.lines = {.rows = w.result[1],
                     .stride = w.stride[0] * line_bytes,
                     .segments = w.kernel[0],
                     .segment_stride = w.dilation[0] * line_bytes};
    form_.move_result((image * w.result[0] + line) * w.result[1], product);
    OneThread one;
    kernels::byte_product(product, one);
  }

  ByteForm form_;
  ByteLinesForm lines_;
};

}  // namespace

bool takes_lines(const kernels::ByteMatrix& matrix, const kernels::Windows& w, bool is_signed) {
  constexpr std::int64_t kLeastColumns = 24;
  const bool joined = w.dilation[1] == 1 || w.kernel[1] == 1;
  return kernels::takes_lines() && !is_signed && !matrix.zeros && joined && w.rows() > 0 &&
         w.kernel[1] * w.channels % 4 == 0 && w.result[1] >= kLeastColumns;
}

std::optional<ByteLinesForm> plan_lines(const kernels::Windows& w, int threads) {
  constexpr std::int64_t kRowsOfPart = 240;
  ByteLinesForm form{.windows = w};
  const std::int64_t most = std::max<std::int64_t>(kRowsOfPart / w.result[1], 1);
  const std::int64_t lines = w.images * w.result[0];
  const std::int64_t rounds = (lines + most * threads - 1) / (most * threads);
  // All lanes get as many parts of as many lines.
  form.part_lines =
      std::clamp<std::int64_t>((lines + rounds * threads - 1) / (rounds * threads), 1, w.result[0]);
  form.parts_of_image = (w.result[0] + form.part_lines - 1) / form.part_lines;
  form.lanes = std::clamp<std::int64_t>(threads, 1, w.images * form.parts_of_image);
  const auto inside = [&](std::size_t axis, std::int64_t seen) {
    return w.pad[axis] == 0 && seen <= w.size[axis];
  };
  if (inside(0, kernels::seen_lines(w, w.result[0])) && inside(1, kernels::seen_columns(w)))
    return form;
  const auto seen = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const auto plane =
      checked_mul(seen(kernels::seen_lines(w, form.part_lines)), seen(kernels::seen_columns(w)));
  const auto bytes = plane ? checked_mul(*plane, seen(w.channels)) : plane;
  if (!bytes || *bytes > kMaxTensorBytes) return std::nullopt;
  form.lane_bytes = (*bytes + 63) / 64 * 64;
  const auto all = checked_mul(form.lane_bytes, static_cast<std::uint64_t>(form.lanes));
  return all && *all <= kMaxTensorBytes ? std::optional(form) : std::nullopt;
}

std::shared_ptr<const Kernel> make_byte_lines_kernel(const ByteForm& form,
                                                     const ByteLinesForm& lines) {
  return std::make_shared<const ByteLinesKernel>(form, lines);
}

}  // namespace ctxgen::onednn
