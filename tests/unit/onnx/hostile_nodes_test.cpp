// Nodes on which the shape functions of onnx 1.20 crash or do not end, one test each: what is
// checked is that infer_shapes comes back. Those that need types get them in models that are sound.
#include <format>

#include <gmock/gmock.h>

#include "code_of.h"
#include "ctxgen/onnx/infer.h"
#include "model_text.h"

namespace ctxgen {
namespace {

using test::code_of;

Model inferred(const std::string& graph, int opset = 22) {
  Model model = test::model_of("<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) +
                               ", \"x\" : 1, \"ai.onnx.ml\" : 5, \"com.microsoft\" : 1]>\n" + graph);
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

// onnx would make a list of as many elements.
TEST(HostileNodes, LongVectors) {
  const Model model = inferred(R"(g (float[4611686018427387904] x, float[1,100000000000] w) => (float[] y)
      { a = Add(x, x) b = Cast<to = 7>(a) c = Concat<axis = 0>(x, x)
        d = Flatten<axis = 0>(w) s = Constant<value_ints = [-1]>() e = Reshape(w, s) f = Mul(e, e)
        g1 = Gather(e, s) y = Neg(b) g2 = Reshape(w, e) g3 = Expand(w, e) g4 = ConstantOfShape(e)
        g5 = Resize(w, , , e) g6 = AffineGrid(w, e) })");
  EXPECT_EQ(test::type_of(model, "b"), "int64[4611686018427387904]");
  EXPECT_EQ(test::type_of(model, "f"), "float32[100000000000]");
}

TEST(HostileNodes, NoHeads) {
  inferred(R"(g (float[2,4,24] q, float[2,6,24] k) => (float[] y)
      { y = Attention<q_num_heads = 3, kv_num_heads = 0>(q, k, k) })", 23);
}

TEST(HostileNodes, EmptyDepth) {
  inferred("g (int64[4] i, float[2] v) => (float[] y) <int64[0] d = {}> { y = OneHot(i, d, v) }");
}

TEST(HostileNodes, RanksThatDiffer) {
  inferred(R"(g (uint8[0,N,3] x, uint8[1,3,8,8] w) => (int32[] y)
      { y = ConvInteger<group = 2147483647>(x, w) })");
  // One of these has crashed; all of them read as many dilations as the weights have dims.
  for (const char* weights : {"1,1,5,1,0", "1,1,5", "1,1,1,1,1,1,1,1,1,1,1,1"}) {
    inferred(std::format(R"(g (uint8[1,1,7,7] x, float s, uint8 z, uint8[{}] w) => (uint8[] y)
        {{ y = QLinearConv(x, s, z, w, s, z, s, z) }})", weights));
    inferred(std::format(R"(g (float[1,1,7,7] x, float[{0}] w) => (float[] y, float[] t, float[] f)
        {{ y = Conv(x, w) t = ConvTranspose(x, w) f = com.microsoft.FusedConv(x, w) }})", weights));
  }
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
