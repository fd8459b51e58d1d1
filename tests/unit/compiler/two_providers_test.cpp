#include <map>

#include <gtest/gtest.h>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/runtime/session.h"

#include "parse_model.h"
#include "stages/compile_env.h"
#include "toy_provider.h"

namespace ctxgen {
namespace {

// Neg (minus), Abs and Add (both plus), Exp (cpu), Neg again.
constexpr const char* kModel = R"(
<ir_version: 8, opset_import: ["" : 17]>
graph (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> {
  a = Neg(x)
  b = Abs(a)
  c = Add(b, w)
  d = Exp(c)
  y = Neg(d)
})";

class TwoProviders : public testing::Test {
 protected:
  ToyProvider minus{"minus", {"Neg"}};
  ToyProvider plus{"plus", {"Abs", "Add"}};
  ToyProvider greedy{"greedy", {"Neg", "Abs", "Add"}};

  CompileOptions options(std::vector<std::string> list) {
    CompileOptions o;
    o.providers = std::move(list);
    o.extra_providers = {&minus, &plus, &greedy};
    return o;
  }
  static ModelInput input(const char* text = kModel) {
    return ModelInput{{}, parse_model(text), "toy.onnx"};
  }
  std::vector<float> run(const CompiledModel& compiled, std::vector<float> x) {
    SessionOptions session;
    session.loaders = {minus.loader(), plus.loader(), greedy.loader()};
    session.bin_source = [&](std::string_view name) -> Result<Blob> {
      for (const auto& [bin, bytes] : compiled.bins)
        if (bin == name) return bytes;
      return fail(ErrorCode::kIoError, "no bin \"{}\"", name);
    };
    auto opened = Session::open_memory(compiled.model, session);
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      return {};
    }
    Tensor tensor = *Tensor::allocate(DataType::kFloat, {static_cast<std::int64_t>(x.size())});
    std::ranges::copy(x, tensor.mutable_elements<float>().begin());
    const NamedTensor named[] = {{"x", tensor}};
    auto outputs = (*opened)->run(named);
    if (!outputs) {
      ADD_FAILURE() << outputs.error().message;
      return {};
    }
    const auto y = outputs->at(0).elements<float>();
    return {y.begin(), y.end()};
  }
};

TEST_F(TwoProviders, EachHasItsOwnBinAndPrimaryNode) {
  const auto compiled = compile_in_memory(input(), options({"minus", "plus"}));
  ASSERT_TRUE(compiled) << compiled.error().message;
  ASSERT_EQ(compiled->bins.size(), 2U);
  EXPECT_EQ(compiled->bins[0].first, "toy_minus.bin");
  EXPECT_EQ(compiled->bins[1].first, "toy_plus.bin");

  const auto model = read_model(compiled->model, {});
  ASSERT_TRUE(model) << model.error().message;
  std::vector<std::string> seen;
  for (const Node& node : model->graph.nodes())
    seen.push_back(node.op_type == "EPContext"
                       ? std::string(node.string_or("source", "")) + ":" +
                             std::to_string(node.int_or("main_context", -1)) + ":" +
                             std::string(node.string_or("ep_cache_context", "?"))
                       : node.op_type.str());
  EXPECT_EQ(seen, (std::vector<std::string>{"minusExecutionProvider:1:toy_minus.bin",
                                            "plusExecutionProvider:1:toy_plus.bin", "Exp",
                                            "minusExecutionProvider:0:"}));
  std::map<std::string, std::string> metadata(model->metadata.begin(), model->metadata.end());
  EXPECT_EQ(metadata["ep_compatibility_info.minusExecutionProvider"], "toy=1");
  EXPECT_EQ(metadata["ep_compatibility_info.plusExecutionProvider"], "toy=1");
}

TEST_F(TwoProviders, ResultsAreThoseOfTheModel) {
  for (const auto& list : std::vector<std::vector<std::string>>{
           {"minus", "plus"}, {"plus", "minus"}, {"greedy"}, {"plus", "greedy"}, {"cpu"}}) {
    const auto compiled = compile_in_memory(input(), options(list));
    ASSERT_TRUE(compiled) << compiled.error().message;
    const std::vector<float> y = run(*compiled, {-1, 0, 2});
    ASSERT_EQ(y.size(), 3U);
    EXPECT_FLOAT_EQ(y[0], -std::exp(1.F + 1.F));
    EXPECT_FLOAT_EQ(y[1], -std::exp(0.F + 2.F));
    EXPECT_FLOAT_EQ(y[2], -std::exp(2.F + 3.F));
  }
}

TEST_F(TwoProviders, OrderDecides) {
  const auto first = explain(input(), options({"greedy", "minus"}));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->assignment[0].provider, "greedy");
  EXPECT_EQ(first->assignment[4].provider, "greedy");
  const auto second = explain(input(), options({"minus", "greedy"}));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->assignment[0].provider, "minus");
  EXPECT_EQ(second->assignment[1].provider, "greedy");
  EXPECT_EQ(second->assignment[3].provider, "cpu");
  EXPECT_EQ(second->assignment[3].reasons,
            (std::vector<std::string>{"minus: no toy", "greedy: no toy"}));
}

TEST_F(TwoProviders, EmbeddedPayloadsLoadToo) {
  CompileOptions o = options({"minus", "plus"});
  o.embed = true;
  const auto compiled = compile_in_memory(input(), o);
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_TRUE(compiled->bins.empty());
  EXPECT_FLOAT_EQ(run(*compiled, {-1, 0, 2}).at(0), -std::exp(2.F));
}

TEST_F(TwoProviders, NothingCompiledIsThePlainModel) {
  const ModelInput model = input();
  const auto compiled = compile_in_memory(model, options({"cpu"}));
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_TRUE(compiled->bins.empty());
  EXPECT_FALSE(compiled->report.models[0].warnings.empty());
  CompileOptions required = options({"cpu"});
  required.require_compiled = true;
  const auto refused = compile_in_memory(model, required);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotSatisfied);
}

TEST_F(TwoProviders, StrictNamesTheFallback) {
  CompileOptions o = options({"greedy"});
  o.strict = true;
  const auto result = compile_in_memory(input(), o);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kNotSatisfied);
  EXPECT_NE(result.error().message.find("Exp"), std::string::npos);
}

TEST_F(TwoProviders, CompiledModelsAreRefused) {
  const auto once = compile_in_memory(input(), options({"greedy"}));
  ASSERT_TRUE(once);
  const auto twice = compile_in_memory({{}, once->model, "toy_ctx.onnx"}, options({"greedy"}));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::kInvalidGraph);
}

TEST_F(TwoProviders, UnknownProvidersAndOptionsAreRefused) {
  for (CompileOptions o : {options({"nobody"}), options({"minus", "minus"})}) {
    const auto result = compile_in_memory(input(), o);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  }
  CompileOptions unknown = options({"minus"});
  unknown.provider_options = {{"minus", {"colour", "red"}}};
  EXPECT_EQ(compile_in_memory(input(), unknown).error().code, ErrorCode::kInvalidArgument);
  CompileOptions unused = options({"minus"});
  unused.provider_options = {{"plus", {"colour", "red"}}};
  EXPECT_EQ(compile_in_memory(input(), unused).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(TwoProviders, CancelIsHeard) {
  CompileOptions o = options({"greedy"});
  o.cancelled = [] { return true; };
  EXPECT_EQ(compile_in_memory(input(), o).error().code, ErrorCode::kCancelled);
}

TEST_F(TwoProviders, FixedDimsAreWrittenIntoTheModel) {
  constexpr const char* kDynamic = R"(
<ir_version: 8, opset_import: ["" : 17]>
graph (float[n] x) => (float[n] y) { a = Exp(x)  y = Neg(a) })";
  CompileOptions o = options({"minus"});
  o.fix_dims = {{"n", 4}};
  const auto compiled = compile_in_memory(input(kDynamic), o);
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto model = read_model(compiled->model, {});
  ASSERT_TRUE(model) << model.error().message;
  for (const char* name : {"x", "y", "a"})
    EXPECT_EQ(model->graph.value(model->graph.find(name)).type.fixed_dims(), Dims{4}) << name;
  o.fix_dims = {{"m", 4}};
  EXPECT_EQ(compile_in_memory(input(kDynamic), o).error().code, ErrorCode::kInvalidArgument);
}

/// Claims what it then cannot compile.
class ClumsyProvider : public ToyProvider {
 public:
  using ToyProvider::ToyProvider;
  Result<std::vector<CompiledPartition>> compile(const GraphView& view,
                                                 std::span<const Partition> partitions,
                                                 const ProviderCompileOptions& options,
                                                 WeightStore& store) const override {
    if (!refused_after_all(view, partitions, options).empty())
      return fail(ErrorCode::kUnsupported, "too clumsy");
    return ToyProvider::compile(view, partitions, options, store);
  }
  std::vector<Rejection> refused_after_all(const GraphView& view,
                                           std::span<const Partition> partitions,
                                           const ProviderCompileOptions&) const override {
    std::vector<Rejection> refused;
    for (const Partition& partition : partitions)
      for (const NodeId id : partition.nodes)
        if (view.graph().node(id).op_type == "Abs") refused.push_back({id, "too clumsy for Abs"});
    return refused;
  }
};

TEST_F(TwoProviders, WhatAProviderCannotCompileGoesToTheNext) {
  ClumsyProvider clumsy{"clumsy", {"Neg", "Abs", "Add"}};
  CompileOptions o = options({"clumsy", "plus", "cpu"});
  o.extra_providers.push_back(&clumsy);
  const auto compiled = compile_in_memory(input(), o);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  const auto& nodes = compiled->report.models[0].assignment;
  bool found = false;
  for (const auto& node : nodes) {
    if (node.op_type != "Abs") continue;
    found = true;
    EXPECT_EQ(node.provider, "plus");
    ASSERT_EQ(node.reasons.size(), 1U);
    EXPECT_EQ(node.reasons[0], "clumsy: too clumsy for Abs");
  }
  EXPECT_TRUE(found);
}

/// Has an order of its own.
class BackwardLoader : public ToyLoader {
 public:
  using ToyLoader::ToyLoader;
  Result<std::vector<std::string>> sort_isas(std::span<const std::string> names) const override {
    auto sorted = CTXGEN_TRY(ToyLoader::sort_isas(names));
    std::ranges::reverse(sorted);
    return sorted;
  }
};

class BackwardProvider : public ToyProvider {
 public:
  using ToyProvider::ToyProvider;
  const ProgramLoader* loader() const override { return &backward_; }

 private:
  BackwardLoader backward_{"backwardExecutionProvider"};
};

TEST_F(TwoProviders, InstructionSetsHaveOneOrder) {
  BackwardProvider backward{"backward", {"Neg"}};
  const auto target = [&](std::vector<std::string> list, std::vector<std::string> isas) {
    CompileOptions o = options(std::move(list));
    o.extra_providers.push_back(&backward);
    o.isas = std::move(isas);
    return ProviderList::make(o).and_then(
        [&](const ProviderList& providers) { return make_target(o, providers); });
  };
  const auto agreed = target({"minus", "plus"}, {"avx512_core", "avx2"});
  ASSERT_TRUE(agreed) << agreed.error().message;
  EXPECT_EQ(agreed->isas, (std::vector<std::string>{"avx2", "avx512_core"}));
  const auto split = target({"minus", "backward"}, {"avx512_core", "avx2"});
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code, ErrorCode::kInternal);
  EXPECT_NE(split.error().message.find("backward"), std::string::npos);
  EXPECT_TRUE(target({"minus", "backward"}, {"avx2"}));
  EXPECT_EQ(target({"minus"}, {"avx3"}).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(TwoProviders, AFailureThatIsNoNodesStands) {
  class Broken : public ToyProvider {
   public:
    using ToyProvider::ToyProvider;
    Result<std::vector<CompiledPartition>> compile(const GraphView&, std::span<const Partition>,
                                                   const ProviderCompileOptions&,
                                                   WeightStore&) const override {
      return fail(ErrorCode::kBackendError, "broken");
    }
  } broken{"broken", {"Neg"}};
  CompileOptions o = options({"broken", "cpu"});
  o.extra_providers.push_back(&broken);
  const auto compiled = compile_in_memory(input(), o);
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kBackendError);
}

}  // namespace
}  // namespace ctxgen
