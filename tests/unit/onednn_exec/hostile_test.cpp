#include <algorithm>
#include <set>

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
  x = maker.op(kind::kPool, {x},
               {text("mode", "max"), ints("kernel", {2, 2}), ints("strides", {2, 2})});
  x = maker.op(kind::kFlatten, {x}, {integer("axis", 1)});
  x = maker.op(kind::kMatmul, {x, maker.weight(Dims{200, 70}), maker.weight(Dims{70})});
  const Operand y = maker.op(kind::kReshape, {x}, {ints("shape", {7, -1})});
  maker.output(maker.op(kind::kConcat, {y, y}, {integer("axis", 0)}));
  return pack(maker, {{maker.input_dims()}, {Dims{3, 4, 10, 10}}}).value();
}

/// Loads and, where that works, runs. The code of the first error, or nothing.
std::optional<ErrorCode> try_all(const Packed& packed, Maker& maker) {
  if (const auto valid = validate(packed.program, UINT64_MAX); !valid) return valid.error().code;
  const auto executable = loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr);
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
  const auto cut = [&](BlobIndex index) -> Result<Blob> {
    const Blob blob = good.store->blob(StoreId{index.value});
    return blob.slice(0, blob.bytes.size() - 4);
  };
  EXPECT_EQ(loader().load(good.shared(), cut, LoadOptions{1}, nullptr).error().code,
            ErrorCode::kCorruptContext);
  Packed missing = good;
  missing.program.weights[0].packed[0].blob = BlobIndex{99};
  EXPECT_EQ(try_all(missing, maker), ErrorCode::kCorruptContext);
  Packed formless = good;
  for (ProgramWeight& weight : formless.program.weights) weight.packed.clear();
  EXPECT_EQ(try_all(formless, maker), ErrorCode::kCorruptContext);
}

TEST(ExecHostile, PlanDimsThatDoNotFit) {
  Maker maker(4);
  const Packed good = make_packed(maker);
  for (const Dims& dims :
       {Dims{}, Dims{1}, Dims{1, 4, 10}, Dims{1, 5, 10, 10}, Dims{1, 4, 0, 0}, Dims{1, 4, -3, 10},
        Dims{1, 4, std::int64_t{1} << 40, 10}, Dims{std::int64_t{1} << 62, 4, 10, 10}}) {
    Packed bad = good;
    bad.program.plans[0].input_dims = {dims};
    EXPECT_NE(try_all(bad, maker), std::nullopt) << to_string(dims);
  }
  Packed none = good;
  none.program.plans[0].input_dims.clear();
  EXPECT_EQ(try_all(none, maker), ErrorCode::kCorruptContext);
}

/// Values that break arithmetic in one op or another.
const std::vector<std::int64_t> kOdd{
    0, 1, -1, 2, 7, 1 << 20, std::int64_t{1} << 31, std::int64_t{1} << 33, INT64_MAX, INT64_MIN};

TEST(ExecHostile, ParameterMutations) {
  Maker maker(5);
  const Packed good = make_packed(maker);
  for (std::size_t o = 0; o < good.program.ops.size(); ++o)
    for (std::size_t p = 0; p < good.program.ops[o].params.size(); ++p)
      for (const std::int64_t odd : kOdd) {
        Packed bad = good;
        auto& value = bad.program.ops[o].params[p].value;
        if (auto* list = std::get_if<SmallList<std::int64_t>>(&value))
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
         {kind::kConv,        kind::kMatmul,  kind::kPool,       kind::kGlobalPool,
          kind::kEltwise,     kind::kBinary,  kind::kScaleShift, kind::kSoftmax,
          kind::kLayerNorm,   kind::kLrn,     kind::kConcat,     kind::kTranspose,
          kind::kReshape,     kind::kFlatten, kind::kSqueeze,    kind::kUnsqueeze,
          kind::kIdentity,    kind::kSlice,   kind::kSplit,      kind::kDeconv,
          kind::kPad,         kind::kGather,  kind::kTile,       kind::kExpand,
          kind::kResize,      kind::kBlocks,  kind::kReduce,     kind::kRmsNorm,
          kind::kGroupNorm,   kind::kRnn,     kind::kSelect,     kind::kPoint,
          kind::kComputedConv}) {
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

/// One op of each kind that moves or reduces elements, over [2, 4, 6, 6].
Packed make_movers(Maker& maker) {
  const Operand x = maker.input(Dims{2, 4, 6, 6});
  const auto keep = [&](std::string_view kind, std::vector<Operand> more,
                        std::vector<Param> params) {
    more.insert(more.begin(), x);
    maker.output(maker.op(kind, std::move(more), std::move(params)));
  };
  keep(kind::kDeconv, {maker.weight(Dims{3, 4, 2, 2})},
       {ints("strides", {2, 2}), ints("dilations", {1, 1}), ints("pads", {0, 0, 1, 1}),
        ints("output_padding", {0, 1}), integer("group", 1)});
  keep(kind::kPad, {}, {ints("pads", {0, 0, 1, 1, 0, 0, 2, 2}), text("mode", "edge")});
  keep(kind::kGather, {},
       {integer("axis", 1), ints("indices", {0, 3, 3, -1}), ints("index_dims", {4})});
  keep(kind::kTile, {}, {ints("repeats", {1, 2, 1, 3})});
  keep(kind::kExpand, {}, {ints("shape", {3, 1, 1, 1, 1})});
  keep(kind::kResize, {},
       {text("mode", "linear"), text("coordinates", "half_pixel"), text("nearest", "floor"),
        ints("sizes", {-1, -1, 9, 4})});
  keep(kind::kResize, {}, {text("mode", "nearest"), {"scales", std::vector<double>{1, 1, 2, 0.5}}});
  keep(kind::kBlocks, {}, {text("form", "depth_to_space_dcr"), integer("size", 2)});
  keep(kind::kReduce, {}, {text("mode", "mean"), ints("axes", {1, 3}), integer("keepdims", 0)});
  keep(kind::kGroupNorm, {}, {integer("groups", 2), real("epsilon", 1e-5)});
  keep(kind::kRmsNorm, {maker.weight(Dims{6})}, {integer("axis", -1), real("epsilon", 1e-5)});
  return pack(maker, {}).value();
}

TEST(ExecHostile, MoverMutations) {
  // Sizes that are large, but that a machine has memory for.
  const std::vector<std::int64_t> odds{
      0, 1, -1, 2, 7, 1 << 12, std::int64_t{1} << 31, std::int64_t{1} << 33, INT64_MAX, INT64_MIN};
  Maker maker(9);
  const Packed good = make_movers(maker);
  ASSERT_EQ(try_all(good, maker), std::nullopt);
  for (std::size_t o = 0; o < good.program.ops.size(); ++o)
    for (std::size_t p = 0; p < good.program.ops[o].params.size(); ++p)
      for (const std::int64_t odd : odds) {
        Packed bad = good;
        auto& value = bad.program.ops[o].params[p].value;
        if (auto* list = std::get_if<SmallList<std::int64_t>>(&value)) {
          list->front() = odd;
          (void)try_all(bad, maker);
          list->push_back(odd);
        } else if (auto* reals = std::get_if<SmallList<double>>(&value)) {
          reals->back() = static_cast<double>(odd);
        } else {
          value = odd;
        }
        (void)try_all(bad, maker);
        bad.program.ops[o].params.erase(bad.program.ops[o].params.begin() +
                                        static_cast<std::ptrdiff_t>(p));
        (void)try_all(bad, maker);
      }
}

TEST(ExecHostile, SelectMutations) {
  Maker maker(11);
  const Operand x = maker.input(Dims{2, 3, 4});
  const Operand condition = maker.weight(*Tensor::allocate(DataType::kBool, {3, 4}));
  const Operand wide = maker.weight(Dims{3, 4, 4}), low = maker.weight(Dims{});
  const Operand moved = maker.op(kind::kReshape, {condition}, {ints("shape", {1, 3, 4})});
  maker.program().values[moved.index].type = DataType::kBool;
  maker.output(maker.op(kind::kSelect, {moved, x, low}));
  const Packed good = pack(maker, {}).value();
  ASSERT_EQ(try_all(good, maker), std::nullopt);
  const auto with = [&](std::vector<Operand> inputs) {
    Packed bad = good;
    bad.program.ops[1].inputs = std::move(inputs);
    return try_all(bad, maker);
  };
  EXPECT_EQ(with({condition, x, low}), std::nullopt);
  EXPECT_EQ(with({condition, low, x}), std::nullopt);
  EXPECT_EQ(with({x, x, low}), ErrorCode::kUnsupported);  // f32 as condition
  EXPECT_EQ(with({condition, condition, x}), ErrorCode::kUnsupported);
  EXPECT_EQ(with({condition, x, moved}), ErrorCode::kUnsupported);
  EXPECT_EQ(with({condition, x, wide}), ErrorCode::kInvalidGraph);  // 3 and 2 do not broadcast
  EXPECT_EQ(with({condition, x}), ErrorCode::kCorruptContext);
  EXPECT_EQ(with({Operand{}, x, x}), ErrorCode::kCorruptContext);
  Packed bad = good;
  bad.program.values[moved.index].type = DataType::kFloat;
  EXPECT_EQ(try_all(bad, maker), ErrorCode::kUnsupported);
  bad = good;
  bad.program.ops[1].kind = kind::kPoint;  // computes with numbers
  bad.program.ops[1].inputs = {moved};
  EXPECT_EQ(try_all(bad, maker), ErrorCode::kUnsupported);
}

TEST(ExecHostile, ATransposedVector) {
  Maker maker(12);
  const Operand x = maker.input(Dims{4});
  maker.output(maker.op(kind::kBinary, {x, maker.weight(Dims{4})}, {text("alg", "add")}));
  const Packed good = pack(maker, {}).value();
  ASSERT_EQ(try_all(good, maker), std::nullopt);
  Packed bad = good;  // version, transposed, tag 2 ("a"), rank, dim
  std::vector<std::byte> layout(13);
  layout[0] = layout[1] = layout[4] = std::byte{1};
  layout[2] = std::byte{2};
  layout[5] = std::byte{4};
  bad.program.weights[0].packed[0].layout = layout;
  EXPECT_EQ(try_all(bad, maker), ErrorCode::kCorruptContext);
}

TEST(ExecHostile, WindowsBeyondWhatKernelsCount) {
  const auto with = [](std::string_view kind, std::vector<Param> params) {
    Maker maker(13);
    const Operand x = maker.input(Dims{1, 16, 4, 4});
    std::vector<Operand> inputs{x};
    if (kind == kind::kConv) inputs.push_back(maker.weight(Dims{16, 16, 3, 3}));
    maker.output(maker.op(kind, inputs, std::move(params)));
    const auto packed = pack(maker, {{Dims{1, 16, 4, 4}}});
    return packed ? std::optional<ErrorCode>() : packed.error().code;
  };
  const std::int64_t huge = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(with(kind::kPool, {text("mode", "max"), ints("kernel", {huge, 1}),
                               ints("pads", {0, 0, huge - 3, 0})}),
            ErrorCode::kUnsupported);
  EXPECT_EQ(with(kind::kConv, {ints("pads", {0, 2, 0, huge + 1}), ints("strides", {1, 536870913})}),
            ErrorCode::kUnsupported);
}

// No one of them is large: together their maps would fill a machine.
TEST(ExecHostile, IndexMapsAreBoundedTogether) {
  Maker maker(15);
  const Operand x = maker.input(Dims{1});
  for (int i = 0; i < 17; ++i)
    maker.output(maker.op(kind::kTile, {x}, {ints("repeats", {std::int64_t{1} << 24})}));
  const auto packed = pack(maker, {{Dims{1}}});
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().code, ErrorCode::kResourceLimit) << packed.error().message;
}

TEST(ExecHostile, PackedBlobsThatAreNotAligned) {
  Maker maker(16);
  const Packed good = make_packed(maker);
  std::set<BlobIndex> packed;
  for (const ProgramWeight& weight : good.program.weights)
    for (const PackedWeight& form : weight.packed)
      if (!form.layout.empty()) packed.insert(form.blob.bin_index());
  if (packed.empty()) GTEST_SKIP() << "kernels of this instruction set take plain weights";
  // A packed form may also be named as a weight in a source's file, which lies anywhere.
  const auto load = [&](bool move_packed) {
    const auto blobs = [&](BlobIndex index) -> Result<Blob> {
      const Blob blob = good.store->blob(StoreId{index.value});
      if (packed.contains(index) != move_packed) return blob;
      const auto size = static_cast<std::int64_t>(blob.bytes.size());
      Tensor wide = CTXGEN_TRY(Tensor::allocate(DataType::kUint8, Dims{size + 4}));
      const std::span<std::byte> at = wide.mutable_bytes().subspan(4);
      std::ranges::copy(blob.bytes, at.begin());
      return Blob{wide.owner(), at};
    };
    return loader().load(good.shared(), blobs, LoadOptions{1}, nullptr);
  };
  EXPECT_TRUE(load(false));
  const auto refused = load(true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruptContext) << refused.error().message;
}

// A scale that is 0 as float32 divides positions by nothing.
TEST(ExecHostile, ScalesBelowFloat32) {
  for (const char* mode : {"linear", "nearest"}) {
    Maker maker(17);
    const Operand x = maker.input(Dims{1, 1, 4, 4});
    maker.output(maker.op(kind::kResize, {x},
                          {text("mode", mode),
                           ints("sizes", {1, 1, 4, 4}),
                           {"scales", std::vector<double>{1, 1, 1, 1e-60}}}));
    const auto packed = pack(maker, {{Dims{1, 1, 4, 4}}});
    ASSERT_FALSE(packed) << mode;
    EXPECT_EQ(packed.error().code, ErrorCode::kInvalidGraph);
  }
}

// An average over 2^31 taps, of which one is no padding.
TEST(ExecHostile, WindowsOfMoreTapsThanAnIntCounts) {
  Maker maker(19);
  const Operand x = maker.input(Dims{1, 16, 1, 1, 1});
  maker.output(maker.op(kind::kPool, {x},
                        {text("mode", "avg_include"), ints("kernel", {2048, 1024, 1024}),
                         ints("pads", {2047, 1023, 1023, 0, 0, 0})}));
  const auto results = compile_and_run(maker);
  ASSERT_TRUE(results) << results.error().message;
  const auto given = maker.inputs()[0].elements<float>();
  for (std::size_t i = 0; i < given.size(); ++i)
    EXPECT_EQ((*results)[0][i], given[i] / 2147483648.0F);
}

// Taps times results pass 2^63 where a kernel only asks whether they are many.
TEST(ExecHostile, WindowsOfMoreTapsThanFitIntoANumber) {
  Maker maker(18);
  const Operand x = maker.input(Dims{1, 64, 1, 1, 1});
  const std::int64_t taps = 1 << 19, pad = 2 * (taps - 1);
  maker.output(maker.op(kind::kPool, {x},
                        {text("mode", "avg_exclude"), ints("kernel", {taps, taps, taps}),
                         ints("dilations", {2, 2, 2}), ints("pads", {pad, pad, pad, 0, 0, 0})}));
  const auto results = compile_and_run(maker);
  ASSERT_TRUE(results) << results.error().message;
  const auto given = maker.inputs()[0].elements<float>();
  EXPECT_EQ((*results)[0], std::vector<float>(given.begin(), given.end()));
}

// A concatenation that begins with nothing, inside of another one.
TEST(ExecHostile, ChainsThatBeginEmpty) {
  Maker maker(14);
  const Operand x = maker.input(Dims{1, 0, 4}), y = maker.input(Dims{1, 3, 4});
  const Operand inner = maker.op(kind::kConcat, {x, y}, {integer("axis", 1)});
  maker.output(maker.op(kind::kConcat, {inner, y}, {integer("axis", 1)}));
  const auto results = compile_and_run(maker);
  ASSERT_TRUE(results) << results.error().message;
  const auto given = maker.inputs()[1].elements<float>();
  std::vector<float> expected(given.begin(), given.end());
  expected.insert(expected.end(), given.begin(), given.end());
  EXPECT_EQ((*results)[0], expected);
}

TEST(ExecHostile, RecurrentMutations) {
  Maker maker(10);
  const Operand x = maker.input(Dims{3, 2, 5});
  ProgramOp op{std::string(kind::kRnn),
               "rnn",
               {x, maker.weight(Dims{1, 5, 4, 6}), maker.weight(Dims{1, 6, 4, 6}),
                maker.weight(Dims{1, 4, 6})},
               {},
               {text("cell", "lstm"), text("direction", "forward")},
               {}};
  for (int i = 0; i < 3; ++i) {
    op.outputs.push_back(static_cast<std::uint32_t>(maker.program().values.size()));
    maker.program().values.push_back({"r" + std::to_string(i), DataType::kFloat, {}, false});
    maker.program().outputs.push_back(op.outputs.back());
  }
  maker.program().ops.push_back(op);
  const Packed good = pack(maker, {}).value();
  ASSERT_EQ(try_all(good, maker), std::nullopt);
  for (const char* cell : {"gru", "lbr_gru", "tanh", "relu", "", "lstm"})
    for (const char* direction : {"forward", "reverse", "bidirectional", "x"})
      for (std::size_t outputs = 1; outputs <= 3; ++outputs) {
        Packed bad = good;
        bad.program.ops[0].params = {text("cell", cell), text("direction", direction)};
        bad.program.ops[0].outputs.resize(outputs);
        bad.program.outputs.resize(outputs);
        bad.program.values.resize(1 + outputs);
        (void)try_all(bad, maker);
      }
  for (const Dims& dims : {Dims{1, 5, 4, 7}, Dims{2, 5, 4, 6}, Dims{1, 5, 0, 6}, Dims{6}, Dims{}}) {
    Packed bad = good;
    bad.program.weights[0].dims = dims;
    EXPECT_NE(try_all(bad, maker), std::nullopt) << to_string(dims);
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
