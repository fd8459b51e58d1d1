#include "ctxgen/base/runtime_value.h"

#include <format>

namespace ctxgen {

RuntimeValue::Kind RuntimeValue::kind() const {
  if (const auto* tensor = std::get_if<Tensor>(&content_))
    return tensor->defined() ? Kind::kTensor : Kind::kNothing;
  if (const auto* sequence = std::get_if<std::shared_ptr<SequenceValue>>(&content_))
    return *sequence ? Kind::kSequence : Kind::kNothing;
  if (const auto* map = std::get_if<std::shared_ptr<const MapValue>>(&content_))
    return *map ? Kind::kMap : Kind::kNothing;
  return Kind::kEmptyOptional;
}

SequenceValue* RuntimeValue::unique_sequence() {
  auto* sequence = std::get_if<std::shared_ptr<SequenceValue>>(&content_);
  return sequence != nullptr && sequence->use_count() == 1 ? sequence->get() : nullptr;
}

std::string describe(const RuntimeValue& value) {
  using Kind = RuntimeValue::Kind;
  switch (value.kind()) {
    case Kind::kNothing: return "nothing";
    case Kind::kTensor:
      return std::format("{}{}", name_of(value.tensor().type()), to_string(value.tensor().dims()));
    case Kind::kSequence: {
      const SequenceValue& sequence = value.sequence();
      return std::format(
          "sequence of {} x {}", sequence.items.size(),
          sequence.element == DataType::kUndefined ? "any" : name_of(sequence.element));
    }
    case Kind::kMap: return std::format("map of {} entries", value.map().keys.element_count());
    case Kind::kEmptyOptional: return "empty optional";
  }
  return "unknown";
}

}  // namespace ctxgen
