// Nodes on which the shape functions of onnx 1.20 crash or do not end, one test each: what is
// checked is that infer_shapes comes back. Those that need types get them in models that are sound.
#include <gmock/gmock.h>

#include "code_of.h"
#include "ctxgen/onnx/infer.h"
#include "model_text.h"

namespace ctxgen {
namespace {

using test::code_of;

Model inferred(const std::string& graph, int opset = 22) {
  Model model = test::model_of("<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) +
                               ", \"x\" : 1, \"ai.onnx.ml\" : 5]>\n" + graph);
  EXPECT_EQ(code_of(infer_shapes(model)), test::kOk);
  return model;
}

// `call` reads `u`, whose type nobody knows.
void infer_with_unknown(const std::string& call) {
  inferred("g (float[N] f) => (float[] y) { u = x.Thing(f) y = " + call + " }");
}

TEST(HostileNodes, InputsWithoutType) {
  infer_with_unknown("EyeLike(u)");
  infer_with_unknown("RegexFullMatch<pattern = \"a\">(u)");
  infer_with_unknown("ai.onnx.ml.DictVectorizer<int64_vocabulary = [1]>(u)");
  infer_with_unknown("ai.onnx.ml.LabelEncoder<keys_int64s = [1], values_int64s = [2]>(u)");
  infer_with_unknown("ConvInteger(u, u)");
  infer_with_unknown("DeformConv(u, u, u)");
  infer_with_unknown("MaxUnpool<kernel_shape = [2]>(u, u)");
}

TEST(HostileNodes, CountsThatAreNotTheNodes) {
  inferred("g (float[4] f) => (float[] y, float[] z) { y, z = Split<num_outputs = 2147483647>(f) }");
  inferred(R"(g (float[4,4] f) => (float[] y) { y = Scan <num_scan_inputs = 2147483647,
      body = b (float[4] a) => (float[4] c) { c = Neg(a) }>(f) })");
}

TEST(HostileNodes, EmptyDepth) {
  inferred("g (int64[4] i, float[2] v) => (float[] y) <int64[0] d = {}> { y = OneHot(i, d, v) }");
}

TEST(HostileNodes, RanksThatDiffer) {
  inferred(R"(g (uint8[0,N,3] x, uint8[1,3,8,8] w) => (int32[] y)
      { y = ConvInteger<group = 2147483647>(x, w) })");
}

TEST(HostileNodes, WindowsThatAreNone) {
  inferred(R"(g (float[1,3,8,8] x) => (float[] y)
      { y = AveragePool<kernel_shape = [2, 2], strides = [0, 2]>(x) })");
  inferred(R"(g (float[1,3,8,8] x, float[4,3,3,3] w) => (float[] y)
      { y = Conv<strides = [1, 0]>(x, w) })");
}

TEST(HostileNodes, SoundOnesAreInferredInLayers) {
  const Model model = inferred(R"(g (uint8[N,1,8,8] x, uint8[2,1,3,3] v, uint8[1,2,3,3] w) => (int32[] y)
      { a = ConvInteger(x, v) b = Cast<to = 2>(a) y = ConvInteger(b, w) })");
  EXPECT_EQ(test::type_of(model, "a"), "int32[N, 2, 6, 6]");
  EXPECT_EQ(test::type_of(model, "y"), "int32[N, 1, 4, 4]");
}

}  // namespace
}  // namespace ctxgen
