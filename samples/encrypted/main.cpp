// sealed seal KEY FILE...     writes FILE.sealed of each
// sealed run KEY MODEL        runs MODEL.sealed on zeros; its context binaries are MODEL's names with .sealed
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/runtime/session.h"

#include "sealed_file.h"

namespace {

int fail(const ctxgen::Error& error) {
  std::fprintf(stderr, "sealed: %s\n", error.message.c_str());
  return 1;
}

int seal(const sealed::Key& key, std::span<char*> files) {
  for (const char* file : files)
    if (const auto done = sealed::seal(file, key); !done) return fail(done.error());
  return 0;
}

/// Zeros; dimensions without a number are 1.
std::vector<ctxgen::NamedTensor> zeros(const ctxgen::Session& session) {
  std::vector<ctxgen::NamedTensor> inputs;
  for (const ctxgen::IoInfo& info : session.inputs()) {
    ctxgen::Dims dims;
    for (const ctxgen::Dim& dim : *info.type.shape)
      dims.push_back(dim.is_fixed() ? dim.value() : 1);
    ctxgen::Tensor tensor = *ctxgen::Tensor::allocate(info.type.element, dims);
    std::memset(tensor.mutable_bytes().data(), 0, tensor.bytes().size());
    inputs.push_back({info.name, std::move(tensor)});
  }
  return inputs;
}

int run(const sealed::Key& key, const std::filesystem::path& path) {
  const auto model = sealed::open(path, key);
  if (!model) return fail(model.error());
  ctxgen::SessionOptions options;
  // The model names its binaries by paths relative to itself, which are checked before they come here.
  options.bin_source = [&](std::string_view name) {
    return sealed::open(path.parent_path() / name, key);
  };
  const auto session = ctxgen::Session::open_memory(*model, options);
  if (!session) return fail(session.error());
  const auto outputs = (*session)->run(zeros(**session));
  if (!outputs) return fail(outputs.error());
  for (const ctxgen::Tensor& output : *outputs)
    for (const float value : output.elements<float>())
      std::printf("%.9g\n", static_cast<double>(value));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  if (argc < 4) {
    std::fprintf(stderr, "usage: sealed seal KEY FILE... | sealed run KEY MODEL\n");
    return 1;
  }
  const auto key = sealed::read_key(arguments[2]);
  if (!key) return fail(key.error());
  if (std::string_view(arguments[1]) == "seal") return seal(*key, arguments.subspan(3));
  return run(*key, arguments[3]);
}
