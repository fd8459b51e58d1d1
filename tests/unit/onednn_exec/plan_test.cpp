#include <atomic>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "reference.h"

// Stored plans, plans for other shapes, threads, and the loader's verdicts.
namespace ctxgen::onednn::test {
namespace {

/// A small network with every weight-bearing kind; any batch and image size of at least 8.
void make_network(Maker& maker, std::int64_t batch, std::int64_t size) {
  Operand x = maker.input(Dims{batch, 3, size, size});
  x = maker.op(kind::kConv, {x, maker.weight(Dims{16, 3, 3, 3}), maker.weight(Dims{16})},
               {ints("strides", {2, 2}), ints("pads", {1, 1, 1, 1})}, {unary("relu")});
  const Operand residual = x;
  x = maker.op(kind::kConv, {x, maker.weight(Dims{16, 1, 3, 3})},
               {ints("pads", {1, 1, 1, 1}), integer("group", 16)}, {unary("clip", 0, 6)});
  x = maker.op(kind::kConv, {x, maker.weight(Dims{16, 16, 1, 1}), maker.weight(Dims{16})}, {},
               {binary("add", residual), unary("relu")});
  x = maker.op(kind::kGlobalPool, {x}, {text("mode", "avg")});
  x = maker.op(kind::kFlatten, {x}, {integer("axis", 1)});
  x = maker.op(kind::kMatmul, {x, maker.weight(Dims{100, 16}), maker.weight(Dims{100})},
               {integer("trans_b", 1)});
  maker.output(maker.op(kind::kSoftmax, {x}, {integer("axis", -1)}));
}

Result<std::unique_ptr<Executable>> load(const Packed& packed, LoadStatistics* statistics = nullptr,
                                         int threads = 1) {
  return loader().load(packed.shared(), packed.blobs(), LoadOptions{threads}, statistics);
}

TEST(ExecPlan, StoredPlanGivesTheBitsOfAFreshOne) {
  Maker maker(1);
  make_network(maker, 1, 16);
  const Packed stored = pack(maker, {{maker.input_dims()}}).value();
  Packed open = stored;
  open.program.plans.clear();
  ASSERT_EQ(stored.program.plans.size(), 1U);
  EXPECT_GT(stored.program.plans[0].arena_bytes, 0U);
  LoadStatistics statistics;
  const auto planned = load(stored, &statistics).value();
  EXPECT_GT(statistics.primitives, 0U);
  EXPECT_GT(statistics.primitive_creation_ms, 0.0);
  EXPECT_EQ(statistics.repacked_weights, 0U);
  EXPECT_EQ(run(*planned, maker.inputs()).value(),
            run(*load(open).value(), maker.inputs()).value());
}

/// Stops the run once it is in the partition: whoever calls it has looked at the flag by then.
class StoppingOutputs final : public OutputAllocator {
 public:
  explicit StoppingOutputs(std::atomic<bool>& stop) : stop_(stop) {}
  Result<std::byte*> allocate(std::size_t, DataType, const Dims&) override {
    stop_ = true;
    return nullptr;
  }

 private:
  std::atomic<bool>& stop_;
};

TEST(ExecPlan, StopIsNoticedInsideThePartition) {
  Maker maker(1);
  make_network(maker, 1, 16);
  const Packed packed = pack(maker, {{maker.input_dims()}}).value();
  const auto executable = load(packed).value();
  const auto state = executable->make_state().value();
  const std::vector<Tensor> inputs = maker.inputs();
  const TensorView input = inputs[0].view();
  std::atomic<bool> stop = false;
  StoppingOutputs outputs(stop);
  std::vector<OpTiming> timings;
  const auto status =
      executable->run(*state, std::span(&input, 1), outputs, {.timings = &timings, .stop = &stop});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(timings.empty());
  stop = false;
  VectorOutputs whole;
  EXPECT_TRUE(executable->run(*state, std::span(&input, 1), whole, {.stop = &stop}).has_value());
}

TEST(ExecPlan, PackingIsDeterministic) {
  Maker maker(2);
  make_network(maker, 2, 12);
  const Packed a = pack(maker, {{maker.input_dims()}}).value();
  const Packed b = pack(maker, {{maker.input_dims()}}).value();
  EXPECT_EQ(a.program, b.program);
  ASSERT_EQ(a.store->size(), b.store->size());
  for (std::uint32_t i = 0; i < a.store->size(); ++i)
    EXPECT_EQ(a.store->hash(StoreId{i}), b.store->hash(StoreId{i}));
}

TEST(ExecPlan, OtherShapesArePlannedAtRunTime) {
  Maker first(3);
  make_network(first, 1, 16);
  const Packed packed = pack(first, {{first.input_dims()}}).value();
  const auto executable = load(packed).value();
  const auto state = executable->make_state().value();
  // More shapes than plans and bound plans are kept, and back again.
  for (int round = 0; round < 2; ++round)
    for (std::int64_t size = 8; size < 20; ++size) {
      Maker maker(3);
      make_network(maker, size % 3 + 1, size);
      const TensorView input = maker.inputs()[0].view();
      VectorOutputs outputs;
      ASSERT_TRUE(executable->run(*state, std::span(&input, 1), outputs));
      const auto expected = reference(maker);
      EXPECT_EQ(outputs.dims_of[0], (Dims{size % 3 + 1, 100}));
      for (std::size_t i = 0; i < expected[0].size(); ++i)
        ASSERT_NEAR(outputs.data[0][i], expected[0][i], 1e-4);
    }
}

TEST(ExecPlan, SeveralProfilesShareWeights) {
  Maker maker(4);
  make_network(maker, 1, 16);
  const Packed packed =
      pack(maker, {{Dims{1, 3, 16, 16}}, {Dims{4, 3, 16, 16}}, {Dims{2, 3, 24, 24}}}).value();
  EXPECT_EQ(packed.program.plans.size(), 3U);
  const auto executable = load(packed).value();
  EXPECT_EQ(run(*executable, maker.inputs()).value()[0].size(), 100U);
}

TEST(ExecPlan, TwoThreadsWithOwnStatesGiveTheSameBits) {
  Maker maker(5);
  make_network(maker, 1, 32);
  const Packed packed = pack(maker, {{maker.input_dims()}}).value();
  const auto executable = load(packed).value();
  const Outputs expected = run(*executable, maker.inputs()).value();
  const auto work = [&] {
    const auto state = executable->make_state().value();
    const TensorView input = maker.inputs()[0].view();
    for (int i = 0; i < 100; ++i) {
      VectorOutputs outputs;
      ASSERT_TRUE(executable->run(*state, std::span(&input, 1), outputs));
      ASSERT_EQ(outputs.data[0], expected[0]);
    }
  };
  std::thread other(work);
  work();
  other.join();
}

/// A caller's pool: counts what it is asked for and calls in reverse order.
class CountingWorkers final : public Workers {
 public:
  void parallel_for(std::int64_t count, Task task) override {
    calls += count;
    for (std::int64_t i = count; i-- > 0;) task(i);
  }
  std::int64_t calls = 0;
};

TEST(ExecPlan, OwnKernelsRunOnTheWorkersOfTheCaller) {
  Maker maker(8);
  const Operand x = maker.input(Dims{1, 64, 64, 64});
  const Operand y = maker.op(kind::kEltwise, {x}, {text("alg", "softsign")});
  maker.output(maker.op(kind::kTranspose, {y}, {ints("perm", {0, 3, 2, 1})}));
  const Packed packed = pack(maker, {{maker.input_dims()}}).value();
  const auto expected = run(*load(packed, nullptr, 2).value(), maker.inputs()).value();
  CountingWorkers workers;
  const auto executable = loader()
                              .load(packed.shared(), packed.blobs(),
                                    LoadOptions{.threads = 2, .workers = &workers}, nullptr)
                              .value();
  EXPECT_EQ(workers.calls, 0);
  EXPECT_EQ(run(*executable, maker.inputs()).value(), expected);
  EXPECT_GT(workers.calls, 1);
}

TEST(ExecPlan, MoreOpenMpThreadsGiveTheSameResult) {
  Maker maker(6);
  make_network(maker, 2, 40);
  const Packed packed = pack(maker, {{maker.input_dims()}}).value();
  const auto executable = load(packed, nullptr, 2).value();
  const Outputs actual = run(*executable, maker.inputs()).value();
  const auto expected = reference(maker);
  for (std::size_t i = 0; i < expected[0].size(); ++i)
    ASSERT_NEAR(actual[0][i], expected[0][i], 1e-4);
}

TEST(ExecPlan, TimingsNameEveryStep) {
  Maker maker(7);
  make_network(maker, 1, 16);
  std::vector<OpTiming> timings;
  ASSERT_TRUE(compile_and_run(maker, &timings));
  bool conv = false;
  for (const OpTiming& timing : timings) {
    EXPECT_FALSE(timing.implementation.empty());
    EXPECT_EQ(timing.implementation.find("ref"), std::string::npos) << timing.name;
    EXPECT_GT(timing.bytes, 0U) << timing.name;
    // 16 x 3 x 3 x 3 weights on 8 x 8 pixels.
    conv |= timing.kind == "conv" && timing.flops == 2.0 * 16 * 27 * 64;
  }
  EXPECT_TRUE(conv);
}

TEST(ExecPlan, InputsOfAnyAlignmentAndUnwantedOutputs) {
  Maker maker(8);
  make_network(maker, 1, 16);
  maker.output(Operand::value(1));
  const Packed packed = pack(maker, {{maker.input_dims()}}).value();
  const auto executable = load(packed).value();
  const Outputs expected = run(*executable, maker.inputs()).value();
  const auto bytes = maker.inputs()[0].bytes();
  std::vector<std::byte> shifted(bytes.size() + 4);
  std::memcpy(shifted.data() + 4, bytes.data(), bytes.size());
  const TensorView input{DataType::kFloat, maker.inputs()[0].dims(), shifted.data() + 4};
  const auto state = executable->make_state().value();
  VectorOutputs outputs;
  outputs.unwanted = {1};
  ASSERT_TRUE(executable->run(*state, std::span(&input, 1), outputs));
  EXPECT_EQ(outputs.data[0], expected[0]);
  EXPECT_EQ(outputs.data.count(1), 0U);
}

TEST(ExecPlan, WrongInputsAreRefused) {
  Maker maker(9);
  make_network(maker, 1, 16);
  maker.program().symbols = {"n"};
  ProgramValue& value = maker.program().values[0];
  value.has_rank = true;
  value.dims = {ProgramDim{-1, 0}, ProgramDim{3, -1}, ProgramDim{}, ProgramDim{}};
  const auto executable = load(pack(maker, {}).value()).value();
  const auto state = executable->make_state().value();
  const auto code = [&](DataType type, const Dims& dims) {
    const Tensor tensor = Tensor::allocate(DataType::kFloat, dims).value();
    const TensorView view{type, dims, tensor.bytes().data()};
    VectorOutputs outputs;
    const Status status = executable->run(*state, std::span(&view, 1), outputs);
    return status ? ErrorCode::kInternal : status.error().code;
  };
  EXPECT_EQ(code(DataType::kInt32, Dims{1, 3, 16, 16}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(DataType::kFloat, Dims{1, 4, 16, 16}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(DataType::kFloat, Dims{1, 3, 16}), ErrorCode::kInvalidArgument);
  VectorOutputs outputs;
  EXPECT_EQ(executable->run(*state, {}, outputs).error().code, ErrorCode::kInvalidArgument);
}

TEST(ExecPlan, UnknownKindsAndTypesAreUnsupported) {
  Maker kind_maker(10);
  kind_maker.output(kind_maker.op("fft", {kind_maker.input(Dims{4})}));
  EXPECT_EQ(pack(kind_maker, {{kind_maker.input_dims()}}).error().code, ErrorCode::kUnsupported);
  Maker type_maker(11);
  type_maker.output(
      type_maker.op(kind::kEltwise, {type_maker.input(Dims{4})}, {text("alg", "relu")}));
  type_maker.program().values[0].type = DataType::kInt64;
  EXPECT_EQ(pack(type_maker, {{type_maker.input_dims()}}).error().code, ErrorCode::kUnsupported);
}

TEST(ExecMachine, FingerprintVerdicts) {
  const std::string here = loader().fingerprint();
  const auto verdict = [&](std::string_view from, std::string_view to) {
    std::string text = here;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << text << " has no " << from;
    text.replace(at, from.size(), to);
    return loader().compatibility(text, 2);
  };
  EXPECT_EQ(loader().compatibility(here, 2).verdict, Compatibility::kOptimal);
  EXPECT_EQ(loader().compatibility(here, 2).reason, "");
  EXPECT_EQ(loader().compatibility(here, 3).verdict, Compatibility::kOptimal);
  EXPECT_EQ(verdict("format=1", "format=2").verdict, Compatibility::kUnsupported);
  EXPECT_EQ(verdict("onednn=" + library_version(), "onednn=2.7.0").verdict,
            Compatibility::kUnsupported);
  for (const std::string_view same_major : {"3.0.0", "3.999.0"})
    EXPECT_EQ(verdict(library_version(), same_major).verdict, Compatibility::kOptimal);
  for (const std::string_view other : {"", "4.0.0", "30.1.0", "x"})
    EXPECT_EQ(verdict(library_version(), other).verdict, Compatibility::kUnsupported) << other;
  EXPECT_EQ(verdict("isa=" + isa_name(), "isa=avx512_core_quantum").verdict,
            Compatibility::kUnsupported);
  EXPECT_EQ(verdict("isa=" + isa_name(), "isa=sse41").verdict,
            isa_name() == "sse41" ? Compatibility::kOptimal : Compatibility::kPreferRecompilation);
  EXPECT_EQ(loader().compatibility("", 2).verdict, Compatibility::kUnsupported);
  EXPECT_GE(default_threads(), 1);
}

/// Older files hold what oneDNN chose for these threads and caches.
TEST(ExecMachine, FingerprintsOfOlderFilesNameThreadsAndCaches) {
  const std::string older = loader().fingerprint() + ";threads=2";
  EXPECT_EQ(loader().compatibility(older, 2).verdict, Compatibility::kOptimal);
  const auto other = loader().compatibility(older, 3);
  EXPECT_EQ(other.verdict, Compatibility::kPreferRecompilation);
  EXPECT_NE(other.reason.find("threads is \"2\", here \"3\""), std::string::npos) << other.reason;
  EXPECT_EQ(loader().compatibility(older + ";cache=7/7/7", 2).verdict,
            Compatibility::kPreferRecompilation);
}

TEST(ExecMachine, PortableRunsWhereTheMajorVersionIsTheSame) {
  const std::string portable = loader().fingerprint_of({.portable = true, .isas = {}}).value();
  EXPECT_EQ(portable.find(isa_name()), std::string::npos) << portable;
  const auto found = loader().compatibility(portable, 2);
  EXPECT_EQ(found.verdict, Compatibility::kPreferRecompilation);
  EXPECT_NE(found.reason.find("portable"), std::string::npos);
  for (const std::string_view other :
       {"format=2;onednn=3;isa=portable", "format=1;onednn=2;isa=portable",
        "format=1;onednn=3.1.0;isa=portable", "isa=portable"})
    EXPECT_EQ(loader().compatibility(other, 2).verdict, Compatibility::kUnsupported) << other;
}

TEST(ExecPlan, PortableProgramsHoldPlainWeightsAndNoChoices) {
  Maker maker(12);
  make_network(maker, 1, 16);
  const Packed native = pack(maker, {{maker.input_dims()}}).value();
  const Packed portable = pack(maker, {{maker.input_dims()}}, true).value();
  for (const ProgramWeight& weight : portable.program.weights) {
    ASSERT_EQ(weight.packed.size(), 1U);
    EXPECT_TRUE(weight.packed[0].layout.empty());
  }
  ASSERT_EQ(portable.program.plans.size(), 1U);
  EXPECT_EQ(portable.program.plans[0].arena_bytes, 0U);
  EXPECT_EQ(portable.program.plans[0].scratch_bytes, 0U);
  LoadStatistics statistics;
  const auto loaded = load(portable, &statistics).value();
  EXPECT_GT(statistics.repacked_weights, 0U);
  EXPECT_EQ(run(*loaded, maker.inputs()).value(),
            run(*load(native).value(), maker.inputs()).value());
}

}  // namespace
}  // namespace ctxgen::onednn::test
