#include "ort_decode.h"

#include <chrono>
#include <cstdint>
#include <format>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;
using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kVocabulary = 97;  // ids of tokens are below, as in small models too

/// A past and the present that continues it.
struct Cache {
  std::string past, present;
  Shape shape;                // of no tokens
  std::vector<float> buffer;  // as both, or none
  Ort::Value value{nullptr};  // what the last run gave, or nothing
};

class Decoder {
 public:
  Decoder(Ort::Session& session, const DecodeOptions& options);

  /// Before the first token.
  void reset();
  /// Runs `count` tokens after `past` others, and returns the milliseconds that it took.
  double run(std::int64_t count, std::int64_t past);

 private:
  Ort::Value numbers(std::vector<std::int64_t>& values, std::int64_t count);
  [[nodiscard]] std::int64_t longest() const { return options_.prompt + options_.steps + 1; }

  Ort::Session& session_;
  const DecodeOptions options_;
  Ort::MemoryInfo memory_ = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  std::string ids_, mask_, positions_, logits_;
  std::vector<std::int64_t> tokens_, ones_, places_;
  std::vector<Cache> caches_;
};

std::int64_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Decoder::Decoder(Ort::Session& session, const DecodeOptions& options)
    : session_(session), options_(options) {
  Ort::AllocatorWithDefaultOptions allocator;
  logits_ = session.GetOutputNameAllocated(0, allocator).get();
  for (std::size_t i = 0; i < session.GetInputCount(); ++i) {
    const std::string name = session.GetInputNameAllocated(i, allocator).get();
    if (const auto at = name.find("past_key_values"); at != std::string::npos) {
      Cache cache{.past = name, .present = name, .shape = {}, .buffer = {}};
      cache.present.replace(at, std::string_view("past_key_values").size(), "present");
      const auto type = session.GetInputTypeInfo(i);
      cache.shape = type.GetTensorTypeAndShapeInfo().GetShape();
      if (cache.shape.size() != 4 ||
          type.GetTensorTypeAndShapeInfo().GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
        throw std::runtime_error(std::format("--decode: input \"{}\" is no cache of floats", name));
      cache.shape[0] = 1;
      cache.shape[2] = options.one_buffer ? longest() : 0;
      cache.buffer.resize(static_cast<std::size_t>(elements_of(cache.shape)) + 1);  // never nothing
      caches_.push_back(std::move(cache));
      continue;
    }
    std::string* const known = name.contains("mask")       ? &mask_
                               : name.contains("position") ? &positions_
                               : name.contains("ids")      ? &ids_
                                                           : nullptr;
    if (known == nullptr)
      throw std::runtime_error(std::format("--decode: input \"{}\" is not known", name));
    *known = name;
  }
  ones_.assign(static_cast<std::size_t>(longest()), 1);
  places_.resize(ones_.size());
}

void Decoder::reset() {
  for (Cache& cache : caches_) cache.value = Ort::Value(nullptr);
}

Ort::Value Decoder::numbers(std::vector<std::int64_t>& values, std::int64_t count) {
  const Shape shape{1, count};
  return Ort::Value::CreateTensor<std::int64_t>(memory_, values.data(),
                                                static_cast<std::size_t>(count), shape.data(), 2);
}

double Decoder::run(std::int64_t count, std::int64_t past) {
  tokens_.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    tokens_[static_cast<std::size_t>(i)] = 7 * (past + i) % kVocabulary;
  std::iota(places_.begin(), places_.end(), past);
  Ort::IoBinding binding(session_);
  binding.BindInput(ids_.c_str(), numbers(tokens_, count));
  if (!mask_.empty()) binding.BindInput(mask_.c_str(), numbers(ones_, past + count));
  if (!positions_.empty()) binding.BindInput(positions_.c_str(), numbers(places_, count));
  binding.BindOutput(logits_.c_str(), memory_);
  for (Cache& cache : caches_) {
    const auto own = [&] {
      return Ort::Value::CreateTensor<float>(memory_, cache.buffer.data(), cache.buffer.size() - 1,
                                             cache.shape.data(), cache.shape.size());
    };
    if (options_.one_buffer) {
      binding.BindInput(cache.past.c_str(), own());
      binding.BindOutput(cache.present.c_str(), own());
    } else {
      if (!cache.value) cache.value = own();
      binding.BindInput(cache.past.c_str(), cache.value);
      binding.BindOutput(cache.present.c_str(), memory_);
    }
  }
  const auto start = Clock::now();
  session_.Run(Ort::RunOptions{nullptr}, binding);
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (!options_.one_buffer) {
    std::vector<Ort::Value> outputs = binding.GetOutputValues();
    for (std::size_t i = 0; i < caches_.size(); ++i) caches_[i].value = std::move(outputs[i + 1]);
  }
  return ms;
}

}  // namespace

DecodeOptions parse_decode(const std::string& text) {
  DecodeOptions options;
  const auto comma = text.find(',');
  if (comma != std::string::npos) {
    options.prompt = std::stoi(text.substr(0, comma));
    options.steps = std::stoi(text.substr(comma + 1));
  }
  constexpr int kMost = 1'000'000;
  if (options.prompt < 1 || options.steps < 3 || options.prompt > kMost || options.steps > kMost)
    throw std::invalid_argument(std::format("--decode {}: expected PROMPT,STEPS", text));
  return options;
}

DecodeTimes decode(Ort::Session& session, const DecodeOptions& options) {
  Decoder decoder(session, options);
  DecodeTimes times;
  for (int i = 0; i < 2; ++i) {
    decoder.reset();
    times.prefill_ms = decoder.run(options.prompt, 0);
  }
  for (int i = 0; i < options.steps; ++i) {
    const double ms = decoder.run(1, options.prompt + i);
    if (i >= 2) times.steps_ms.push_back(ms);
  }
  return times;
}

}  // namespace bench
