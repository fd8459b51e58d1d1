#include <algorithm>
#include <unordered_map>

#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/op_kinds.h"

#include "plan/omp_workers.h"
#include "plan/planner.h"

namespace ctxgen::onednn {
namespace {

constexpr std::int64_t kTypicalSize = 64;  // of a dim that is not known yet

Dims guessed_dims(const ProgramValue& value) {
  Dims dims;
  for (std::size_t i = 0; i < value.dims.size(); ++i)
    dims.push_back(value.dims[i].value >= 0 ? value.dims[i].value : i == 0 ? 1 : kTypicalSize);
  return dims;
}

}  // namespace

bool runs_fast(const Program& program, const ProgramOp& op) {
  Program alone;  // with the weights of the op only: there may be as many products as weights
  alone.ops = {op};
  std::unordered_map<std::uint32_t, std::uint32_t> weights;
  std::vector<Dims> input_dims;
  bool known = true;
  const auto move_in = [&](Operand& operand) {
    if (operand.kind == Operand::Kind::kWeight) {
      const auto [place, added] =
          weights.try_emplace(operand.index, static_cast<std::uint32_t>(alone.weights.size()));
      if (added) alone.weights.push_back(program.weights[operand.index]);
      operand.index = place->second;
    }
    if (operand.kind != Operand::Kind::kValue) return;
    ProgramValue value = program.values[operand.index];
    known = known && value.has_rank;
    input_dims.push_back(guessed_dims(value));
    value.has_rank = false;
    value.dims.clear();
    operand.index = static_cast<std::uint32_t>(alone.values.size());
    alone.inputs.push_back(operand.index);
    alone.values.push_back(std::move(value));
  };
  for (Operand& operand : alone.ops[0].inputs) move_in(operand);
  for (PostOp& post : alone.ops[0].post_ops) move_in(post.operand);
  for (std::uint32_t& output : alone.ops[0].outputs) {
    alone.values.push_back({"", program.values[output].type, {}, false});
    output = static_cast<std::uint32_t>(alone.values.size() - 1);
    alone.outputs.push_back(output);
  }
  if (!known) return false;
  const OmpThreads scope(1);  // the answer does not depend on how many will run it
  return make_plan({.program = alone,
                    .input_dims = input_dims,
                    .forms = nullptr,
                    .choices = {},
                    .threads = 1,
                    .create_primitives = false})
      .has_value();
}

}  // namespace ctxgen::onednn
