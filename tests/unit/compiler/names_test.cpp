#include <gtest/gtest.h>

#include "ctxgen/compiler/compile.h"

#include "output/output_names.h"

namespace ctxgen {
namespace {

TEST(Names, OutputsAreNamedAfterTheModel) {
  EXPECT_EQ(default_output_name("model.onnx"), "model_ctx.onnx");
  EXPECT_EQ(default_output_name("a.b.onnx"), "a.b_ctx.onnx");
  EXPECT_EQ(default_output_name("model"), "model_ctx.onnx");
  EXPECT_EQ(default_bin_name("model_ctx.onnx", "dnnl"), "model_dnnl.bin");
  EXPECT_EQ(default_bin_name("other.onnx", "dnnl"), "other_dnnl.bin");
  EXPECT_EQ(default_bin_name("_ctx.onnx", "dnnl"), "_ctx_dnnl.bin");
}

TEST(Names, BinsStayInTheModelsFolder) {
  EXPECT_EQ(bin_reference("out", "out/m.bin"), "m.bin");
  EXPECT_EQ(bin_reference("", "m.bin"), "m.bin");
  EXPECT_EQ(bin_reference("out", "out/sub/m.bin"), "sub/m.bin");
  EXPECT_EQ(bin_reference("./out", "out/../out/m.bin"), "m.bin");
  for (const char* outside : {"m.bin", "other/m.bin", "/m.bin", "out"}) {
    const auto result = bin_reference("out", outside);
    ASSERT_FALSE(result) << outside;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ctxgen
