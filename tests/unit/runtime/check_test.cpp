#include "ctxgen/runtime/check.h"

#include <gtest/gtest.h>

#include "code_of.h"
#include "model_bytes.h"
#include "temp_folder.h"
#include "toy_loader.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::kOk;
using test::ModelBytes;
using test::TempFolder;
using test::toy_context;
using test::toy_program;

const std::string kKey = std::string("ep_compatibility_info.") + test::kToySource;

class CheckContext : public ::testing::Test {
 protected:
  /// Checks a model whose metadata and bin carry these fingerprints.
  Result<ContextCheck> check(const std::string& in_metadata, const std::string& in_bin) {
    const std::string context = toy_context({toy_program("p0")}, {1.0F}, in_bin);
    folder_.write("m.bin", context);
    return check_model(in_metadata, test::notes_of(context, "p0"));
  }
  Result<ContextCheck> check_model(const std::string& in_metadata, const std::string& notes) {
    ModelBytes model;
    model.input("x", {2}).output("y", {2}).metadata(kKey, in_metadata);
    model.add(ModelBytes::node("ep", "EPContext", {"x"}, {"y"},
                               {{"embed_mode", 0},
                                {"ep_cache_context", "m.bin"},
                                {"partition_name", "p0"},
                                {"notes", notes},
                                {"source", test::kToySource}},
                               "com.microsoft"));
    SessionOptions options;
    options.loaders = {&test::toy_loader()};
    return check_context(folder_.write("m_ctx.onnx", model.text()), options);
  }
  TempFolder folder_;
};

TEST_F(CheckContext, TheWorstFindingDecides) {
  const auto optimal = check("toy-1", "toy-1");
  ASSERT_EQ(code_of(optimal), kOk);
  EXPECT_EQ(optimal->verdict, Compatibility::kOptimal);
  EXPECT_EQ(optimal->partitions, 1U);
  EXPECT_EQ(optimal->findings.size(), 2U);
  EXPECT_EQ(check("toy-0", "toy-1")->verdict, Compatibility::kPreferRecompilation);
  EXPECT_EQ(check("toy-1", "toy-0")->verdict, Compatibility::kPreferRecompilation);
  EXPECT_EQ(check("toy-0", "toy-9")->verdict, Compatibility::kUnsupported);
  EXPECT_FALSE(check("toy-0", "toy-9")->reason.empty());
}

TEST_F(CheckContext, AMissingOrForeignBinIsUnsupported) {
  const auto missing = check_model("toy-1", "");
  ASSERT_EQ(code_of(missing), kOk);
  EXPECT_EQ(missing->verdict, Compatibility::kUnsupported);
  folder_.write("m.bin", "no context at all");
  EXPECT_EQ(check_model("toy-1", "")->verdict, Compatibility::kUnsupported);
  folder_.write("m.bin", toy_context({toy_program("p0")}, {2.0F}));
  EXPECT_EQ(check_model("toy-1", "hash=00000000000000000000000000000000")->verdict,
            Compatibility::kUnsupported);
}

TEST_F(CheckContext, APlainModelFitsAndSaysSo) {
  ModelBytes model;
  model.input("x", {2}).output("y", {2}).add(ModelBytes::node("r", "Relu", {"x"}, {"y"}));
  const auto check = check_context(folder_.write("plain.onnx", model.text()));
  ASSERT_EQ(code_of(check), kOk);
  EXPECT_EQ(check->verdict, Compatibility::kOptimal);
  EXPECT_EQ(check->partitions, 0U);
}

TEST_F(CheckContext, WhatIsNoModelIsAnError) {
  EXPECT_EQ(code_of(check_context(folder_ / "none.onnx")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(check_context(folder_.write("text.onnx", "hello, this is no model"))),
            ErrorCode::kInvalidGraph);
}

}  // namespace
}  // namespace ctxgen
