// Decodes greedily with a model of input_ids, attention_mask, perhaps position_ids, and logits:
//   decode_tokens MODEL HOW PROMPT STEPS [LOGITS]
// HOW  state     caches stay in a state
//      feedback  presents are given back as pasts
//      forks     eight threads fork a state, rewind and decode in their own way, again and again
//      states    a thousand states, forked and released at random
// LOGITS: a file for the last logits of each run, as bytes
// Prints a JSON object: the tokens, plans made and allocations from the third step on, how many
// more bytes are allocated when the states of `states` are gone, and what `forks` found.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <print>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ctxgen/runtime/session.h"

#include "need.h"

#ifdef CTXGEN_COUNTS_MALLOC
#include "counting_malloc.h"
#endif

using namespace ctxgen;

namespace {

using test::need;

using Tokens = std::vector<std::int64_t>;

std::FILE* logits_file = nullptr;

Tokens prompt_of(std::int64_t count) {
  Tokens tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back((i * 37 + 11) % 97);
  return tokens;
}

std::optional<std::size_t> find_input(const Session& session, std::string_view name) {
  const auto found = std::ranges::find(session.inputs(), name, &IoInfo::name);
  if (found == session.inputs().end()) return std::nullopt;
  return static_cast<std::size_t>(found - session.inputs().begin());
}

std::size_t input_of(const Session& session, std::string_view name) {
  const auto found = find_input(session, name);
  if (!found) std::exit(3);
  return *found;
}

/// Runs of one thread. Its memory is there before it decodes.
class Decoder {
 public:
  Decoder(const Session& session, std::size_t longest)
      : context_(need(session.make_context())),
        ids_(input_of(session, "input_ids")),
        mask_(input_of(session, "attention_mask")),
        positions_(find_input(session, "position_ids")),
        ones_(longest, 1),
        places_(longest) {
    std::iota(places_.begin(), places_.end(), 0);
  }

  RunContext& context() { return *context_; }

  /// The likeliest token after `tokens`, which follow `past` others.
  std::int64_t next(const Tokens& tokens, std::int64_t past) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    given_ = tokens;
    set(ids_, given_);
    set(mask_, std::span(ones_).first(static_cast<std::size_t>(past + count)));
    if (positions_)
      set(*positions_, std::span(places_).subspan(static_cast<std::size_t>(past), tokens.size()));
    need(context_->run());
    const Tensor& logits = context_->outputs()[0].tensor();
    const std::int64_t words = logits.dims().back();
    const float* last = reinterpret_cast<const float*>(logits.bytes().data()) + (count - 1) * words;
    if (logits_file != nullptr) std::fwrite(last, sizeof(float), words, logits_file);
    return std::max_element(last, last + words) - last;
  }

 private:
  void set(std::size_t input, std::span<const std::int64_t> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    need(context_->set_input(
        input, Tensor::borrow(DataType::kInt64, {1, count}, nullptr, std::as_bytes(values))));
  }

  std::unique_ptr<RunContext> context_;
  std::size_t ids_, mask_;
  std::optional<std::size_t> positions_;
  Tokens ones_, places_, given_;
};

struct Task {
  std::int64_t prompt, steps;
  [[nodiscard]] std::size_t longest() const { return static_cast<std::size_t>(prompt + steps + 1); }
};

/// `steps` tokens after a prompt that the state has already.
Tokens continue_from(Decoder& decoder, ModelState& state, std::int64_t token, std::int64_t past,
                     std::int64_t steps) {
  need(decoder.context().set_state(&state));
  Tokens tokens;
  for (std::int64_t i = 0; i < steps; ++i) {
    tokens.push_back(token);
    token = decoder.next({token}, past + i);
  }
  return tokens;
}

struct Counted {
  std::uint64_t plans = 0, allocations = 0;
  std::int64_t growth = 0;  // in bytes, of what stays allocated
};

/// Calls step(i) and counts from the third on.
template <class Step>
Counted counted(const Session& session, std::int64_t steps, const Step& step) {
  Counted result;
  for (std::int64_t i = 0; i < steps; ++i) {
    if (i == 2) {
      result.plans = session.plan_statistics().made;
#ifdef CTXGEN_COUNTS_MALLOC
      test::start_counting();
      (void)test::stop_counting();
      test::start_counting();
#endif
    }
    step(i);
  }
#ifdef CTXGEN_COUNTS_MALLOC
  const test::Counts counts = test::stop_counting();
  result.allocations = counts.ctxgen;
  for (const std::string& caller : counts.ctxgen_callers) std::println(stderr, "{}", caller);
#endif
  result.plans = session.plan_statistics().made - result.plans;
  return result;
}

void print(const Tokens& tokens, const Counted& result, bool agree = true) {
  std::string text;
  for (const std::int64_t token : tokens)
    text += (text.empty() ? "" : ", ") + std::to_string(token);
  std::println(
      "{{\"tokens\": [{}], \"plans\": {}, \"allocations\": {}, \"growth\": {}, \"agree\": {}}}",
      text, result.plans, result.allocations, result.growth, agree);
}

void with_state(const Session& session, const Task& task) {
  const auto state = need(session.make_state());
  need(state->reserve(task.prompt + task.steps));
  Decoder decoder(session, task.longest());
  need(decoder.context().set_state(state.get()));
  Tokens tokens{decoder.next(prompt_of(task.prompt), 0)};
  tokens.reserve(task.longest());
  Tokens one(1);
  const Counted result = counted(session, task.steps, [&](std::int64_t i) {
    one[0] = tokens.back();
    tokens.push_back(decoder.next(one, task.prompt + i));
  });
  if (state->length() != task.prompt + task.steps) std::exit(4);
  print(tokens, result);
}

void with_feedback(const Session& session, const Task& task) {
  Decoder decoder(session, task.longest());
  RunContext& context = decoder.context();
  const auto pairs = session.state_pairs();
  for (const StatePair& pair : pairs) {
    Dims dims;
    for (const Dim& dim : *session.inputs()[pair.input_index].type.shape)
      dims.push_back(dim.is_fixed() ? dim.value() : dims.empty() ? 1 : 0);
    need(context.set_input(pair.input_index, need(Tensor::allocate(DataType::kFloat, dims))));
  }
  Tokens tokens{decoder.next(prompt_of(task.prompt), 0)};
  const Counted result = counted(session, task.steps, [&](std::int64_t i) {
    for (const StatePair& pair : pairs)
      need(context.set_input(pair.input_index, context.outputs()[pair.output_index]));
    tokens.push_back(decoder.next({tokens.back()}, task.prompt + i));
  });
  print(tokens, result);
}

/// One thread of many: forks what has the prompt, decodes, rewinds, and decodes again.
bool fork_and_rewind(const Session& session, ModelState& prompted, std::int64_t first,
                     const Task& task, const Tokens& expected, std::atomic<bool>& busy) {
  Decoder decoder(session, task.longest());
  for (int round = 0; round < 3; ++round) {
    while (busy.exchange(true)) std::this_thread::yield();  // one call of a state at a time
    auto own = need(prompted.fork());
    busy = false;
    if (continue_from(decoder, *own, first, task.prompt, task.steps) != expected) return false;
    const std::int64_t half = task.steps / 2;
    need(own->rewind(task.prompt + half));
    const auto twin = need(own->fork());
    const std::int64_t token = expected[static_cast<std::size_t>(half)];
    const Tokens rest(expected.begin() + half, expected.end());
    if (continue_from(decoder, *own, token, task.prompt + half, task.steps - half) != rest ||
        continue_from(decoder, *twin, token, task.prompt + half, task.steps - half) != rest)
      return false;
    need(decoder.context().set_state(nullptr));
  }
  return true;
}

void with_forks(const Session& session, const Task& task) {
  const auto prompted = need(session.make_state());
  Decoder decoder(session, task.longest());
  need(decoder.context().set_state(prompted.get()));
  const std::int64_t first = decoder.next(prompt_of(task.prompt), 0);
  const auto straight = need(prompted->fork());
  const Tokens expected = continue_from(decoder, *straight, first, task.prompt, task.steps);
  std::atomic<bool> agree = true, busy = false;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        if (!fork_and_rewind(session, *prompted, first, task, expected, busy)) agree = false;
      });
  }
  print(expected, {}, agree);
}

/// Bytes that are allocated; 0 with a sanitizer's allocator.
std::int64_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

void with_states(const Session& session, const Task& task) {
  Decoder decoder(session, task.longest());
  auto prompted = need(session.make_state());
  need(decoder.context().set_state(prompted.get()));
  const std::int64_t first = decoder.next(prompt_of(task.prompt), 0);
  const Tokens expected =
      continue_from(decoder, *need(prompted->fork()), first, task.prompt, task.steps);
  std::mt19937 random(1);
  bool agree = true;
  const auto round = [&] {
    std::vector<std::unique_ptr<ModelState>> states(1000);
    for (int i = 0; i < 4000; ++i) {
      auto& one = states[random() % states.size()];
      one = i % 3 == 0 ? nullptr : need(prompted->fork());
      if (i % 500 != 0 || one == nullptr) continue;
      agree = agree && continue_from(decoder, *one, first, task.prompt, task.steps) == expected;
      need(decoder.context().set_state(nullptr));
    }
  };
  round();  // what it leaves in an allocator's caches is there for the others
  const std::int64_t before = allocated_bytes();
  for (int i = 0; i < 3; ++i) round();
  print(expected, {.growth = allocated_bytes() - before}, agree);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) return 2;
  if (argc == 6 && (logits_file = std::fopen(argv[5], "wb")) == nullptr) return 2;
  const Task task{.prompt = std::stoll(argv[3]), .steps = std::stoll(argv[4])};
  SessionOptions options;
  options.threads = 1;
  options.states = {"auto"};
  const auto session = need(Session::open(argv[1], options));
  const std::string_view how = argv[2];
  if (how == "state") with_state(*session, task);
  if (how == "feedback") with_feedback(*session, task);
  if (how == "forks") with_forks(*session, task);
  if (how == "states") with_states(*session, task);
  return logits_file == nullptr || std::fclose(logits_file) == 0 ? 0 : 3;
}
