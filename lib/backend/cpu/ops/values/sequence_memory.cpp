#include "ops/values/sequence_memory.h"

#include <algorithm>

#include "ctxgen/base/checked.h"

namespace ctxgen::cpu {
namespace {

// Room for `count` items, charged before it is taken; at least doubled, so that appending is cheap.
Status reserve(SequenceValue& sequence, std::size_t count) {
  if (count <= sequence.items.capacity()) return {};
  const std::size_t capacity = std::max(count, 2 * sequence.items.capacity());
  const auto bytes = checked_mul(capacity, sizeof(RuntimeValue));
  CTXGEN_CHECK(sequence.charge.resize(bytes.value_or(UINT64_MAX)));
  sequence.items.reserve(capacity);
  return {};
}

}  // namespace

Result<std::shared_ptr<SequenceValue>> new_sequence(const KernelContext& context,
                                                    std::size_t count) {
  auto sequence = std::make_shared<SequenceValue>();
  sequence->charge = MemoryCharge(context.memory());
  CTXGEN_CHECK(reserve(*sequence, count));
  return sequence;
}

Result<RuntimeValue> own_sequence(KernelContext& context, std::size_t index, std::size_t more) {
  RuntimeValue value = context.take(index);
  if (SequenceValue* own = value.unique_sequence(); own != nullptr) {
    CTXGEN_CHECK(reserve(*own, own->items.size() + more));
    return value;
  }
  const SequenceValue& shared = value.sequence();
  auto copy = CTXGEN_TRY(new_sequence(context, shared.items.size() + more));
  copy->element = shared.element;
  copy->items.insert(copy->items.end(), shared.items.begin(), shared.items.end());
  return RuntimeValue(std::move(copy));
}

}  // namespace ctxgen::cpu
