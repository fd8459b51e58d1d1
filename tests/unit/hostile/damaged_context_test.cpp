// A context model and its bin, damaged in every place.
#include <gtest/gtest.h>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/runtime/session.h"

#include "code_of.h"
#include "small_model.h"

namespace ctxgen {
namespace {

using test::code_of;

class DamagedContext : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto made = compile_in_memory({.path = {}, .bytes = test::small_model(), .name = "m.onnx"}, {});
    ASSERT_TRUE(made) << made.error().message;
    compiled_ = std::make_unique<CompiledModel>(std::move(*made));
    ASSERT_EQ(compiled_->bins.size(), 1U);
    ASSERT_EQ(compiled_->report.models[0].partitions.size(), 2U);
  }
  static void TearDownTestSuite() { compiled_.reset(); }

  // Copies of exactly the size, so that the address sanitizer sees a read past the end.
  static Blob exact(std::span<const std::byte> bytes) {
    return Blob::own({bytes.begin(), bytes.end()});
  }

  static Result<std::unique_ptr<Session>> open(std::span<const std::byte> model,
                                               std::span<const std::byte> bin) {
    SessionOptions options;
    options.threads = 1;
    options.verify_blobs = VerifyBlobs::kAlways;
    options.bin_source = [bin](std::string_view) -> Result<Blob> { return exact(bin); };
    return Session::open_memory(exact(model), options);
  }

  static Result<std::vector<Tensor>> run(const Session& session) {
    Tensor x = Tensor::allocate(DataType::kFloat, Dims{2, 3}).value();
    std::ranges::fill(x.mutable_elements<float>(), 1.0F);
    const NamedTensor input{"x", x};
    return session.run(std::span(&input, 1));
  }

  static std::span<const std::byte> model() { return compiled_->model.bytes; }
  static std::span<const std::byte> bin() { return compiled_->bins[0].second.bytes; }

  static std::unique_ptr<CompiledModel> compiled_;
};
std::unique_ptr<CompiledModel> DamagedContext::compiled_;

void expect_invalid_graph(const test::Outcome& outcome, std::string_view what, std::size_t at) {
  ASSERT_FALSE(outcome.ok) << what << " " << at;
  EXPECT_EQ(error_info(outcome.code).printed, "INVALID_GRAPH")
      << what << " " << at << ": " << outcome;
}

TEST_F(DamagedContext, WholeItRuns) {
  const auto session = open(model(), bin());
  ASSERT_EQ(code_of(session), test::kOk);
  const auto outputs = run(**session);
  ASSERT_EQ(code_of(outputs), test::kOk);
  EXPECT_EQ((*outputs)[0].elements<float>()[0], 16.0F);
}

TEST_F(DamagedContext, BinOfEveryLength) {
  for (std::size_t size = 0; size < bin().size(); ++size)
    expect_invalid_graph(code_of(open(model(), bin().first(size))), "length", size);
  std::vector<std::byte> longer(bin().begin(), bin().end());
  longer.push_back(std::byte{0});
  expect_invalid_graph(code_of(open(model(), longer)), "length", longer.size());
}

TEST_F(DamagedContext, BinFlippedAtEveryByte) {
  for (std::size_t at = 0; at < bin().size(); ++at)
    for (const int bits : {0x01, 0x80, 0xff}) {
      std::vector<std::byte> damaged(bin().begin(), bin().end());
      damaged[at] ^= static_cast<std::byte>(bits);
      expect_invalid_graph(code_of(open(model(), damaged)), "byte", at);
    }
}

// Another valid model may come of it; whatever comes may be refused or run.
TEST_F(DamagedContext, ModelFlippedAtEveryBit) {
  std::size_t refused = 0;
  for (std::size_t at = 0; at < model().size() * 8; ++at) {
    std::vector<std::byte> damaged(model().begin(), model().end());
    damaged[at / 8] ^= std::byte{1} << at % 8;
    const auto session = open(damaged, bin());
    if (!session) {
      EXPECT_FALSE(session.error().message.empty()) << "bit " << at;
      ++refused;
      continue;
    }
    static_cast<void>(run(**session));
  }
  EXPECT_GT(refused, model().size());
}

TEST_F(DamagedContext, ModelOfEveryLength) {
  for (std::size_t size = 0; size < model().size(); ++size)
    if (const auto session = open(model().first(size), bin())) static_cast<void>(run(**session));
}

// The plain model, read, checked, inferred, folded and compiled.
TEST_F(DamagedContext, SourceFlippedAtEveryByte) {
  const Blob source = test::small_model();
  for (std::size_t at = 0; at < source.bytes.size(); ++at)
    for (const int bits : {0x01, 0x80, 0xff}) {
      std::vector<std::byte> damaged(source.bytes.begin(), source.bytes.end());
      damaged[at] ^= static_cast<std::byte>(bits);
      CompileOptions options;
      options.threads = options.jobs = 1;
      const auto made =
          compile_in_memory({.path = {}, .bytes = exact(damaged), .name = "m.onnx"}, options);
      if (!made || made->bins.empty()) continue;
      const auto session = open(made->model.bytes, made->bins[0].second.bytes);
      // What compiles also loads, but for operators that nobody has.
      if (!session && session.error().code == ErrorCode::kUnsupported) continue;
      EXPECT_EQ(code_of(session), test::kOk) << "byte " << at;
    }
}

}  // namespace
}  // namespace ctxgen
