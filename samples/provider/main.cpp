// chain MODEL CONTEXT: compiles MODEL to CONTEXT (MODEL_ctx.onnx), says which provider took each node, and
// runs the result on inputs of 1.
#include <ctxgen/compiler/compile.h>
#include <ctxgen/runtime/session.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <format>
#include <string>

#include "chain_loader.h"
#include "chain_provider.h"

namespace {

using namespace ctxgen;

Status compile(const std::filesystem::path& model, const std::filesystem::path& context) {
  const auto provider = chain::make_provider();
  CompileOptions options;
  options.providers = {"chain", "cpu"};
  options.extra_providers = {provider.get()};
  ModelInput input;
  input.path = model;
  input.name = model.filename().string();
  const CompileReport report = CTXGEN_TRY(compile_to_files({input}, {context}, options));
  for (const NodeReport& node : report.models.at(0).assignment) {
    std::string line = std::format("{}: {}", node.op_type, node.provider);
    for (const std::string& reason : node.reasons) line += std::format(" ({})", reason);
    std::printf("%s\n", line.c_str());
  }
  return {};
}

Status run(const std::filesystem::path& context) {
  SessionOptions options;
  options.loaders = {&chain::loader()};
  const auto session = CTXGEN_TRY(Session::open(context, options));
  std::vector<NamedTensor> inputs;
  for (const IoInfo& info : session->inputs()) {
    const auto dims = info.type.fixed_dims();
    if (!dims) return fail(ErrorCode::kUnsupported, "input \"{}\" has no fixed shape", info.name);
    Tensor ones = CTXGEN_TRY(Tensor::allocate(DataType::kFloat, *dims));
    std::ranges::fill(ones.mutable_elements<float>(), 1.0F);
    inputs.push_back({info.name, std::move(ones)});
  }
  const auto outputs = CTXGEN_TRY(session->run(inputs));
  for (const Tensor& output : outputs)
    for (const float value : output.elements<float>())
      std::printf("%g\n", static_cast<double>(value));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: chain MODEL.onnx MODEL_ctx.onnx\n");
    return 1;
  }
  Status status = compile(argv[1], argv[2]);
  if (status) status = run(argv[2]);
  if (status) return 0;
  std::fprintf(stderr, "chain: %s\n", status.error().message.c_str());
  return error_info(status.error().code).exit_status;
}
