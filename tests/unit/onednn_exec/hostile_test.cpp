#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"
#include "reference.h"

// Programs, payloads and layouts come from files: whatever is changed in them gives an error or a
// result, never an access out of bounds (run under the address sanitizer).
namespace ctxgen::onednn::test {
namespace {

Packed make_packed(Maker& maker) {
  Operand x = maker.input(Dims{1, 4, 10, 10});
  x = maker.op(kind::kConv, {x, maker.weight(Dims{8, 4, 3, 3}), maker.weight(Dims{8})},
               {ints("pads", {1, 1, 1, 1})}, {unary("relu")});
  x = maker.op(kind::kPool, {x}, {text("mode", "max"), ints("kernel", {2, 2}),
                                  ints("strides", {2, 2})});
  x = maker.op(kind::kFlatten, {x}, {integer("axis", 1)});
  x = maker.op(kind::kMatmul, {x, maker.weight(Dims{200, 70}), maker.weight(Dims{70})});
  const Operand y = maker.op(kind::kReshape, {x}, {ints("shape", {7, -1})});
  maker.output(maker.op(kind::kConcat, {y, y}, {integer("axis", 0)}));
  return pack(maker, {{maker.input_dims()}, {Dims{3, 4, 10, 10}}}).value();
}

/// Loads and, where that works, runs. The code of the first error, or nothing.
std::optional<ErrorCode> try_all(const Packed& packed, Maker& maker) {
  const auto executable = loader().load(packed.program, packed.blobs(), LoadOptions{1}, nullptr);
  if (!executable) return executable.error().code;
  if (packed.program.inputs.size() != 1) return std::nullopt;
  const auto outputs = run(**executable, maker.inputs());
  if (!outputs) return outputs.error().code;
  return std::nullopt;
}

TEST(ExecHostile, PayloadMutations) {
  Maker maker(1);
  const Packed good = make_packed(maker);
  ASSERT_EQ(try_all(good, maker), std::nullopt);
  const std::size_t size = good.program.plans[0].payload.size();
  for (std::size_t i = 0; i < size; ++i)
    for (const int bits : {0x01, 0x80, 0xff}) {
      Packed bad = good;
      bad.program.plans[0].payload[i] ^= static_cast<std::byte>(bits);
      const auto code = try_all(bad, maker);
      EXPECT_TRUE(!code || *code == ErrorCode::kCorruptContext) << "byte " << i;
    }
  for (std::size_t n = 0; n < size; ++n) {
    Packed bad = good;
    bad.program.plans[0].payload.resize(n);
    EXPECT_EQ(try_all(bad, maker), ErrorCode::kCorruptContext) << n << " bytes";
  }
  Packed longer = good;
  longer.program.plans[0].payload.push_back(std::byte{0});
  EXPECT_EQ(try_all(longer, maker), ErrorCode::kCorruptContext);
}

TEST(ExecHostile, LayoutMutations) {
  Maker maker(2);
  const Packed good = make_packed(maker);
  for (std::size_t w = 0; w < good.program.weights.size(); ++w)
    for (std::size_t p = 0; p < good.program.weights[w].packed.size(); ++p) {
      const std::size_t size = good.program.weights[w].packed[p].layout.size();
      for (std::size_t i = 0; i < size; ++i)
        for (const int bits : {0x01, 0x02, 0x40, 0xff}) {
          Packed bad = good;
          bad.program.weights[w].packed[p].layout[i] ^= static_cast<std::byte>(bits);
          (void)try_all(bad, maker);
        }
      for (std::size_t n = 1; n < size; ++n) {
        Packed bad = good;
        bad.program.weights[w].packed[p].layout.resize(n);
        EXPECT_EQ(try_all(bad, maker), ErrorCode::kCorruptContext);
      }
    }
}

TEST(ExecHostile, BlobsTooSmallOrMissing) {
  Maker maker(3);
  const Packed good = make_packed(maker);
  const auto cut = [&](std::uint32_t index) -> Result<Blob> {
    const Blob blob = good.store->blob(index);
    return blob.slice(0, blob.bytes.size() - 4);
  };
  EXPECT_EQ(loader().load(good.program, cut, LoadOptions{1}, nullptr).error().code,
            ErrorCode::kCorruptContext);
  Packed missing = good;
  missing.program.weights[0].packed[0].blob = 99;
  EXPECT_EQ(try_all(missing, maker), ErrorCode::kCorruptContext);
  Packed formless = good;
  for (ProgramWeight& weight : formless.program.weights) weight.packed.clear();
  EXPECT_EQ(try_all(formless, maker), ErrorCode::kCorruptContext);
}

TEST(ExecHostile, PlanDimsThatDoNotFit) {
  Maker maker(4);
  const Packed good = make_packed(maker);
  for (const Dims& dims : {Dims{}, Dims{1}, Dims{1, 4, 10}, Dims{1, 5, 10, 10}, Dims{1, 4, 0, 0},
                           Dims{1, 4, -3, 10}, Dims{1, 4, std::int64_t{1} << 40, 10},
                           Dims{std::int64_t{1} << 62, 4, 10, 10}}) {
    Packed bad = good;
    bad.program.plans[0].input_dims = {dims};
    EXPECT_NE(try_all(bad, maker), std::nullopt) << to_string(dims);
  }
  Packed none = good;
  none.program.plans[0].input_dims.clear();
  EXPECT_EQ(try_all(none, maker), ErrorCode::kCorruptContext);
}

/// Values that break arithmetic in one op or another.
const std::vector<std::int64_t> kOdd{0, 1, -1, 2, 7, 1 << 20, std::int64_t{1} << 31,
                                     std::int64_t{1} << 33, INT64_MAX, INT64_MIN};

TEST(ExecHostile, ParameterMutations) {
  Maker maker(5);
  const Packed good = make_packed(maker);
  for (std::size_t o = 0; o < good.program.ops.size(); ++o)
    for (std::size_t p = 0; p < good.program.ops[o].params.size(); ++p)
      for (const std::int64_t odd : kOdd) {
        Packed bad = good;
        auto& value = bad.program.ops[o].params[p].value;
        if (auto* list = std::get_if<std::vector<std::int64_t>>(&value))
          list->back() = odd;
        else
          value = odd;
        bad.program.plans.clear();
        (void)try_all(bad, maker);
        value = std::string("x");
        (void)try_all(bad, maker);
        value = 0.5;
        (void)try_all(bad, maker);
      }
}

TEST(ExecHostile, OpKindAndOperandMutations) {
  Maker maker(6);
  const Packed good = make_packed(maker);
  for (std::size_t o = 0; o < good.program.ops.size(); ++o) {
    for (const std::string_view kind :
         {kind::kConv, kind::kMatmul, kind::kPool, kind::kGlobalPool, kind::kEltwise, kind::kBinary,
          kind::kScaleShift, kind::kSoftmax, kind::kLayerNorm, kind::kLrn, kind::kConcat,
          kind::kTranspose, kind::kReshape, kind::kFlatten, kind::kSqueeze, kind::kUnsqueeze,
          kind::kIdentity, kind::kSlice, kind::kSplit}) {
      Packed bad = good;
      bad.program.ops[o].kind = kind;
      bad.program.plans.clear();
      (void)try_all(bad, maker);
    }
    for (std::size_t i = 0; i < good.program.ops[o].inputs.size(); ++i)
      for (const Operand operand :
           {Operand{}, Operand::value(0), Operand::weight(0), Operand::weight(1),
            Operand::weight(3), Operand::value(1000), Operand::weight(1000)}) {
        Packed bad = good;
        bad.program.ops[o].inputs[i] = operand;
        bad.program.plans.clear();
        (void)try_all(bad, maker);
        bad.program.ops[o].post_ops = {PostOp{"mul", 0, 0, operand}};
        (void)try_all(bad, maker);
        bad.program.ops[o].inputs = good.program.ops[o].inputs;
        (void)try_all(bad, maker);
      }
    for (const bool clear : {true, false}) {
      Packed bad = good;
      if (clear)
        bad.program.ops[o].inputs.clear();
      else
        bad.program.ops[o].inputs.resize(5);
      bad.program.plans.clear();
      EXPECT_NE(try_all(bad, maker), std::nullopt);
    }
  }
}

TEST(ExecHostile, ManyPostOps) {
  Maker maker(7);
  std::vector<PostOp> post_ops;
  const Operand one = maker.input(Dims{1});
  for (int i = 0; i < 100; ++i) post_ops.push_back(binary("add", one));
  maker.output(maker.op(kind::kEltwise, {maker.input(Dims{8})}, {text("alg", "relu")}, post_ops));
  expect_matches_reference(maker, 1e-3);
}

TEST(ExecHostile, ForeignSource) {
  Maker maker(8);
  Packed packed = make_packed(maker);
  packed.program.source = "OtherProvider";
  EXPECT_EQ(try_all(packed, maker), ErrorCode::kCorruptContext);
}

}  // namespace
}  // namespace ctxgen::onednn::test
