#include "run/run_lengths.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/onednn/dim_code.h"
#include "ctxgen/onednn/op_kinds.h"
#include "ctxgen/onednn/param_codec.h"

#include "code_of.h"
#include "program_maker.h"

// Lengths as numbers of a run: one plan for all of them, and caches that grow where they are.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kSize = 5;

/// How a decoder's attention is told its lengths.
enum class Told : std::uint8_t {
  kByMask,  // GroupQueryAttention: the last key of each sequence, and a mask's dim
  kByDims,  // Attention, MultiHeadAttention: all that is there
};

struct Lengths {
  std::int64_t past = 4, fresh = 1;
  std::int64_t room = 0;  // beyond past + fresh, kByMask
};

/// Of one program for all lengths: equal weights and names, symbolic dims.
class Decoder {
 public:
  Decoder(Told told, const Lengths& lengths, unsigned seed = 1) : told_(told), maker_(seed) {
    const std::int64_t all = lengths.past + lengths.fresh;
    std::vector<Operand> inputs(9);
    inputs[0] = input({1, lengths.fresh, kHeads * kSize}, {-1, -1, kHeads * kSize});
    for (const std::size_t i : {1, 2})
      inputs[i] = input({1, lengths.fresh, kKvHeads * kSize}, {-1, -1, kKvHeads * kSize});
    for (const std::size_t i : {3, 4})
      inputs[i] = input({1, kKvHeads, lengths.past, kSize}, {-1, kKvHeads, -1, kSize});
    std::vector<Param> params{integer("heads", kHeads), integer("kv_heads", kKvHeads),
                              integer("causal", 1)};
    if (told == Told::kByMask) {
      Tensor last = Tensor::allocate(DataType::kInt32, {1}).value();
      last.mutable_elements<std::int32_t>()[0] = static_cast<std::int32_t>(all - 1);
      inputs[5] = input(std::move(last), {-1});
      inputs.push_back(input(mask(all + lengths.room), {-1, -1}));
      params.push_back(text("lengths", "last"));
      params.push_back(ints("total_code", {static_cast<std::int64_t>(DimWord::kDim), 9, 1}));
      params.push_back(integer("sized", 1));
    } else {
      inputs[6] = input({1, 1, lengths.fresh, all}, {-1, -1, -1, -1});
    }
    const Operand out = maker_.op(kind::kAttention, inputs, params);
    maker_.output(out);
    for (int i = 0; i < 2; ++i) {
      const auto value = static_cast<std::uint32_t>(maker_.program().values.size());
      maker_.program().values.push_back(maker_.program().values[out.index]);
      maker_.program().ops.back().outputs.push_back(value);
      maker_.output(Operand::value(value));
    }
  }

  [[nodiscard]] Maker& maker() { return maker_; }
  [[nodiscard]] const std::vector<Tensor>& tensors() { return maker_.inputs(); }

 private:
  static Tensor mask(std::int64_t keys) {
    return Tensor::allocate(DataType::kInt64, {1, keys}).value();
  }
  Operand input(const Dims& dims, const std::vector<std::int64_t>& declared) {
    return declare(maker_.input(dims), declared);
  }
  Operand input(Tensor tensor, const std::vector<std::int64_t>& declared) {
    return declare(maker_.input(std::move(tensor)), declared);
  }
  Operand declare(Operand operand, const std::vector<std::int64_t>& declared) {
    ProgramValue& value = maker_.program().values[operand.index];
    value.has_rank = true;
    for (const std::int64_t dim : declared) value.dims.push_back({dim, -1});
    return operand;
  }

  Told told_;
  Maker maker_;
};

class RunLengthsOf : public ::testing::TestWithParam<Told> {
 protected:
  [[nodiscard]] std::unique_ptr<Executable> load(const Lengths& planned) const {
    Decoder decoder(GetParam(), planned);
    const Packed packed = pack(decoder.maker(), {decoder.maker().input_dims()}).value();
    return loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr).value();
  }
  [[nodiscard]] Outputs alone(const Lengths& lengths) const {
    Decoder decoder(GetParam(), lengths);
    return compile_and_run(decoder.maker()).value();
  }
  [[nodiscard]] std::vector<Tensor> tensors(const Lengths& lengths) const {
    return Decoder(GetParam(), lengths).tensors();
  }
};

INSTANTIATE_TEST_SUITE_P(, RunLengthsOf, ::testing::Values(Told::kByMask, Told::kByDims));

TEST_P(RunLengthsOf, OnePlanServesEveryPast) {
  const auto executable = load({.past = 4});
  const auto state = executable->make_state().value();
  for (const std::int64_t past : {4, 0, 1, 5, 255, 256, 4200, 3, 4500}) {
    const Lengths lengths{.past = past};
    VectorOutputs outputs;
    std::vector<TensorView> views;
    const std::vector<Tensor> given = tensors(lengths);
    for (const Tensor& tensor : given) views.push_back(tensor.view());
    ASSERT_TRUE(executable->run(*state, views, outputs)) << past;
    const Outputs expected = alone(lengths);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(outputs.data[i], expected[i]) << past;
    EXPECT_EQ(outputs.dims_of[1], (Dims{1, kKvHeads, past + 1, kSize}));
  }
  EXPECT_EQ(executable->plan_statistics().made, 0U);
}

TEST_P(RunLengthsOf, OtherDimsStillMakePlans) {
  const auto executable = load({.past = 4});
  for (const std::int64_t fresh : {7, 1, 7, 2})
    for (const std::int64_t past : {0, 6}) {
      const Lengths lengths{.past = past, .fresh = fresh};
      EXPECT_EQ(run(*executable, tensors(lengths)).value(), alone(lengths));
    }
  EXPECT_EQ(executable->plan_statistics().made, 2U);
}

TEST_P(RunLengthsOf, RefusesLengthsThatDoNotFitEachOther) {
  const auto executable = load({.past = 4});
  const std::vector<Tensor> good = tensors({.past = 4}), other = tensors({.past = 5});
  EXPECT_EQ(code_of(run(*executable, good)), ctxgen::test::kOk);
  std::vector<Tensor> one = good;
  one[4] = other[4];  // more values than keys
  EXPECT_EQ(code_of(run(*executable, one)), ErrorCode::kInvalidGraph);
  one = good;
  one[3] = other[3];
  EXPECT_EQ(code_of(run(*executable, one)), ErrorCode::kInvalidGraph);
  if (GetParam() == Told::kByDims) {
    one = good;
    one[5] = other[5];  // a bias for one key too many
    EXPECT_EQ(code_of(run(*executable, one)), ErrorCode::kInvalidGraph);
    return;
  }
  for (const std::int32_t last : {-1, 3 + 2, 100, INT32_MAX, INT32_MIN}) {
    one = good;
    one[5] = Tensor::allocate(DataType::kInt32, {1}).value();
    one[5].mutable_elements<std::int32_t>()[0] = last;
    EXPECT_EQ(code_of(run(*executable, one)), ErrorCode::kInvalidArgument) << last;
  }
  one = good;
  one[6] = Tensor::allocate(DataType::kInt64, {1, 0}).value();  // fewer keys than new ones
  EXPECT_EQ(code_of(run(*executable, one)), ErrorCode::kInvalidGraph);
  std::vector<TensorView> views;
  for (const Tensor& tensor : good) views.push_back(tensor.view());
  const auto state = executable->make_state().value();
  for (const int bits :
       {36, 37, 50, 62}) {  // a present, or a mask, of terabytes; only its dims are read
    views[6].dims = {1, std::int64_t{1} << bits};
    VectorOutputs outputs;
    EXPECT_EQ(code_of(executable->run(*state, views, outputs)), ErrorCode::kResourceLimit);
    EXPECT_TRUE(outputs.data.empty());
  }
}

/// Caches in memory with room for more rows.
class KeptOutputs final : public OutputAllocator {
 public:
  explicit KeptOutputs(std::int64_t rows) : rows_(rows) {
    for (std::vector<float>& cache : caches)
      cache.assign(static_cast<std::size_t>(kKvHeads * rows * kSize), -5);
  }
  Result<std::byte*> allocate(std::size_t output, DataType type, const Dims& dims) override {
    return others.allocate(output, type, dims);
  }
  Result<std::optional<CachePlace>> keep(std::size_t cache, const Dims& dims) override {
    length = dims[2];
    return CachePlace{reinterpret_cast<std::byte*>(caches[cache].data()), rows_};
  }
  std::vector<float> caches[2];
  VectorOutputs others;
  std::int64_t length = 0;

 private:
  std::int64_t rows_;
};

TEST_P(RunLengthsOf, CachesGrowWhereTheyAre) {
  const auto executable = load({.past = 4});
  ASSERT_EQ(executable->caches().size(), 2U);
  EXPECT_EQ(executable->caches()[0].input, 3U);
  EXPECT_EQ(executable->caches()[1].output, 2U);
  const auto state = executable->make_state().value();
  constexpr std::int64_t kRoom = 40;
  KeptOutputs kept(kRoom);
  std::vector<std::vector<float>> past(2);
  for (std::int64_t length = 0; length < kRoom;) {
    const Lengths lengths{.past = length, .fresh = length == 0 ? 7 : 1};
    std::vector<Tensor> given = tensors(lengths), twin = given;
    for (std::size_t i = 0; i < 2; ++i)
      std::ranges::copy(past[i], twin[3 + i].mutable_elements<float>().begin());
    std::vector<TensorView> views;
    for (const Tensor& tensor : given) views.push_back(tensor.view());
    ASSERT_TRUE(executable->run(*state, views, kept));
    const Outputs expected = run(*executable, twin).value();
    EXPECT_EQ(kept.others.data[0], expected[0]);
    length += lengths.fresh;
    EXPECT_EQ(kept.length, length);
    for (std::size_t i = 0; i < 2; ++i) past[i] = expected[1 + i];
    for (std::size_t i = 0; i < 2; ++i)
      for (std::int64_t head = 0; head < kKvHeads; ++head)
        for (std::int64_t e = 0; e < kRoom * kSize; ++e) {
          const float found = kept.caches[i][static_cast<std::size_t>(head * kRoom * kSize + e)];
          const auto at = static_cast<std::size_t>(head * length * kSize + e);
          ASSERT_EQ(found, e < length * kSize ? past[i][at] : -5.0F);
        }
  }
  // One more has no room: nothing is written.
  const std::vector<Tensor> more = tensors({.past = kRoom});
  std::vector<TensorView> views;
  for (const Tensor& tensor : more) views.push_back(tensor.view());
  const auto before = kept.caches[0];
  EXPECT_EQ(code_of(executable->run(*state, views, kept)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(kept.caches[0], before);
}

/// Writes the presents where the caller says.
class SharedOutputs final : public OutputAllocator {
 public:
  Result<std::byte*> allocate(std::size_t output, DataType type, const Dims& dims) override {
    if (output == 0) return others.allocate(output, type, dims);
    return places[output - 1];
  }
  VectorOutputs others;
  std::byte* places[2] = {nullptr, nullptr};
};

TEST(RunLengths, APresentInThePlaceOfItsPastIsAppendedTo) {
  // As GroupQueryAttention has it: the past is the whole buffer, of which 4 keys are known.
  Decoder decoder(Told::kByMask, {.past = 4, .room = 3});
  Maker& maker = decoder.maker();
  const Packed packed = pack(maker, {maker.input_dims()}).value();
  const auto executable =
      loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr).value();
  std::vector<Tensor> given = decoder.tensors();
  for (const std::size_t i : {3, 4}) {
    std::mt19937 random(static_cast<unsigned>(i));
    given[i] = random_tensor({1, kKvHeads, 8, kSize}, random);
  }
  const Outputs apart = run(*executable, given).value();
  const auto state = executable->make_state().value();
  // In place as a whole, only the keys, and crossed, which has to work as well.
  for (const int how : {0, 1, 2, 3}) {
    std::vector<std::vector<float>> memory(4);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto from = given[3 + i % 2].elements<float>();
      memory[i].assign(from.begin(), from.end());
    }
    std::vector<TensorView> views;
    for (const Tensor& tensor : given) views.push_back(tensor.view());
    for (std::size_t i = 0; i < 2; ++i)
      views[3 + i].data = reinterpret_cast<std::byte*>(memory[i].data());
    SharedOutputs outputs;
    const std::size_t places[4][2] = {{0, 1}, {0, 3}, {1, 0}, {2, 1}};
    for (std::size_t i = 0; i < 2; ++i)
      outputs.places[i] = reinterpret_cast<std::byte*>(memory[places[how][i]].data());
    ASSERT_TRUE(executable->run(*state, views, outputs));
    EXPECT_EQ(outputs.others.data[0], apart[0]);
    for (std::size_t i = 0; i < 2; ++i)
      for (std::int64_t head = 0; head < kKvHeads; ++head)
        for (std::int64_t e = 0; e < 5 * kSize; ++e) {
          const auto at = static_cast<std::size_t>(head * 8 * kSize + e);
          ASSERT_EQ(memory[places[how][i]][at], apart[1 + i][at]) << how;
        }
  }
}

/// Attention of three queries to keys and values that are inputs.
class Crossed {
 public:
  Crossed(bool heads_first, std::int64_t keys, std::int64_t values) {
    const Operand q = declared({1, 3, kHeads * kSize}, {1, 3, kHeads * kSize});
    std::vector<Operand> inputs{q};
    for (const std::int64_t rows : {keys, values})
      inputs.push_back(heads_first
                           ? declared({1, kKvHeads, rows, kSize}, {1, kKvHeads, -1, kSize})
                           : declared({1, rows, kKvHeads * kSize}, {1, -1, kKvHeads * kSize}));
    inputs.resize(6);
    inputs.push_back(declared({1, 1, 1, keys}, {1, 1, 1, -1}));
    maker_.output(maker_.op(kind::kAttention, inputs,
                            {integer("heads", kHeads), integer("kv_heads", kKvHeads)}));
  }
  [[nodiscard]] Maker& maker() { return maker_; }

 private:
  Operand declared(const Dims& dims, const std::vector<std::int64_t>& declared) {
    const Operand operand = maker_.input(dims);
    ProgramValue& value = maker_.program().values[operand.index];
    value.has_rank = true;
    for (const std::int64_t dim : declared) value.dims.push_back({dim, -1});
    return operand;
  }
  Maker maker_{1};
};

TEST(RunLengths, OnePlanServesEveryNumberOfEncodedKeys) {
  for (const bool heads_first : {false, true}) {
    Crossed planned(heads_first, 7, 7);
    const Packed packed = pack(planned.maker(), {planned.maker().input_dims()}).value();
    const auto executable =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr).value();
    for (const std::int64_t keys : {7, 1, 2, 300, 8, 1500}) {
      Crossed crossed(heads_first, keys, keys);
      EXPECT_EQ(run(*executable, crossed.maker().inputs()).value(),
                compile_and_run(crossed.maker()).value())
          << keys;
    }
    EXPECT_EQ(executable->plan_statistics().made, 0U);
    for (const auto& [keys, values] :
         {std::pair<std::int64_t, std::int64_t>{7, 8}, {8, 7}, {7, 0}, {0, 7}})
      EXPECT_EQ(code_of(run(*executable, Crossed(heads_first, keys, values).maker().inputs())),
                ErrorCode::kInvalidGraph);
  }
}

TEST(RunLengths, OnlyDimsThatNothingElseReadsVary) {
  Decoder plain(Told::kByMask, {});
  const RunLengths found = RunLengths::find(plain.maker().program());
  EXPECT_TRUE(found.varies(3, 2));
  EXPECT_TRUE(found.varies(4, 2));
  EXPECT_TRUE(found.varies(6, 1));
  for (const std::size_t axis : {0, 1, 3}) EXPECT_FALSE(found.varies(3, axis));
  EXPECT_FALSE(found.varies(0, 1));
  EXPECT_TRUE(found.varies(6, 0));  // nothing reads it
  EXPECT_EQ(found.caches().size(), 2U);
  {  // another reader of the past
    Decoder decoder(Told::kByMask, {});
    Maker& maker = decoder.maker();
    maker.output(maker.op(kind::kEltwise, {Operand::value(maker.program().inputs[3])},
                          {text("alg", "relu")}));
    const RunLengths lengths = RunLengths::find(maker.program());
    EXPECT_FALSE(lengths.varies(3, 2));
    EXPECT_TRUE(lengths.varies(4, 2));
    EXPECT_TRUE(lengths.caches().empty());
  }
  {  // a present that is computed with
    Decoder decoder(Told::kByMask, {});
    Maker& maker = decoder.maker();
    maker.output(maker.op(kind::kEltwise, {Operand::value(maker.program().outputs[1])},
                          {text("alg", "relu")}));
    const RunLengths lengths = RunLengths::find(maker.program());
    EXPECT_FALSE(lengths.varies(3, 2));
    EXPECT_FALSE(lengths.varies(6, 1));
    EXPECT_TRUE(lengths.ops().empty());
  }
  {  // a past that is an output as well
    Decoder decoder(Told::kByMask, {});
    decoder.maker().program().outputs.push_back(decoder.maker().program().inputs[3]);
    const RunLengths lengths = RunLengths::find(decoder.maker().program());
    EXPECT_FALSE(lengths.varies(3, 2));
    EXPECT_TRUE(lengths.caches().empty());
  }
}

TEST(RunLengths, KeysOfNoSuchRankHaveNoNumbers) {
  for (const bool known : {true, false})
    for (const std::size_t rank : {0, 1}) {
      Crossed crossed(true, 7, 7);
      Program& program = crossed.maker().program();
      ProgramValue& keys = program.values[program.inputs[1]];
      keys.dims.resize(known ? rank : 0);
      keys.has_rank = known;
      const RunLengths lengths = RunLengths::find(program);
      for (const std::size_t axis : {0, 1, 2, 30, 31}) EXPECT_FALSE(lengths.varies(1, axis));
      EXPECT_TRUE(lengths.varies(2, 2));
    }
}

TEST(RunLengths, ProgramsOfDamagedFilesAreLookedThrough) {
  Decoder decoder(Told::kByMask, {});
  Program& program = decoder.maker().program();
  const auto with = [&](const Param& param) {
    Program damaged = program;
    set_param(damaged.ops[0], param.name.view(), param.value);
    (void)RunLengths::find(damaged);
  };
  for (const std::int64_t sized : {std::int64_t{-1}, std::int64_t{11}, INT64_MAX})
    with(integer("sized", sized));
  for (const std::int64_t number :
       {std::int64_t{-1}, std::int64_t{10}, std::int64_t{64}, INT64_MAX})
    for (const std::int64_t word : {0, 1, 2, 99})
      with(ints("total_code", {word, number, number, word}));
  with(text("total_code", "none"));
  program.ops[0].inputs.resize(4);
  (void)RunLengths::find(program);
  program.ops[0].outputs.resize(1);
  (void)RunLengths::find(program);
}

}  // namespace
}  // namespace ctxgen::onednn::test
