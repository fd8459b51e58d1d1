#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ctxgen::cli {

/// Rows of text in aligned columns, two blanks apart; the last column is not padded.
class TextTable {
 public:
  /// Columns in `right` are aligned to the right (numbers).
  explicit TextTable(std::vector<std::size_t> right = {}) : right_(std::move(right)) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] std::string text(std::string_view indent = "") const;

 private:
  std::vector<std::size_t> right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ctxgen::cli
