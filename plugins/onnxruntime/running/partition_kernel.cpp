#include "running/partition_kernel.h"

#include <algorithm>
#include <array>
#include <utility>

#include "running/session_workers.h"

namespace ctxgen::plugin {
namespace {

std::optional<std::size_t> place_of(const std::vector<std::string>& names,
                                    const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

using OwnedInfo = std::unique_ptr<OrtTensorTypeAndShapeInfo, void (*)(OrtTensorTypeAndShapeInfo*)>;

/// Type and dims of a tensor; the data is left out.
Result<TensorView> described(const OrtApis& ort, const OrtValue* value) {
  const OrtApi& api = *ort.api;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::size_t rank = 0;
  std::array<std::int64_t, kMaxRank> copied{};
  const std::int64_t* dims = copied.data();
  if (ort.newer.type_and_dims != nullptr) {
    CTXGEN_CHECK(from_ort(api, ort.newer.type_and_dims(value, &type, &dims, &rank)));
  } else {
    OrtTensorTypeAndShapeInfo* made = nullptr;
    CTXGEN_CHECK(from_ort(api, api.GetTensorTypeAndShape(value, &made)));
    const OwnedInfo info(made, api.ReleaseTensorTypeAndShapeInfo);
    CTXGEN_CHECK(from_ort(api, api.GetTensorElementType(made, &type)));
    CTXGEN_CHECK(from_ort(api, api.GetDimensionsCount(made, &rank)));
    CTXGEN_CHECK(
        from_ort(api, api.GetDimensions(made, copied.data(), std::min(rank, copied.size()))));
  }
  if (rank > kMaxRank)
    return fail(ErrorCode::kInvalidArgument, "rank {}, at most {} is possible", rank, kMaxRank);
  // Both enumerations have ONNX's numbers (TensorProto.DataType).
  return TensorView{static_cast<DataType>(type), Dims(std::span(dims, rank)), nullptr};
}

}  // namespace

/// Has ONNX Runtime allocate each output, in the caller's buffer if it gave one.
class PartitionKernel::Outputs final : public OutputAllocator {
 public:
  Outputs(const OrtApis& ort, const Bindings& bindings, OrtKernelContext& context)
      : ort_(ort), bindings_(bindings), context_(context) {}

  Result<std::byte*> allocate(std::size_t output, DataType type, const Dims& dims) override {
    const auto place = bindings_.outputs.at(output);
    if (!place) return nullptr;
    OrtValue* value = nullptr;
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->KernelContext_GetOutput(
                                         &context_, *place, dims.begin(), dims.size(), &value)));
    // The type is what the model declares, the memory as large as that: the program's may differ.
    const DataType declared = CTXGEN_TRY(described(ort_, value)).type;
    if (declared != type)
      return fail(ErrorCode::kCorruptContext, "output {} is declared as {}, the program gives {}",
                  output, name_of(declared), name_of(type));
    void* data = nullptr;
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->GetTensorMutableData(value, &data)));
    // ONNX Runtime gives no memory to an output without elements; nullptr would mean "not wanted".
    return data != nullptr ? static_cast<std::byte*>(data) : &nothing_;
  }

 private:
  const OrtApis& ort_;
  const Bindings& bindings_;
  OrtKernelContext& context_;
  std::byte nothing_{};
};

namespace {

/// Which slot of the EPContext node each program value has. Names tell, if something reordered the
/// slots; where ONNX Runtime's optimizers put another value in place of an equal one, the order does.
Result<std::vector<std::size_t>> slots_of(const Program& program,
                                          std::span<const std::uint32_t> values,
                                          const std::vector<std::string>& node_names,
                                          std::string_view role) {
  if (values.size() != node_names.size())
    return fail(ErrorCode::kCorruptContext, "program \"{}\" has {} {}s, the node has {}",
                program.name, values.size(), role, node_names.size());
  std::vector<std::size_t> by_name, by_order;
  for (std::size_t i = 0; i < values.size(); ++i) {
    by_order.push_back(i);
    if (const auto slot = place_of(node_names, program.values[values[i]].name))
      by_name.push_back(*slot);
  }
  return by_name.size() == values.size() ? by_name : by_order;
}

}  // namespace

Result<PartitionKernel::Bindings> PartitionKernel::bind(const Program& program,
                                                        const NodeNames& node,
                                                        const NodeNames& fused) {
  Bindings bindings{.partition = program.name, .inputs = {}, .outputs = {}};
  for (const std::size_t slot :
       CTXGEN_TRY(slots_of(program, program.inputs, node.inputs, "input"))) {
    const auto place = place_of(fused.inputs, node.inputs[slot]);
    if (!place)
      return fail(ErrorCode::kCorruptContext, "input {} of the node (\"{}\") is absent", slot,
                  node.inputs[slot]);
    bindings.inputs.push_back(*place);
  }
  for (const std::size_t slot :
       CTXGEN_TRY(slots_of(program, program.outputs, node.outputs, "output")))
    bindings.outputs.push_back(place_of(fused.outputs, node.outputs[slot]));
  return bindings;
}

PartitionKernel::PartitionKernel(Surroundings session, std::string where,
                                 std::shared_ptr<LoadedPartition> partition, Bindings bindings)
    : NodeComputeTable{},
      session_(std::move(session)),
      where_(std::move(where)),
      partition_(std::move(partition)),
      bindings_(std::move(bindings)) {
  ort_version_supported = ort_.tables_version;
  // ONNX Runtime swallows the text of an error here, so what can fail was done before.
  CreateState = [](OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) -> OrtStatus* {
    *state = self;
    return nullptr;
  };
  Compute = [](OrtNodeComputeInfo*, void* state, OrtKernelContext* context) -> OrtStatus* {
    auto& kernel = *static_cast<PartitionKernel*>(state);
    return guarded(*kernel.ort_.api, "running a partition", [&] { return kernel.run(*context); });
  };
  ReleaseState = [](OrtNodeComputeInfo*, void*) {};
}

Result<TensorView> PartitionKernel::input_view(OrtKernelContext& context, std::size_t index) const {
  const OrtApi& api = *ort_.api;
  const OrtValue* value = nullptr;
  CTXGEN_CHECK(from_ort(api, api.KernelContext_GetInput(&context, index, &value)));
  if (value == nullptr)
    return fail(ErrorCode::kInvalidArgument, "{}: input {} is absent", where_, index);
  TensorView view = CTXGEN_TRY_AT(described(ort_, value), "{}: input {}", where_, index);
  const void* data = nullptr;
  CTXGEN_CHECK(from_ort(api, api.GetTensorData(value, &data)));
  view.data = static_cast<const std::byte*>(data);
  return view;
}

Status PartitionKernel::run(OrtKernelContext& context) {
  std::vector<TensorView> inputs;
  inputs.reserve(bindings_.inputs.size());
  for (const std::size_t index : bindings_.inputs)
    inputs.push_back(CTXGEN_TRY(input_view(context, index)));
  std::unique_ptr<ExecutionState> state = CTXGEN_TRY(partition_->take_state());
  Outputs outputs(ort_, bindings_, context);
  std::vector<OpTiming> timings;
  OpProfiles& profiles = *session_.profiles;
  const bool profiled = profiles.wanted();
  SessionWorkers workers(*ort_.api, context);
  const ExecutionControl control{.timings = profiled ? &timings : nullptr,
                                 .stop = session_.watch.stop(),
                                 .workers = session_.session_workers ? &workers : nullptr};
  CTXGEN_CHECK(partition_->executable().run(*state, inputs, outputs, control));
  if (workers.failed())
    return fail(ErrorCode::kInternal, "{}: onnxruntime did not run a loop on the session's threads",
                where_);
  if (profiled) profiles.add(timings, bindings_.partition);
  partition_->give_back(std::move(state));
  return {};
}

}  // namespace ctxgen::plugin
