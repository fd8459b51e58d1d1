#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "ctxgen/base/tensor.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen::cpu {

/// What one call of a kernel sees: its inputs, and where its outputs go.
class KernelContext {
 public:
  virtual ~KernelContext() = default;
  [[nodiscard]] virtual std::size_t input_count() const = 0;
  /// nullptr: the optional input is absent. Data may have any alignment only if it came from the
  /// caller or a mapped file; the executor aligns those first, so kernels may use elements<T>().
  [[nodiscard]] virtual const Tensor* input(std::size_t index) const = 0;
  [[nodiscard]] virtual std::size_t output_count() const = 0;
  [[nodiscard]] virtual bool output_wanted(std::size_t index) const = 0;
  /// New uninitialised memory for an output.
  [[nodiscard]] virtual Result<Tensor*> make_output(std::size_t index, DataType type,
                                                    const Dims& dims) = 0;
  /// An output that shares bytes with an input or a constant (Reshape, Identity).
  virtual void set_output(std::size_t index, Tensor tensor) = 0;
};

/// An operator bound to one node: attributes are read and checked when it is made.
///
/// Threads  run() is const and may be called from several threads.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Errors  INVALID_GRAPH (inputs do not fit the operator's rules), UNSUPPORTED, RESOURCE_LIMIT.
  [[nodiscard]] virtual Status run(KernelContext& context) const = 0;
};

using KernelFactory = Result<std::unique_ptr<Kernel>> (*)(const Node& node);

/// One row of an operator table.
struct OpRow {
  std::string_view domain;
  std::string_view op_type;
  std::int64_t since_min;  // first since version that this row implements
  std::int64_t since_max;  // last one
  KernelFactory make;
  std::string_view limits;  // for docs/operators.md
};

/// All rows, sorted by (domain, op_type, since_min).
[[nodiscard]] std::span<const OpRow* const> all_ops();

/// The row with the largest since_min at or below the node's opset, or nullptr.
[[nodiscard]] const OpRow* find_op(std::string_view domain, std::string_view op_type,
                                   std::int64_t opset);

/// Errors  UNSUPPORTED naming operator and opset where there is no row.
[[nodiscard]] Result<std::unique_ptr<Kernel>> make_kernel(const Node& node);

/// Runs one node on given tensors (folding, tests): inputs by position, nullptr where absent.
[[nodiscard]] Result<std::vector<Tensor>> run_node(const Node& node,
                                                   std::span<const Tensor* const> inputs);

}  // namespace ctxgen::cpu
