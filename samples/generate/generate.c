/* Generates with a decoder: token ids in, token ids out.
 *
 *   generate MODEL [--steps N] [--top-k K] [--temperature T] [--seed S] [--stop ID] [--threads N] ID...
 *
 * The model takes input_ids [1, tokens], and where it has them attention_mask [1, past + tokens], position_ids [1, tokens] and
 * past_key_values; it gives logits [1, tokens, words]. Keys and values stay in a state: each run appends to them. --top-k 1, the default,
 * takes the likeliest token; more choose among so many by their weights, the same for the same seed. */
#include <ctxgen_runtime.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INT64 = 7, FLOAT = 1, MOST_TOKENS = 1 << 20, MOST_K = 1000 };

typedef struct options {
  const char* model;
  long steps, top_k, stop, threads;
  uint64_t seed;
  double temperature;
  int64_t* tokens; /* of the prompt, with room for `steps` more */
  size_t count;
} options;

typedef struct choice {
  int64_t token;
  double logit;
} choice;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "generate: %s: %s\n", what, why);
  exit(1);
}

/* Ends the program where a call failed. */
static void need(ctxgen_status* status, const char* what) {
  if (status != NULL) fail(what, ctxgen_status_message(status));
}

static void* memory(size_t count, size_t size) {
  void* bytes = calloc(count == 0 ? 1 : count, size);
  if (bytes == NULL) fail("memory", "there is not enough");
  return bytes;
}

/* ---- arguments ---------------------------------------------------------------------------- */

static long whole_number(const char* text, long least, long most, const char* what) {
  char* end = NULL;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != 0 || value < least || value > most)
    fail(what, "is not a whole number in its range");
  return value;
}

static double positive(const char* text, const char* what) {
  char* end = NULL;
  const double value = strtod(text, &end);
  if (end == text || *end != 0 || !(value > 0) || !isfinite(value))
    fail(what, "is not a positive number");
  return value;
}

static options read_arguments(int argc, char** argv) {
  options o = {.steps = 32, .top_k = 1, .stop = -1, .threads = 0, .seed = 1, .temperature = 1};
  if (argc < 3) {
    fputs(
        "usage: generate MODEL [--steps N] [--top-k K] [--temperature T] [--seed S] [--stop ID] [--threads N] ID...\n",
        stderr);
    exit(1);
  }
  o.model = argv[1];
  int at = 2;
  for (; at < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
    const char* name = argv[at];
    if (at + 1 == argc) fail(name, "needs a value");
    const char* value = argv[at + 1];
    if (strcmp(name, "--steps") == 0)
      o.steps = whole_number(value, 0, MOST_TOKENS, name);
    else if (strcmp(name, "--top-k") == 0)
      o.top_k = whole_number(value, 1, MOST_K, name);
    else if (strcmp(name, "--temperature") == 0)
      o.temperature = positive(value, name);
    else if (strcmp(name, "--seed") == 0)
      o.seed = (uint64_t)whole_number(value, 0, INT32_MAX, name);
    else if (strcmp(name, "--stop") == 0)
      o.stop = whole_number(value, 0, INT32_MAX, name);
    else if (strcmp(name, "--threads") == 0)
      o.threads = whole_number(value, 0, 1024, name);
    else
      fail(name, "is no option");
  }
  if (at == argc) fail("tokens", "give the ids of the prompt");
  o.count = (size_t)(argc - at);
  o.tokens = memory(o.count + (size_t)o.steps, sizeof *o.tokens);
  for (size_t i = 0; i < o.count; ++i)
    o.tokens[i] = whole_number(argv[at + (int)i], 0, INT32_MAX, "token id");
  return o;
}

/* ---- the model ---------------------------------------------------------------------------- */

typedef struct decoder {
  ctxgen_session* session;
  ctxgen_state* state;
  ctxgen_run_context* context;
  size_t ids, mask, positions, logits; /* SIZE_MAX: the model has no such input */
  int64_t *ones, *places;              /* of the whole text */
} decoder;

static size_t input_named(const ctxgen_session* session, const char* name) {
  for (size_t i = 0; i < ctxgen_session_input_count(session); ++i) {
    ctxgen_value_info info = {.struct_size = sizeof info};
    need(ctxgen_session_input(session, i, &info), "input");
    if (strcmp(info.name, name) != 0) continue;
    if (info.element_type != INT64) fail(name, "is not of int64");
    return i;
  }
  return SIZE_MAX;
}

static decoder open_decoder(const options* o) {
  decoder d = {0};
  ctxgen_session_options* settings = NULL;
  need(ctxgen_session_options_create(&settings), "options");
  need(ctxgen_session_options_set_threads(settings, (int)o->threads), "threads");
  need(ctxgen_session_options_add_state(settings, "auto"), "state");
  need(ctxgen_session_create_from_file(NULL, o->model, settings, &d.session), o->model);
  ctxgen_session_options_release(settings);
  d.ids = input_named(d.session, "input_ids");
  d.mask = input_named(d.session, "attention_mask");
  d.positions = input_named(d.session, "position_ids");
  if (d.ids == SIZE_MAX) fail(o->model, "has no input_ids");
  if (ctxgen_session_state_count(d.session) == 0)
    fail(o->model, "has no caches of keys and values");
  need(ctxgen_session_output_index(d.session, "logits", &d.logits), "logits");
  need(ctxgen_state_create(d.session, &d.state), "state");
  const size_t longest = o->count + (size_t)o->steps;
  need(ctxgen_state_reserve(d.state, (int64_t)longest), "state");
  need(ctxgen_run_context_create(d.session, &d.context), "context");
  need(ctxgen_run_context_set_state(d.context, d.state), "state");
  d.ones = memory(longest, sizeof *d.ones);
  d.places = memory(longest, sizeof *d.places);
  for (size_t i = 0; i < longest; ++i) {
    d.ones[i] = 1;
    d.places[i] = (int64_t)i;
  }
  return d;
}

static void close_decoder(decoder* d) {
  ctxgen_run_context_release(d->context);
  ctxgen_state_release(d->state);
  ctxgen_session_release(d->session);
  free(d->ones);
  free(d->places);
}

static void set_numbers(decoder* d, size_t input, const int64_t* numbers, size_t count) {
  if (input == SIZE_MAX) return;
  const int64_t dims[2] = {1, (int64_t)count};
  const ctxgen_tensor tensor = {.struct_size = sizeof tensor,
                                .type = INT64,
                                .rank = 2,
                                .dims = dims,
                                .data = numbers,
                                .size = count * sizeof *numbers};
  need(ctxgen_run_context_set_input(d->context, input, &tensor), "input");
}

/* The logits of the last of `count` tokens, which follow `past` others. Good until the next run. */
static const float* run(decoder* d, const int64_t* tokens, size_t count, size_t past,
                        size_t* words) {
  set_numbers(d, d->ids, tokens, count);
  set_numbers(d, d->mask, d->ones, past + count);
  set_numbers(d, d->positions, d->places + past, count);
  need(ctxgen_run_context_run(d->context), "run");
  ctxgen_tensor logits = {.struct_size = sizeof logits};
  need(ctxgen_run_context_output(d->context, d->logits, &logits), "logits");
  if (logits.type != FLOAT || logits.rank != 3 || logits.dims[1] < 1 || logits.dims[2] < 1)
    fail("logits", "are not float32 [1, tokens, words]");
  *words = (size_t)logits.dims[2];
  return (const float*)logits.data + (size_t)(logits.dims[1] - 1) * *words;
}

/* ---- choosing ----------------------------------------------------------------------------- */

/* splitmix64: a number from 0 to 1. */
static double random_share(uint64_t* state) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/* The `most` likeliest, likeliest first; of equal ones the first. NaN is never one. */
static size_t likeliest(const float* logits, size_t words, size_t most, choice* best) {
  size_t count = 0;
  for (size_t word = 0; word < words; ++word) {
    const double logit = logits[word];
    if (isnan(logit) || (count == most && logit <= best[count - 1].logit)) continue;
    size_t at = count < most ? count++ : most - 1;
    for (; at > 0 && best[at - 1].logit < logit; --at) best[at] = best[at - 1];
    best[at] = (choice){(int64_t)word, logit};
  }
  return count;
}

static int64_t choose(const float* logits, size_t words, const options* o, uint64_t* random) {
  choice best[MOST_K];
  const size_t count = likeliest(logits, words, (size_t)o->top_k, best);
  if (count == 0) fail("logits", "are not numbers");
  if (count == 1) return best[0].token;
  double weights[MOST_K], total = 0;
  for (size_t i = 0; i < count; ++i)
    total += weights[i] = exp((best[i].logit - best[0].logit) / o->temperature);
  double left = random_share(random) * total;
  size_t i = 0;
  while (i + 1 < count && left >= weights[i]) left -= weights[i++];
  return best[i].token;
}

int main(int argc, char** argv) {
  options o = read_arguments(argc, argv);
  decoder d = open_decoder(&o);
  uint64_t random = o.seed;
  size_t past = 0;
  for (long step = 0; step < o.steps; ++step) {
    size_t words = 0;
    const float* logits = run(&d, o.tokens + past, o.count - past, past, &words);
    past = o.count;
    const int64_t token = choose(logits, words, &o, &random);
    if (token == o.stop) break;
    o.tokens[o.count++] = token;
    printf("%s%lld", step == 0 ? "" : " ", (long long)token);
    fflush(stdout);
  }
  putchar('\n');
  close_decoder(&d);
  free(o.tokens);
  return 0;
}
