#include "running/run_sequence.h"

#include <algorithm>

namespace ctxgen::cli {

Result<RunSequence> RunSequence::start(const Session& session) {
  RunSequence sequence(session);
  if (session.state_pairs().empty()) return sequence;
  sequence.state_ = CTXGEN_TRY(session.make_state());
  sequence.context_ = CTXGEN_TRY(session.make_context());
  CTXGEN_CHECK(sequence.context_->set_state(sequence.state_.get()));
  return sequence;
}

std::vector<std::string> RunSequence::kept_inputs() const {
  std::vector<std::string> names;
  for (const StatePair& pair : session_->state_pairs()) names.push_back(pair.input);
  return names;
}

Result<std::vector<RuntimeValue>> RunSequence::run(std::span<const NamedValue> inputs,
                                                   bool pass_over, std::vector<OpTiming>* timings,
                                                   const ValueObserver* observer) {
  if (context_ == nullptr)
    return session_->run_values(inputs, {.timings = timings, .observer = observer});
  const auto infos = session_->inputs();
  const auto pairs = session_->state_pairs();
  for (const NamedValue& input : inputs) {
    if (std::ranges::contains(pairs, input.name, &StatePair::input)) {
      if (pass_over) continue;
      return fail(ErrorCode::kInvalidArgument, "input \"{}\" comes from the state (--state)",
                  input.name);
    }
    const auto at = std::ranges::find(infos, input.name, &IoInfo::name);
    if (at == infos.end())
      return fail(ErrorCode::kInvalidArgument, "the model has no input \"{}\"", input.name);
    CTXGEN_CHECK(context_->set_input(static_cast<std::size_t>(at - infos.begin()), input.value));
  }
  CTXGEN_CHECK(context_->run(timings));
  const auto given = context_->outputs();
  std::vector<RuntimeValue> outputs(given.begin(), given.end());
  for (std::size_t i = 0; i < pairs.size(); ++i)
    outputs[pairs[i].output_index] = CTXGEN_TRY(state_->read(i));
  return outputs;
}

}  // namespace ctxgen::cli
