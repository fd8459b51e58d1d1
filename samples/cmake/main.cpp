// Runs the model that was compiled into this program on numbers from the command line.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>

#include "ctxgen/runtime/session.h"

// The file as it is, 64-byte aligned: weights are used in place.
asm(".section .rodata\n"
    ".balign 64\n"
    "model_begin: .incbin \"" MODEL_FILE
    "\"\n"
    "model_end:\n"
    ".previous\n");
extern "C" const std::byte model_begin[] asm("model_begin");
extern "C" const std::byte model_end[] asm("model_end");

namespace {

int fail(const ctxgen::Error& error) {
  std::fprintf(stderr, "classify: %s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const ctxgen::Blob model{nullptr, {model_begin, model_end}};
  const auto session = ctxgen::Session::open_memory(model);
  if (!session) return fail(session.error());

  auto x = ctxgen::Tensor::allocate(ctxgen::DataType::kFloat, {1, 8});
  if (!x) return fail(x.error());
  const std::span<float> values = x->mutable_elements<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<int>(i) + 1 < argc ? std::strtof(argv[i + 1], nullptr) : 0.0F;

  const ctxgen::NamedTensor inputs[] = {{"x", *x}};
  const auto outputs = (*session)->run(inputs);
  if (!outputs) return fail(outputs.error());
  for (const float value : outputs->at(0).elements<float>())
    std::printf("%g\n", static_cast<double>(value));
  return 0;
}
