#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace ctxgen::kernels {

/// The rows of a product's left matrix: the windows of a convolution over images in channels-last
/// order, one per pixel of the result. A row holds kernel[0] x kernel[1] x channels elements, 0 where
/// the window leaves the image. A plain matrix is one column of pixels under a kernel of one.
/// Pairs are lines, columns.
struct Windows {
  using Pair = std::array<std::int64_t, 2>;
  std::int64_t images = 1;
  Pair size{1, 1};    // of an image of the source, in pixels
  Pair result{1, 1};  // of an image of the result, in pixels
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair dilation{1, 1};  // 1: positions of the kernel touch
  Pair pad{0, 0};       // before the image
  std::int64_t channels = 0;
  std::int64_t pitch = 0;  // floats from a pixel to the next one

  [[nodiscard]] std::int64_t rows() const { return images * result[0] * result[1]; }
  [[nodiscard]] std::int64_t depth() const { return kernel[0] * kernel[1] * channels; }
  /// Whether rows are pixels, one after the other: those of a plain matrix.
  [[nodiscard]] bool is_matrix() const {
    return kernel == Pair{1, 1} && stride == Pair{1, 1} && pad == Pair{0, 0} && result == size;
  }
};

/// The windows of a matrix of rows x depth whose rows are `pitch` floats apart.
[[nodiscard]] constexpr Windows matrix_rows(std::int64_t rows, std::int64_t depth,
                                            std::int64_t pitch) {
  return {.size = {rows, 1}, .result = {rows, 1}, .channels = depth, .pitch = pitch};
}

/// How the elements of panels are stored. Narrow ones are widened, which is exact, and multiplied in f32.
enum class PanelType : std::uint8_t { kFloat, kBfloat16, kFloat16 };

/// A product's right matrix of depth x columns, stored as panels of `block` columns: each holds the
/// `block` elements of row 0, those of row 1, and so on; what is missing from the last panel is stored
/// as zeros. oneDNN calls this BA16a{block}b (panel_elements counts rows up to a multiple of 16) and, of
/// a convolution's weights OIHW, Acdb{block}a.
struct PackedMatrix {
  const std::byte* panels = nullptr;
  PanelType type = PanelType::kFloat;
  std::int64_t columns = 0;
  std::int64_t block = 0;           // a multiple of 16, at most 64
  std::int64_t panel_elements = 0;  // from a panel to the next one, at least depth x block
};

/// What becomes of the sums: result = clamp(start + sums + bias, low, high). NaN stays NaN.
struct Finish {
  const float* bias = nullptr;   // [columns]
  const float* start = nullptr;  // as the result, with pitch start_pitch; may be the result itself
  std::int64_t start_pitch = 0;
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};

struct PanelProduct {
  Windows windows;
  const float* src = nullptr;
  PackedMatrix matrix;
  Finish finish;
  float* result = nullptr;        // [rows, columns]
  std::int64_t result_pitch = 0;  // floats from a row to the next one
};

/// A rectangle of the result.
struct ProductPart {
  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, columns = 0;  // the first one is a multiple of the panels' block
};

/// How a result is divided into parts that fit the caches, for any number of threads.
struct ProductParts {
  std::int64_t rows = 0, columns = 0;            // of the result
  std::int64_t part_rows = 0, part_columns = 0;  // of each part but the last ones
  /// The next part has other rows, not other columns: the smaller operand is read again and again.
  bool rows_first = false;
  /// Of several groups, the parts of all of them that have the same rows follow each other. Not with rows_first.
  bool groups_inside = false;
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] ProductPart part(std::int64_t index) const;
  struct GroupPart {
    std::int64_t group = 0, part = 0;  // part: an index for part()
  };
  /// Of the groups * count() parts of `groups` such products.
  [[nodiscard]] GroupPart part_of_groups(std::int64_t index, std::int64_t groups) const;
};
/// As large parts as caches like, but `wanted` of them where there is work for so many.
[[nodiscard]] ProductParts product_parts(const Windows& windows, const PackedMatrix& matrix,
                                         std::int64_t wanted);

/// Parts for `threads` threads that compute `groups` such products at once, each taking as many parts that follow each other
/// as the others, the last one fewer. Parts of windows, and with AVX-512 of a plain matrix, are such that threads end at the
/// same time.
[[nodiscard]] ProductParts parts_of_team(const Windows& windows, const PackedMatrix& matrix,
                                         int threads, std::int64_t groups = 1);

/// Rows of a matrix, in one part, for which multiply_panels() reads panels of any block once, in the order
/// in which they are stored. Parts of more rows take chunks of the panels that stay in a cache.
[[nodiscard]] std::int64_t most_stream_rows();

/// Whether multiply_panels() asks for f32 panels ahead of time on this machine, so that rows do not wait for memory.
[[nodiscard]] bool reads_ahead();

/// Computes a part. Each element is one chain of fused multiply-adds in the order of the depth (with
/// instruction sets that have them), so it depends neither on the parts nor on the instruction set.
/// No memory outside of the images, panels and the part is read or written. Source and result do not
/// overlap. All sizes have been checked: products of dims fit 64 bits, every pitch covers its row.
void multiply_panels(const PanelProduct& product, const ProductPart& part);

}  // namespace ctxgen::kernels
