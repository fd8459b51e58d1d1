// Counts what a run allocates once a context has run before:
//   allocation_counter MODEL ours|mine     outputs in memory of the context's, or of the caller's
// Prints a JSON object with the allocations of 20 runs, by who asked.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <print>
#include <string_view>
#include <vector>

#include "ctxgen/runtime/session.h"

#include "counting_malloc.h"
#include "need.h"

using namespace ctxgen;

namespace {

using test::need;

void set_inputs(const Session& session, RunContext& context) {
  for (std::size_t i = 0; i < session.inputs().size(); ++i) {
    const IoInfo& info = session.inputs()[i];
    if (info.has_default) continue;
    Dims dims;
    if (info.type.has_rank())
      for (const Dim& dim : *info.type.shape) dims.push_back(dim.is_fixed() ? dim.value() : 1);
    Tensor tensor = need(Tensor::allocate(info.type.element, dims));
    std::memset(tensor.mutable_bytes().data(), 0, tensor.bytes().size());
    need(context.set_input(i, tensor));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto session = need(Session::open(argv[1]));
  const auto context = need(session->make_context());
  set_inputs(*session, *context);
  need(context->run());
  std::vector<std::vector<std::byte>> memory;
  if (std::string_view(argv[2]) == "mine")
    for (std::size_t i = 0; i < session->outputs().size(); ++i) {
      memory.emplace_back(context->outputs()[i].tensor().bytes().size());
      need(context->set_output(i, memory.back()));
    }
  test::start_counting();
  (void)test::stop_counting();
  for (int i = 0; i < 3; ++i) need(context->run());
  test::start_counting();
  void* volatile control = std::malloc(1);  // one of ours, so that a count of none says something
  for (int i = 0; i < 20; ++i) need(context->run());
  const test::Counts counts = test::stop_counting();
  std::free(control);
  std::println(
      "{{\"ctxgen\": {}, \"onednn\": {}, \"openmp\": {}, \"nodes\": {}, \"partitions\": {}}}",
      counts.ctxgen - 1, counts.onednn, counts.openmp, session->statistics().nodes,
      session->statistics().partitions);
  for (const std::string& caller : counts.ctxgen_callers) std::println(stderr, "{}", caller);
  return 0;
}
