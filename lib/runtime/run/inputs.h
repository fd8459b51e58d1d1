#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ctxgen/graph/graph.h"
#include "ctxgen/runtime/session.h"

#include "run/executor.h"

namespace ctxgen {

/// What a caller hands in, whichever way.
struct GivenInput {
  std::string_view name;
  RuntimeValue value;
};

/// The inputs of a model as callers see them, and the check of what they hand in.
class InputTable {
 public:
  /// Errors  UNSUPPORTED for an input that is neither tensor, sequence, optional nor map.
  [[nodiscard]] static Result<InputTable> build(const Model& model);

  [[nodiscard]] std::span<const IoInfo> infos() const { return infos_; }
  [[nodiscard]] ValueId id(std::size_t input) const { return ids_[input]; }
  /// Sizes of the model's symbols as the values say, by position in infos(); -1: none does. Where two
  /// differ, the last one: bind_all() finds that.
  void read_symbols(std::span<const RuntimeValue> values, std::vector<std::int64_t>& symbols) const;
  /// Checks names, types, ranks, fixed dims, and that equal symbols have equal sizes.
  /// Errors  INVALID_ARGUMENT naming the input, found and expected.
  [[nodiscard]] Status bind(std::span<const GivenInput> given, std::vector<Binding>& bindings,
                            std::vector<std::int64_t>& symbols) const;
  /// The same for values by position in infos(), undefined where none is given. Takes no memory once
  /// `bindings` and `symbols` have been used.
  [[nodiscard]] Status bind_all(std::span<const RuntimeValue> values,
                                std::vector<Binding>& bindings,
                                std::vector<std::int64_t>& symbols) const;

 private:
  [[nodiscard]] Status complete(std::vector<Binding>& bindings) const;
  [[nodiscard]] Status check(const IoInfo& info, const RuntimeValue& value,
                             std::vector<std::int64_t>& symbols) const;
  [[nodiscard]] Status check_tensor(const IoInfo& info, const Tensor& tensor,
                                    std::vector<std::int64_t>& symbols) const;

  const Model* model_ = nullptr;  // owner: the session
  std::vector<IoInfo> infos_;
  std::vector<ValueId> ids_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // keys: names of the model's values
};

/// The same for outputs.
[[nodiscard]] std::vector<IoInfo> output_infos(const Model& model);

}  // namespace ctxgen
