#include "ctxgen/onnx/infer.h"

#include <format>

#include <gmock/gmock.h>

#include "code_of.h"
#include "model_text.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::graph_of;
using test::type_of;

Model inferred(const std::string& text, int opset = 18) {
  Model model = graph_of(text, opset);
  EXPECT_EQ(code_of(infer_shapes(model)), test::kOk);
  return model;
}

TEST(Infer, FillsInTypesWithSymbols) {
  const Model model = inferred(R"(g (float[N,3,H,W] x, float[8,3,1,1] w) => (float[] y)
      { r = Relu(x) c = Conv(r, w) p = GlobalAveragePool(c) y = Flatten(p) })");
  EXPECT_EQ(type_of(model, "r"), "float32[N, 3, H, W]");
  EXPECT_EQ(type_of(model, "p"), "float32[N, 8, 1, 1]");
  EXPECT_EQ(type_of(model, "y"), "float32[N, 8]");
}

TEST(Infer, ShapeArithmeticIsPropagated) {
  const Model model = inferred(R"(g (float[N,3,4] x) => (float[] y)
      <int64[1] rest = {12}, int64[1] first = {0}>
      { s = Shape(x) n = Gather(s, first) shape = Concat<axis = 0>(n, rest) y = Reshape(x, shape) })");
  EXPECT_EQ(type_of(model, "y"), "float32[N, 12]");
}

// The library follows sizes in Reshape from opset 14 on only, in Shape and Cast from 13 on.
TEST(Infer, ShapeArithmeticIsPropagatedInOldOpsetsToo) {
  for (const int opset : {7, 9, 10, 11, 12, 13}) {
    const Model model = inferred(R"(g (float[N,3,4] x, float[N,7] z) => (float[] y)
        <int64[1] rest = {12}, int64[1] first = {0}>
        { s = Shape(x) n = Gather(s, first) c = Cast<to = 7>(n)
          shape = Concat<axis = 0>(c, rest) y = Reshape(x, shape) })",
                                 opset);
    EXPECT_EQ(type_of(model, "y"), "float32[N, 12]") << opset;
  }
}

// As exporters make the places of tokens: onnx's functions know their rank only.
TEST(Infer, RangesCountUpToSizes) {
  const Model model = inferred(R"(g (int64[B,S] ids) => (int64[] y)
      <int64 at = {1}, int64 zero = {0}, int64 one = {1}, int64 two = {2}>
      { s = Shape(ids) n = Gather(s, at) c = Cast<to = 7>(n) r = Range(zero, c, one)
        later = Range(one, c, one) odd = Range(zero, c, two) y = Add(ids, r) })");
  EXPECT_EQ(type_of(model, "r"), "int64[S]");
  EXPECT_EQ(type_of(model, "y"), "int64[B, S]");
  EXPECT_NE(type_of(model, "later"), "int64[S]");
  EXPECT_NE(type_of(model, "odd"), "int64[S]");
}

TEST(Infer, TheRestOfAReshapeIsWhatIsLeftOfTheDims) {
  const Model model = inferred(R"(g (float[B,S,32] x, float[B,S] z) => (float[] y)
      <int64[1] at = {1}, int64[1] rest = {-1}, int64[2] heads = {4, 8}, int64[1] eight = {8},
       int64[1] three = {3}, int64[1] zero = {0}>
      { s = Shape(x) n = Gather(s, at)
        l0 = Concat<axis = 0>(rest, n) y = Reshape(z, l0) flat = Reshape(x, l0)
        l1 = Concat<axis = 0>(rest, n, heads) split = Reshape(x, l1)
        l2 = Concat<axis = 0>(rest, n, eight) four = Reshape(x, l2)
        l3 = Concat<axis = 0>(rest, n, three) odd = Reshape(x, l3)
        l4 = Concat<axis = 0>(rest, n, zero) same = Reshape(x, l4)
        l5 = Concat<axis = 0>(rest, n, n) twice = Reshape(z, l5)
        zero_at = Sub(at, at) b = Gather(s, zero_at)
        l6 = Concat<axis = 0>(b, n, rest, eight) counted = Reshape(x, l6) })");
  EXPECT_EQ(type_of(model, "y"), "float32[B, S]");
  EXPECT_EQ(type_of(model, "split"), "float32[B, S, 4, 8]");
  EXPECT_EQ(type_of(model, "counted"), "float32[B, S, 4, 8]");
  for (const char* other : {"flat", "four", "odd", "same", "twice"})
    EXPECT_FALSE(type_of(model, other).starts_with("float32[B,")) << type_of(model, other);
}

TEST(Infer, TilesRepeatDimsOfOne) {
  const Model model = inferred(R"(g (float[B,S] x, float[1,N] z) => (float[] y)
      <int64[1] at = {0}, int64[1] one = {1}, int64[1] two = {2}>
      { s = Shape(x) b = Gather(s, at) r = Concat<axis = 0>(b, one) y = Tile(z, r)
        more = Tile(x, r) q = Concat<axis = 0>(b, two) wide = Tile(z, q) })");
  EXPECT_EQ(type_of(model, "y"), "float32[B, N]");
  EXPECT_NE(type_of(model, "more").substr(0, 10), "float32[B,");
  EXPECT_TRUE(type_of(model, "wide").starts_with("float32[B, unk"));
}

// As exporters write expand(): -1 stands for 1.
TEST(Infer, ListsInWhichNumbersAreReplacedAreFollowed) {
  const Model model = inferred(R"(g (float[1,1,1,4] x, float[B,S] z, int64[1] any) => (float[] y)
      <int64[1] at = {0}, int64[1] after = {1}, int64[3] minus = {-1, -1, -1},
       int64[3] ones = {1, 1, 1}, int64[1] rest = {-1}, int64[3] zeros = {0, 0, 0}>
      { s = Shape(z) b = Gather(s, at) n = Gather(s, after)
        l = Concat<axis = 0>(b, rest, n) list = Reshape(l, rest)
        e = Equal(list, minus) w = Where(e, ones, list) y = Expand(x, w)
        same = Equal(b, b) w1 = Where(same, n, b) t = Tile(x, w1) p = Expand(x, w1)
        other = Equal(list, zeros) w2 = Where(other, ones, list) q = Expand(x, w2)
        a = Equal(any, rest) w3 = Where(a, b, n) u = Expand(x, w3) })");
  EXPECT_EQ(type_of(model, "w"), "int64[3]");
  EXPECT_TRUE(type_of(model, "y").starts_with("float32[1, B, 1, ")) << type_of(model, "y");
  EXPECT_TRUE(type_of(model, "q").starts_with("float32[1, unk")) << type_of(model, "q");
}

TEST(Infer, ConstantNodesTakePart) {
  const Model model = inferred(R"(g (float[2,6] x) => (float[] y)
      { shape = Constant<value_ints = [3, 4]>() y = Reshape(x, shape) })");
  EXPECT_EQ(type_of(model, "y"), "float32[3, 4]");
}

TEST(Infer, FoldedValuesTakePart) {
  Model model = graph_of(R"(g (float[2,6] x, int64[2] any) => (float[] y)
      { shape = Abs(any) y = Reshape(x, shape) })");
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  EXPECT_NE(type_of(model, "y"), "float32[4, 3]");
  Tensor folded = Tensor::allocate(DataType::kInt64, {2}).value();
  folded.mutable_elements<std::int64_t>()[0] = 4;
  folded.mutable_elements<std::int64_t>()[1] = 3;
  model.graph.value(model.graph.find("shape")).folded = folded;
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  EXPECT_EQ(type_of(model, "y"), "float32[4, 3]");
  EXPECT_EQ(type_of(model, "shape"), "int64[2]");
}

TEST(Infer, BigConstantsHaveExactTypes) {
  Model model = graph_of("g (float[N,512] x) => (float[] y) <float w = {1}> { y = Add(x, w) }");
  model.graph.value(model.graph.find("w")).initializer =
      Tensor::allocate(DataType::kFloat, {7, 1, 512}).value();
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  EXPECT_EQ(type_of(model, "w"), "float32[7, 1, 512]");
  EXPECT_EQ(type_of(model, "y"), "float32[7, N, 512]");
}

TEST(Infer, OverridableInitializersAreNotTrusted) {
  Model model = graph_of(R"(g (float[2,6] x, int64[2] shape = {3,4}) => (float[] y)
      { y = Reshape(x, shape) })");
  ASSERT_TRUE(model.graph.value(model.graph.find("shape")).is_overridable);
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  EXPECT_NE(type_of(model, "y"), "float32[3, 4]");
}

TEST(Infer, WrongDeclaredTypesAreReplaced) {
  const Model model = inferred(R"(g (float[3,4] x) => (float[] y)
      <float[7,4] m> { m = Relu(x) y = Neg(m) })");
  EXPECT_EQ(type_of(model, "m"), "float32[3, 4]");
  EXPECT_EQ(type_of(model, "y"), "float32[3, 4]");
}

TEST(Infer, DeclaredTypesStayWhereThereIsNoSchema) {
  const Model model = inferred(R"(g (float[3,4] x) => (float[] y)
      <float[3,9] m> { m = com.microsoft.Thing(x) y = Neg(m) })");
  EXPECT_EQ(type_of(model, "m"), "float32[3, 9]");
  EXPECT_EQ(type_of(model, "y"), "float32[3, 9]") << "inference goes on behind it";
}

TEST(Infer, OperatorsOfMicrosoftToo) {
  const Model model =
      inferred(R"(g (int32[B,S] ids, int32[B,S] segments, float[99,8] words, float[512,8] places,
         float[2,8] kinds, float[8] gamma, float[8] beta, float[8,24] w, float[24] b, float[8,16] up, float[16,8] down)
         => (float[] y)
      { e, mask = com.microsoft.EmbedLayerNormalization(ids, segments, words, places, kinds, gamma, beta)
        a, present = com.microsoft.Attention<num_heads = 2>(e, w, b)
        n = com.microsoft.SkipLayerNormalization(e, a, gamma, beta)
        u = MatMul(n, up) g = com.microsoft.FastGelu(u) d = com.microsoft.FusedMatMul<alpha = 2.0>(g, down)
        s, mean, deviation, sum = com.microsoft.SkipSimplifiedLayerNormalization(d, n, gamma)
        y = Add(s, sum) })");
  EXPECT_EQ(type_of(model, "e"), "float32[B, S, 8]");
  EXPECT_EQ(type_of(model, "mask"), "int32[B]");
  EXPECT_EQ(type_of(model, "a"), "float32[B, S, 8]");
  EXPECT_EQ(type_of(model, "present"), "float32[2, B, 2, unk__0, 4]");
  EXPECT_EQ(type_of(model, "u"), "float32[B, S, 16]");
  EXPECT_EQ(type_of(model, "d"), "float32[B, S, 8]");
  EXPECT_EQ(type_of(model, "y"), "float32[B, S, 8]");
}

TEST(Infer, QueriesOfGroups) {
  const Model model = inferred(
      R"(g (float[1,S,48] packed, float[1,S,32] query, float[1,S,8] key, float[1,S,8] value,
         int32[1] lengths, int32[1] total) => (float[] y)
      { y, k, v = com.microsoft.GroupQueryAttention<num_heads = 8, kv_num_heads = 2>(packed, "", "", "", "", lengths, total)
        z = com.microsoft.GroupQueryAttention<num_heads = 8, kv_num_heads = 2>(query, key, value, "", "", lengths, total) })");
  EXPECT_EQ(type_of(model, "y"), "float32[1, S, 32]");
  EXPECT_EQ(type_of(model, "k"), "float32[1, 2, unk__0, 4]");
  EXPECT_EQ(type_of(model, "z"), "float32[1, S, 32]");
}

TEST(Infer, EightBitOperatorsOfMicrosoft) {
  const Model model =
      inferred(R"(g (float[N,4] x, float s, uint8 z, int8[4,6] w, int8 wz) => (float[] y)
      { q = com.microsoft.QuantizeLinear(x, s, z)
        sum = com.microsoft.QLinearAdd(q, s, z, q, s, z, s, z)
        act = com.microsoft.QLinearSigmoid(sum, s, z, s, z)
        y = com.microsoft.MatMulIntegerToFloat(act, w, s, s, z, wz)
        d = com.microsoft.DequantizeLinear(act, s, z) })");
  EXPECT_EQ(type_of(model, "sum"), "uint8[N, 4]");
  EXPECT_EQ(type_of(model, "act"), "uint8[N, 4]");
  EXPECT_EQ(type_of(model, "y"), "float32[N, 6]");
  EXPECT_EQ(type_of(model, "d"), "float32[N, 4]");
}

TEST(Infer, FusedConvolutionsAndProducts) {
  const Model model =
      inferred(R"(g (float[N,3,8,8] x, float[4,3,3,3] w, float[2,4] a, float[5,4] b) => (float[] y)
      { y = com.microsoft.FusedConv<activation = "Relu", strides = [2, 2]>(x, w)
        z = com.microsoft.FusedGemm<activation = "Relu", transB = 1>(a, b) })");
  EXPECT_EQ(type_of(model, "y"), "float32[N, 4, 3, 3]");
  EXPECT_EQ(type_of(model, "z"), "float32[2, 5]");
}

TEST(Infer, ProductsOfTransposedMatrices) {
  const Model model = inferred(R"(g (float[B,1,6,4] a, float[3,5,6] b, float[6,4] c) => (float[] y)
      { y = com.microsoft.FusedMatMul<transA = 1, transB = 1>(a, b)
        z = com.microsoft.FusedMatMul<transA = 1>(c, c)
        u = com.microsoft.FusedMatMul<transBatchA = 1>(a, b) })");
  EXPECT_EQ(type_of(model, "y"), "float32[B, 3, 4, 5]");
  EXPECT_EQ(type_of(model, "z"), "float32[4, 4]");
  EXPECT_EQ(type_of(model, "u"), "float32[...]");
}

TEST(Infer, PoolsOfBytes) {
  const Model model = inferred(R"(g (uint8[N,3,9,8] x, float s, uint8 z) => (uint8[] y)
      { y = com.microsoft.QLinearAveragePool<kernel_shape = [3, 2], strides = [2, 2]>(x, s, z, s, z)
        u = com.microsoft.QLinearAveragePool<kernel_shape = [3, 2], channels_last = 1>(x, s, z, s, z) })");
  EXPECT_EQ(type_of(model, "y"), "uint8[N, 3, 4, 4]");
  EXPECT_EQ(type_of(model, "u"), "uint8[...]");
}

TEST(Infer, OperatorsOfOpsets26And27) {
  const Model model =
      inferred(R"(g (float[B,T,32] q, float[B,T,16] k, float[B,T,24] v, float[B,2,8,12] past,
         float[B,8,T] x, float[8,1,4] w, float16 start) => (float[] y)
      { a, state = LinearAttention<q_num_heads = 4, kv_num_heads = 2, update_rule = "linear">(q, k, v, past)
        c, before = CausalConvWithState<activation = "silu">(x, w)
        p = CumProd(x, axis) axis = Constant<value_int = 1>() bits = BitCast<to = 6>(x)
        h = Range(start, start, start) first = Constant<value_int = 2>() last = Constant<value_int = 8>()
        n = Range(first, last, first) y = Neg(a) })",
               27);
  EXPECT_EQ(type_of(model, "y"), "float32[B, T, 48]");
  EXPECT_EQ(type_of(model, "state"), "float32[B, 2, 8, 12]");
  EXPECT_EQ(type_of(model, "c"), "float32[B, 8, T]");
  EXPECT_EQ(type_of(model, "before"), "float32[B, 8, 3]");
  EXPECT_EQ(type_of(model, "p"), "float32[B, 8, T]");
  EXPECT_EQ(type_of(model, "bits"), "int32[B, 8, T]");
  EXPECT_EQ(type_of(model, "h"), "float16[unk__0]");
  EXPECT_EQ(type_of(model, "n"), "int64[3]");
}

TEST(Infer, RecurrencesAndExpertsOfMicrosoft) {
  const Model model = inferred(
      R"(g (float16[B,T,16] q, float16[B,T,16] k, float16[B,T,24] v, float[B,4,8,6] past, float16[B,T,4] gate,
         float[B,T,2,3] x, float[6,1,4] w, float[N,8] tokens, float[N,2] router, float[2,12,8] first, float[2,8,12] second)
         => (float[] y)
      { a, state = com.microsoft.LinearAttention<q_num_heads = 2, kv_num_heads = 4>(q, k, v, past, gate, gate)
        c, before = com.microsoft.CausalConvWithState<channels_last = 1, dilation = 2>(x, w)
        y = com.microsoft.MoE<k = 1>(tokens, router, first, "", second) })");
  EXPECT_EQ(type_of(model, "a"), "float16[B, T, 24]");
  EXPECT_EQ(type_of(model, "state"), "float32[B, 4, 8, 6]");
  EXPECT_EQ(type_of(model, "c"), "float32[B, T, 2, 3]");
  EXPECT_EQ(type_of(model, "before"), "float32[B, 6, 2, 3]");
  EXPECT_EQ(type_of(model, "y"), "float32[N, 8]");
}

TEST(Infer, RecentOperatorsWithNumbersThatAreNone) {
  const Model model = inferred(
      R"(g (float[B,9223372036854775807,32] q, float[2,3] x, float[2,3,4] w, float[2,1,0] none) => (float[] y)
      { a, s = LinearAttention<q_num_heads = 1048577, kv_num_heads = 1>(q, q, q)
        b, t = LinearAttention<q_num_heads = 0, kv_num_heads = -1>(q, q, q)
        c, u = CausalConvWithState(x, w) d, v = CausalConvWithState(w, none)
        e, z = com.microsoft.CausalConvWithState<dilation = 9223372036854775807>(w, w)
        f = BitCast<to = 8>(x) g = BitCast<to = 9223372036854775807>(x) h = BitCast(x) y = Neg(x) })",
      27);
  EXPECT_EQ(type_of(model, "y"), "float32[2, 3]");
  EXPECT_EQ(type_of(model, "z"), "float32[2, 3, unk__1]");
}

TEST(Infer, OperatorsOfWhichOnnxHasNoShapeFunction) {
  const Model model = inferred(R"(g (float[N,6,5] x, float[6] scale, float[5] gamma) => (float[] y)
      { y = GroupNormalization<num_groups = 2>(x, scale, scale)
        z = SimplifiedLayerNormalization(x, gamma) })");
  EXPECT_EQ(type_of(model, "y"), "float32[N, 6, 5]");
  EXPECT_EQ(type_of(model, "z"), "float32[N, 6, 5]");
}

TEST(Infer, BrokenNodesOfMicrosoftStayUnknown) {
  for (
      const char* node :
      {"y = com.microsoft.Attention(x)", "y = com.microsoft.FusedConv(x)",
       "y = com.microsoft.QLinearAdd(x)", "y = com.microsoft.MatMulNBits(x)",
       "y = com.microsoft.GroupQueryAttention<num_heads = -3, kv_num_heads = 0>(x)",
       "y = com.microsoft.GroupQueryAttention<num_heads = 9223372036854775807, kv_num_heads = 1>(x)",
       "y = com.microsoft.EmbedLayerNormalization(x, x)", "y = com.microsoft.FusedGemm(x, x)",
       "y = com.microsoft.QuantizeLinear()", "y = com.microsoft.QAttention(x, x)",
       "y = com.microsoft.MultiHeadAttention(x, x, x)", "y = GroupNormalization()",
       "y = SimplifiedLayerNormalization()", "y = com.microsoft.FusedMatMul<transA = 1>(x)",
       "y = com.microsoft.QLinearAveragePool()", "y = com.microsoft.FusedMatMul()"}) {
    Model model = graph_of(std::string("g (float[2,3,4,5,6] x) => (y) { ") + node + " }");
    EXPECT_EQ(code_of(infer_shapes(model)), test::kOk) << node;
  }
}

TEST(Infer, OutputsKeepWhatInferenceLeavesOpen) {
  const Model model = inferred(R"(g (float[N,4] x, int64[2] shape) => (float[B,8] y, float[N,5] z)
      { y = Reshape(x, shape) z = Relu(x) })");
  EXPECT_EQ(type_of(model, "y"), "float32[B, 8]");
  EXPECT_EQ(type_of(model, "z"), "float32[N, 4]") << "what is known for sure wins";
}

TEST(Infer, FixedDimsTakeEffect) {
  Model model = inferred("g (float[N,4] x) => (float[N,4] y) { m = Neg(x) y = Relu(m) }");
  EXPECT_EQ(type_of(model, "m"), "float32[N, 4]");
  model.graph.value(model.graph.find("x")).type.shape = {{Dim::fixed(8), Dim::fixed(4)}};
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  EXPECT_EQ(type_of(model, "m"), "float32[8, 4]");
  EXPECT_EQ(type_of(model, "y"), "float32[8, 4]");
}

TEST(Infer, DimsThatAreNotKnownAreNotMixedUp) {
  // The file has the very symbol that inference makes up, for something else.
  Model model = graph_of(R"(g (float[4] x, float[4] z) => (float[] y)
      <int64[1,unk__0] other> { i = NonZero(x) j = NonZero(z) other = com.microsoft.Thing(x)
      a = Shape(i) b = Shape(j) c = Shape(other) y = Concat<axis = 0>(a, b, c) })");
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  const std::string i = type_of(model, "i"), j = type_of(model, "j");
  EXPECT_NE(i, j);
  for (const std::string& type : {i, j}) EXPECT_NE(type, type_of(model, "other"));
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  EXPECT_NE(type_of(model, "i"), type_of(model, "j"));
  for (const std::string_view name : {"i", "j"})
    EXPECT_NE(type_of(model, name), type_of(model, "other"));
}

// onnx takes them for 0.
TEST(Infer, SizesOfAttentionThatAreNotKnown) {
  Model model = inferred(
      R"(g (float[2,4,24] q, float[2,6,24] k, float[2,6,H] v, float[2,L,30] w) => (float[] y)
      { y = Attention<q_num_heads = 3, kv_num_heads = 3>(q, k, v)
        z = Attention<q_num_heads = 3, kv_num_heads = 3>(q, k, w)
        a, b, c, scores = Attention<q_num_heads = 3, kv_num_heads = 3>(q, k, w) })",
      23);
  EXPECT_EQ(type_of(model, "y"), "float32[...]");
  EXPECT_EQ(type_of(model, "z"), "float32[2, 4, 30]");
  EXPECT_EQ(type_of(model, "scores"), "unknown");
}

TEST(Infer, SubgraphsToo) {
  Model model = inferred(R"(g (float[N,4] x, bool flag) => (float[] y) {
      y = If (flag) <
        then_branch = t () => (float[] a) { m = Neg(x) a = Relu(m) },
        else_branch = e () => (float[] b) { b = Abs(x) }
      > })");
  EXPECT_EQ(type_of(model, "y"), "float32[N, 4]");
  const Graph& branch = *model.graph.node(NodeId{0}).attribute("then_branch")->graphs.at(0);
  EXPECT_EQ(type_of(model, branch, "m"), "float32[N, 4]");
  EXPECT_EQ(type_of(model, branch, "x"), "float32[N, 4]");
}

TEST(Infer, NodesOfFunctionsMeanTheFunctionsVersion) {
  // Squeeze took its axes as an attribute before opset 13: read as opset 18 it would squeeze all.
  Model model = test::model_of(R"(
      <ir_version: 9, opset_import: ["" : 18, "local" : 1]>
      g (float[1,1,4] x) => (float[] y) { y = local.Old(x) }
      <domain: "local", opset_import: ["" : 11]>
      Old (a) => (b) { b = Squeeze<axes = [0]>(a) })");
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  EXPECT_NE(type_of(model, "y"), "float32[4]");
}

std::vector<std::string> types_in_parts(const std::string& text, std::size_t nodes_at_once) {
  Model model = graph_of(text);
  EXPECT_EQ(code_of(check_with_onnx(model, nodes_at_once)), test::kOk);
  EXPECT_EQ(code_of(infer_shapes(model, nodes_at_once)), test::kOk);
  std::vector<std::string> types;
  for (const Value& value : model.graph.values())
    types.push_back(std::format("{} {}", value.name, to_string(value.type, model)));
  const Graph& branch = *model.graph.node(NodeId{3}).attribute("then_branch")->graphs.at(0);
  types.push_back(type_of(model, branch, "m"));
  return types;
}

TEST(Infer, InPartsTheTypesAreTheSame) {
  const std::string text = R"(g (float[N,4] x, bool flag) => (float[] y, int64[] n, float[] c)
      <float[4] w = {1, 2, 3, 4}, int64[1] one = {1}> {
      a = Relu(x) c = Add(a, w) n = Shape(c)
      d = If (flag) <
        then_branch = t () => (float[] p) { m = Mul(c, w) p = Relu(m) },
        else_branch = e () => (float[] q) { q = Abs(a) }
      >
      e1 = Transpose(d) f = Unsqueeze(e1, one) values, indices = TopK(f, one) y = Add(values, values) })";
  const auto whole = types_in_parts(text, 100);
  EXPECT_THAT(whole, testing::Contains("f float32[4, 1, N]"));
  for (const std::size_t nodes : {1, 2, 3, 5, 7})
    EXPECT_EQ(types_in_parts(text, nodes), whole) << nodes;
}

TEST(Infer, PartsAreNotCutWhereSizesAreComputed) {
  std::string text =
      "g (float[N,3,4] x) => (float[] y) <int64[1] rest = {12}, int64[1] first = {0}> { v0 = Relu(x) ";
  for (int i = 1; i < 15; ++i) text += std::format("v{} = Relu(v{}) ", i, i - 1);
  text +=
      "s = Shape(v14) n = Gather(s, first) shape = Concat<axis = 0>(n, rest) y = Reshape(v14, shape) }";
  Model model = graph_of(text);
  ASSERT_EQ(code_of(infer_shapes(model, 16)), test::kOk);
  EXPECT_EQ(type_of(model, "y"), "float32[N, 12]");
}

}  // namespace
}  // namespace ctxgen
