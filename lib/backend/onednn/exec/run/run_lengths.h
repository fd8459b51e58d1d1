#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/program.h"

#include "kinds/kind_rows.h"
#include "plan/plan.h"

namespace ctxgen::onednn {

/// Which dims of a program's inputs are numbers of a run: those that nothing depends on but the loops of
/// kernels that read them in each run (KindRow::lengths), and outputs of the program. One plan holds for
/// all of them.
///
/// Threads  immutable.
class RunLengths {
 public:
  using Numbers = std::array<std::int64_t, kRunNumbers>;
  /// An op that gets numbers, and what depends on them.
  struct Op {
    /// A number: dim `axis` of an input of the program, or what is constant.
    struct Source {
      std::uint32_t input = UINT32_MAX;  // none: `constant`
      int axis = 0;
      std::int64_t constant = 1;
    };
    struct Output {
      std::uint32_t index = 0;
      std::size_t axis = 0;
    };
    std::uint32_t op = 0;
    std::vector<Source> sources;
    std::vector<std::int64_t> code;  // of the next number; empty: none
    std::vector<std::uint32_t>
        operand_inputs;           // per operand, what the code counts: input of the program
    std::vector<Output> outputs;  // of the program
  };

  /// A cache: what `op` appends to `input` is its output `output`, and nothing else reads either.
  struct Cache {
    std::uint32_t input = 0, output = 0;  // of the program
    std::size_t axis = 0;                 // that grows
    std::size_t place = 0;                // in ops()
  };

  RunLengths() = default;
  /// Keeps no reference to `program`.
  [[nodiscard]] static RunLengths find(const Program& program);

  /// In order of op.
  [[nodiscard]] std::span<const Op> ops() const { return ops_; }
  [[nodiscard]] std::span<const Cache> caches() const { return caches_; }
  /// Of an op of the program in ops().
  [[nodiscard]] std::optional<std::size_t> place_of(std::uint32_t op) const;
  /// Whether dim `axis` of input `input` is a number of the run.
  [[nodiscard]] bool varies(std::size_t input, std::size_t axis) const {
    return input < varying_.size() && (varying_[input] >> axis & 1U) != 0;
  }
  /// Whether a plan for inputs of `dims` holds for these.
  [[nodiscard]] bool fit(std::span<const Dims> dims, std::span<const TensorView> inputs) const;
  /// Whether no step but those that get numbers reads or writes what varies: so it is by how values are
  /// placed.
  [[nodiscard]] bool hold_for(const Plan& plan) const;
  /// The numbers of each op. Errors  INVALID_GRAPH: code that cannot be run with them.
  [[nodiscard]] Status read(const Program& program, std::span<const TensorView> inputs,
                            std::span<Numbers> numbers) const;

 private:
  std::vector<std::uint32_t> varying_;  // per input, one bit per dim
  std::vector<Op> ops_;
  std::vector<Cache> caches_;
};

}  // namespace ctxgen::onednn
