#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ctxgen::onednn {

/// What docs/operators.md says about one row of the operator table.
struct OpInfo {
  std::string_view domain;  // "" for ai.onnx
  std::string_view op_type;
  std::int64_t since_min = 0;
  std::int64_t since_max = 0;
  bool glue = false;  // moves data only: joins partitions, makes none
  std::string_view limits;
};

/// The operators that the provider lowers, sorted by (domain, op_type, since_min).
[[nodiscard]] std::vector<OpInfo> op_infos();

}  // namespace ctxgen::onednn
