#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ctxgen/kernels/product.h"

namespace ctxgen::kernels {

/// Rows of a part at most.
inline constexpr std::int64_t kMostPartRows = 224;
/// Elements of a row that are multiplied before the next rows', at most.
inline constexpr std::int64_t kChunk = 768;

/// Consecutive elements of a row that lie in the image, and where their factors are.
struct Run {
  std::int64_t src;    // floats from the row's first element in the image
  std::int64_t depth;  // the first one's number in the whole row
  std::int64_t count;
};
using Runs = std::array<Run, kChunk>;

/// Positions of the kernel that lie in the image: lines [line, line_end) times columns [column,
/// column_end). Empty if there are none.
struct Cover {
  std::int64_t line, line_end, column, column_end;
  bool operator==(const Cover&) const = default;
  [[nodiscard]] bool empty() const { return line >= line_end || column >= column_end; }
};

/// The rows of a part, those with the same cover next to each other: padding costs no products.
class WindowRows {
 public:
  struct Group {
    std::int64_t first, count;
    Cover cover;
  };

  /// `rows` <= kMostPartRows.
  WindowRows(const Windows& windows, std::int64_t row, std::int64_t rows);

  [[nodiscard]] std::span<const Group> groups() const {
    return {groups_.data(), static_cast<std::size_t>(group_count_)};
  }
  /// Of each row, in the order of the groups: floats from the source to its first element in the
  /// image; its number in the part.
  [[nodiscard]] const std::int64_t* offsets() const { return offsets_.data(); }
  [[nodiscard]] const std::int64_t* numbers() const { return numbers_.data(); }

 private:
  void take_matrix(const Windows& windows, std::int64_t row, std::int64_t rows);
  void take_windows(const Windows& windows, std::int64_t row, std::int64_t rows);
  void put_in_groups(const std::int64_t* places, const std::int64_t* group_of, std::int64_t rows);
  std::int64_t group_with(const Cover& cover, std::int64_t last);

  std::int64_t group_count_ = 0;
  std::array<Group, kMostPartRows> groups_;
  std::array<std::int64_t, kMostPartRows> offsets_, numbers_;
};

/// The runs of rows of a cover within elements [depth, depth + count) of the whole row, count <=
/// kChunk; returns how many there are.
[[nodiscard]] std::size_t find_runs(const Windows& windows, const Cover& cover, std::int64_t depth,
                                    std::int64_t count, Runs& runs);

}  // namespace ctxgen::kernels
