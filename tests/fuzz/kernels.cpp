// A small model, opened as a session and run: importer, executor, EPContext nodes and above all the CPU kernels.
#include <atomic>
#include <chrono>
#include <thread>

#include "ctxgen/runtime/session.h"

#include "bounded_memory.h"
#include "fuzz_input.h"

using namespace ctxgen;

namespace {

constexpr std::int64_t kMaxElements = 4096;
constexpr std::uint64_t kMaxRunBytes = 1 << 20;

/// Sets `stop` when a run takes longer than a second: hostile loops run for ever, which is no
/// finding as long as they can be stopped.
class Watchdog {
 public:
  Watchdog() : thread_([this](const std::stop_token& end) { watch(end); }) {}
  [[nodiscard]] const std::atomic<bool>* begin() {
    stop_ = false;
    began_ = now();
    return &stop_;
  }
  void end() { began_ = 0; }

 private:
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void watch(const std::stop_token& end) {
    for (; !end.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds(100)))
      if (const std::int64_t began = began_; began != 0 && now() - began > 1000) stop_ = true;
  }
  std::atomic<bool> stop_ = false;
  std::atomic<std::int64_t> began_ = 0;
  std::jthread thread_;
};

/// Inputs of the declared types and sizes; a symbol is 2, so is what is not known.
std::optional<std::vector<NamedValue>> inputs_of(const Session& session) {
  std::vector<NamedValue> inputs;
  for (const IoInfo& info : session.inputs()) {
    if (info.has_default) continue;
    if (!info.type.is_tensor()) return std::nullopt;
    Dims dims;
    std::int64_t count = 1;
    if (info.type.has_rank()) {
      for (const Dim& dim : *info.type.shape) {
        dims.push_back(dim.is_fixed() ? dim.value() : 2);
        if (dims.back() > kMaxElements || (count *= dims.back()) > kMaxElements)
          return std::nullopt;
      }
    }
    const DataType type =
        info.type.element == DataType::kUndefined ? DataType::kFloat : info.type.element;
    auto tensor = Tensor::allocate(type, dims);
    if (!tensor) return std::nullopt;
    fuzz::fill(*tensor, static_cast<std::uint8_t>(inputs.size()));
    inputs.push_back({info.name, std::move(*tensor)});
  }
  return inputs;
}

void check(const RuntimeValue& value) {
  if (!value.is_tensor()) return;
  const Tensor& tensor = value.tensor();
  fuzz::expect(!tensor.defined() || tensor.is_string() ||
                   checked_size_bytes(tensor.type(), tensor.dims()) == tensor.bytes().size(),
               "an output of another size than its dims");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Watchdog watchdog;
  const fuzz::MemoryBound bound;
  SessionOptions options;
  options.threads = 1;
  options.max_run_bytes = kMaxRunBytes;
  const auto session = Session::open_memory(fuzz::exact(fuzz::bytes_of(data, size)), options);
  if (!session) return 0;
  const auto inputs = inputs_of(**session);
  if (!inputs) return 0;
  for (int run = 0; run < 2; ++run) {  // the second one takes its memory from the pool
    const auto outputs =
        (*session)->run_values(*inputs, {.timings = nullptr, .stop = watchdog.begin()});
    watchdog.end();
    if (!outputs) return 0;
    for (const RuntimeValue& value : *outputs) check(value);
  }
  return 0;
}
