#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "sample_context.h"

namespace ctxgen {
namespace {

Hash128 hash_with(const Program& program, std::uint64_t salt = 0) {
  return hash_program(program, [&](BlobRef blob) {
    return Hash128{.high = salt, .low = blob.bin_index().value + 100U};
  });
}

TEST(ProgramHash, LeavesOutNamesOfProgramValuesAndWeights) {
  Program renamed = test::sample_dense();
  renamed.name = "other";
  renamed.values[0].name = "input";
  renamed.weights[1].name = "bias";
  EXPECT_EQ(hash_with(renamed), hash_with(test::sample_dense()));
}

TEST(ProgramHash, KnowsBlobsByTheirContentOnly) {
  Program program = test::sample_dense();
  const Hash128 before = hash_with(program);
  EXPECT_NE(hash_with(program, 1), before);
  for (auto& weight : program.weights)
    for (auto& packed : weight.packed) packed.blob = StoreId{packed.blob.bin_index().value + 7};
  const auto moved = [](BlobRef blob) {
    return Hash128{.high = 0, .low = blob.store_id().value - 7 + 100U};
  };
  EXPECT_EQ(hash_program(program, moved), before);
}

TEST(ProgramHash, EverythingElseChangesIt) {
  const std::function<void(Program&)> changes[] = {
      [](Program&) {},
      [](Program& p) { p.source = "Other"; },
      [](Program& p) { p.symbols[1] = "other"; },
      [](Program& p) { p.values[0].type = DataType::kInt32; },
      [](Program& p) { p.values[0].dims[1].value = 5; },
      [](Program& p) { p.values[0].dims[0].symbol = 1; },
      [](Program& p) { p.values[0].dims[0].symbol = -1; },
      [](Program& p) { p.values[3].has_rank = true; },
      [](Program& p) { p.inputs = {0, 1}; },
      [](Program& p) { p.outputs = {3, 2}; },
      [](Program& p) { p.weights[0].dims = Dims{2, 4}; },
      [](Program& p) { p.weights[0].type = DataType::kInt32; },
      [](Program& p) { p.weights[0].packed[0].layout[0] = std::byte{0}; },
      [](Program& p) { p.weights[0].packed.pop_back(); },
      [](Program& p) { p.weights[0].packed[0].blob = BlobIndex{2}; },
      [](Program& p) { p.ops[0].kind = "conv"; },
      [](Program& p) { p.ops[0].name = "dense_2"; },
      [](Program& p) { p.ops[0].inputs[1] = Operand::weight(1); },
      [](Program& p) { p.ops[0].inputs[1] = Operand::value(0); },
      [](Program& p) { p.ops[0].inputs[2] = Operand::value(0); },
      [](Program& p) { p.ops[1].outputs = {3, 2}; },
      [](Program& p) { p.ops[0].params[0].name = "trans_a"; },
      [](Program& p) { p.ops[0].params[0].value = std::int64_t{1}; },
      [](Program& p) { p.ops[0].params[0].value = 1.0; },
      [](Program& p) { p.ops[0].params[5].value = std::vector<double>{}; },
      [](Program& p) { p.ops[0].params[5].value = std::string(); },
      [](Program& p) { p.ops[0].params[4].value = std::vector<double>{1.5, 0.0}; },
      [](Program& p) { p.ops[0].post_ops[0].kind = "tanh"; },
      [](Program& p) { p.ops[0].post_ops[0].alpha = 0.5F; },
      [](Program& p) { p.ops[0].post_ops[0].beta = 0.0F; },
      [](Program& p) { p.ops[0].post_ops[1].operand = Operand{}; },
      [](Program& p) { std::swap(p.ops[0].post_ops[0], p.ops[0].post_ops[1]); },
      [](Program& p) { p.plans[0].input_dims[0] = Dims{2, 4}; },
      [](Program& p) { p.plans[0].arena_bytes = 1; },
      [](Program& p) { p.plans[0].scratch_bytes = 1; },
      [](Program& p) { p.plans[0].payload.clear(); },
      [](Program& p) { p.plans.pop_back(); },
  };
  std::set<Hash128> seen;
  int number = 0;
  for (const auto& change : changes) {
    Program program = test::sample_dense();
    change(program);
    EXPECT_TRUE(seen.insert(hash_with(program)).second) << "change " << number;
    ++number;
  }
}

}  // namespace
}  // namespace ctxgen
