// Nodes on which the shape functions of onnx 1.20 crash or do not end, one test each: what is
// checked is that infer_shapes comes back. Those that need types get them in models that are sound.
#include <format>

#include <gmock/gmock.h>

#include "ctxgen/onnx/infer.h"

#include "code_of.h"
#include "model_text.h"

namespace ctxgen {
namespace {

using test::code_of;

Model inferred(const std::string& graph, int opset = 22) {
  Model model =
      test::model_of("<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) +
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
  inferred(
      "g (float[4] f) => (float[] y, float[] z) { y, z = Split<num_outputs = 2147483647>(f) }");
  inferred(R"(g (float[4,4] f) => (float[] y) { y = Scan <num_scan_inputs = 2147483647,
      body = b (float[4] a) => (float[4] c) { c = Neg(a) }>(f) })");
}

// onnx would make a list of as many elements.
TEST(HostileNodes, LongVectors) {
  const Model model =
      inferred(R"(g (float[4611686018427387904] x, float[1,100000000000] w) => (float[] y)
      { a = Add(x, x) b = Cast<to = 7>(a) c = Concat<axis = 0>(x, x)
        d = Flatten<axis = 0>(w) s = Constant<value_ints = [-1]>() e = Reshape(w, s) f = Mul(e, e)
        g1 = Gather(e, s) y = Neg(b) g2 = Reshape(w, e) g3 = Expand(w, e) g4 = ConstantOfShape(e)
        g5 = Resize(w, , , e) g6 = AffineGrid(w, e) })");
  EXPECT_EQ(test::type_of(model, "b"), "int64[4611686018427387904]");
  EXPECT_EQ(test::type_of(model, "f"), "float32[100000000000]");
}

TEST(HostileNodes, NoHeads) {
  inferred(R"(g (float[2,4,24] q, float[2,6,24] k) => (float[] y)
      { y = Attention<q_num_heads = 3, kv_num_heads = 0>(q, k, k) })",
           23);
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
        {{ y = QLinearConv(x, s, z, w, s, z, s, z) }})",
                         weights));
    inferred(std::format(R"(g (float[1,1,7,7] x, float[{0}] w) => (float[] y, float[] t, float[] f)
        {{ y = Conv(x, w) t = ConvTranspose(x, w) f = com.microsoft.FusedConv(x, w) }})",
                         weights));
  }
}

TEST(HostileNodes, WindowsThatAreNone) {
  inferred(R"(g (float[1,3,8,8] x) => (float[] y)
      { y = AveragePool<kernel_shape = [2, 2], strides = [0, 2]>(x) })");
  inferred(R"(g (float[1,3,8,8] x, float[4,3,3,3] w) => (float[] y)
      { y = Conv<strides = [1, 0]>(x, w) })");
}

// What a function needs is asked when it runs: types may come from nodes before it in the same run.
TEST(HostileNodes, TypesThatInferenceFinds) {
  inferred(R"(g (float[1,1,7,7] x0, float[1,1,1,1,1,1,1,1,1,1,1,1] w) => (float[] y)
      { x = Relu(x0) y = Conv(x, w) })");
  inferred(R"(g (uint8[1,1,7] x0, uint8[1,1,5,1,7,1,1,1] w) => (int32[] y)
      <uint8[1,1,7,7,7,7,7,7] x> { x = Identity(x0) y = ConvInteger(x, w) })");
  inferred(R"(g (float[2,3] a, float[4,5] b) => (float[] y)
      <float[2,2] x> { x = MatMul(a, b) y = EyeLike(x) })");
  inferred(R"(g (string[2] a, string[3] b) => (bool[] y)
      <string[2] u> { u = StringConcat(a, b) y = RegexFullMatch<pattern = "a">(u) })");
}

TEST(HostileNodes, TypesOfOtherKinds) {
  inferred(R"(g (float[1,1,7,7] x, seq(float[1,1,3,3]) w) => (float[] y, float[] z)
      { y = ConvTranspose(x, w) z = MaxUnpool<kernel_shape = [1,1]>(x, w) })");
  inferred(R"(g (float[1,1,7,7] x, seq(float[1,1,3,3]) w) => (float[] y)
      { y = Conv<auto_pad = "SAME_UPPER">(x, w) })",
           9);
  std::string nested = "g (float[2] x0) => (float[2] y) {";
  for (int i = 0; i < 3000; ++i) nested += std::format(" x{} = Optional(x{})", i + 1, i);
  inferred(nested + " y = Neg(x0) }");
}

TEST(HostileNodes, AttributesBeyond32Bits) {
  inferred("g (float[1,1,1,1] x) => (float[] y) { y = DepthToSpace<blocksize = 4294967296>(x) }");
  inferred(R"(g (float[2,3] x, float[3] s) => (float[] y, float[] m)
      { y, m = LayerNormalization<axis = 4294967295>(x, s) })");
  inferred("g (float[2,2] x, int64[2,1] i) => (float[] y) { y = GatherND<batch_dims = -2>(x, i) }");
  inferred(
      "g (float[1,1] x, float[1,5] r) => (float[] y) { y = MaxRoiPool<pooled_shape = [1]>(x, r) }");
}

TEST(HostileNodes, DimsThatAreNone) {
  inferred(R"(g (float[2,2] x, int64[2,1] j) => (float[] y) <int64[4] p = {0,0,0,-2}>
      { i = Pad(j, p) y = GatherND(x, i) })");
  inferred(R"(g (float[2147483648,4294967296] x) => (float[] y)
      <int64[3] s = {-1,4294967295,4294967297}> { y = Reshape(x, s) })");
}

TEST(HostileNodes, RanksThatDouble) {
  std::string gathers = "g (int64[2,2] x0) => (int64[] y) {";
  for (int i = 0; i < 40; ++i) gathers += std::format(" x{0} = Gather(x{1}, x{1})", i + 1, i);
  inferred(gathers + " y = Neg(x40) }");
  std::string axes = "0";
  for (int i = 1; i < 100000; ++i) axes += std::format(",{}", i);
  inferred("g (float[2] x) => (float[] y) { a = Unsqueeze<axes = [" + axes + "]>(x) y = Neg(a) }",
           11);
}

TEST(HostileNodes, ListsThatDouble) {
  std::string lists =
      "g (float[2,3] x) => (int64[] y, int64[] s) <int64[1] a = {0}> { s = Shape(x) x0 = Unsqueeze(s, a)";
  for (int i = 0; i < 40; ++i)
    lists += std::format(" x{0} = Concat<axis = 0>(x{1}, x{1})", i + 1, i);
  inferred(lists + " y = Neg(x40) }");
  std::string constants = "g () => (int64[] y, int64[] x0) { x0 = Constant<value_ints = [1,2]>()";
  for (int i = 0; i < 40; ++i)
    constants += std::format(" x{0} = Concat<axis = 0>(x{1}, x{1})", i + 1, i);
  inferred(constants + " y = Neg(x40) }");
}

TEST(HostileNodes, SlicesOfSizes) {
  for (const char* step : {"4294967296", "4294967295", "2147483647", "-9223372036854775808"})
    inferred(std::format(R"(g (float[2,3,4] x) => (int64[] y)
        <int64[1] b = {{1}}, int64[1] e = {{2}}, int64[1] a = {{0}}, int64[1] t = {{{}}}>
        {{ s = Shape(x) y = Slice(s, b, e, a, t) }})",
                         step));
  inferred(R"(g (float[0] x) => (float[] y)
      <int64[1] b = {-1}, int64[1] e = {-5}, int64[1] a = {0}, int64[1] t = {-1}>
      { y = Slice(x, b, e, a, t) })");
}

TEST(HostileNodes, PaddingThatCountsDown) {
  for (const char* pad : {"SAME_UPPER", "NOTSET"})
    inferred(std::format(
        R"(g (float[1,1,4611686018427387904] x, float[1,1,2] w) => (float[] y, float[] c)
        {{ y = MaxPool<kernel_shape = [2], strides = [2], auto_pad = "{0}">(x)
           c = Conv<auto_pad = "{0}">(x, w) }})",
        pad));
}

TEST(HostileNodes, PartsOfNothing) {
  inferred("g (float[4] x) => (seq(float[]) y) <int64 k = {0}> { y = SplitToSequence(x, k) }");
  inferred(
      "g (float[4] x) => (seq(float[]) y) <int32[2] k = {4, -1}> { y = SplitToSequence(x, k) }");
  std::string many = "g (float[4] x) => (float[] y) { y";
  for (int i = 0; i < 1000; ++i) many += std::format(", o{}", i);
  inferred(many + " = Split<num_outputs = 1>(x) }");
}

TEST(HostileNodes, EquationsWithoutLabels) {
  inferred("g (float a, float[1] b) => (float[] y) { y = Einsum<equation = \"...,...\">(a, b) }");
  inferred("g (float x) => (float[] y) { y = Einsum<equation = \"->a\">(x) }");
  inferred("g (float x) => (float[] y) { y = Einsum<equation = \"...->a\">(x) }");
  const Model model = inferred(R"(g (float[B,2,3,4] a, float[B,2,4,5] b) => (float[] y)
      { y = Einsum<equation = "...ij,...jk->...ik">(a, b) })");
  EXPECT_EQ(test::type_of(model, "y"), "float32[B, 2, 3, 5]");
}

TEST(HostileNodes, SequencesWithoutTime) {
  for (const char* type : {"float", "float[4]"})
    for (const char* op : {"LSTM", "GRU", "RNN"})
      inferred(std::format("g ({} x, float[1,4,1] w, float[1,4,1] r) => (float[] y) {{ y = {}"
                           "<hidden_size = 1>(x, w, r) }}",
                           type, op),
               6);
}

TEST(HostileNodes, StatesWithoutOutputs) {
  inferred(R"(g (float[4,4] f, float[2] s) => (float[] y) { y = Scan <num_scan_inputs = 1,
      body = b (float[2] p, float[2] q, float[4] a) => (float[2] p2, float[2] q2) { p2 = Neg(p) q2 = Neg(q) }>(s, s, f) })");
  inferred(R"(g (int64 n, float[2] s) => (float[] y) { y = Loop <
      body = b (int64 i, bool c, float[2] p, float[2] q) => (bool c2, float[2] p2, float[2] q2)
      { c2 = Identity(c) p2 = Neg(p) q2 = Neg(q) }>(n, , s, s) })");
}

TEST(HostileNodes, NamesOfSizesAreNotCopiedForever) {
  const Model model =
      inferred("g (float[N] x, float[" + std::string(300, 'L') + R"(] l) => (float[] y, float[] z)
      { y = Neg(x) z = Neg(l) })");
  EXPECT_EQ(test::type_of(model, "y"), "float32[N]");
}

TEST(HostileNodes, ManyBodiesInsideOfManyValues) {
  std::string text = "g (bool c, float[2] x0) => (float[] y) {";
  for (int i = 0; i < 9000; ++i) text += std::format(" x{} = Neg(x{})", i + 1, i);
  for (int i = 0; i < 9000; ++i)
    text += std::format(
        " y{0} = If(c) <then_branch = t{0} () => (float[2] t) {{ t = Neg(x0) }}, "
        "else_branch = e{0} () => (float[2] e) {{ e = Neg(x0) }}>",
        i);
  Model model =
      test::model_of("<ir_version: 10, opset_import: [\"\" : 22]>\n" + text + " y = Neg(x0) }");
  EXPECT_EQ(code_of(infer_shapes(model)), ErrorCode::kResourceLimit);
}

TEST(HostileNodes, SoundOnesAreInferredInLayers) {
  const Model model =
      inferred(R"(g (uint8[N,1,8,8] x, uint8[2,1,3,3] v, uint8[1,2,3,3] w) => (int32[] y)
      { a = ConvInteger(x, v) b = Cast<to = 2>(a) y = ConvInteger(b, w) })");
  EXPECT_EQ(test::type_of(model, "a"), "int32[N, 2, 6, 6]");
  EXPECT_EQ(test::type_of(model, "y"), "int32[N, 1, 4, 4]");
}

}  // namespace
}  // namespace ctxgen
