#include "window_rows.h"

#include <algorithm>
#include <numeric>

#include "stretches.h"

namespace ctxgen::kernels {

namespace {

/// How many of 0, stride, 2 * stride... are below `end`.
std::int64_t columns_until(std::int64_t end, std::int64_t stride) {
  return end <= 0 ? 0 : (end + stride - 1) / stride;
}

}  // namespace

WindowRows::WindowRows(const Windows& windows, std::int64_t row, std::int64_t rows) {
  if (windows.is_matrix())
    take_matrix(windows, row, rows);
  else
    take_windows(windows, row, rows);
}

void WindowRows::take_matrix(const Windows& windows, std::int64_t row, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) {
    offsets_[i] = (row + i) * windows.pitch;
    numbers_[i] = i;
  }
  groups_[0] = {0, rows, {0, 1, 0, 1}};
  group_count_ = rows > 0 ? 1 : 0;
}

void WindowRows::take_windows(const Windows& w, std::int64_t row, std::int64_t rows) {
  std::array<std::int64_t, kMostPartRows> places;  // offsets in the order of the rows
  std::array<std::int64_t, kMostPartRows> group_of;
  // Columns of a line from this one on have windows that end outside of the image.
  const std::int64_t right =
      columns_until(w.size[1] + w.pad[1] - (w.kernel[1] - 1) * w.dilation[1], w.stride[1]);
  std::int64_t column = row % w.result[1], line = row / w.result[1] % w.result[0];
  std::int64_t image = row / w.result[1] / w.result[0];
  std::int64_t last = 0;
  for (std::int64_t i = 0, run = 0; i < rows; i += run) {
    const std::int64_t y = line * w.stride[0] - w.pad[0], x = column * w.stride[1] - w.pad[1];
    const Positions lines = positions(y, w.size[0], w.kernel[0], w.dilation[0]);
    const Positions columns = positions(x, w.size[1], w.kernel[1], w.dilation[1]);
    Cover cover{lines.first, lines.end, columns.first, columns.end};
    std::int64_t place = 0, step = 0;
    if (cover.empty()) {
      cover = Cover{};
    } else {
      place = ((image * w.size[0] + y + lines.first * w.dilation[0]) * w.size[1] + x +
               columns.first * w.dilation[1]) *
              w.pitch;
      step = w.stride[1] * w.pitch;
    }
    // Neighbours with whole lines of the kernel have the same cover.
    run = x >= 0 && column < right ? std::min(rows - i, std::min(right, w.result[1]) - column) : 1;
    last = group_with(cover, last);
    groups_[last].count += run;
    std::fill_n(group_of.begin() + i, run, last);
    for (std::int64_t r = 0; r < run; ++r) places[i + r] = place + r * step;
    column += run;
    if (column < w.result[1]) continue;
    column = 0;
    if (++line < w.result[0]) continue;
    line = 0;
    ++image;
  }
  put_in_groups(places.data(), group_of.data(), rows);
}

/// offsets_ and numbers_ in the order of the groups.
void WindowRows::put_in_groups(const std::int64_t* places, const std::int64_t* group_of,
                               std::int64_t rows) {
  if (group_count_ == 1) {
    groups_[0].first = 0;
    std::copy_n(places, rows, offsets_.begin());
    std::iota(numbers_.begin(), numbers_.begin() + rows, std::int64_t{0});
    return;
  }
  std::array<std::int64_t, kMostPartRows> next;  // of each group
  for (std::int64_t g = 0, first = 0; g < group_count_; first += groups_[g++].count)
    next[g] = groups_[g].first = first;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t at = next[group_of[i]]++;
    offsets_[at] = places[i];
    numbers_[at] = i;
  }
}

/// The number of the group with the cover, a new one if there is none. Neighbours mostly have `last`.
std::int64_t WindowRows::group_with(const Cover& cover, std::int64_t last) {
  if (last < group_count_ && groups_[last].cover == cover) return last;
  for (std::int64_t g = 0; g < group_count_; ++g)
    if (groups_[g].cover == cover) return g;
  groups_[group_count_] = {0, 0, cover};
  return group_count_++;
}

std::size_t find_runs(const Windows& w, const Cover& cover, std::int64_t depth, std::int64_t count,
                      Runs& runs) {
  // Columns of the kernel that lie next to each other in the image are one run.
  const std::int64_t covered = cover.column_end - cover.column;
  const bool joined = covered == 1 || (w.dilation[1] == 1 && w.pitch == w.channels);
  const std::int64_t pieces = joined ? 1 : covered;
  const std::int64_t length = joined ? covered * w.channels : w.channels;
  std::size_t found = 0;
  for (std::int64_t line = cover.line; line < cover.line_end; ++line)
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t first = (line * w.kernel[1] + cover.column + piece) * w.channels;
      const std::int64_t from = std::max(first, depth),
                         end = std::min(first + length, depth + count);
      if (from >= end) continue;
      const std::int64_t pixels =
          (line - cover.line) * w.dilation[0] * w.size[1] + piece * w.dilation[1];
      runs[found++] = {pixels * w.pitch + from - first, from, end - from};
    }
  return found;
}

}  // namespace ctxgen::kernels
