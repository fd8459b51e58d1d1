// A C++ program over the installed libraries: runs MODEL on 0, 0.25, ... 1.5, 0, ... and writes its first output to OUTPUT.
#include <fstream>
#include <iostream>

#include "ctxgen/runtime/session.h"

using namespace ctxgen;

namespace {

Status run(const char* model, const char* output) {
  const auto session = CTXGEN_TRY(Session::open(model));
  const auto context = CTXGEN_TRY(session->make_context());
  const IoInfo& info = session->inputs().front();
  Dims dims;
  for (const Dim& dim : *info.type.shape) dims.push_back(dim.is_fixed() ? dim.value() : 2);
  Tensor input = CTXGEN_TRY(Tensor::allocate(info.type.element, dims));
  for (std::size_t i = 0; float& x : input.mutable_elements<float>())
    x = 0.25F * static_cast<float>(i++ % 7);
  CTXGEN_CHECK(context->set_input(0, input));
  CTXGEN_CHECK(context->run());
  const auto bytes = context->outputs().front().tensor().bytes();
  std::ofstream(output, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Status status = run(argv[1], argv[2]);
  if (status) return 0;
  std::cerr << status.error().message << '\n';
  return 1;
}
