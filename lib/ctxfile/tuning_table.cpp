#include "ctxgen/ctxfile/tuning_table.h"

#include <algorithm>
#include <array>
#include <format>

namespace ctxgen {
namespace {

std::strong_ordering compare(const Dims& a, const Dims& b) {
  return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
}

bool all_ones(const Dims& dims) {
  return std::ranges::all_of(dims, [](std::int64_t dim) { return dim == 1; });
}

}  // namespace

std::strong_ordering operator<=>(const TunedShape& a, const TunedShape& b) {
  for (const std::strong_ordering order :
       {a.op <=> b.op, a.weight <=> b.weight, a.source <=> b.source, compare(a.dims, b.dims),
        a.group <=> b.group, compare(a.strides, b.strides), compare(a.dilations, b.dilations)})
    if (order != std::strong_ordering::equal) return order;
  return a.rows <=> b.rows;
}

std::string to_string(const TunedShape& shape) {
  std::string text = std::format("{} {}{}", shape.op, name_of(shape.weight), to_string(shape.dims));
  if (shape.source != shape.weight) text += std::format(" by {}", name_of(shape.source));
  if (shape.group != 1) text += std::format(", {} groups", shape.group);
  if (!all_ones(shape.strides)) text += std::format(", strides {}", to_string(shape.strides));
  if (!all_ones(shape.dilations)) text += std::format(", dilations {}", to_string(shape.dilations));
  text += shape.rows == 0 ? ", any rows" : std::format(", {} rows", shape.rows);
  return text;
}

const TuningRow* find_row(const TuningTable& table, const TunedShape& shape) {
  TunedShape wanted = shape;
  for (const std::int64_t rows : std::array{shape.rows, std::int64_t{0}}) {
    wanted.rows = rows;
    const auto found = std::ranges::lower_bound(table.rows, wanted, {}, &TuningRow::shape);
    if (found != table.rows.end() && found->shape == wanted) return &*found;
  }
  return nullptr;
}

bool steers(const TuningTable& table) {
  return std::ranges::any_of(table.rows,
                             [](const TuningRow& row) { return row.form != kTableForm; });
}

std::vector<std::string> effect_of(const TuningTable& table) {
  std::vector<std::string> lines;
  const bool forms = steers(table);
  for (const TuningRow& row : table.rows) {
    std::string line = std::format("{}:", to_string(row.shape));
    // A row for the table may stand before one for any number of rows.
    if (forms) line += " " + row.form;
    for (const std::string& precision : row.precisions.value_or(std::vector<std::string>()))
      line += " " + precision;
    if (row.precisions) line += ".";
    if (forms || row.precisions) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace ctxgen
