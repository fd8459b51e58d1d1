// Sessions of one group, as tests/e2e/test_shared_sessions.py wants them.
// Inputs are zeros, and ones where their names tell a mask.
//   sharing_probe pair FIRST SECOND      opens and runs FIRST, then SECOND; between them a system call shows the moment (access of
//                                        "/second-session"). Prints what loading the second took: time, primitives, weights that it
//                                        laid out again, and the memory that it was the first to touch.
//   sharing_probe hold MODEL...          opens and runs each MODEL, says "ready" and the bytes of all outputs,
//                                        which it keeps, and waits for the end of its standard input
//   sharing_probe stress TIMES MODEL...  eight threads open, run and drop sessions of the group, TIMES each
//   sharing_probe shapes TIMES MODEL     eight threads run one session, TIMES each, with more shapes than it keeps plans for
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <print>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ctxgen/runtime/session.h"

using namespace ctxgen;

namespace {

Result<std::unique_ptr<Session>> open(const char* path, bool stop = false) {
  SessionOptions options;
  options.share_ep_contexts = true;
  options.stop_share_ep_contexts = stop;
  options.threads = 1;
  return Session::open(path, options);
}

/// Inputs whose bytes all are `byte`; dimensions without a number are `size`.
Result<std::vector<NamedTensor>> inputs_of(const Session& session, int byte, std::int64_t size) {
  std::vector<NamedTensor> inputs;
  for (const IoInfo& info : session.inputs()) {
    Dims dims;
    if (info.type.has_rank())
      for (const Dim& dim : *info.type.shape) dims.push_back(dim.is_fixed() ? dim.value() : size);
    Tensor tensor = CTXGEN_TRY(Tensor::allocate(info.type.element, dims));
    std::memset(tensor.mutable_bytes().data(), byte, tensor.bytes().size());
    inputs.push_back({info.name, std::move(tensor)});
  }
  return inputs;
}

template <class T>
void fill_with_ones(Tensor& tensor) {
  std::ranges::fill(std::span(reinterpret_cast<T*>(tensor.mutable_bytes().data()),
                              tensor.bytes().size() / sizeof(T)),
                    T{1});
}

/// One run on zeros, with masks of ones: attention takes lengths from them, which are not 0.
Result<std::vector<Tensor>> outputs_of(const Session& session) {
  auto inputs = CTXGEN_TRY(inputs_of(session, 0, 1));
  for (NamedTensor& input : inputs) {
    if (!input.name.contains("mask")) continue;
    if (input.tensor.type() == DataType::kInt64) fill_with_ones<std::int64_t>(input.tensor);
    if (input.tensor.type() == DataType::kInt32) fill_with_ones<std::int32_t>(input.tensor);
  }
  return session.run(inputs);
}
Status run(const Session& session) {
  const auto outputs = outputs_of(session);
  if (!outputs) return std::unexpected(outputs.error());
  return {};
}

/// Bytes of the pages that the process was given so far: new memory, and files' pages that are in no page table of its yet.
std::int64_t touched_bytes() {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_minflt + usage.ru_majflt) * sysconf(_SC_PAGESIZE);
}

Status pair(const char* first, const char* second) {
  const auto one = CTXGEN_TRY(open(first));
  CTXGEN_CHECK(run(*one));
  (void)access("/second-session", F_OK);
  const std::int64_t touched_before = touched_bytes();
  const auto start = std::chrono::steady_clock::now();
  const auto other = CTXGEN_TRY(open(second));
  const std::chrono::duration<double, std::milli> load = std::chrono::steady_clock::now() - start;
  const std::int64_t touched = touched_bytes() - touched_before;
  CTXGEN_CHECK(run(*other));
  const SessionStatistics& statistics = other->statistics();
  std::println(
      "{{\"load_ms\": {}, \"context_read_ms\": {}, \"program_load_ms\": {}, "
      "\"primitive_creation_ms\": {}, \"primitives\": {}, \"repacked_bytes\": {}, "
      "\"touched_bytes\": {}}}",
      load.count(), statistics.context_read_ms, statistics.program_load_ms,
      statistics.load.primitive_creation_ms, statistics.load.primitives,
      statistics.load.repacked_bytes, touched);
  return {};
}

Status hold(const std::vector<const char*>& models) {
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Tensor> outputs;
  std::size_t bytes = 0;
  for (const char* model : models) {
    sessions.push_back(CTXGEN_TRY(open(model)));
    for (Tensor& output : CTXGEN_TRY(outputs_of(*sessions.back()))) {
      bytes += output.bytes().size();
      outputs.push_back(std::move(output));
    }
  }
  std::println("ready {}", bytes);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return {};
}

/// Keeps up to three sessions, opens another one or drops one by chance.
Status stress_thread(unsigned seed, int times, const std::vector<const char*>& models) {
  std::mt19937 random(seed);
  std::deque<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < times; ++i) {
    const bool stop = random() % 16 == 0;
    sessions.push_back(CTXGEN_TRY(open(models[random() % models.size()], stop)));
    CTXGEN_CHECK(run(*sessions[random() % sessions.size()]));
    if (sessions.size() > 3) sessions.erase(sessions.begin() + static_cast<long>(random() % 4));
  }
  return {};
}

Status stress(int times, const std::vector<const char*>& models) {
  std::vector<Status> results(8);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < results.size(); ++t)
      threads.emplace_back([&, t] { results[t] = stress_thread(t, times, models); });
  }
  for (Status& result : results) CTXGEN_CHECK(std::move(result));
  std::println("done");
  return {};
}

using Expected = std::vector<std::vector<Tensor>>;  // outputs by shape

Status compare(std::span<const Tensor> outputs, std::span<const Tensor> expected, int shape) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!(outputs[i].dims() == expected[i].dims()) ||
        !std::ranges::equal(outputs[i].bytes(), expected[i].bytes()))
      return fail(ErrorCode::kInternal, "shape {}: output {} differs", shape, i);
  return {};
}

constexpr int kShapes = 12;
constexpr int kByte = 0x3d;  // 0x3d3d3d3d is 0.046

/// Every second thread has a run context of its own, the others take the session's.
Status shapes_thread(const Session& session, unsigned seed, int times, const Expected& expected) {
  std::mt19937 random(seed);
  const auto context = seed % 2 == 0 ? CTXGEN_TRY(session.make_context()) : nullptr;
  for (int i = 0; i < times; ++i) {
    const int shape = static_cast<int>(random() % kShapes);
    const auto inputs = CTXGEN_TRY(inputs_of(session, kByte, 1 + shape));
    std::vector<Tensor> outputs;
    if (context) {
      for (std::size_t k = 0; k < inputs.size(); ++k)
        CTXGEN_CHECK(context->set_input(k, inputs[k].tensor));
      CTXGEN_CHECK(context->run());
      for (const RuntimeValue& output : context->outputs()) outputs.push_back(output.tensor());
    } else {
      outputs = CTXGEN_TRY(session.run(inputs));
    }
    CTXGEN_CHECK(compare(outputs, expected[static_cast<std::size_t>(shape)], shape));
  }
  return {};
}

Status shapes(int times, const char* model) {
  SessionOptions options;
  options.threads = 1;
  options.kept_plans = 4;
  const auto session = CTXGEN_TRY(Session::open(model, options));
  Expected expected;
  for (int shape = 0; shape < kShapes; ++shape) {
    const auto inputs = CTXGEN_TRY(inputs_of(*session, kByte, 1 + shape));
    expected.push_back(CTXGEN_TRY(session->run(inputs)));
  }
  std::vector<Status> results(8);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < results.size(); ++t)
      threads.emplace_back([&, t] { results[t] = shapes_thread(*session, t, times, expected); });
  }
  for (Status& result : results) CTXGEN_CHECK(std::move(result));
  std::println("{{\"made\": {}, \"dropped\": {}}}", session->plan_statistics().made,
               session->plan_statistics().dropped);
  return {};
}

Status act(int argc, char** argv) {
  const std::string_view verb = argc > 2 ? argv[1] : "";
  if (verb == "pair" && argc == 4) return pair(argv[2], argv[3]);
  if (verb == "hold") return hold({argv + 2, argv + argc});
  if (verb == "stress" && argc > 3) return stress(std::atoi(argv[2]), {argv + 3, argv + argc});
  if (verb == "shapes" && argc == 4) return shapes(std::atoi(argv[2]), argv[3]);
  return fail(ErrorCode::kInvalidArgument,
              "pair FIRST SECOND | hold MODEL... | stress TIMES MODEL... | shapes TIMES MODEL");
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = act(argc, argv);
  if (status) return 0;
  std::println(stderr, "{}", status.error().message);
  return 1;
}
