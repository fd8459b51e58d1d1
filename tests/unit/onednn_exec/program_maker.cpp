#include "program_maker.h"

namespace ctxgen::onednn::test {

Tensor random_tensor(const Dims& dims, std::mt19937& random) {
  Tensor tensor = Tensor::allocate(DataType::kFloat, dims).value();
  for (float& x : tensor.mutable_elements<float>())
    x = static_cast<float>(random() % 2048) / 1024.0F - 1.0F;
  return tensor;
}

std::uint32_t Maker::new_value() {
  const auto index = static_cast<std::uint32_t>(program_.values.size());
  program_.values.push_back({"v" + std::to_string(index), DataType::kFloat, {}, false});
  return index;
}

Operand Maker::input(const Dims& dims) { return input(random_tensor(dims, input_random_)); }

Operand Maker::input(Tensor tensor) {
  const std::uint32_t value = new_value();
  program_.values[value].type = tensor.type();
  program_.inputs.push_back(value);
  inputs_.push_back(std::move(tensor));
  return Operand::value(value);
}

Operand Maker::weight(const Dims& dims) { return weight(random_tensor(dims, random_)); }

Operand Maker::weight(Tensor tensor) {
  program_.weights.push_back(
      {"w" + std::to_string(weights_.size()), tensor.type(), tensor.dims(), {}});
  weights_.push_back(std::move(tensor));
  return Operand::weight(static_cast<std::uint32_t>(weights_.size() - 1));
}

Operand Maker::op(std::string_view kind, std::vector<Operand> inputs, std::vector<Param> params,
                  std::vector<PostOp> post_ops) {
  const std::uint32_t out = new_value();
  program_.ops.push_back({std::string(kind),
                          "op" + std::to_string(program_.ops.size()),
                          std::move(inputs),
                          {out},
                          std::move(params),
                          std::move(post_ops)});
  return Operand::value(out);
}

std::vector<Operand> Maker::split(Operand src, std::size_t outputs, std::vector<Param> params) {
  std::vector<Operand> values;
  ProgramOp op{"split", "split", {src}, {}, std::move(params), {}};
  for (std::size_t i = 0; i < outputs; ++i) {
    values.push_back(Operand::value(new_value()));
    op.outputs.push_back(values.back().index);
  }
  program_.ops.push_back(std::move(op));
  return values;
}

std::vector<Dims> Maker::input_dims() const {
  std::vector<Dims> dims;
  for (const Tensor& tensor : inputs_) dims.push_back(tensor.dims());
  return dims;
}

PostOp unary(std::string kind, float alpha, float beta) {
  return {std::move(kind), alpha, beta, {}};
}
PostOp binary(std::string kind, Operand operand) { return {std::move(kind), 0, 0, operand}; }

Result<std::byte*> VectorOutputs::allocate(std::size_t output, DataType, const Dims& dims) {
  if (std::ranges::find(unwanted, output) != unwanted.end()) return nullptr;
  dims_of[output] = dims;
  // One float too many on each side would be seen by the address sanitizer: the size is exact.
  data[output].assign(static_cast<std::size_t>(element_count(dims)), -77.0F);
  return reinterpret_cast<std::byte*>(data[output].data());
}

BlobSource Packed::blobs() const {
  return [kept = store](BlobIndex index) -> Result<Blob> {
    if (index.value >= kept->size())
      return fail(ErrorCode::kCorruptContext, "blob {}", index.value);
    return kept->blob(StoreId{index.value});
  };
}

Result<Packed> pack(Maker& maker, std::vector<std::vector<Dims>> profiles, bool portable,
                    const TuningTable* tuning) {
  Packed packed{maker.program(), std::make_shared<WeightStore>()};
  CTXGEN_CHECK(plan_and_pack(
      packed.program, maker.weights(),
      PackOptions{
          .profiles = std::move(profiles), .jobs = 1, .portable = portable, .tuning = tuning},
      *packed.store));
  for (ProgramWeight& weight : packed.program.weights)
    for (PackedWeight& form : weight.packed) form.blob = BlobIndex{form.blob.store_id().value};
  return packed;
}

Result<Outputs> run(const Executable& executable, const std::vector<Tensor>& inputs,
                    std::vector<OpTiming>* timings) {
  const auto state = CTXGEN_TRY(executable.make_state());
  std::vector<TensorView> views;
  for (const Tensor& tensor : inputs) views.push_back(tensor.view());
  VectorOutputs outputs;
  CTXGEN_CHECK(executable.run(*state, views, outputs, {.timings = timings}));
  Outputs list;
  for (auto& [index, data] : outputs.data) list.push_back(std::move(data));
  return list;
}

namespace {

class TensorOutputs final : public OutputAllocator {
 public:
  explicit TensorOutputs(std::size_t count) : tensors(count) {}
  Result<std::byte*> allocate(std::size_t output, DataType type, const Dims& dims) override {
    tensors[output] = CTXGEN_TRY(Tensor::allocate(type, dims));
    return tensors[output].mutable_bytes().data();
  }
  std::vector<Tensor> tensors;
};

}  // namespace

Result<std::vector<Tensor>> compile_and_run_typed(Maker& maker, std::vector<OpTiming>* timings) {
  const Packed packed = CTXGEN_TRY(pack(maker, {maker.input_dims()}));
  const auto executable =
      CTXGEN_TRY(loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr));
  const auto state = CTXGEN_TRY(executable->make_state());
  std::vector<TensorView> views;
  for (const Tensor& tensor : maker.inputs()) views.push_back(tensor.view());
  TensorOutputs outputs(packed.program.outputs.size());
  CTXGEN_CHECK(executable->run(*state, views, outputs, {.timings = timings}));
  return std::move(outputs.tensors);
}

Result<Outputs> compile_and_run(Maker& maker, std::vector<OpTiming>* timings) {
  const Packed packed = CTXGEN_TRY(pack(maker, {maker.input_dims()}));
  const auto executable =
      CTXGEN_TRY(loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr));
  return run(*executable, maker.inputs(), timings);
}

}  // namespace ctxgen::onednn::test
