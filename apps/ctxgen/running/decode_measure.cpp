#include "running/decode_measure.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "ctxgen/base/stopwatch.h"

#include "flags/arguments.h"
#include "running/open_model.h"
#include "running/random_inputs.h"

namespace ctxgen::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostTokens = 1'000'000;

/// What an input of a decoder is for, by its name.
enum class Role : std::uint8_t { kTokens, kMask, kPositions, kLastKey, kTotal, kOther };

Role role_of(std::string_view name) {
  if (name.contains("encoder")) return Role::kOther;  // what is decoded from does not grow
  if (name.contains("mask")) return Role::kMask;
  if (name.contains("position")) return Role::kPositions;
  if (name.contains("seqlens")) return Role::kLastKey;
  if (name.contains("total_seq")) return Role::kTotal;
  if (name.contains("ids") || name.contains("tokens")) return Role::kTokens;
  return Role::kOther;
}

/// How far a sequence is: `fresh` tokens of a run after `past` others.
struct Place {
  std::int64_t past = 0, fresh = 0;
};

Result<std::int64_t> number_of(std::string_view text, std::string_view all) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 ||
      number > kMostTokens)
    return fail(ErrorCode::kInvalidArgument,
                "--decode \"{}\": expected PROMPT,STEPS, numbers from 1 to {}", all, kMostTokens);
  return number;
}

template <class Number>
void write_numbers(Tensor& tensor, std::int64_t first, std::int64_t step, std::int64_t modulus) {
  std::int64_t number = first;
  for (Number& element : tensor.mutable_elements<Number>()) {
    element = static_cast<Number>(number % modulus);
    number += step;
  }
}

/// first, first + step, ... of any usual type.
Status fill(Tensor& tensor, const IoInfo& info, std::int64_t first, std::int64_t step,
            std::int64_t modulus = INT64_MAX) {
  switch (tensor.type()) {
    case DataType::kInt64: write_numbers<std::int64_t>(tensor, first, step, modulus); return {};
    case DataType::kInt32: write_numbers<std::int32_t>(tensor, first, step, modulus); return {};
    case DataType::kFloat: write_numbers<float>(tensor, first, step, modulus); return {};
    case DataType::kBool: write_numbers<std::uint8_t>(tensor, first, step, modulus); return {};
    default:
      return fail(ErrorCode::kInvalidArgument, "--decode: input \"{}\" is {}", info.name,
                  info.type_text);
  }
}

/// Token ids are below: the last dim of logits, if it is known, and of a larger vocabulary some.
std::int64_t vocabulary_of(const Session& session) {
  std::int64_t vocabulary = 1000;
  for (const IoInfo& info : session.outputs()) {
    const bool ranked = info.type.is_tensor() && info.type.has_rank() && info.type.rank() > 0;
    if (!ranked || !info.name.contains("logits")) continue;
    const Dim& last = info.type.shape->back();
    if (last.is_fixed() && last.value() > 0) vocabulary = std::min(vocabulary, last.value());
  }
  return vocabulary;
}

/// The inputs of a decoder at any place of a sequence.
class Inputs {
 public:
  static Result<Inputs> find(const Session& session, const ShapeProfile& shapes) {
    Inputs inputs(session, shapes);
    std::vector<std::string> left_out;
    bool has_tokens = false;
    const auto infos = session.inputs();
    for (const IoInfo& info : infos) {
      Role role = role_of(info.name);
      const bool kept = std::ranges::contains(session.state_pairs(), info.name, &StatePair::input);
      if (!info.type.is_tensor() || !info.type.has_rank()) role = Role::kOther;
      has_tokens = has_tokens || (role == Role::kTokens && !kept);
      if (kept || role != Role::kOther) left_out.push_back(info.name);
      inputs.roles_.push_back({role, kept});
    }
    if (!has_tokens)
      return fail(ErrorCode::kInvalidArgument,
                  "--decode: no input of the model is called as token ids are");
    inputs.others_ = CTXGEN_TRY(random_inputs(infos, left_out, shapes, 0));
    return inputs;
  }

  /// Gives the context all inputs but those of the state.
  Status set(RunContext& context, const Place& place) const {
    const auto infos = session_->inputs();
    for (std::size_t i = 0; i < infos.size(); ++i) {
      if (roles_[i].kept) continue;
      if (roles_[i].role != Role::kOther) {
        CTXGEN_CHECK(context.set_input(i, CTXGEN_TRY(make(infos[i], roles_[i].role, place))));
        continue;
      }
      const auto other = std::ranges::find(others_, infos[i].name, &NamedTensor::name);
      if (other != others_.end()) CTXGEN_CHECK(context.set_input(i, other->tensor));
    }
    return {};
  }

 private:
  struct RoleOf {
    Role role;
    bool kept;  // by the state
  };
  Inputs(const Session& session, const ShapeProfile& shapes)
      : session_(&session), shapes_(shapes), vocabulary_(vocabulary_of(session)) {}

  [[nodiscard]] Result<Tensor> make(const IoInfo& info, Role role, const Place& place) const {
    const std::int64_t total = place.past + place.fresh;
    Dims dims = CTXGEN_TRY(input_dims(info, shapes_));
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const bool last = axis + 1 == dims.size();
      if (role == Role::kLastKey || role == Role::kTotal) continue;
      const std::int64_t wanted = last && role == Role::kMask ? total : place.fresh;
      if (!last && (role != Role::kMask || axis + 2 != dims.size() || axis == 0)) continue;
      if (const Dim& dim = (*info.type.shape)[axis]; dim.is_fixed() && dim.value() != wanted)
        return fail(ErrorCode::kInvalidArgument,
                    "--decode: input \"{}\" is {}, {} tokens after {} need {} in its dimension {}",
                    info.name, info.type_text, place.fresh, place.past, wanted, axis);
      dims[axis] = wanted;
    }
    Tensor tensor = CTXGEN_TRY(Tensor::allocate(info.type.element, dims));
    switch (role) {
      case Role::kTokens:
        CTXGEN_CHECK(fill(tensor, info, 7 * place.past + 3, 7, vocabulary_));
        break;
      case Role::kPositions: CTXGEN_CHECK(fill(tensor, info, place.past, 1)); break;
      case Role::kLastKey: CTXGEN_CHECK(fill(tensor, info, total - 1, 0)); break;
      case Role::kTotal: CTXGEN_CHECK(fill(tensor, info, total, 0)); break;
      default: CTXGEN_CHECK(fill(tensor, info, 1, 0));
    }
    return tensor;
  }

  const Session* session_;
  ShapeProfile shapes_;
  std::int64_t vocabulary_;
  std::vector<RoleOf> roles_;  // by input
  std::vector<NamedTensor> others_;
};

Result<double> timed(RunContext& context) {
  const auto start = Clock::now();
  CTXGEN_CHECK(context.run());
  return milliseconds_since(start);
}

/// Bytes of what the products of a run read and write; a lookup reads a row of its table.
std::uint64_t product_bytes(std::span<const OpTiming> timings) {
  std::uint64_t bytes = 0;
  for (const OpTiming& op : timings)
    if (op.flops > 0 && op.kind != "attention") bytes += op.bytes;
  return bytes;
}

Status measure_steps(const Session& session, RunContext& context, const Inputs& inputs,
                     const DecodeRequest& decode, DecodeResult& result) {
  constexpr std::int64_t kWarmSteps = 2;
  std::vector<double> samples;
  PlanStatistics before;
  std::uint64_t allocated = 0;
  for (std::int64_t i = 0; i < decode.steps; ++i) {
    if (i == std::min(kWarmSteps, decode.steps - 1)) {
      before = session.plan_statistics();
      allocated = context.allocated_bytes();
    }
    CTXGEN_CHECK(inputs.set(context, {decode.prompt + i, 1}));
    const double ms = CTXGEN_TRY(timed(context));
    if (i == 0) result.first_step_ms = ms;
    if (i >= std::min(kWarmSteps, decode.steps - 1)) samples.push_back(ms);
  }
  result.plans = session.plan_statistics();
  result.plans_made = result.plans.made - before.made;
  result.primitives_made = result.plans.primitives_made - before.primitives_made;
  result.bytes_allocated = context.allocated_bytes() - allocated;
  std::ranges::sort(samples);
  result.step_min_ms = samples.front();
  result.step_p50_ms = percentile(samples, 0.5);
  result.step_p99_ms = percentile(samples, 0.99);
  result.step_max_ms = samples.back();
  constexpr double kSlow = 1.5;  // medians
  result.slow_steps = static_cast<std::uint64_t>(
      std::ranges::end(samples) - std::ranges::upper_bound(samples, kSlow * result.step_p50_ms));
  return {};
}

}  // namespace

Result<DecodeRequest> parse_decode(const std::string& text) {
  const std::string_view all = text;
  const std::size_t comma = all.find(',');
  return DecodeRequest{
      .prompt = CTXGEN_TRY(number_of(all.substr(0, comma), all)),
      .steps = CTXGEN_TRY(number_of(
          comma == std::string_view::npos ? std::string_view() : all.substr(comma + 1), all))};
}

Result<DecodeResult> measure_decode(const BenchRequest& request, const DecodeRequest& decode) {
  const auto profiles = CTXGEN_TRY(parse_profiles(request.flags.dims, request.flags.shapes));
  const OpenModel model =
      CTXGEN_TRY(open_model(request.model, request.flags, request.compile_flag));
  const Session& session = *model.session;
  const Inputs inputs =
      CTXGEN_TRY(Inputs::find(session, profiles.empty() ? ShapeProfile{} : profiles.front()));
  DecodeResult result;
  result.compile_ms = model.compile_ms;
  result.load_ms = model.load_ms;
  const auto pairs = session.state_pairs();
  result.pairs.assign(pairs.begin(), pairs.end());
  const auto state = CTXGEN_TRY(session.make_state());
  const auto context = CTXGEN_TRY(session.make_context());
  CTXGEN_CHECK(state->reserve(decode.prompt + decode.steps + 1));
  CTXGEN_CHECK(context->set_state(state.get()));
  CTXGEN_CHECK(inputs.set(*context, {0, decode.prompt}));
  result.first_prefill_ms = CTXGEN_TRY(timed(*context));
  CTXGEN_CHECK(state->reset());
  result.prefill_ms = CTXGEN_TRY(timed(*context));
  CTXGEN_CHECK(measure_steps(session, *context, inputs, decode, result));
  std::vector<OpTiming> timings;
  CTXGEN_CHECK(inputs.set(*context, {decode.prompt + decode.steps, 1}));
  CTXGEN_CHECK(context->run(&timings));
  for (std::size_t i = 0; i < pairs.size(); ++i)
    result.cache_bytes += CTXGEN_TRY(state->read(i)).tensor().bytes().size();
  result.cache_memory_bytes = state->size_bytes();
  result.step_bytes = product_bytes(timings) + result.cache_bytes;
  result.read_gbytes =
      CTXGEN_TRY(machine_peaks(request.flags.options.threads, result.step_bytes)).gbytes;
  result.nodes = session.statistics().nodes;
  result.partitions = session.statistics().partitions;
  return result;
}

}  // namespace ctxgen::cli
