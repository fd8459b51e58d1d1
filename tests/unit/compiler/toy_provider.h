#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ctxgen/partition/provider.h"

namespace ctxgen {

/// Runs programs whose ops are "Neg", "Abs" and "AddWeight" on f32 vectors.
class ToyLoader : public ProgramLoader {
 public:
  explicit ToyLoader(std::string source) : source_(std::move(source)) {}
  std::string_view source() const override { return source_; }
  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program,
                                           const BlobSource& blobs, const LoadOptions&,
                                           LoadStatistics*) const override {
    std::vector<Blob> weights;
    for (const ProgramWeight& weight : program->weights)
      weights.push_back(CTXGEN_TRY(blobs(weight.packed.at(0).blob.bin_index())));
    return std::make_unique<ToyExecutable>(*program, std::move(weights));
  }
  std::string fingerprint() const override { return "toy=1"; }
  CompatibilityVerdict compatibility(std::string_view text, int) const override {
    if (text == "toy=1") return {Compatibility::kOptimal, ""};
    return {Compatibility::kUnsupported, "not a toy"};
  }

 private:
  class ToyExecutable : public Executable {
   public:
    ToyExecutable(Program program, std::vector<Blob> weights)
        : program_(std::move(program)), weights_(std::move(weights)) {}
    Result<std::unique_ptr<ExecutionState>> make_state() const override {
      return std::make_unique<ExecutionState>();
    }
    Status run(ExecutionState&, std::span<const TensorView> inputs, OutputAllocator& outputs,
               const ExecutionControl&) const override {
      std::vector<std::vector<float>> values(program_.values.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        auto& value = values[program_.inputs[i]];
        value.resize(inputs[i].size_bytes() / sizeof(float));
        std::memcpy(value.data(), inputs[i].data, inputs[i].size_bytes());
      }
      for (const ProgramOp& op : program_.ops) {
        std::vector<float> value = values[op.inputs[0].index];
        for (std::size_t k = 0; k < value.size(); ++k) {
          if (op.kind == "Neg") value[k] = -value[k];
          if (op.kind == "Abs") value[k] = std::fabs(value[k]);
          if (op.kind == "Add") {
            float w = 0;
            std::memcpy(&w, weights_[op.inputs[1].index].bytes.data() + 4 * k, 4);
            value[k] += w;
          }
        }
        values[op.outputs[0]] = std::move(value);
      }
      for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
        const auto& value = values[program_.outputs[o]];
        std::byte* to = CTXGEN_TRY(
            outputs.allocate(o, DataType::kFloat, Dims{static_cast<std::int64_t>(value.size())}));
        if (to != nullptr) std::memcpy(to, value.data(), value.size() * sizeof(float));
      }
      return {};
    }

   private:
    Program program_;
    std::vector<Blob> weights_;
  };
  std::string source_;
};

/// Claims some of "Neg", "Abs" and "Add" with a constant; compiles them into toy programs.
class ToyProvider : public Provider {
 public:
  ToyProvider(std::string name, std::vector<std::string> ops)
      : name_(std::move(name)),
        source_(name_ + "ExecutionProvider"),
        ops_(std::move(ops)),
        loader_(source_) {}
  std::string_view name() const override { return name_; }
  std::string_view source() const override { return source_; }
  const ProgramLoader* loader() const override { return &loader_; }

  Result<Capabilities> capabilities(const GraphView& view) const override {
    Capabilities result;
    for (std::uint32_t n = 0; n < view.graph().node_count(); ++n) {
      const NodeId id{n};
      if (view.taken(id)) continue;
      if (std::ranges::find(ops_, view.graph().node(id).op_type.view()) != ops_.end())
        result.claims.push_back({{id}, false});
      else
        result.rejections.push_back({id, "no toy"});
    }
    return result;
  }

  Result<std::vector<CompiledPartition>> compile(const GraphView& view,
                                                 std::span<const Partition> partitions,
                                                 const ProviderCompileOptions&,
                                                 WeightStore& store) const override {
    std::vector<CompiledPartition> compiled;
    for (const Partition& partition : partitions)
      compiled.push_back({CTXGEN_TRY(lower(view, partition, store))});
    return compiled;
  }

  std::vector<EpContextAttributes> context_nodes(std::span<const Program> programs) const override {
    return std::vector<EpContextAttributes>(programs.size());
  }

 private:
  Result<Program> lower(const GraphView& view, const Partition& partition,
                        WeightStore& store) const {
    Program program;
    std::vector<std::int64_t> index(view.graph().value_count(), -1);
    auto value = [&](ValueId id) {
      if (index[id.index] < 0) {
        index[id.index] = static_cast<std::int64_t>(program.values.size());
        program.values.push_back({view.graph().value(id).name, DataType::kFloat, {{}}, true});
      }
      return static_cast<std::uint32_t>(index[id.index]);
    };
    for (ValueId id : partition.inputs) program.inputs.push_back(value(id));
    for (NodeId id : partition.nodes) {
      const Node& node = view.graph().node(id);
      ProgramOp op;
      op.kind = node.op_type;
      op.name = node.name;
      for (ValueId input : node.inputs) {
        if (const Tensor* constant = view.constant(input)) {
          op.inputs.push_back(Operand::weight(static_cast<std::uint32_t>(program.weights.size())));
          const auto blob = CTXGEN_TRY(store.add({constant->owner(), constant->bytes()}));
          program.weights.push_back({"", DataType::kFloat, constant->dims(), {{{}, blob}}});
        } else {
          op.inputs.push_back(Operand::value(value(input)));
        }
      }
      op.outputs.push_back(value(node.outputs.at(0)));
      program.ops.push_back(std::move(op));
    }
    for (ValueId id : partition.outputs) program.outputs.push_back(value(id));
    return program;
  }

  std::string name_, source_;
  std::vector<std::string> ops_;
  ToyLoader loader_;
};

}  // namespace ctxgen
