#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/ctxfile/program.h"
#include "ctxgen/onednn/exec.h"
#include "ctxgen/weights/weight_store.h"

namespace ctxgen::onednn::test {

using Param = ProgramParam;
inline Param ints(std::string name, std::vector<std::int64_t> value) {
  return {std::move(name), std::move(value)};
}
inline Param integer(std::string name, std::int64_t value) { return {std::move(name), value}; }
inline Param real(std::string name, double value) { return {std::move(name), value}; }
inline Param text(std::string name, std::string value) {
  return {std::move(name), std::move(value)};
}

/// Random f32 data in [-1, 1).
[[nodiscard]] Tensor random_tensor(const Dims& dims, std::mt19937& random);

/// Writes programs for tests: values of unknown dims, seeded weights.
class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed), input_random_(seed + 1) {
    program_.name = "test";
    program_.source = kSource;
  }

  Operand input(const Dims& dims);
  Operand input(Tensor tensor);
  Operand weight(const Dims& dims);
  Operand weight(Tensor tensor);
  Operand op(std::string_view kind, std::vector<Operand> inputs, std::vector<Param> params = {},
             std::vector<PostOp> post_ops = {});
  std::vector<Operand> split(Operand src, std::size_t outputs, std::vector<Param> params);
  void output(const Operand& value) { program_.outputs.push_back(value.index); }

  Program& program() { return program_; }
  std::vector<Tensor>& weights() { return weights_; }
  std::vector<Tensor>& inputs() { return inputs_; }
  std::mt19937& random() { return random_; }
  [[nodiscard]] std::vector<Dims> input_dims() const;

 private:
  std::uint32_t new_value();
  std::mt19937 random_;
  std::mt19937 input_random_;  // so that weights do not depend on the sizes of inputs
  Program program_;
  std::vector<Tensor> weights_, inputs_;
};

[[nodiscard]] PostOp unary(std::string kind, float alpha = 0, float beta = 0);
[[nodiscard]] PostOp binary(std::string kind, Operand operand);

using Outputs = std::vector<std::vector<float>>;

/// Keeps outputs as vectors; `unwanted` are refused.
class VectorOutputs final : public OutputAllocator {
 public:
  Result<std::byte*> allocate(std::size_t output, DataType type, const Dims& dims) override;
  std::map<std::size_t, std::vector<float>> data;
  std::map<std::size_t, Dims> dims_of;
  std::vector<std::size_t> unwanted;
};

/// A packed program and its store, whose ids are the blob indices.
struct Packed {
  Program program;
  std::shared_ptr<WeightStore> store;
  [[nodiscard]] BlobSource blobs() const;
  /// The program as a loader takes it.
  [[nodiscard]] std::shared_ptr<const Program> shared() const {
    return std::make_shared<const Program>(program);
  }
};
[[nodiscard]] Result<Packed> pack(Maker& maker, std::vector<std::vector<Dims>> profiles,
                                  bool portable = false, const TuningTable* tuning = nullptr);
[[nodiscard]] Result<Outputs> run(const Executable& executable, const std::vector<Tensor>& inputs,
                                  std::vector<OpTiming>* timings = nullptr);
/// Pack for the maker's input dims, load, run.
[[nodiscard]] Result<Outputs> compile_and_run(Maker& maker,
                                              std::vector<OpTiming>* timings = nullptr);
/// The same for results of any type.
[[nodiscard]] Result<std::vector<Tensor>> compile_and_run_typed(
    Maker& maker, std::vector<OpTiming>* timings = nullptr);

}  // namespace ctxgen::onednn::test
