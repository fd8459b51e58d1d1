// Runs a context model in ONNX Runtime: run <libctxgen_onnxruntime.so> <model_ctx.onnx>
#include <algorithm>
#include <iostream>
#include <string>
#include <unordered_map>
#include <vector>

#include <onnxruntime_cxx_api.h>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: run PLUGIN MODEL\n";
    return 1;
  }
  Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "sample");
  env.RegisterExecutionProviderLibrary("ctxgen", argv[1]);
  std::vector<Ort::ConstEpDevice> devices;
  for (const Ort::ConstEpDevice& device : env.GetEpDevices())
    if (std::string_view(device.EpName()) == "CtxgenDnnlExecutionProvider")
      devices.push_back(device);

  Ort::SessionOptions options;
  const std::unordered_map<std::string, std::string>
      ep_options;  // "threads", ...: docs/onnxruntime.md
  options.AppendExecutionProvider_V2(env, devices, ep_options);
  Ort::Session session(env, argv[2], options);

  Ort::AllocatorWithDefaultOptions allocator;
  const auto info = session.GetInputTypeInfo(0);
  std::vector<int64_t> shape = info.GetTensorTypeAndShapeInfo().GetShape();
  for (int64_t& size : shape) size = size < 0 ? 1 : size;
  Ort::Value input = Ort::Value::CreateTensor<float>(allocator, shape.data(), shape.size());
  std::fill_n(input.GetTensorMutableData<float>(),
              input.GetTensorTypeAndShapeInfo().GetElementCount(), 0.0F);

  const auto input_name = session.GetInputNameAllocated(0, allocator);
  const auto output_name = session.GetOutputNameAllocated(0, allocator);
  const char* inputs[] = {input_name.get()};
  const char* outputs[] = {output_name.get()};
  const auto results = session.Run(Ort::RunOptions{}, inputs, &input, 1, outputs, 1);
  std::cout << output_name.get() << ": " << results[0].GetTensorTypeAndShapeInfo().GetElementCount()
            << " elements\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
