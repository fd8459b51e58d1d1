#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <new>
#include <random>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

// What the benchmarks of kernels share. All run on one thread, over the same buffers again and again.
namespace ctxgen::bench {

using dnnl::memory;

/// Memory as plans have it: vectors of 64 bytes do not cross lines of caches.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};
  AlignedAllocator() = default;
  template <class Other>
  AlignedAllocator(const AlignedAllocator<Other>& /*other*/) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* memory, std::size_t /*n*/) { ::operator delete(memory, kAlignment); }
  bool operator==(const AlignedAllocator&) const = default;
};
using Floats = std::vector<float, AlignedAllocator<float>>;

inline Floats numbers(std::int64_t n, float deviation = 1) {
  std::mt19937 generator(7);
  std::normal_distribution<float> distribution(0, deviation);
  Floats list(static_cast<std::size_t>(n));
  for (float& x : list) x = distribution(generator);
  return list;
}

inline std::byte* bytes_of(Floats& list) { return reinterpret_cast<std::byte*>(list.data()); }

/// Nanoseconds per element, and the bytes that are read and written at least once.
inline void report(benchmark::State& state, std::int64_t elements, std::int64_t bytes) {
  using benchmark::Counter;
  const auto rate = Counter::kIsIterationInvariantRate;
  state.counters["ns/element"] =
      Counter(static_cast<double>(elements) * 1e-9, rate | Counter::kInvert);
  state.counters["GB/s"] = Counter(static_cast<double>(bytes) * 1e-9, rate);
}

/// A primitive of oneDNN with its memory; says which implementation it is.
class Primitive {
 public:
  static const dnnl::engine& engine() {
    static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    return cpu;
  }

  Primitive(benchmark::State& state, const dnnl::primitive_desc_base& pd, dnnl::primitive primitive)
      : primitive_(std::move(primitive)) {
    state.SetLabel(pd.impl_info_str());
  }

  void bind(int argument, const memory::desc& md, float* data) {
    args_.insert({argument, memory(md, engine(), data)});
  }
  void run() {
    primitive_.execute(stream_, args_);
    stream_.wait();
  }

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_{engine()};
  std::unordered_map<int, memory> args_;
};

}  // namespace ctxgen::bench
