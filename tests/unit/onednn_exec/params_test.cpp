#include <map>
#include <set>

#include <gtest/gtest.h>

#include "ctxgen/onednn/kind_params.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "kinds/kind_rows.h"

// The parameters of every kind: there and back, and what damage does to them.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

/// Gives each field a value of its own, other than its default.
class Filler {
 public:
  void operator()(std::string_view, std::int64_t& value) { value = ++next_; }
  void operator()(std::string_view, bool& value) { value = !value; }
  void operator()(std::string_view, double& value) { value = 0.5 + static_cast<double>(++next_); }
  void operator()(std::string_view, std::string& value) {
    value = "word" + std::to_string(++next_);
  }
  void operator()(std::string_view, IntList& value) { value = {++next_, -7}; }
  void operator()(std::string_view, std::vector<double>& value) { value = {0.25, 1e9}; }
  template <class T>
  void operator()(std::string_view name, std::optional<T>& value) {
    (*this)(name, value.emplace());
  }
  template <class T>
  void unless_empty(std::string_view name, T& value) {
    (*this)(name, value);
  }

 private:
  std::int64_t next_ = 40;
};

/// What holds for the parameters of one kind.
template <class Params>
void check_params(std::string_view kind) {
  SCOPED_TRACE(kind);
  Params filled;
  Filler filler;
  Params::fields(filled, filler);
  ProgramOp op;
  op.kind = std::string(kind);
  encode(filled, op);
  auto back = decode<Params>(op);
  ASSERT_EQ(code_of(back), ctxgen::test::kOk);
  EXPECT_EQ(*back, filled);

  // A second time into the same op, and over parameters in another order: nothing is added or moved.
  const ProgramOp once = op;
  encode(filled, op);
  EXPECT_EQ(op, once);
  std::ranges::reverse(op.params);
  const ProgramOp reversed = op;
  encode(filled, op);
  EXPECT_EQ(op, reversed);
  EXPECT_EQ(decode<Params>(op).value(), filled);

  // What is absent has its default, which is what encoding writes of it.
  ProgramOp none;
  EXPECT_EQ(decode<Params>(none).value(), Params());
  encode(Params(), none);
  EXPECT_EQ(decode<Params>(none).value(), Params());

  std::set<std::string> names;
  for (std::size_t i = 0; i < once.params.size(); ++i) {
    const ProgramParam& param = once.params[i];
    EXPECT_TRUE(names.insert(param.name.str()).second) << param.name.str() << " twice";
    ProgramOp damaged = once;
    const bool text = std::holds_alternative<ShortText>(param.value);
    damaged.params[i].value =
        text ? decltype(param.value)(std::int64_t{1}) : decltype(param.value)(ShortText("x"));
    EXPECT_EQ(code_of(decode<Params>(damaged)), ErrorCode::kCorruptContext) << param.name.str();
    damaged = once;
    if (std::holds_alternative<std::int64_t>(param.value)) {
      damaged.params[i].value = kMaxParam + 1;
      EXPECT_EQ(code_of(decode<Params>(damaged)), ErrorCode::kCorruptContext) << param.name.str();
    }
    if (std::holds_alternative<SmallList<std::int64_t>>(param.value)) {
      damaged.params[i].value = SmallList<std::int64_t>(IntList(4097));
      EXPECT_EQ(code_of(decode<Params>(damaged)), ErrorCode::kCorruptContext) << param.name.str();
      damaged.params[i].value = SmallList<double>();  // empty lists have no type in some writers
      EXPECT_EQ(code_of(decode<Params>(damaged)), ctxgen::test::kOk) << param.name.str();
    }
  }
}

const std::map<std::string_view, void (*)(std::string_view)> kChecks = {
    {kind::kConv, check_params<ConvParams>},
    {kind::kMatmul, check_params<MatmulParams>},
    {kind::kPool, check_params<PoolParams>},
    {kind::kGlobalPool, check_params<GlobalPoolParams>},
    {kind::kEltwise, check_params<EltwiseParams>},
    {kind::kBinary, check_params<BinaryParams>},
    {kind::kScaleShift, check_params<NoParams>},
    {kind::kSoftmax, check_params<SoftmaxParams>},
    {kind::kLayerNorm, check_params<NormParams>},
    {kind::kLrn, check_params<LrnParams>},
    {kind::kConcat, check_params<ConcatParams>},
    {kind::kTranspose, check_params<TransposeParams>},
    {kind::kReshape, check_params<ReshapeParams>},
    {kind::kFlatten, check_params<FlattenParams>},
    {kind::kSqueeze, check_params<AxesParams>},
    {kind::kUnsqueeze, check_params<AxesParams>},
    {kind::kIdentity, check_params<NoParams>},
    {kind::kSlice, check_params<SliceParams>},
    {kind::kSplit, check_params<SplitParams>},
    {kind::kPoint, check_params<PointParams>},
    {kind::kQConv, check_params<QConvParams>},
    {kind::kQMatmul, check_params<QMatmulParams>},
    {kind::kDeconv, check_params<DeconvParams>},
    {kind::kPad, check_params<PadParams>},
    {kind::kGather, check_params<GatherParams>},
    {kind::kTile, check_params<TileParams>},
    {kind::kExpand, check_params<ExpandParams>},
    {kind::kSelect, check_params<NoParams>},
    {kind::kLookup, check_params<NoParams>},
    {kind::kAttention, check_params<AttentionParams>},
    {kind::kByteMatmul, check_params<ByteMatmulParams>},
    {kind::kDynamicQuantize, check_params<NoParams>},
    {kind::kByteConv, check_params<ByteConvParams>},
    {kind::kByteLstm, check_params<ByteLstmParams>},
    {kind::kLowBitLookup, check_params<LowBitLookupParams>},
    {kind::kLowBitConv, check_params<LowBitConvParams>},
    {kind::kLinearAttention, check_params<LinearAttentionParams>},
    {kind::kCausalConv, check_params<CausalConvParams>},
    {kind::kLowBitMatmul, check_params<LowBitMatmulParams>},
    {kind::kResize, check_params<ResizeParams>},
    {kind::kBlocks, check_params<BlocksParams>},
    {kind::kReduce, check_params<ReduceParams>},
    {kind::kRmsNorm, check_params<NormParams>},
    {kind::kGroupNorm, check_params<GroupNormParams>},
    {kind::kRnn, check_params<RnnParams>},
    {kind::kComputedConv, check_params<ConvParams>},
    {kind::kDefaults, check_params<DefaultsParams>},
};

TEST(KindParams, OfEveryKindGoThereAndBack) {
  for (const KindRow* row : kind_rows()) {
    const auto check = kChecks.find(row->name);
    ASSERT_NE(check, kChecks.end()) << row->name << " has no struct of parameters here";
    check->second(row->name);
  }
  EXPECT_EQ(kChecks.size(), kind_rows().size());
}

TEST(KindParams, AreLeftOutWhereTheyAreEmpty) {
  ProgramOp op;
  encode(PointParams{.out_scale = 0.5, .out_zero = 3}, op);
  ASSERT_EQ(op.params.size(), 2U);
  EXPECT_EQ(op.params[0], (ProgramParam{"out_scale", 0.5}));
  EXPECT_EQ(op.params[1], (ProgramParam{"out_zero", std::int64_t{3}}));
}

TEST(KindParams, OfAnIntegerWhereARealNumberIsMeant) {
  ProgramOp op;
  set_param(op, "alpha", std::int64_t{2});
  EXPECT_EQ(decode<EltwiseParams>(op).value().alpha, 2.0);
}

}  // namespace
}  // namespace ctxgen::onednn::test
