#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen::onednn {

/// Typed access to the parameters of an op. Programs come from files: a parameter of another type
/// or a number beyond +-2^31 (where sums of a few could wrap) is kCorruptContext.
class Params {
 public:
  explicit Params(const ProgramOp& op) : op_(op) {}

  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  [[nodiscard]] Result<std::int64_t> integer(std::string_view name, std::int64_t fallback) const;
  [[nodiscard]] Result<double> real(std::string_view name, double fallback) const;
  [[nodiscard]] Result<std::string> text(std::string_view name, std::string_view fallback) const;
  /// The list, or `count` times `fallback` where it is absent or empty.
  [[nodiscard]] Result<std::vector<std::int64_t>> integers(std::string_view name,
                                                           std::size_t count,
                                                           std::int64_t fallback) const;
  /// The list as it stands (any length up to 4096, any value), empty where it is absent.
  [[nodiscard]] Result<std::vector<std::int64_t>> list(std::string_view name) const;
  /// A list of numbers, empty where it is absent.
  [[nodiscard]] Result<std::vector<double>> reals(std::string_view name) const;

 private:
  [[nodiscard]] const ProgramParam* find(std::string_view name) const;
  const ProgramOp& op_;
};

inline constexpr std::int64_t kMaxParam = std::int64_t{1} << 31;

/// "op "conv_12" (conv)", for messages.
[[nodiscard]] std::string label(const ProgramOp& op);

/// `axis` counted from the front. Errors  INVALID_GRAPH outside [-rank, rank).
[[nodiscard]] Result<std::size_t> normal_axis(const ProgramOp& op, std::int64_t axis,
                                              std::size_t rank);

/// The parameter "axis", counted from the front.
[[nodiscard]] Result<std::size_t> axis_param(const ProgramOp& op, std::int64_t fallback,
                                             std::size_t rank);

}  // namespace ctxgen::onednn
