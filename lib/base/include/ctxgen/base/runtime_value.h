#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ctxgen/base/memory_account.h"
#include "ctxgen/base/tensor.h"

namespace ctxgen {

struct SequenceValue;

/// One entry per key, in the order of the keys: two tensors of rank 1 and one length.
struct MapValue {
  Tensor keys;  // int64 or string
  Tensor values;
};

/// What flows along an edge of a running graph: a tensor, mostly.
///
/// An optional that holds something is what it holds; only the empty one is a kind of its own.
///
/// Lifetime  copies share tensors, sequences and maps, which are not changed while shared.
class RuntimeValue {
 public:
  enum class Kind { kNothing, kTensor, kSequence, kMap, kEmptyOptional };

  RuntimeValue() = default;
  RuntimeValue(Tensor tensor) : content_(std::move(tensor)) {}  // implicit: the usual case
  RuntimeValue(std::shared_ptr<SequenceValue> sequence) : content_(std::move(sequence)) {}
  RuntimeValue(std::shared_ptr<const MapValue> map) : content_(std::move(map)) {}
  [[nodiscard]] static RuntimeValue empty_optional() {
    RuntimeValue value;
    value.content_ = EmptyOptional{};
    return value;
  }

  [[nodiscard]] Kind kind() const;
  /// Whether there is any value. What was moved from is to be assigned before it is asked again.
  [[nodiscard]] bool defined() const { return kind() != Kind::kNothing; }
  [[nodiscard]] bool is_tensor() const { return kind() == Kind::kTensor; }

  /// The tensor; an undefined one where there is no value. Requires kNothing or kTensor.
  [[nodiscard]] const Tensor& tensor() const { return *std::get_if<Tensor>(&content_); }
  [[nodiscard]] Tensor& tensor() { return *std::get_if<Tensor>(&content_); }
  /// Requires kSequence.
  [[nodiscard]] const SequenceValue& sequence() const {
    return **std::get_if<std::shared_ptr<SequenceValue>>(&content_);
  }
  /// The sequence if nothing else can see it: it may be changed then.
  [[nodiscard]] SequenceValue* unique_sequence();
  /// Requires kMap.
  [[nodiscard]] const MapValue& map() const {
    return **std::get_if<std::shared_ptr<const MapValue>>(&content_);
  }

 private:
  struct EmptyOptional {};
  std::variant<Tensor, std::shared_ptr<SequenceValue>, std::shared_ptr<const MapValue>,
               EmptyOptional>
      content_;
};

/// Tensors of one element type, or maps; never sequences: ONNX has no such type.
struct SequenceValue {
  DataType element = DataType::kUndefined;  // of its tensors; kUndefined: maps, or not known
  std::vector<RuntimeValue> items;
  MemoryCharge charge{};  // of `items`, without the tensors' bytes
};

/// "float32[2, 3]", "sequence of 3 x float32", "map of 2 entries", "empty optional".
[[nodiscard]] std::string describe(const RuntimeValue& value);

}  // namespace ctxgen
