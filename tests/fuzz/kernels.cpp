// A small model, opened as a session and run: importer, executor, EPContext nodes and above all the CPU kernels.
#include "ctxgen/runtime/session.h"
#include "bounded_memory.h"
#include "fuzz_input.h"

using namespace ctxgen;

namespace {

constexpr std::int64_t kMaxElements = 4096;

/// Inputs of the declared types and sizes; a symbol is 2, so is what is not known.
std::optional<std::vector<NamedTensor>> inputs_of(const Session& session) {
  std::vector<NamedTensor> inputs;
  for (const IoInfo& info : session.inputs()) {
    if (info.has_default) continue;
    Dims dims;
    std::int64_t count = 1;
    if (info.type.has_rank()) {
      for (const Dim& dim : *info.type.shape) {
        dims.push_back(dim.is_fixed() ? dim.value() : 2);
        if (dims.back() > kMaxElements || (count *= dims.back()) > kMaxElements) return std::nullopt;
      }
    }
    const DataType type = info.type.element == DataType::kUndefined ? DataType::kFloat : info.type.element;
    auto tensor = Tensor::allocate(type, dims);
    if (!tensor) return std::nullopt;
    fuzz::fill(*tensor, static_cast<std::uint8_t>(inputs.size()));
    inputs.push_back({info.name, std::move(*tensor)});
  }
  return inputs;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryBound bound;
  SessionOptions options;
  options.threads = 1;
  const auto session = Session::open_memory(fuzz::exact(fuzz::bytes_of(data, size)), options);
  if (!session) return 0;
  const auto inputs = inputs_of(**session);
  if (!inputs) return 0;
  for (int run = 0; run < 2; ++run) {  // the second one takes its memory from the pool
    const auto outputs = (*session)->run(*inputs);
    if (!outputs) return 0;
    for (const Tensor& tensor : *outputs)
      fuzz::expect(!tensor.defined() || tensor.is_string() ||
                       checked_size_bytes(tensor.type(), tensor.dims()) == tensor.bytes().size(),
                   "an output of another size than its dims");
  }
  return 0;
}
