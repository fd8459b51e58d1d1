// A model from its bytes through the onnx package: checker, shape inference, function bodies.
#include "ctxgen/onnx/infer.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "fuzz_input.h"

using namespace ctxgen;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto model = read_model(fuzz::exact(fuzz::bytes_of(data, size)), {});
  if (!model || !check_with_onnx(*model)) return 0;
  if (!infer_shapes(*model)) return 0;
  const auto keep = [](const Graph&, const Node&) { return false; };
  if (expand_schema_functions(*model, keep)) static_cast<void>(infer_shapes(*model));
  return 0;
}
