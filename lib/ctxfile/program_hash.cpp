#include <algorithm>
#include <bit>

#include "ctxgen/ctxfile/context_file.h"

namespace ctxgen {
namespace {

/// Feeds a program to a Hasher. Every list goes in with its length, every choice with its kind, so
/// that two different programs are two different sequences (docs/format.md, "Program hash").
class ProgramHasher {
 public:
  explicit ProgramHasher(const std::function<Hash128(BlobRef)>& blob_hash)
      : blob_hash_(blob_hash) {}

  Hash128 hash(const Program& program) {
    text(program.source);
    list(program.symbols, [&](const auto& symbol) { text(symbol); });
    list(program.values, [&](const auto& value) { add(value); });
    list(program.inputs, [&](std::uint32_t index) { number(index); });
    list(program.outputs, [&](std::uint32_t index) { number(index); });
    list(program.weights, [&](const auto& weight) { add(weight); });
    list(program.ops, [&](const auto& op) { add(op); });
    list(program.plans, [&](const auto& plan) { add(plan); });
    return hasher_.finish();
  }

 private:
  void number(std::uint64_t value) { hasher_.add(value); }
  void integer(std::int64_t value) { hasher_.add(static_cast<std::uint64_t>(value)); }
  void text(std::string_view value) { hasher_.add(value); }
  void bytes(std::span<const std::byte> value) {
    number(value.size());
    hasher_.add(value);
  }
  template <class List, class Function>
  void list(const List& items, Function&& function) {
    number(items.size());
    for (const auto& item : items) function(item);
  }

  void add(const ProgramValue& value) {  // without its name
    integer(static_cast<std::int64_t>(value.type));
    number(value.has_rank ? 1 : 0);
    list(value.dims, [&](const ProgramDim& dim) {
      integer(std::max<std::int64_t>(dim.value, -1));  // every negative number means "none"
      integer(std::max<std::int64_t>(dim.symbol, -1));
    });
  }

  void add(const ProgramWeight& weight) {  // without its name
    integer(static_cast<std::int64_t>(weight.type));
    list(weight.dims, [&](std::int64_t dim) { integer(dim); });
    list(weight.packed, [&](const PackedWeight& packed) {
      bytes(packed.layout);
      const Hash128 content = blob_hash_(packed.blob);
      number(content.high);
      number(content.low);
    });
  }

  void add(const Operand& operand) {
    number(static_cast<std::uint64_t>(operand.kind));
    number(operand.kind == Operand::Kind::kNone ? 0 : operand.index);
  }

  void add(const ProgramOp& op) {
    text(op.kind);
    text(op.name);
    list(op.inputs, [&](const Operand& operand) { add(operand); });
    list(op.outputs, [&](std::uint32_t index) { number(index); });
    list(op.params, [&](const ProgramParam& param) {
      text(param.name);
      number(param.value.index());
      std::visit([&](const auto& value) { add_param(value); }, param.value);
    });
    list(op.post_ops, [&](const PostOp& post_op) {
      text(post_op.kind);
      number(std::bit_cast<std::uint32_t>(post_op.alpha));
      number(std::bit_cast<std::uint32_t>(post_op.beta));
      add(post_op.operand);
    });
  }

  void add_param(std::int64_t value) { integer(value); }
  void add_param(double value) { number(std::bit_cast<std::uint64_t>(value)); }
  void add_param(std::string_view value) { text(value); }
  void add_param(std::span<const std::int64_t> values) {
    list(values, [&](std::int64_t value) { integer(value); });
  }
  void add_param(std::span<const double> values) {
    list(values, [&](double value) { add_param(value); });
  }

  void add(const StoredPlan& plan) {
    list(plan.input_dims,
         [&](const Dims& dims) { list(dims, [&](std::int64_t dim) { integer(dim); }); });
    number(plan.arena_bytes);
    number(plan.scratch_bytes);
    bytes(plan.payload);
  }

  const std::function<Hash128(BlobRef)>& blob_hash_;
  Hasher hasher_;
};

}  // namespace

Hash128 hash_program(const Program& program, const std::function<Hash128(BlobRef)>& blob_hash) {
  return ProgramHasher(blob_hash).hash(program);
}

}  // namespace ctxgen
