#include <algorithm>

#include "kinds/kind_rows.h"

namespace ctxgen::onednn {
namespace {

#define CTXGEN_ROW_ADDRESS(name) &(name),
constexpr const KindRow* kRows[] = {CTXGEN_KIND_ROWS(CTXGEN_ROW_ADDRESS)};
#undef CTXGEN_ROW_ADDRESS

constexpr KindTraits kUnknown{.post_ops = false};

}  // namespace

std::span<const KindRow* const> kind_rows() { return kRows; }

const KindRow* find_kind(std::string_view name) {
  const auto found = std::ranges::find(kRows, name, &KindRow::name);
  return found == std::end(kRows) ? nullptr : *found;
}

const KindTraits& traits_of(const ProgramOp& op) {
  const KindRow* row = find_kind(op.kind);
  return row == nullptr ? kUnknown : row->traits;
}

}  // namespace ctxgen::onednn
