#include "ctxgen/kernels/attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "worst_error.h"

namespace ctxgen::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kUnit = std::numeric_limits<float>::epsilon();
constexpr float kSentinel = -77;

using Floats = std::vector<float>;

Floats numbers(std::int64_t n, float deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution(0, deviation);
  Floats list(static_cast<std::size_t>(n));
  for (float& x : list) x = distribution(generator);
  return list;
}

enum class Form { kRows, kHeads };  // [B, S, H, D] with a gap after each row, [B, H, S, D]

HeadStrides strides_of(Form form, std::int64_t heads, std::int64_t rows, std::int64_t size) {
  constexpr std::int64_t kGap = 3;
  if (form == Form::kRows)
    return {.image = rows * (heads * size + kGap), .head = size, .row = heads * size + kGap};
  return {.image = heads * rows * size, .head = rows * size, .row = size};
}

/// Inputs and the result of one call, in memory of its own.
struct Case {
  AttentionSizes sizes;
  Floats q, k, v, out, addends, by_distance, logits;
  std::vector<std::uint8_t> visible;
  std::vector<std::int64_t> position, lengths;
  Attention call;

  explicit Case(const AttentionSizes& s, Form form = Form::kRows, float deviation = 1) : sizes(s) {
    const HeadStrides q_strides = strides_of(form, s.heads, s.queries, s.size),
                      k_strides = strides_of(form, s.kv_heads, s.keys, s.size),
                      v_strides = strides_of(form, s.kv_heads, s.keys, s.value_size),
                      out_strides = strides_of(form, s.heads, s.queries, s.value_size);
    q = numbers(s.images * q_strides.image, deviation, 1);
    k = numbers(s.images * k_strides.image, deviation, 2);
    v = numbers(s.images * v_strides.image, 1, 3);
    out.assign(static_cast<std::size_t>(s.images * out_strides.image), kSentinel);
    call = {.sizes = s,
            .q = q.data(),
            .k = k.data(),
            .v = v.data(),
            .q_strides = q_strides,
            .k_strides = k_strides,
            .v_strides = v_strides,
            .out = out.data(),
            .out_strides = out_strides,
            .scale = 1 / std::sqrt(static_cast<float>(s.size)),
            .bias = {}};
  }
  Case(const Case&) = delete;

  void add_bias(bool numbers_of_it, std::int64_t images, std::int64_t heads, std::int64_t queries) {
    const std::int64_t keys = sizes.keys;
    const Floats list = numbers(images * heads * queries * keys, 2, 4);
    call.bias = {.image = images == 1 ? 0 : heads * queries * keys,
                 .head = heads == 1 ? 0 : queries * keys,
                 .query = queries == 1 ? 0 : keys,
                 .key = 1};
    if (numbers_of_it) {
      addends = list;
      for (std::size_t i = 0; i < addends.size(); i += 5) addends[i] = -kInfinity;
      call.bias.addends = addends.data();
    } else {
      for (const float x : list) visible.push_back(x > 0 ? 1 : 0);
      call.bias.visible = visible.data();
    }
  }

  void add_distances(std::int64_t count, float deviation) {
    by_distance = numbers(sizes.heads * count, deviation, 5);
    call.distances = {by_distance.data(), count};
  }

  void show_logits(LogitStage stage) {
    logits.assign(static_cast<std::size_t>(sizes.images * sizes.heads * sizes.queries * sizes.keys),
                  kSentinel);
    call.logits = {logits.data(), stage};
  }

  void run(Workers& workers) {
    const auto bytes = attention_scratch_bytes(sizes);
    ASSERT_TRUE(bytes.has_value());
    constexpr std::align_val_t kAlignment{64};
    auto* scratch = static_cast<std::byte*>(::operator new(*bytes, kAlignment));
    std::memset(scratch, 0xff, *bytes);  // NaN: what is read must have been written
    call.scratch = scratch;
    attend(call, workers);
    ::operator delete(scratch, kAlignment);
  }
};

bool sees(const Case& c, std::int64_t image, std::int64_t query, std::int64_t key) {
  const std::int64_t position =
      (c.position.empty() ? 0 : c.position[static_cast<std::size_t>(image)]) + query;
  if (key >= (c.lengths.empty() ? c.sizes.keys : c.lengths[static_cast<std::size_t>(image)]))
    return false;
  if (c.call.causal && key > position) return false;
  return c.call.window <= 0 || position - key <= c.call.window;
}

struct Logit {
  double value, error;
};

/// A logit in double precision, and how far one in f32 may be from it.
Logit logit_of(const Case& c, std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t t,
               LogitStage stage = LogitStage::kCapped) {
  const Attention& a = c.call;
  const std::int64_t kv = h / (a.sizes.heads / a.sizes.kv_heads);
  const float* q = a.q + b * a.q_strides.image + h * a.q_strides.head + s * a.q_strides.row;
  const float* k = a.k + b * a.k_strides.image + kv * a.k_strides.head + t * a.k_strides.row;
  double sum = 0, terms = 0;
  for (std::int64_t e = 0; e < a.sizes.size; ++e) {
    sum += double{q[e]} * double{k[e]};
    terms += std::fabs(double{q[e]} * double{k[e]});
  }
  Logit logit{sum * double{a.scale}, 4 * kUnit * terms * std::fabs(double{a.scale})};
  if (stage == LogitStage::kProduct) return logit;
  const auto cap = [&] {
    if (a.softcap > 0) logit.value = double{a.softcap} * std::tanh(logit.value / double{a.softcap});
  };
  if (!a.sizes.whole) cap();
  const AttentionBias& bias = a.bias;
  const std::int64_t at = b * bias.image + h * bias.head + s * bias.query + t * bias.key;
  double addend = 0;
  if (bias.addends != nullptr) addend = double{bias.addends[at]};
  if (a.distances.addends != nullptr) {
    const std::int64_t position =
        (c.position.empty() ? 0 : c.position[static_cast<std::size_t>(b)]) + s;
    addend += double{
        a.distances.addends[h * a.distances.count +
                            std::clamp<std::int64_t>(position - t, 0, a.distances.count - 1)]};
  }
  if (bias.visible != nullptr && bias.visible[at] == 0) addend = -INFINITY;
  if (!sees(c, b, s, t)) addend = -INFINITY;
  if (addend == -INFINITY) logit = {addend, 0};
  if (addend != -INFINITY) {
    logit.value += addend;
    logit.error += kUnit * (std::fabs(logit.value) + std::fabs(addend) + double{a.softcap});
  }
  if (a.sizes.whole && stage == LogitStage::kCapped) cap();
  return logit;
}

/// Compares every element with double precision. An error of a logit changes its weight by as much.
void expect_exact(const Case& c, const std::string& what) {
  const Attention& a = c.call;
  const AttentionSizes& z = c.sizes;
  for (std::int64_t b = 0; b < z.images; ++b)
    for (std::int64_t h = 0; h < z.heads; ++h)
      for (std::int64_t s = 0; s < z.queries; ++s) {
        std::vector<Logit> logits;
        const double extra = a.sinks != nullptr ? double{a.sinks[h]} : a.extra_zero ? 0 : -INFINITY;
        double most = extra;
        for (std::int64_t t = 0; t < z.keys; ++t) {
          logits.push_back(logit_of(c, b, h, s, t));
          most = std::max(most, logits.back().value);
        }
        double weights = extra == -INFINITY ? 0 : std::exp(extra - most), error = 0;
        for (Logit& logit : logits) {
          if (logit.value + logit.error > most - 1000) error = std::max(error, logit.error);
          logit.value = most == -INFINITY ? 0 : std::exp(logit.value - most);
          weights += logit.value;
        }
        const std::int64_t kv = h / (z.heads / z.kv_heads);
        for (std::int64_t e = 0; e < z.value_size; ++e) {
          double sum = 0, terms = 0;
          for (std::int64_t t = 0; t < z.keys; ++t) {
            const float x =
                a.v[b * a.v_strides.image + kv * a.v_strides.head + t * a.v_strides.row + e];
            const double weight =
                weights == 0 ? 0 : logits[static_cast<std::size_t>(t)].value / weights;
            sum += weight * double{x};
            terms += weight * std::fabs(double{x});
          }
          const float got =
              a.out[b * a.out_strides.image + h * a.out_strides.head + s * a.out_strides.row + e];
          test::note_error(double{got} - sum, (1 + error / kUnit) * terms);
          ASSERT_NEAR(double{got}, sum, (16 * kUnit + 2 * error) * terms + 1e-30)
              << what << ": image " << b << " head " << h << " query " << s << " element " << e;
        }
      }
}

/// The same for logits that are a result. An error of a logit changes its weight by as much.
void expect_exact_logits(const Case& c, const std::string& what) {
  const AttentionSizes& z = c.sizes;
  const LogitStage stage = c.call.logits.stage;
  std::size_t at = 0;
  for (std::int64_t b = 0; b < z.images; ++b)
    for (std::int64_t h = 0; h < z.heads; ++h)
      for (std::int64_t s = 0; s < z.queries; ++s) {
        std::vector<Logit> row;
        double most = -INFINITY, sum = 0, error = 0;
        for (std::int64_t t = 0; t < z.keys; ++t) {
          row.push_back(logit_of(c, b, h, s, t, std::min(stage, LogitStage::kCapped)));
          most = std::max(most, row.back().value);
          error = std::max(error, row.back().error);
        }
        for (const Logit& logit : row) sum += std::exp(logit.value - most);
        for (const Logit& logit : row) {
          const double got = double{c.logits[at++]};
          if (stage == LogitStage::kWeight) {
            const double weight = most == -INFINITY ? 0 : std::exp(logit.value - most) / sum;
            ASSERT_NEAR(got, weight, (16 * kUnit + 2 * error) * weight + 1e-30) << what;
          } else if (logit.value == -INFINITY) {
            ASSERT_EQ(got, logit.value) << what;
          } else {
            ASSERT_NEAR(got, logit.value, 4 * logit.error + 4 * kUnit * std::fabs(logit.value))
                << what;
          }
        }
      }
}

void check(Case& c, const std::string& what) {
  OneThread one;
  c.run(one);
  expect_exact(c, what);
  if (!c.logits.empty()) expect_exact_logits(c, what);
  const Floats first = c.out;
  StartedThreads three(3);
  c.run(three);
  EXPECT_EQ(std::memcmp(first.data(), c.out.data(), first.size() * sizeof(float)), 0)
      << what << ": other results with three threads";
}

std::string name_of(const AttentionSizes& s) {
  return std::to_string(s.images) + "x" + std::to_string(s.heads) + "/" +
         std::to_string(s.kv_heads) + " " + std::to_string(s.queries) + "x" +
         std::to_string(s.keys) + " of " + std::to_string(s.size) + "/" +
         std::to_string(s.value_size);
}

TEST(Attend, IsCloseToDoublePrecision) {
  for (const Form form : {Form::kRows, Form::kHeads})
    for (const std::int64_t queries : {1, 3, 8, 9, 33, 64, 65, 130})
      for (const std::int64_t keys : {1, 5, 31, 128, 129, 200})
        for (const auto& [size, value_size] :
             {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 5}, {16, 64}, {64, 33}}) {
          Case c({1, 2, 2, queries, keys, size, value_size}, form);
          check(c, name_of(c.sizes));
        }
}

TEST(Attend, SharesKeysAmongHeads) {
  for (const auto& [heads, kv_heads] :
       {std::pair<std::int64_t, std::int64_t>{6, 2}, {8, 1}, {9, 3}, {12, 1}, {5, 5}})
    for (const std::int64_t queries : {1, 2, 30})
      for (const std::int64_t keys : {40, 530}) {
        Case c({2, heads, kv_heads, queries, keys, 24, 24}, Form::kHeads);
        check(c, name_of(c.sizes));
      }
}

TEST(Attend, HidesKeysByPlace) {
  for (const std::int64_t queries : {1, 4, 20, 70})
    for (const std::int64_t window : {0, 1, 17, 150}) {
      Case c({3, 4, 2, queries, 310, 16, 16});
      c.position = {310 - queries, 100, 0};
      c.lengths = {310, 100 + queries, queries / 2};
      c.call.position = c.position.data();
      c.call.lengths = c.lengths.data();
      c.call.causal = true;
      c.call.window = window;
      check(c, name_of(c.sizes) + " window " + std::to_string(window));
    }
}

TEST(Attend, AddsABiasOfAnyBroadcast) {
  for (const bool addends : {true, false})
    for (const std::int64_t queries : {1, 5, 50})
      for (const auto& [images, heads, rows] :
           {std::array<std::int64_t, 3>{2, 4, queries}, {1, 1, queries}, {2, 1, 1}, {1, 4, 1}}) {
        Case c({2, 4, 2, queries, 143, 8, 8});
        c.add_bias(addends, images, heads, rows);
        check(c, name_of(c.sizes) + (addends ? " addends " : " visible ") + std::to_string(images) +
                     "," + std::to_string(heads) + "," + std::to_string(rows));
      }
}

TEST(Attend, AddsWhatDistancesSay) {
  for (const AttentionSizes& s :
       {AttentionSizes{2, 4, 4, 1, 700, 16, 16}, AttentionSizes{1, 6, 2, 2, 300, 8, 8},
        AttentionSizes{2, 4, 4, 70, 331, 16, 16}, AttentionSizes{1, 6, 2, 33, 40, 8, 24}})
    for (const std::int64_t count : {1, 2, 7, 129, 900})
      for (const bool causal : {false, true}) {
        Case c(s);
        c.position.assign(static_cast<std::size_t>(s.images), s.keys - s.queries);
        c.position.back() = 0;
        c.call.position = c.position.data();
        c.call.causal = causal;
        c.add_distances(count, 3);
        check(c, name_of(s) + " of " + std::to_string(count) + " distances");
      }
}

/// What bias hides next to all logits may be seen for its distance.
TEST(Attend, ADistanceOutweighsABias) {
  Case c({1, 2, 2, 40, 200, 16, 16});
  c.add_bias(true, 1, 1, 40);
  for (float& x : c.addends) x = x == -kInfinity ? x : -160 - std::abs(x);
  c.add_distances(60, 1);
  for (float& x : c.by_distance) x = std::abs(x) * 60;
  c.position = {160};
  c.call.position = c.position.data();
  check(c, "bias and distances");
}

TEST(Attend, KeysBeyondTheBiasAreHidden) {
  for (const std::int64_t queries : {1, 40}) {
    Case c({1, 2, 2, queries, 90, 8, 8});
    c.add_bias(true, 1, 1, queries);
    Case shorter({1, 2, 2, queries, 90, 8, 8});
    shorter.add_bias(true, 1, 1, queries);
    shorter.call.bias.keys = 50;
    for (std::int64_t s = 0; s < queries; ++s)
      std::fill_n(c.addends.begin() + s * 90 + 50, 40, -kInfinity);
    check(c, "hidden");
    OneThread one;
    shorter.run(one);
    for (std::size_t i = 0; i < c.out.size(); ++i) EXPECT_NEAR(c.out[i], shorter.out[i], 1e-5);
  }
}

/// Hides keys of a query with `hidden` (0 in bytes): those after it (as a causal mask of values), the first ones of
/// padding, or all but a band.
enum class Shape { kCausal, kPadded, kBand };

void add_mask(Case& c, Shape shape, float hidden, bool bytes) {
  const AttentionSizes& s = c.sizes;
  const std::int64_t past = s.keys - s.queries;
  for (std::int64_t query = 0; query < s.queries; ++query)
    for (std::int64_t key = 0; key < s.keys; ++key) {
      const bool later = key > past + query, early = key < past + query - 20;
      const bool hides = shape == Shape::kCausal   ? later
                         : shape == Shape::kPadded ? key < 140 || key >= 170
                                                   : later || early;
      c.addends.push_back(hides ? hidden : 0);
      c.visible.push_back(hides ? 0 : 1);
    }
  c.call.bias = {.query = s.keys, .key = 1};
  if (bytes)
    c.call.bias.visible = c.visible.data();
  else
    c.call.bias.addends = c.addends.data();
}

TEST(Attend, MasksOfValuesHideWhatTheyHide) {
  for (const Shape shape : {Shape::kCausal, Shape::kPadded, Shape::kBand})
    for (const float hidden :
         {-kInfinity, std::numeric_limits<float>::lowest(), -1e4F, -300.0F, -20.0F})
      for (const float deviation : {1.0F, 12.0F})
        for (const std::int64_t queries : {17, 200}) {
          Case c({1, 4, 2, queries, 300, 16, 8}, Form::kRows, deviation);
          add_mask(c, shape, hidden, false);
          check(c,
                "hidden by " + std::to_string(hidden) + ", deviation " + std::to_string(deviation));
          if (HasFailure()) return;
        }
  for (const Shape shape : {Shape::kCausal, Shape::kPadded, Shape::kBand}) {
    Case c({1, 4, 2, 200, 300, 16, 8});
    add_mask(c, shape, 0, true);
    check(c, "hidden by bytes");
  }
}

TEST(Attend, AMaskOfFiniteValuesHidesNoNan) {
  for (const float bad : {kNan, kInfinity}) {
    Case c({1, 1, 1, 40, 290, 8, 8}, Form::kHeads);
    add_mask(c, Shape::kCausal, -1e4F, false);
    c.q.assign(c.q.size(), 1);
    c.k[289 * 8] = bad;
    OneThread one;
    c.run(one);
    for (const float x : c.out) EXPECT_TRUE(std::isnan(x));
  }
}

TEST(Attend, CapsLogitsAndAddsAZero) {
  for (const std::int64_t queries : {1, 3, 40})
    for (const bool zero : {false, true})
      for (const float cap : {0.0F, 0.5F, 30.0F}) {
        Case c({1, 3, 1, queries, 77, 32, 32}, Form::kRows, 3);
        c.call.softcap = cap;
        c.call.extra_zero = zero;
        c.add_bias(true, 1, 1, queries);
        check(c, name_of(c.sizes) + " cap " + std::to_string(cap));
      }
}

TEST(Attend, ShowsLogitsAndCapsTheirSums) {
  for (const LogitStage stage :
       {LogitStage::kProduct, LogitStage::kMasked, LogitStage::kCapped, LogitStage::kWeight})
    for (const std::int64_t queries : {1, 3, 40})
      for (const std::int64_t keys : {1, 77, 300})
        for (const float cap : {0.0F, 2.0F})
          for (const bool addends : {false, true}) {
            Case c({.images = 2,
                    .heads = 6,
                    .kv_heads = 2,
                    .queries = queries,
                    .keys = keys,
                    .size = 20,
                    .value_size = 24,
                    .whole = true},
                   addends ? Form::kRows : Form::kHeads, 2);
            c.call.softcap = cap;
            c.call.causal = addends;
            c.position = {keys / 2, 0};
            c.lengths = {keys, keys / 2};
            c.call.position = c.position.data();
            c.call.lengths = c.lengths.data();
            c.add_bias(addends, 1, 6, queries);
            if (keys == 77) c.add_distances(5, 1);
            c.show_logits(stage);
            check(c, name_of(c.sizes) + " stage " + std::to_string(static_cast<int>(stage)) +
                         " cap " + std::to_string(cap));
          }
}

/// A cap over the sums shows hidden keys again; without a cap a row without keys is zeros.
TEST(Attend, WholeRowsOfHiddenKeysAndOfNan) {
  OneThread one;
  Case c({.images = 1,
          .heads = 2,
          .kv_heads = 2,
          .queries = 5,
          .keys = 9,
          .size = 8,
          .value_size = 8,
          .whole = true},
         Form::kHeads);
  c.lengths = {0};
  c.call.lengths = c.lengths.data();
  c.show_logits(LogitStage::kWeight);
  c.run(one);
  EXPECT_EQ(c.out, Floats(c.out.size(), 0));
  EXPECT_EQ(c.logits, Floats(c.logits.size(), 0));
  c.call.softcap = 3;
  c.run(one);
  for (const float weight : c.logits) EXPECT_FLOAT_EQ(weight, 1.0F / 9);
  c.lengths = {9};
  c.call.softcap = 0;
  c.q[0] = kNan;
  c.run(one);
  for (std::size_t i = 0; i < c.out.size(); ++i) EXPECT_EQ(std::isnan(c.out[i]), i < 8) << i;
  c.q[0] = 0;
  c.addends = Floats(9, -std::numeric_limits<float>::max());
  c.call.bias = {.addends = c.addends.data(), .key = 1};
  c.run(one);
  for (const float weight : c.logits) EXPECT_FLOAT_EQ(weight, 1.0F / 9);
}

TEST(Attend, AddsASinkToEachHead) {
  const Floats sinks{-3.0F, 0.5F, 40.0F, -1e30F, 2.0F, 1e30F};
  for (const std::int64_t queries : {1, 3, 40})
    for (const std::int64_t keys : {0, 1, 77, 600})
      for (const float cap : {0.0F, 5.0F}) {
        Case c({2, 6, 2, queries, keys, 16, 24}, Form::kRows, 3);
        c.call.sinks = sinks.data();
        c.call.softcap = cap;
        check(c, name_of(c.sizes) + " cap " + std::to_string(cap));
      }
}

/// Integers of rows of floats, which become the numbers that the integers stand for.
struct Integers {
  std::vector<std::byte> bytes;
  Floats scales;
  QuantisedForm form;

  Integers(Floats& rows, std::int64_t size, std::int64_t heads, std::int64_t rows_of_head,
           const QuantisedForm& how)
      : scales(numbers(how.per_element ? heads * size : 1, 0.02F, 9)), form(how) {
    for (float& scale : scales) scale = 0.01F + std::fabs(scale);
    const std::int64_t count = std::ssize(rows) / size, width = form.row_bytes(size);
    bytes.resize(static_cast<std::size_t>(count * width));
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t head = r / rows_of_head % heads;
      const float* by = scales.data() + (form.per_element ? head * size : 0);
      std::byte* to = bytes.data() + r * width;
      quantise_row(form, by, size, rows.data() + r * size, to);
      for (std::int64_t e = 0; e < size; ++e) {
        const auto byte = static_cast<int>(to[form.bits == 4 ? e / 2 : e]);
        const int integer =
            form.bits == 4 ? (byte >> (e % 2 * 4) & 15) - 8 : static_cast<std::int8_t>(byte);
        rows[static_cast<std::size_t>(r * size + e)] =
            static_cast<float>(integer) * by[form.per_element ? e : 0];
      }
    }
  }
};

TEST(Attend, ReadsKeysAndValuesOfIntegers) {
  for (const QuantisedForm& form : {QuantisedForm{8, false}, QuantisedForm{8, true},
                                    QuantisedForm{4, false}, QuantisedForm{4, true}})
    for (const std::int64_t queries : {1, 4, 70})
      for (const auto& [size, value_size] :
           {std::pair<std::int64_t, std::int64_t>{1, 3}, {37, 64}, {64, 31}, {96, 128}}) {
        Case c({2, 4, 2, queries, 600, size, value_size}, Form::kHeads);
        const Integers k(c.k, size, 2, 600, form), v(c.v, value_size, 2, 600, form);
        c.call.window = queries == 4 ? 90 : 0;
        check(c, name_of(c.sizes));
        const Floats expected = c.out;
        c.sizes.quantised = c.call.sizes.quantised = true;
        c.call.integer_k = {k.bytes.data(), k.scales.data(), form};
        c.call.integer_v = {v.bytes.data(), v.scales.data(), form};
        c.call.k = c.call.v = nullptr;
        c.call.k_strides = strides_of(Form::kHeads, 2, 600, form.row_bytes(size));
        c.call.v_strides = strides_of(Form::kHeads, 2, 600, form.row_bytes(value_size));
        StartedThreads three(3);
        c.run(three);
        EXPECT_EQ(std::memcmp(expected.data(), c.out.data(), expected.size() * sizeof(float)), 0)
            << name_of(c.sizes) << " of " << form.bits << " bits";
      }
}

TEST(QuantiseRow, RoundsToEvenAndClamps) {
  const Floats from{0.5F, 1.5F, -2.5F, 1000, -1000, kNan, kInfinity, 0.2F, -0.6F};
  const float one = 1, zero = 0;
  std::byte bytes[9];
  for (const float* scale : {&one, &zero}) {
    quantise_row({.bits = 8}, scale, 9, from.data(), bytes);
    const std::int8_t expected[] = {0, 2, -2, 127, -128, 127, 127, 0, -1};
    for (std::size_t i = 0; i < 9; ++i)
      EXPECT_EQ(static_cast<std::int8_t>(bytes[i]), expected[i]) << i;
    quantise_row({.bits = 4}, scale, 9, from.data(), bytes);
    const int packed[] = {8 | 10 << 4, 6 | 15 << 4, 0 | 15 << 4, 15 | 8 << 4, 7 | 8 << 4};
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(static_cast<int>(bytes[i]), packed[i]) << i;
  }
}

/// Heads, groups, lengths, windows and masks as they come.
TEST(Attend, OfAnyForm) {
  constexpr unsigned kSeed = 20261126;
  std::mt19937 random(kSeed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int i = 0; i < 120; ++i) {
    const std::int64_t kv_heads = 1 + below(3), keys = 1 + below(1000), size = 1 + below(70);
    const std::int64_t queries = below(2) == 0 ? 1 + below(4) : 1 + below(90);
    Case c({1 + below(3), kv_heads * (1 + below(4)), kv_heads, queries, keys, size, 1 + below(70)},
           below(2) == 0 ? Form::kRows : Form::kHeads, below(4) == 0 ? 6.0F : 1.0F);
    c.call.causal = below(2) == 0;
    c.call.window = below(3) == 0 ? 1 + below(200) : 0;
    for (std::int64_t b = 0; b < c.sizes.images; ++b) {
      c.position.push_back(below(keys));
      c.lengths.push_back(below(4) == 0 ? 0 : below(keys + 1));
    }
    if (below(2) == 0) c.call.position = c.position.data();
    if (c.call.position == nullptr) c.position.clear();
    if (below(2) == 0) c.call.lengths = c.lengths.data();
    if (c.call.lengths == nullptr) c.lengths.clear();
    const std::int64_t bias = below(3);
    if (bias > 0)
      c.add_bias(bias == 1, below(2) == 0 ? 1 : c.sizes.images, below(2) == 0 ? 1 : c.sizes.heads,
                 below(2) == 0 ? 1 : queries);
    for (std::size_t at = 0; at < c.visible.size(); ++at)  // whole rows off
      if (at / static_cast<std::size_t>(keys) % 3 == 0) c.visible[at] = 0;
    check(c,
          "seed " + std::to_string(kSeed) + " case " + std::to_string(i) + ": " + name_of(c.sizes));
  }
}

TEST(Attend, TakesHugeLogits) {
  for (const std::int64_t queries : {1, 40}) {
    Case c({1, 2, 2, queries, 300, 16, 16}, Form::kRows, 3e3F);
    check(c, name_of(c.sizes));
  }
}

TEST(Attend, OfNothing) {
  OneThread one;
  for (const std::int64_t queries : {1, 40}) {
    Case no_keys({1, 2, 2, queries, 0, 8, 8}, Form::kHeads);
    no_keys.run(one);
    EXPECT_EQ(no_keys.out, Floats(no_keys.out.size(), 0));
    Case hidden({1, 2, 2, queries, 150, 8, 8}, Form::kHeads);
    hidden.lengths = {0};
    hidden.call.lengths = hidden.lengths.data();
    hidden.run(one);
    EXPECT_EQ(hidden.out, Floats(hidden.out.size(), 0));
    Case masked({1, 2, 2, queries, 150, 8, 8}, Form::kHeads);
    masked.addends = Floats(150, -kInfinity);
    masked.call.bias = {.addends = masked.addends.data(), .key = 1};
    masked.run(one);
    EXPECT_EQ(masked.out, Floats(masked.out.size(), 0));
    masked.call.extra_zero = true;
    masked.run(one);
    EXPECT_EQ(masked.out, Floats(masked.out.size(), 0));
  }
  Case no_queries({2, 2, 2, 0, 9, 8, 8});
  no_queries.run(one);
  Case no_images({0, 2, 2, 3, 9, 8, 8});
  no_images.run(one);
}

TEST(Attend, NanAndInfinityStayInTheirRows) {
  OneThread one;
  for (const float bad : {kNan, kInfinity})
    for (const std::int64_t queries : {1, 3, 40})
      for (const std::int64_t keys : {7, 290}) {
        const std::int64_t row = queries - 1;
        Case c({1, 1, 1, queries, keys, 8, 8}, Form::kHeads),
            clean({1, 1, 1, queries, keys, 8, 8}, Form::kHeads);
        c.k.assign(c.k.size(), 1);
        c.call.k = c.k.data();
        c.q[static_cast<std::size_t>(row * 8)] = bad;
        clean.k.assign(clean.k.size(), 1);
        c.run(one);
        clean.run(one);
        for (std::int64_t i = 0; i < queries * 8; ++i) {
          const auto at = static_cast<std::size_t>(i);
          if (i / 8 == row)
            EXPECT_TRUE(std::isnan(c.out[at])) << i;
          else
            EXPECT_EQ(c.out[at], clean.out[at]) << i;
        }
        // Hidden by the bias, a logit of NaN counts for nothing.
        c.q = clean.q;
        c.k = clean.k;
        c.k[0] = bad;
        c.addends = Floats(static_cast<std::size_t>(keys), 0);
        c.addends[0] = -kInfinity;
        c.call.q = c.q.data();
        c.call.k = c.k.data();
        c.call.bias = {.addends = c.addends.data(), .key = 1};
        c.run(one);
        for (const float x : c.out) EXPECT_FALSE(std::isnan(x));
      }
}

TEST(Attend, OneLogitOfNanIsEnough) {
  OneThread one;
  constexpr std::int64_t kKeys = 290;
  for (const float bad : {kNan, kInfinity, -kInfinity})
    for (const std::int64_t queries : {1, 12, 40, 70})
      for (const std::int64_t key : {0, 1, 63, 128, 288, 289}) {
        Case c({1, 1, 1, queries, kKeys, 8, 8}, Form::kHeads);
        for (float& x : c.q) x = std::fabs(x) + 0.1F;  // so that the logit is what the key is
        c.k[static_cast<std::size_t>(key * 8)] = bad;
        c.run(one);
        for (const float x : c.out)
          EXPECT_EQ(std::isnan(x), bad != -kInfinity) << bad << " of key " << key;
      }
}

TEST(Attend, CopiesOfSpreadKeysChangeNothing) {
  OneThread one;
  StartedThreads two(2);
  for (const auto& [queries, spread] :
       {std::pair<std::int64_t, std::int64_t>{260, 27}, {130, 1024}})
    for (const bool causal : {false, true}) {
      const AttentionSizes s{3, 4, 2, queries, 600, 16, 12};
      Case plain(s), copied(s);
      for (Case* c : {&plain, &copied}) {
        c->position = {600 - queries, 100, 0};
        c->lengths = {600, 100 + queries, 0};
        c->call.position = c->position.data();
        c->call.lengths = c->lengths.data();
        c->call.causal = causal;
      }
      copied.sizes.spread = copied.call.sizes.spread = spread;
      EXPECT_GT(*attention_scratch_bytes(copied.sizes), *attention_scratch_bytes(s));
      plain.run(one);
      copied.run(one);
      EXPECT_EQ(copied.out, plain.out);
      copied.run(two);
      EXPECT_EQ(copied.out, plain.out);
    }
  Case dense({1, 2, 2, 520, 300, 8, 8}, Form::kHeads),
      spread({1, 2, 2, 520, 300, 8, 8}, Form::kHeads);
  spread.sizes.spread = spread.call.sizes.spread = 16;
  dense.run(one);
  spread.run(one);
  EXPECT_EQ(spread.out, dense.out);
}

TEST(Attend, WritesNothingBesidesItsRows) {
  OneThread one;
  for (const std::int64_t queries : {1, 6, 35}) {
    Case c({2, 3, 1, queries, 21, 5, 5});
    c.run(one);
    const std::int64_t row = c.call.out_strides.row, used = 3 * 5;
    for (std::int64_t r = 0; r < 2 * queries; ++r)
      for (std::int64_t i = used; i < row; ++i)
        EXPECT_EQ(c.out[static_cast<std::size_t>(r * row + i)], kSentinel) << r;
  }
}

/// Keys and values that are made when they are read are each made once, before that.
TEST(Attend, ReadsWhatItsSourceMakes) {
  OneThread one;
  StartedThreads threads(4);
  for (const std::int64_t keys : {1, 63, 64, 65, 130, 700})
    for (const std::int64_t queries : {1, 2}) {
      const AttentionSizes sizes{2, 6, 2, queries, keys, 24, 20};
      ASSERT_TRUE(attends_by_chunks(sizes));
      Case there(sizes, Form::kHeads), made(sizes, Form::kHeads);
      there.run(one);
      std::ranges::fill(made.k, kNan);
      std::ranges::fill(made.v, kNan);
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(2 * 2 * keys));
      const auto make = [&](std::int64_t image, std::int64_t head, std::int64_t first,
                            std::int64_t end) {
        const std::int64_t row = (image * 2 + head) * keys;
        for (std::int64_t key = row + first; key < row + end; ++key) {
          ++calls[static_cast<std::size_t>(key)];
          std::copy_n(there.k.begin() + key * 24, 24, made.k.begin() + key * 24);
          std::copy_n(there.v.begin() + key * 20, 20, made.v.begin() + key * 20);
        }
      };
      const AttentionSource source{make, 1 << 20};
      made.call.source = &source;
      made.run(threads);
      EXPECT_EQ(made.out, there.out) << name_of(sizes);
      for (const auto& count : calls) EXPECT_EQ(count, 1);
    }
  EXPECT_FALSE(attends_by_chunks({1, 2, 2, 9, 10, 8, 8}));
  EXPECT_FALSE(attends_by_chunks({1, 2, 2, 0, 10, 8, 8}));
}

TEST(AttentionScratch, IsLinearAndBounded) {
  const auto of = [](std::int64_t queries, std::int64_t keys) {
    return attention_scratch_bytes({1, 12, 12, queries, keys, 64, 64}).value_or(0);
  };
  EXPECT_LE(of(4096, 4096), std::uint64_t{64} << 20U);
  EXPECT_EQ(of(4096, 4096), of(4096, 8192));
  EXPECT_LE(of(1, 8192), 2 * of(1, 4096));
  AttentionSizes spread{1, 12, 12, 4096, 4096, 64, 64};
  spread.spread = 768;
  EXPECT_EQ(attention_scratch_bytes(spread).value_or(0),
            of(4096, 4096) + 12 * 4096 * 128 * sizeof(float));
  constexpr std::int64_t kHuge = INT64_MAX / 2;
  EXPECT_FALSE(attention_scratch_bytes({kHuge, 1, 1, 1, 1, 1, 1}).has_value());
  EXPECT_FALSE(attention_scratch_bytes({1, kHuge, 1, kHuge, 1, 1, 1}).has_value());
  EXPECT_FALSE(attention_scratch_bytes({1, 1, 1, 1, kHuge, 1, kHuge}).has_value());
  constexpr std::int64_t kLarge = std::int64_t{1} << 38U;
  spread = {1 << 10, 1 << 10, 1 << 10, 4096, kLarge, 64, kLarge};
  spread.spread = 768;
  EXPECT_FALSE(attention_scratch_bytes(spread).has_value());
}

}  // namespace
}  // namespace ctxgen::kernels
