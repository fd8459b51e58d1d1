// Memory that runs out at each allocation of ours, once and for good, while a small model is compiled, loaded and run: each ends
// with RESOURCE_LIMIT, leaves no temporary file behind and can be done again. Allocations inside of packages (oneDNN, onnx,
// protobuf, OpenMP, spdlog) are left alone: what they do then is not ours (docs/security.md).
#include <set>

#include <gtest/gtest.h>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/runtime/check.h"
#include "ctxgen/runtime/session.h"

#include "code_of.h"
#include "failing_memory.h"
#include "small_model.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

using test::Failing;

/// How a call ended. Made without memory: there may be none.
test::Outcome end(ErrorCode code, std::string message) {
  test::Outcome outcome(code);
  outcome.message = std::move(message);
  return outcome;
}
template <class T>
test::Outcome end(Result<T>&& result) {
  return result ? test::Outcome() : end(result.error().code, std::move(result.error().message));
}

CompileOptions one_thread() {
  CompileOptions options;
  options.threads = options.jobs = 1;
  return options;
}

class OutOfMemory : public testing::Test {
 protected:
  OutOfMemory() : model_(folder_.write("m.onnx", as_text(test::small_model().bytes))) {}

  /// Runs `work`, which returns how it ended, with each allocation failing that is ours. After every
  /// `settle_each`th of them it must work again and all memory must be back.
  template <class Work>
  void fail_each(Work work, std::size_t settle_each = 1) {
    test::Outcome outcome;
    const std::function<void()> run = [&] { outcome = work(); };  // moves
    for (int i = 0; i < 3; ++i) run();  // fills what is kept: schemas, primitives
    ASSERT_EQ(outcome, test::kOk);
    clear_folder();
    const auto recorded = test::record(run);
    const auto settled = [&] {
      clear_folder();
      run();
      check_folder(true);
      std::string().swap(outcome.message);
      return test::live_objects();
    };
    static_cast<void>(settled());
    const std::int64_t live = settled();
    std::size_t ours = 0, reached = 0;
    for (std::size_t n = 0; n < recorded.is_ours.size(); ++n) {
      if (!recorded.is_ours[n]) continue;
      ++ours;
      for (const Failing how : {Failing::kOnce, Failing::kFromThenOn}) {
        clear_folder();
        if (!test::run_failing(n, how, run)) continue;
        ++reached;
        ASSERT_TRUE(outcome.ok || outcome.code == ErrorCode::kResourceLimit)
            << "allocation " << n << (how == Failing::kOnce ? " once: " : " and all that follow: ")
            << outcome;
        // Caches and optional work may do without; nothing else may.
        survived_ += outcome.ok ? 1U : 0U;
        check_folder(outcome.ok);
        if (reached % settle_each != 0) continue;
        ASSERT_EQ(settled(), live) << "allocation " << n << " leaks";
        ASSERT_EQ(outcome, test::kOk) << "after allocation " << n;
      }
    }
    EXPECT_EQ(settled(), live);
    EXPECT_EQ(outcome, test::kOk);
    EXPECT_GT(ours, 0U);
    EXPECT_GE(reached, ours);  // of twice as many
    EXPECT_LT(survived_ * 20, reached) << "too much goes on as if there were memory";
    std::cerr << ours << " allocations of " << recorded.is_ours.size() << " are ours, " << survived_
              << " survived\n";
  }

  /// Outputs that are there already take allocations of their own: each run begins without.
  void clear_folder() {
    for (const std::string& name : outputs_)
      if (!kept_.contains(name)) std::filesystem::remove(folder_ / name);
  }

  void check_folder(bool is_done) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == "m.onnx" || (is_done && outputs_.contains(name)) || kept_.contains(name))
          << name;
      if (outputs_.contains(name) && !kept_.contains(name)) std::filesystem::remove(entry.path());
    }
  }

  test::TempFolder folder_;
  std::filesystem::path model_;
  std::set<std::string> outputs_, kept_;
  std::size_t survived_ = 0;
};

TEST_F(OutOfMemory, WhileCompilingToFiles) {
  outputs_ = {"m_ctx.onnx", "m_dnnl.bin"};
  const std::vector<ModelInput> inputs{{.path = model_, .bytes = {}, .name = "m.onnx"}};
  const std::vector<std::filesystem::path> outputs{folder_ / "m_ctx.onnx"};
  const CompileOptions options = one_thread();
  fail_each([&] { return end(compile_to_files(inputs, outputs, options)); }, 100);
}

TEST_F(OutOfMemory, WhileCompilingToMemory) {
  const ModelInput input{.path = model_, .bytes = {}, .name = "m.onnx"};
  const CompileOptions options = one_thread();
  fail_each([&] { return end(compile_in_memory(input, options)); });
}

TEST_F(OutOfMemory, WhileExplaining) {
  const ModelInput input{.path = model_, .bytes = {}, .name = "m.onnx"};
  const CompileOptions options = one_thread();
  fail_each([&] { return end(explain(input, options)); });
}

class OutOfMemoryLater : public OutOfMemory {
 protected:
  OutOfMemoryLater() {
    kept_ = {"m_ctx.onnx", "m_dnnl.bin"};
    const ModelInput input{.path = model_, .bytes = {}, .name = "m.onnx"};
    EXPECT_TRUE(compile_to_files({input}, {folder_ / "m_ctx.onnx"}, one_thread()));
    options_.threads = 1;
    context_ = folder_ / "m_ctx.onnx";
  }
  SessionOptions options_;
  std::filesystem::path context_;
};

TEST_F(OutOfMemoryLater, WhileOpening) {
  fail_each([&] { return end(Session::open(context_, options_)); });
}

TEST_F(OutOfMemoryLater, WhileChecking) {
  fail_each([&] { return end(check_context(context_, options_)); });
}

TEST_F(OutOfMemoryLater, WhileRunning) {
  for (const char* name : {"m.onnx", "m_ctx.onnx"}) {
    const auto session = Session::open(folder_ / name, options_);
    ASSERT_TRUE(session);
    Tensor x = Tensor::allocate(DataType::kFloat, Dims{2, 3}).value();
    std::ranges::fill(x.mutable_elements<float>(), 1.0F);
    const NamedTensor input{"x", x};
    fail_each([&] {
      auto outputs = (*session)->run(std::span(&input, 1));
      if (outputs && (*outputs)[0].elements<float>()[0] != 16.0F)
        return end(ErrorCode::kInternal, "wrong");
      return end(std::move(outputs));
    });
  }
}

TEST_F(OutOfMemory, WithSubgraphs) {
  const Blob model = parse_model(R"(<ir_version: 9, opset_import: ["": 18]>
    g (float[2,3] x) => (float[2,3] y) <int64 n = {3}, bool t = {1}>
    { l = Loop<body = b (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] e)
          { d = Identity(c) e = Add(a, a) }>(n, t, x)
      y = If<then_branch = h () => (float[2,3] u) { u = Identity(l) },
             else_branch = k () => (float[2,3] v) { v = Neg(l) }>(t) })");
  SessionOptions options;
  options.threads = 1;
  fail_each([&] { return end(Session::open_memory(model, options)); });
  const auto session = Session::open_memory(model, options);
  ASSERT_TRUE(session);
  Tensor x = Tensor::allocate(DataType::kFloat, Dims{2, 3}).value();
  std::ranges::fill(x.mutable_elements<float>(), 1.0F);
  const NamedTensor input{"x", x};
  fail_each([&] {
    auto outputs = (*session)->run(std::span(&input, 1));
    if (outputs && (*outputs)[0].elements<float>()[0] != 8.0F)
      return end(ErrorCode::kInternal, "wrong");
    return end(std::move(outputs));
  });
}

}  // namespace
}  // namespace ctxgen
