#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/base/memory_account.h"
#include "ctxgen/base/runtime_value.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/cpu/scratch.h"
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

  // For kernels of values that are not tensors (Kernel::takes_values), and of nodes with subgraphs.

  /// An input of any kind; nullptr: absent, or taken.
  [[nodiscard]] virtual const RuntimeValue* value(std::size_t index) const;
  /// The same, moved out if nothing reads it later: then it may be changed in place.
  [[nodiscard]] virtual RuntimeValue take(std::size_t index);
  virtual void set_value(std::size_t index, RuntimeValue value);
  /// Runs a graph among the node's attributes; arguments are moved from.
  /// Errors  those of its nodes; INVALID_GRAPH where the number of arguments is wrong.
  [[nodiscard]] virtual Result<ScratchVector<RuntimeValue>> run_body(
      const Graph& graph, std::span<RuntimeValue> arguments);
  /// Memory that is not an output (yet).
  [[nodiscard]] virtual Result<Tensor> make_tensor(DataType type, const Dims& dims);
  /// Hands back a value that is no longer needed, for its memory to be used again.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): those that override it keep the value.
  virtual void recycle(RuntimeValue) {}
  /// What bounds the memory of this run; nullptr: nothing. Kernels that make more than outputs of
  /// fixed-size elements ask here first.
  [[nodiscard]] virtual std::shared_ptr<MemoryAccount> memory() const { return nullptr; }
  /// Where a kernel's vectors live while it runs (scratch.h); nullptr: in memory of the system.
  [[nodiscard]] virtual Scratch* scratch() { return nullptr; }
  /// Becomes true when the run is to end; nullptr: it is never stopped.
  [[nodiscard]] virtual const std::atomic<bool>* stop() const { return nullptr; }
};

/// An operator bound to one node: attributes are read and checked when it is made.
///
/// Threads  run() is const and may be called from several threads.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Errors  INVALID_GRAPH (inputs do not fit the operator's rules), UNSUPPORTED, RESOURCE_LIMIT,
  ///         CANCELLED.
  [[nodiscard]] virtual Status run(KernelContext& context) const = 0;
  /// Whether inputs may be sequences, maps and empty optionals. If not, callers refuse those.
  [[nodiscard]] virtual bool takes_values() const { return false; }
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
