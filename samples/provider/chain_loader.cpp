#include "chain_loader.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace chain {
namespace {

using namespace ctxgen;

/// What the programs depend on. A release that writes other programs has another one.
constexpr std::string_view kFingerprint = "chain=1";

using Floats = std::vector<float>;

Result<Floats> floats_of(const ProgramWeight& weight, const BlobSource& blobs) {
  if (weight.packed.empty())
    return fail(ErrorCode::kCorruptContext, "weight \"{}\" has no bytes", weight.name);
  const Blob blob = CTXGEN_TRY(blobs(weight.packed.front().blob.bin_index()));
  Floats floats(blob.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), blob.bytes.data(), floats.size() * sizeof(float));
  return floats;
}

Status check_float(std::string_view name, DataType type) {
  if (type == DataType::kFloat) return {};
  return fail(ErrorCode::kCorruptContext, "\"{}\": expected float32", name);
}

/// Context binaries are foreign bytes: all that run() relies on is checked here and in check_op().
/// That indices are in range and values are written before they are read was checked by the reader.
Status check_types(const Program& program) {
  for (const ProgramValue& value : program.values)
    CTXGEN_CHECK(check_float(value.name, value.type));
  for (const ProgramWeight& weight : program.weights)
    CTXGEN_CHECK(check_float(weight.name, weight.type));
  return {};
}

Status check_op(const ProgramOp& op) {
  const std::size_t inputs = op.kind == kAdd ? 2 : 1;
  const bool known = op.kind == kNeg || op.kind == kAbs || op.kind == kAdd;
  if (known && op.inputs.size() == inputs && op.outputs.size() == 1 &&
      op.inputs[0].kind == Operand::Kind::kValue &&
      (inputs == 1 || op.inputs[1].kind == Operand::Kind::kWeight))
    return {};
  return fail(ErrorCode::kCorruptContext, "op \"{}\": not one of this provider's ({})", op.name,
              op.kind);
}

class ChainExecutable final : public Executable {
 public:
  ChainExecutable(std::shared_ptr<const Program> program, std::vector<Floats> weights)
      : program_(std::move(program)), weights_(std::move(weights)) {}

  /// Nothing is kept from run to run.
  [[nodiscard]] Result<std::unique_ptr<ExecutionState>> make_state() const override {
    return std::make_unique<ExecutionState>();
  }

  [[nodiscard]] Status run(ExecutionState&, std::span<const TensorView> inputs,
                           OutputAllocator& outputs,
                           const ExecutionControl& control) const override {
    struct Value {
      Dims dims;
      Floats floats;
    };
    std::vector<Value> values(program_->values.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].type != DataType::kFloat)
        return fail(ErrorCode::kInvalidArgument, "input {}: expected float32", i);
      Value& value = values[program_->inputs[i]];
      value.dims = inputs[i].dims;
      value.floats.resize(inputs[i].size_bytes() / sizeof(float));
      if (!value.floats.empty())
        std::memcpy(value.floats.data(), inputs[i].data, inputs[i].size_bytes());
    }
    for (const ProgramOp& op : program_->ops) {
      if (control.stopped()) return fail(ErrorCode::kCancelled, "interrupted");
      Value result = values[op.inputs[0].index];
      CTXGEN_CHECK(compute(op, result.floats));
      values[op.outputs[0]] = std::move(result);
    }
    for (std::size_t o = 0; o < program_->outputs.size(); ++o) {
      const Value& value = values[program_->outputs[o]];
      std::byte* to = CTXGEN_TRY(outputs.allocate(o, DataType::kFloat, value.dims));
      if (to != nullptr && !value.floats.empty())
        std::memcpy(to, value.floats.data(), value.floats.size() * sizeof(float));
    }
    return {};
  }

 private:
  [[nodiscard]] Status compute(const ProgramOp& op, Floats& floats) const {
    if (op.kind == kNeg)
      for (float& x : floats) x = -x;
    if (op.kind == kAbs)
      for (float& x : floats) x = std::fabs(x);
    if (op.kind != kAdd) return {};
    const Floats& summands = weights_[op.inputs[1].index];
    if (summands.size() != floats.size())
      return fail(ErrorCode::kInvalidArgument, "op \"{}\": {} elements and {} summands", op.name,
                  floats.size(), summands.size());
    for (std::size_t i = 0; i < floats.size(); ++i) floats[i] += summands[i];
    return {};
  }

  std::shared_ptr<const Program> program_;
  std::vector<Floats> weights_;
};

class ChainLoader final : public ProgramLoader {
 public:
  [[nodiscard]] std::string_view source() const override { return kSource; }

  [[nodiscard]] Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program,
                                                         const BlobSource& blobs,
                                                         const LoadOptions&,
                                                         LoadStatistics*) const override {
    CTXGEN_CHECK(check_types(*program));
    for (const ProgramOp& op : program->ops) CTXGEN_CHECK(check_op(op));
    std::vector<Floats> weights;
    for (const ProgramWeight& weight : program->weights)
      weights.push_back(CTXGEN_TRY(floats_of(weight, blobs)));
    return std::make_unique<ChainExecutable>(std::move(program), std::move(weights));
  }

  [[nodiscard]] std::string fingerprint() const override { return std::string(kFingerprint); }

  [[nodiscard]] CompatibilityVerdict compatibility(std::string_view fingerprint,
                                                   int /*threads*/) const override {
    if (fingerprint == kFingerprint) return {Compatibility::kOptimal, ""};
    return {Compatibility::kUnsupported, "compiled for \"" + std::string(fingerprint) +
                                             "\", this is " + std::string(kFingerprint)};
  }
};

}  // namespace

const ProgramLoader& loader() {
  static const ChainLoader chain_loader;
  return chain_loader;
}

}  // namespace chain
