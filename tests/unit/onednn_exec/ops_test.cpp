#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "reference.h"

// Every kind against plain double-precision loops, over many random shapes. The seed in a failure's
// trace repeats it.
namespace ctxgen::onednn::test {
namespace {

std::int64_t pick(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1));
}

PostOp random_unary(std::mt19937& random) {
  switch (random() % 8) {
    case 0: return unary("clip", -0.5F, 0.75F);
    case 1: return unary("linear", 0.5F, 0.25F);
    case 2: return unary("sigmoid");
    case 3: return unary("relu", 0.125F);
    case 4: return unary("hardswish", 1.0F / 6, 0.5F);
    case 5: return unary("gelu_erf");
    case 6: return unary("tanh");
    default: return unary("relu");
  }
}

/// Operands that broadcast to `dst` in every way that models use.
PostOp random_binary(Maker& maker, const Dims& dst) {
  static constexpr const char* kWords[] = {"add", "mul", "sub", "max", "min"};
  Dims dims = dst;
  switch (dst.empty() ? 0 : maker.random()() % 6) {
    case 0: break;
    case 1: dims = Dims(dst.size(), 1); break;
    case 2:
      for (std::size_t i = 0; i < dst.size(); ++i)
        if (i != 1) dims[i] = 1;
      break;
    case 3: dims = Dims{dst.back()}; break;
    case 4: dims[dims.size() - 1] = 1; break;
    default:
      for (std::size_t i = 2; i < dst.size(); ++i) dims[i] = 1;
  }
  const Operand operand = maker.random()() % 2 != 0 ? maker.weight(dims) : maker.input(dims);
  return binary(kWords[maker.random()() % 5], operand);
}

std::vector<PostOp> random_post_ops(Maker& maker, const Dims& dst) {
  std::vector<PostOp> list;
  for (unsigned n = maker.random()() % 4; n > 0; --n)
    list.push_back(maker.random()() % 2 != 0 ? random_unary(maker.random())
                                             : random_binary(maker, dst));
  return list;
}

/// Dims of the only op's output, before post-ops are added.
Dims output_dims(Maker& maker) {
  return infer_value_dims(maker.program(), maker.input_dims()).value().back();
}

void add_post_ops(Maker& maker) {
  const Dims dst = output_dims(maker);
  const std::vector<PostOp> post_ops = random_post_ops(maker, dst);
  maker.program().ops.back().post_ops = post_ops;
}

struct WindowParams {
  std::vector<Param> params;
  std::vector<std::int64_t> kernel;
};

WindowParams random_window(std::mt19937& random, const Dims& src, bool dilate) {
  const std::size_t k = src.size() - 2;
  WindowParams w;
  std::vector<std::int64_t> strides, dilations, pads(2 * k);
  for (std::size_t i = 0; i < k; ++i) {
    const std::int64_t dilation = dilate && random() % 3 == 0 ? 2 : 1;
    w.kernel.push_back(pick(random, 1, std::min<std::int64_t>(5, (src[i + 2] - 1) / dilation + 1)));
    strides.push_back(pick(random, 1, 3));
    dilations.push_back(dilation);
    pads[i] = pick(random, 0, (w.kernel[i] - 1) / 2);
    pads[k + i] = pick(random, 0, (w.kernel[i] - 1) / 2);
  }
  w.params = {ints("strides", strides), ints("dilations", dilations)};
  static constexpr const char* kAuto[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
  if (random() % 4 == 0)
    w.params.push_back(text("auto_pad", kAuto[random() % 3]));
  else
    w.params.push_back(ints("pads", pads));
  return w;
}

Dims random_image(std::mt19937& random, std::int64_t channels) {
  Dims dims{pick(random, 1, 2), channels};
  const std::int64_t k = random() % 5 == 0 ? 3 : 1 + static_cast<std::int64_t>(random() % 2);
  for (std::int64_t i = 0; i < k; ++i) dims.push_back(pick(random, 5, k == 3 ? 7 : 14));
  return dims;
}

/// A random convolution whose weights, and sometimes its bias, are a value if they are `computed`.
void check_conv(unsigned seed, bool computed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Maker maker(seed);
  std::mt19937& random = maker.random();
  std::int64_t group = 1, per_in = pick(random, 1, 20), per_out = pick(random, 1, 24);
  switch (random() % 4) {
    case 0: group = pick(random, 2, 4); break;
    case 1:
      group = pick(random, 3, 40);
      per_in = per_out = 1;
      break;
    default: break;
  }
  const Dims src = random_image(random, group * per_in);
  WindowParams w = random_window(random, src, true);
  w.params.push_back(integer("group", group));
  Dims weights{group * per_out, per_in};
  for (const std::int64_t size : w.kernel) weights.push_back(size);
  const auto parameter = [&](const Dims& dims, bool value) {
    return value ? maker.input(dims) : maker.weight(dims);
  };
  std::vector<Operand> inputs{maker.input(src), parameter(weights, computed)};
  if (random() % 2 != 0)
    inputs.push_back(parameter(Dims{group * per_out}, computed && seed % 2 == 0));
  const Operand out = maker.op(computed ? kind::kComputedConv : kind::kConv, inputs, w.params);
  add_post_ops(maker);
  maker.output(out);
  expect_matches_reference(maker);
}

TEST(ExecOps, Conv) {
  for (unsigned seed = 0; seed < 120 && !HasFatalFailure(); ++seed) check_conv(seed, false);
}

TEST(ExecOps, ComputedConv) {
  for (unsigned seed = 0; seed < 120 && !HasFatalFailure(); ++seed) check_conv(seed, true);
}

TEST(ExecOps, Pool) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Maker maker(seed);
    std::mt19937& random = maker.random();
    const Dims src = random_image(random, pick(random, 1, 20));
    WindowParams w = random_window(random, src, random() % 2 == 0);
    static constexpr const char* kModes[] = {"max", "avg_include", "avg_exclude"};
    w.params.push_back(text("mode", kModes[random() % 3]));
    w.params.push_back(ints("kernel", w.kernel));
    if (random() % 2 != 0) w.params.push_back(integer("ceil_mode", 1));
    maker.output(maker.op(kind::kPool, {maker.input(src)}, w.params));
    add_post_ops(maker);
    expect_matches_reference(maker);
    if (HasFatalFailure()) return;
  }
}

TEST(ExecOps, GlobalPool) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Maker maker(seed);
    const Dims src = random_image(maker.random(), pick(maker.random(), 1, 40));
    maker.output(maker.op(kind::kGlobalPool, {maker.input(src)},
                          {text("mode", seed % 2 != 0 ? "max" : "avg")}));
    add_post_ops(maker);
    expect_matches_reference(maker);
    if (HasFatalFailure()) return;
  }
}

TEST(ExecOps, MatmulWithConstant) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Maker maker(seed);
    std::mt19937& random = maker.random();
    const std::int64_t k = pick(random, 1, 90), n = pick(random, 1, 150);
    const bool trans_a = random() % 4 == 0, trans_b = random() % 2 == 0;
    Dims a;
    for (std::int64_t i = pick(random, 0, 2); i > 0; --i) a.push_back(pick(random, 1, 4));
    const std::int64_t m = random() % 3 == 0 ? 1 : pick(random, 1, 20);
    a.push_back(trans_a ? k : m);
    a.push_back(trans_a ? m : k);
    std::vector<Operand> inputs{maker.input(a), maker.weight(trans_b ? Dims{n, k} : Dims{k, n})};
    if (random() % 2 != 0) inputs.push_back(maker.weight(Dims{n}));
    maker.output(maker.op(kind::kMatmul, inputs,
                          {integer("trans_a", trans_a), integer("trans_b", trans_b)}));
    add_post_ops(maker);
    expect_matches_reference(maker);
    if (HasFatalFailure()) return;
  }
}

TEST(ExecOps, MatmulOfValues) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Maker maker(seed);
    std::mt19937& random = maker.random();
    const std::int64_t m = pick(random, 1, 20), k = pick(random, 1, 40), n = pick(random, 1, 40);
    const bool trans_a = random() % 2 == 0, trans_b = random() % 2 == 0;
    Dims a, b;
    const std::int64_t batch = pick(random, 0, 2);
    for (std::int64_t i = 0; i < batch; ++i) {
      const std::int64_t dim = pick(random, 2, 3);
      a.push_back(random() % 3 == 0 ? 1 : dim);
      if (i + 1 < batch || random() % 2 == 0 || !b.empty())
        b.push_back(random() % 3 == 0 ? 1 : dim);
    }
    a.push_back(trans_a ? k : m);
    a.push_back(trans_a ? m : k);
    b.push_back(trans_b ? n : k);
    b.push_back(trans_b ? k : n);
    maker.output(maker.op(kind::kMatmul, {maker.input(a), maker.input(b)},
                          {integer("trans_a", trans_a), integer("trans_b", trans_b)}));
    add_post_ops(maker);
    expect_matches_reference(maker);
    if (HasFatalFailure()) return;
  }
}

TEST(ExecOps, EveryEltwise) {
  const std::vector<std::tuple<std::string, double, double>> cases{{"relu", 0, 0},
                                                                   {"relu", 0.1, 0},
                                                                   {"clip", -0.5, 0.5},
                                                                   {"linear", 2, 1},
                                                                   {"sigmoid", 0, 0},
                                                                   {"tanh", 0, 0},
                                                                   {"elu", 1.5, 0},
                                                                   {"exp", 0, 0},
                                                                   {"abs", 0, 0},
                                                                   {"square", 0, 0},
                                                                   {"gelu_erf", 0, 0},
                                                                   {"gelu_tanh", 0, 0},
                                                                   {"swish", 1.5, 0},
                                                                   {"mish", 0, 0},
                                                                   {"hardswish", 1.0 / 6, 0.5},
                                                                   {"round", 0, 0},
                                                                   {"hardsigmoid", 0.2, 0.5},
                                                                   {"soft_relu", 2, 0},
                                                                   {"pow", 2, 3}};
  for (const auto& [alg, alpha, beta] : cases)
    for (const Dims& dims : {Dims{}, Dims{37}, Dims{2, 3, 4}, Dims{1, 19, 5, 7}}) {
      SCOPED_TRACE(alg);
      Maker maker(1);
      maker.output(maker.op(kind::kEltwise, {maker.input(dims)},
                            {text("alg", alg), real("alpha", alpha), real("beta", beta)}));
      add_post_ops(maker);
      expect_matches_reference(maker);
      if (HasFatalFailure()) return;
    }
}

TEST(ExecOps, LogAndSqrtOfPositive) {
  for (const char* alg : {"log", "sqrt"}) {
    Maker maker(3);
    const Operand positive = maker.op(kind::kEltwise, {maker.input(Dims{3, 50})},
                                      {text("alg", "linear"), real("alpha", 1), real("beta", 2)});
    maker.output(maker.op(kind::kEltwise, {positive}, {text("alg", alg)}));
    expect_matches_reference(maker);
  }
}

TEST(ExecOps, BinaryBroadcasting) {
  static constexpr const char* kAlgs[] = {"add", "sub", "mul", "max", "min", "div"};
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Maker maker(seed);
    std::mt19937& random = maker.random();
    Dims full;
    for (std::int64_t i = pick(random, 0, 5); i > 0; --i) full.push_back(pick(random, 1, 6));
    const auto shrink = [&] {
      Dims dims(full.span().subspan(full.empty() ? 0 : random() % full.size()));
      for (std::int64_t& dim : dims)
        if (random() % 3 == 0) dim = 1;
      return dims;
    };
    const Dims a = random() % 2 != 0 ? full : shrink();
    const Dims b = random() % 2 != 0 ? full : shrink();
    const char* alg = kAlgs[random() % 6];
    const Operand left = random() % 5 == 0 ? maker.weight(a) : maker.input(a);
    Operand right = maker.input(b);
    if (std::string_view(alg) == "div")  // away from zero
      right = maker.op(kind::kEltwise, {right},
                       {text("alg", "linear"), real("alpha", 0.25), real("beta", 2)});
    maker.output(maker.op(kind::kBinary, {left, right}, {text("alg", alg)}));
    add_post_ops(maker);
    expect_matches_reference(maker);
    if (HasFatalFailure()) return;
  }
}

TEST(ExecOps, ScaleShift) {
  for (const Dims& dims : {Dims{2, 5}, Dims{1, 32, 7}, Dims{2, 19, 5, 6}, Dims{1, 3, 2, 4, 5}})
    for (const bool relu : {false, true}) {
      Maker maker(7);
      std::vector<PostOp> post_ops;
      if (relu) post_ops.push_back(unary("relu"));
      maker.output(
          maker.op(kind::kScaleShift,
                   {maker.input(dims), maker.weight(Dims{dims[1]}), maker.weight(Dims{dims[1]})},
                   {}, post_ops));
      expect_matches_reference(maker);
    }
}

TEST(ExecOps, SoftmaxOverEveryAxis) {
  const Dims dims{2, 7, 5, 4};
  for (std::int64_t axis = -4; axis < 4; ++axis)
    for (const std::int64_t log : {0, 1})
      for (const bool channels_last : {false, true}) {
        Maker maker(11);
        Operand src = maker.input(dims);
        if (channels_last)
          src = maker.op(kind::kPool, {src}, {text("mode", "max"), ints("kernel", {1, 1})});
        maker.output(maker.op(kind::kSoftmax, {src}, {integer("axis", axis), integer("log", log)}));
        add_post_ops(maker);
        expect_matches_reference(maker);
      }
}

TEST(ExecOps, LayerNorm) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Maker maker(seed);
    const Dims dims{pick(maker.random(), 1, 3), pick(maker.random(), 1, 9),
                    pick(maker.random(), 2, 40)};
    const std::int64_t axis = seed % 3 == 0 ? 1 : -1;
    const Dims normalised = axis == 1 ? Dims{dims[1], dims[2]} : Dims{dims[2]};
    std::vector<Operand> inputs{maker.input(dims)};
    inputs.push_back(seed % 4 == 1 ? Operand{} : maker.weight(normalised));
    if (seed % 4 != 2) inputs.push_back(maker.weight(normalised));
    maker.output(
        maker.op(kind::kLayerNorm, inputs, {integer("axis", axis), real("epsilon", 1e-3)}));
    add_post_ops(maker);
    expect_matches_reference(maker);
    if (HasFatalFailure()) return;
  }
}

/// The norm adds itself; the sum may be wanted by the norm alone, by other ops, or by the caller.
TEST(ExecOps, LayerNormAfterAnAddition) {
  for (unsigned seed = 0; seed < 32; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Maker maker(seed);
    const Dims dims{2, 5, 24};
    const Operand a = maker.input(dims), b = maker.input(dims);
    std::vector<PostOp> post_ops;
    if ((seed & 1) != 0) post_ops.push_back({.kind = "add", .operand = maker.weight(Dims{24})});
    if ((seed & 16) != 0) post_ops.push_back({.kind = "relu", .operand = {}});
    // Sources that die there, so that the sum is written over one of them.
    const Operand left = (seed & 2) != 0 ? maker.op(kind::kEltwise, {a}, {text("alg", "abs")}) : a;
    const Operand sum = maker.op(kind::kBinary, {left, b}, {text("alg", "add")}, post_ops);
    const std::int64_t axis = (seed & 4) != 0 ? 1 : -1;
    const Dims rows = axis == 1 ? Dims{5, 24} : Dims{24};
    const Operand norm = maker.op(kind::kLayerNorm, {sum, maker.weight(rows), maker.weight(rows)},
                                  {integer("axis", axis), real("epsilon", 1e-3)});
    maker.output(norm);
    if ((seed & 8) != 0) maker.output(maker.op(kind::kBinary, {norm, sum}, {text("alg", "mul")}));
    if (seed % 5 == 0) maker.output(sum);
    expect_matches_reference(maker);
    if (HasFatalFailure()) return;
  }
}

/// Broadcast, or another operation: two steps.
TEST(ExecOps, LayerNormAfterWhatItDoesNotAdd) {
  for (const char* alg : {"add", "mul"})
    for (const Dims& other : {Dims{2, 5, 24}, Dims{5, 24}, Dims{2, 5, 1}}) {
      Maker maker(3);
      const Operand sum = maker.op(kind::kBinary, {maker.input(Dims{2, 5, 24}), maker.input(other)},
                                   {text("alg", alg)});
      maker.output(maker.op(kind::kLayerNorm, {sum}, {integer("axis", -1), real("epsilon", 1e-3)}));
      expect_matches_reference(maker);
    }
}

TEST(ExecOps, Lrn) {
  for (const std::int64_t size : {1, 2, 3, 4, 5})
    for (const Dims& dims : {Dims{2, 9, 5}, Dims{1, 20, 4, 6}, Dims{2, 3, 2, 3, 4}}) {
      Maker maker(13);
      maker.output(maker.op(
          kind::kLrn, {maker.input(dims)},
          {integer("size", size), real("alpha", 0.3), real("beta", 0.6), real("bias", 1.5)}));
      expect_matches_reference(maker);
    }
}

TEST(ExecOps, ConcatOnEveryAxis) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Maker maker(seed);
    std::mt19937& random = maker.random();
    Dims dims;
    for (std::int64_t i = pick(random, 1, 4); i > 0; --i) dims.push_back(pick(random, 1, 6));
    const std::size_t axis = random() % dims.size();
    std::vector<Operand> inputs;
    for (std::int64_t i = pick(random, 1, 4); i > 0; --i) {
      dims[axis] = pick(random, 1, 5);
      inputs.push_back(random() % 4 == 0 ? maker.weight(dims) : maker.input(dims));
      if (dims.size() == 4 && random() % 2 == 0)
        inputs.back() =
            maker.op(kind::kPool, {inputs.back()}, {text("mode", "max"), ints("kernel", {1, 1})});
    }
    maker.output(maker.op(kind::kConcat, inputs, {integer("axis", static_cast<int>(axis))}));
    add_post_ops(maker);
    expect_matches_reference(maker);
    if (HasFatalFailure()) return;
  }
}

TEST(ExecOps, TransposeOfEveryKind) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Maker maker(seed);
    std::mt19937& random = maker.random();
    Dims dims;
    for (std::int64_t i = pick(random, 1, 5); i > 0; --i) dims.push_back(pick(random, 1, 20));
    std::vector<std::int64_t> perm;
    for (std::size_t i = 0; i < dims.size(); ++i) perm.push_back(static_cast<std::int64_t>(i));
    std::ranges::shuffle(perm, random);
    Operand src = maker.input(dims);
    if (dims.size() == 4 && seed % 2 == 0)
      src = maker.op(kind::kPool, {src}, {text("mode", "max"), ints("kernel", {1, 1})});
    maker.output(maker.op(kind::kTranspose, {src}, {ints("perm", perm)}));
    expect_matches_reference(maker, 0);
    if (HasFatalFailure()) return;
  }
}

TEST(ExecOps, SliceWithStepsBothWays) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Maker maker(seed);
    std::mt19937& random = maker.random();
    const Dims dims{pick(random, 1, 3), pick(random, 2, 9), pick(random, 2, 9), pick(random, 2, 9)};
    const std::int64_t axis = pick(random, 0, 3);
    const std::int64_t n = dims[static_cast<std::size_t>(axis)];
    const bool back = random() % 2 == 0;
    const std::vector<std::int64_t> starts{back ? pick(random, 0, n + 2) : pick(random, -n, n - 1)};
    const std::vector<std::int64_t> ends{back ? -n - 1 : n + 5};
    Operand src = maker.input(dims);
    if (seed % 3 == 0)
      src = maker.op(kind::kPool, {src}, {text("mode", "max"), ints("kernel", {1, 1})});
    maker.output(maker.op(kind::kSlice, {src},
                          {ints("starts", starts), ints("ends", ends),
                           ints("axes", {random() % 2 != 0 ? axis : axis - 4}),
                           ints("steps", {back ? -pick(random, 1, 3) : pick(random, 1, 3)})}));
    expect_matches_reference(maker, 0);
    if (HasFatalFailure()) return;
  }
}

TEST(ExecOps, SplitEvenAndUneven) {
  for (const bool channels_last : {false, true})
    for (std::int64_t axis = 0; axis < 4; ++axis) {
      Maker maker(17);
      Operand src = maker.input(Dims{6, 6, 6, 6});
      if (channels_last)
        src = maker.op(kind::kPool, {src}, {text("mode", "max"), ints("kernel", {1, 1})});
      for (const Operand& part :
           maker.split(src, 3, {integer("axis", axis), ints("sizes", {1, 2, 3})}))
        maker.output(part);
      for (const Operand& part : maker.split(src, 2, {integer("axis", axis - 4)}))
        maker.output(part);
      expect_matches_reference(maker, 0);
    }
}

TEST(ExecOps, ViewsOfBothLayouts) {
  Maker maker(19);
  const Operand image = maker.op(kind::kPool, {maker.input(Dims{2, 6, 4, 4})},
                                 {text("mode", "max"), ints("kernel", {1, 1})});
  maker.output(maker.op(kind::kFlatten, {image}, {integer("axis", 1)}));
  maker.output(maker.op(kind::kReshape, {image}, {ints("shape", {0, 3, -1})}));
  maker.output(maker.op(kind::kUnsqueeze, {image}, {ints("axes", {2})}));
  const Operand pooled = maker.op(kind::kGlobalPool, {image}, {text("mode", "avg")});
  maker.output(maker.op(kind::kSqueeze, {pooled}, {ints("axes", {2, -1})}));
  maker.output(maker.op(kind::kFlatten, {pooled}, {integer("axis", 1)}));
  maker.output(maker.op(kind::kIdentity, {image}));
  expect_matches_reference(maker);
}

}  // namespace
}  // namespace ctxgen::onednn::test
