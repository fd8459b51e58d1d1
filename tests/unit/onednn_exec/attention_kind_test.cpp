#include <algorithm>
#include <cmath>
#include <format>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/ctxfile/op_rounding.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "program_maker.h"

// Kind attention: its inputs, its cache, what a run refuses. tests/unit/kernels has the numbers.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

template <class T>
Tensor list_of(DataType type, const std::vector<T>& values) {
  Tensor tensor = Tensor::allocate(type, {std::ssize(values)}).value();
  std::ranges::copy(std::as_bytes(std::span(values)), tensor.mutable_bytes().begin());
  return tensor;
}

/// Two images, four heads over two of keys, three queries and new keys of five after four past ones.
struct Form {
  Dims q = {2, 3, 20}, k = {2, 3, 10}, v = {2, 3, 10};
  Dims past = {2, 2, 4, 5};
  std::vector<std::int32_t> last = {6, 4};
  std::vector<std::int64_t> count = {};
  Dims bias = {}, cos = {}, distances = {};
  DataType bias_type = DataType::kFloat;
  std::vector<float> mask = {};  // the bias, if it has numbers
  std::string lengths = "last", rotary = {};
  std::vector<std::int64_t> total = {7};
  std::int64_t heads = 4, kv_heads = 2, window = 0;
  std::size_t outputs = 3;
  bool short_bias = false;
  DataType cache = DataType::kFloat;
  std::vector<Param> more = {};
};

Tensor numbers_as(DataType type, const Dims& dims, const std::vector<float>& numbers) {
  Tensor tensor = Tensor::allocate(type, dims).value();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (type == DataType::kFloat) tensor.mutable_elements<float>()[i] = numbers[i];
    if (type == DataType::kInt32)
      tensor.mutable_elements<std::int32_t>()[i] = static_cast<std::int32_t>(numbers[i]);
    if (type == DataType::kBool) tensor.mutable_bytes()[i] = std::byte{numbers[i] != 0};
  }
  return tensor;
}

Maker attention(const Form& form) {
  Maker maker(1);
  const auto input = [&](const Dims& dims) { return dims.empty() ? Operand{} : maker.input(dims); };
  std::vector<Operand> inputs(10);
  inputs[0] = input(form.q);
  inputs[1] = input(form.k);
  inputs[2] = input(form.v);
  for (const std::size_t i : {3, 4})
    inputs[i] = form.cache == DataType::kFloat
                    ? input(form.past)
                    : maker.input(Tensor::allocate(form.cache, form.past).value());
  if (!form.last.empty()) inputs[5] = maker.input(list_of(DataType::kInt32, form.last));
  if (!form.count.empty()) inputs[5] = maker.input(list_of(DataType::kInt64, form.count));
  if (!form.mask.empty())
    inputs[6] = maker.input(numbers_as(form.bias_type, form.bias, form.mask));
  else if (!form.bias.empty() && form.bias_type != DataType::kFloat)
    inputs[6] = maker.input(Tensor::allocate(form.bias_type, form.bias).value());
  else
    inputs[6] = input(form.bias);
  inputs[7] = input(form.cos);
  inputs[8] = input(form.cos);
  inputs[9] = input(form.distances);
  std::vector<Param> params{integer("heads", form.heads),
                            integer("kv_heads", form.kv_heads),
                            integer("window", form.window),
                            real("scale", 0.5),
                            integer("causal", 1),
                            text("lengths", form.lengths),
                            text("rotary", form.rotary),
                            ints("total", form.total),
                            integer("short_bias", form.short_bias ? 1 : 0)};
  params.insert(params.end(), form.more.begin(), form.more.end());
  const Operand out = maker.op(kind::kAttention, inputs, params);
  maker.output(out);
  ProgramOp& op = maker.program().ops.back();
  for (std::size_t i = 1; i < form.outputs; ++i) {
    const auto value = static_cast<std::uint32_t>(maker.program().values.size());
    maker.program().values.push_back(maker.program().values[out.index]);
    maker.program().values.back().type = form.cache;
    op.outputs.push_back(value);
    maker.output(Operand::value(value));
  }
  return maker;
}

/// Attention in double precision over keys and values [images, kv_heads, keys, size].
std::vector<double> expected_of(const Form& form, const Maker& maker_of, const Tensor& keys,
                                const Tensor& values) {
  Maker& maker = const_cast<Maker&>(maker_of);
  const auto q = maker.inputs()[0].elements<float>(), k = keys.elements<float>(),
             v = values.elements<float>();
  const std::int64_t rows = form.q[1], size = form.past[3], all = keys.dims()[2];
  std::vector<double> out;
  for (std::int64_t b = 0; b < form.q[0]; ++b)
    for (std::int64_t s = 0; s < rows; ++s)
      for (std::int64_t h = 0; h < form.heads; ++h) {
        const std::int64_t head = b * form.kv_heads + h / (form.heads / form.kv_heads);
        const std::int64_t position = form.last[static_cast<std::size_t>(b)] + 1 - rows + s;
        std::vector<double> weights;
        double sum = 0;
        for (std::int64_t t = 0; t <= position; ++t) {
          double product = 0;
          for (std::int64_t e = 0; e < size; ++e)
            product +=
                double{q[static_cast<std::size_t>((b * rows + s) * form.q[2] + h * size + e)]} *
                double{k[static_cast<std::size_t>((head * all + t) * size + e)]};
          weights.push_back(std::exp(0.5 * product));
          sum += weights.back();
        }
        for (std::int64_t e = 0; e < size; ++e) {
          double value = 0;
          for (std::int64_t t = 0; t <= position; ++t)
            value += weights[static_cast<std::size_t>(t)] / sum *
                     double{v[static_cast<std::size_t>((head * all + t) * size + e)]};
          out.push_back(value);
        }
      }
  return out;
}

TEST(ExecAttention, AppendsAndAttends) {
  const Form form;
  Maker maker = attention(form);
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  ASSERT_EQ(results->size(), 3U);
  EXPECT_EQ((*results)[0].dims(), (Dims{2, 3, 20}));
  for (const std::size_t i : {1, 2}) {
    ASSERT_EQ((*results)[i].dims(), (Dims{2, 2, 7, 5}));
    const auto present = (*results)[i].elements<float>();
    const auto added = maker.inputs()[i].elements<float>(),
               past = maker.inputs()[i + 2].elements<float>();
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t head = 0; head < 2; ++head)
        for (std::size_t t = 0; t < 7; ++t)
          for (std::size_t e = 0; e < 5; ++e) {
            const std::size_t kept = static_cast<std::size_t>(form.last[b]) + 1 - 3;
            const float expected = t < kept       ? past[((b * 2 + head) * 4 + t) * 5 + e]
                                   : t < kept + 3 ? added[(b * 3 + t - kept) * 10 + head * 5 + e]
                                                  : 0.0F;
            ASSERT_EQ(present[((b * 2 + head) * 7 + t) * 5 + e], expected);
          }
  }
  const std::vector<double> expected = expected_of(form, maker, (*results)[1], (*results)[2]);
  const auto found = (*results)[0].elements<float>();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(double{found[i]}, expected[i], 2e-6);
}

TEST(ExecAttention, GivesTheSameOnSeveralThreads) {
  for (const std::int64_t rows : {1, 80}) {
    Form form{
        .q = {1, rows, 512}, .k = {1, rows, 256}, .v = {1, rows, 256}, .past = {1, 4, 900, 64}};
    form.last = {static_cast<std::int32_t>(899 + rows)};
    form.total = {900 + rows};
    form.heads = 8;
    form.kv_heads = 4;
    Maker maker = attention(form);
    const Outputs one = compile_and_run(maker).value();
    const Packed packed = pack(maker, {maker.input_dims()}).value();
    const auto executable =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{2}, nullptr).value();
    EXPECT_EQ(run(*executable, maker.inputs()).value(), one);
  }
}

auto code_of_form(const Form& form) {
  Maker maker = attention(form);
  return code_of(compile_and_run(maker));
}

TEST(ExecAttention, FailsWhereALengthIsOutside) {
  EXPECT_EQ(code_of_form({}), ctxgen::test::kOk);
  // The past holds 4, the buffer 7, of which 3 are new.
  for (const std::int32_t last : {-1, 1, 7, 100, INT32_MAX, INT32_MIN})
    for (const bool first : {true, false})
      EXPECT_EQ(code_of_form({.last = {first ? last : 6, first ? 6 : last}}),
                ErrorCode::kInvalidArgument)
          << last;
  for (const std::int32_t last : {2, 6})
    EXPECT_EQ(code_of_form({.last = {last, 6}}), ctxgen::test::kOk);
  // Positions of a cache of 6: the last of the first image is 6.
  EXPECT_EQ(code_of_form({.cos = {7, 2}, .rotary = "halves"}), ctxgen::test::kOk);
  EXPECT_EQ(code_of_form({.cos = {6, 2}, .rotary = "halves"}), ErrorCode::kInvalidArgument);
}

TEST(ExecAttention, AFirstPromptHasNoPast) {
  for (const std::int32_t last : {INT32_MIN, 0, INT32_MAX})
    EXPECT_EQ(code_of_form({.past = {2, 2, 4, 5}, .last = {last, last}, .total = {3}}),
              ctxgen::test::kOk);
  EXPECT_EQ(code_of_form({.past = {}, .last = {2, 2}, .total = {3}}), ctxgen::test::kOk);
  EXPECT_EQ(code_of_form({.past = {2, 2, 0, 5}, .last = {2, 2}, .total = {3}}), ctxgen::test::kOk);
}

TEST(ExecAttention, CountsOfKeysAreClampedToWhatThereIs) {
  const Form plain{.past = {}, .last = {}, .lengths = "", .total = {}, .outputs = 1};
  Maker all = attention(plain);
  const Outputs expected = compile_and_run(all).value();
  Form counted = plain;
  counted.lengths = "count";
  counted.count = {INT64_MAX, 3};
  Maker maker = attention(counted);
  EXPECT_EQ(compile_and_run(maker).value(), expected);
  counted.count = {INT64_MIN, 0};
  Maker none = attention(counted);
  EXPECT_EQ(compile_and_run(none).value()[0], std::vector<float>(120, 0));
}

TEST(ExecAttention, RefusesWhatDoesNotFit) {
  const ErrorCode invalid = ErrorCode::kInvalidGraph;
  EXPECT_EQ(code_of_form({.q = {2, 3, 21}}), invalid);
  EXPECT_EQ(code_of_form({.q = {2, 20}}), invalid);
  EXPECT_EQ(code_of_form({.q = {3, 3, 20}}), invalid);
  EXPECT_EQ(code_of_form({.k = {}}), invalid);
  EXPECT_EQ(code_of_form({.k = {2, 2, 10}}), invalid);
  EXPECT_EQ(code_of_form({.k = {2, 3, 12}}), invalid);
  EXPECT_EQ(code_of_form({.past = {2, 2, 4, 6}}), invalid);
  EXPECT_EQ(code_of_form({.past = {2, 4, 5}}), invalid);
  EXPECT_EQ(code_of_form({.last = {6}}), invalid);
  EXPECT_EQ(code_of_form({.last = {}}), invalid);
  EXPECT_EQ(code_of_form({.total = {}}), invalid);
  EXPECT_EQ(code_of_form({.total = {2}}), invalid);
  EXPECT_EQ(code_of_form({.total = {-1}}), invalid);
  EXPECT_EQ(code_of_form({.total = {7, 7}}), invalid);
  EXPECT_EQ(code_of_form({.total = {std::int64_t{1} << 60}}), ErrorCode::kResourceLimit);
  EXPECT_EQ(code_of_form({.outputs = 1}), invalid);
  EXPECT_EQ(code_of_form({.outputs = 2}), invalid);
  EXPECT_EQ(code_of_form({.heads = 0}), invalid);
  EXPECT_EQ(code_of_form({.heads = -4}), invalid);
  EXPECT_EQ(code_of_form({.kv_heads = 3}), invalid);
  EXPECT_EQ(code_of_form({.kv_heads = 0}), invalid);
  EXPECT_EQ(code_of_form({.heads = std::int64_t{1} << 30}), invalid);
  EXPECT_EQ(code_of_form({.window = -1}), invalid);
  EXPECT_EQ(code_of_form({.cos = {9, 3}, .rotary = "halves"}), invalid);
  EXPECT_EQ(code_of_form({.cos = {9, 2}}), invalid);
  EXPECT_EQ(code_of_form({.rotary = "halves"}), invalid);
  EXPECT_EQ(code_of_form({.cos = {9, 2}, .rotary = "other"}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_form({.lengths = "other"}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_form({.past = {}, .lengths = "count", .total = {}, .outputs = 1}),
            ErrorCode::kUnsupported);  // of int32
  EXPECT_EQ(code_of_form({.bias = {3, 7}, .bias_type = DataType::kInt8}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_form({.outputs = 4}), invalid);
  EXPECT_EQ(code_of_form({.more = {text("logits", "masked")}}), invalid);
  EXPECT_EQ(code_of_form({.outputs = 4, .more = {text("logits", "other")}}),
            ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_form({.more = {integer("cap_sum", 1), integer("smooth", 1)}}), invalid);
  EXPECT_EQ(code_of_form({.more = {integer("bottom_right", 1)}}), invalid);  // with presents
  EXPECT_EQ(code_of_form({.k = {2, 2, 10},
                          .v = {2, 2, 10},
                          .past = {},
                          .last = {},
                          .lengths = "",
                          .total = {},
                          .outputs = 1,
                          .more = {integer("bottom_right", 1)}}),
            invalid);  // fewer keys than queries
  EXPECT_EQ(code_of_form({.past = {},
                          .last = {},
                          .lengths = "",
                          .total = {},
                          .outputs = 1,
                          .more = {integer("bottom_right", 1)}}),
            ctxgen::test::kOk);
}

TEST(ExecAttention, GivesLogitsOfAllKeys) {
  const Form form{.outputs = 4, .more = {text("logits", "weights")}};
  Maker maker = attention(form);
  const auto outputs = compile_and_run(maker).value();
  ASSERT_EQ(outputs[3].size(), 2U * 4 * 3 * 7);
  for (std::size_t row = 0; row < 24; ++row) {
    float sum = 0;
    for (std::size_t key = 0; key < 7; ++key) sum += outputs[3][row * 7 + key];
    EXPECT_NEAR(sum, 1, 1e-6) << row;
  }
  EXPECT_EQ(outputs[3][6], 0);  // a later key
}

Param reals(std::string name, std::size_t count, double value = 0.5) {
  return {std::move(name), SmallList<double>(std::vector<double>(count, value))};
}

TEST(ExecAttention, RefusesNormsThatDoNotFit) {
  const Param epsilon = real("norm_epsilon", 1e-6);
  const auto code = [](std::vector<Param> more) { return code_of_form({.more = std::move(more)}); };
  EXPECT_EQ(code({reals("q_norm", 5), reals("k_norm", 5), epsilon}), ctxgen::test::kOk);
  for (const std::size_t other : {0, 1, 4, 6, 4096}) {
    EXPECT_EQ(code({reals("q_norm", 5), reals("k_norm", other), epsilon}),
              ErrorCode::kInvalidGraph);
    EXPECT_EQ(code({reals("q_norm", other), reals("k_norm", other), epsilon}),
              ErrorCode::kInvalidGraph);
  }
  EXPECT_EQ(code({reals("q_norm", 5), reals("k_norm", 5)}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code({epsilon}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_form({.past = {},
                          .lengths = "",
                          .total = {},
                          .outputs = 1,
                          .more = {reals("q_norm", 5), reals("k_norm", 5), epsilon}}),
            ErrorCode::kInvalidGraph);
}

TEST(ExecAttention, MasksOfKeysAreOfAllSequences) {
  const auto code = [](const Dims& dims, double value, DataType type = DataType::kInt32) {
    return code_of_form({.bias = dims, .bias_type = type, .more = {real("mask_value", value)}});
  };
  for (const Dims& dims :
       {Dims{2, 7}, Dims{2, 1}, Dims{2, 1, 1, 7}, Dims{1, 1, 1, 7}, Dims{2, 1, 1, 1}})
    EXPECT_EQ(code(dims, -1e4), ctxgen::test::kOk) << to_string(dims);
  for (const Dims& dims :
       {Dims{7}, Dims{1, 7}, Dims{3, 7}, Dims{2, 6}, Dims{2, 8}, Dims{2, 0}, Dims{2, 1, 7},
        Dims{2, 4, 1, 7}, Dims{2, 1, 3, 7}, Dims{3, 1, 1, 7}, Dims{2, 1, 1, 8}, Dims{}})
    EXPECT_EQ(code(dims, -1e4), ErrorCode::kInvalidGraph) << to_string(dims);
  for (const double value : {0.0, 1.0, std::nan(""), -1e300, static_cast<double>(-INFINITY)})
    EXPECT_EQ(code({2, 7}, value), ErrorCode::kInvalidGraph) << value;
  for (const DataType type : {DataType::kFloat, DataType::kBool})
    EXPECT_EQ(code({2, 7}, -1e4, type), ctxgen::test::kOk);
  EXPECT_EQ(code({2, 7}, -1e4, DataType::kInt64), ErrorCode::kUnsupported);
  const auto longer = [](const Dims& dims) {
    return code_of_form({.bias = dims,
                         .bias_type = DataType::kBool,
                         .more = {real("mask_value", -1e4), integer("long_bias", 1)}});
  };
  for (const std::int64_t keys : {7, 8, 70})
    EXPECT_EQ(longer({2, 1, 1, keys}), ctxgen::test::kOk) << keys;
  for (const std::int64_t keys : {0, 1, 6})
    EXPECT_EQ(longer({2, 1, 1, keys}), ErrorCode::kInvalidGraph) << keys;
  EXPECT_EQ(code_of_form({.bias = {1, 7}, .bias_type = DataType::kInt32}), ErrorCode::kUnsupported);
}

/// What a mask that hides keys with a number gives, where keys after a query have the same number: in float, as the nodes
/// add it.
std::vector<double> expected_of_mask(const Form& form, Maker& maker, const Tensor& keys,
                                     const Tensor& values, float hidden) {
  const auto q = maker.inputs()[0].elements<float>(), k = keys.elements<float>(),
             v = values.elements<float>();
  const std::int64_t rows = form.q[1], size = form.past[3], all = keys.dims()[2];
  std::vector<double> out;
  for (std::int64_t b = 0; b < form.q[0]; ++b)
    for (std::int64_t s = 0; s < rows; ++s)
      for (std::int64_t h = 0; h < form.heads; ++h) {
        const std::int64_t head = b * form.kv_heads + h / (form.heads / form.kv_heads);
        std::vector<float> logits;
        for (std::int64_t t = 0; t < all; ++t) {
          float product = 0;
          for (std::int64_t e = 0; e < size; ++e)
            product += q[static_cast<std::size_t>((b * rows + s) * form.q[2] + h * size + e)] *
                       k[static_cast<std::size_t>((head * all + t) * size + e)];
          const float kept = form.mask[static_cast<std::size_t>(
              (form.bias[0] == 1 ? 0 : b) * form.bias.back() + t)];
          logits.push_back(0.5F * product + (kept == 0 || t > form.past[2] + s ? hidden : 0.0F));
        }
        const double most = *std::ranges::max_element(logits);
        double sum = 0;
        for (const float logit : logits) sum += std::exp(logit - most);
        for (std::int64_t e = 0; e < size; ++e) {
          double value = 0;
          for (std::int64_t t = 0; t < all; ++t)
            value += std::exp(logits[static_cast<std::size_t>(t)] - most) / sum *
                     double{v[static_cast<std::size_t>((head * all + t) * size + e)]};
          out.push_back(value);
        }
      }
  return out;
}

TEST(ExecAttention, MasksAndLaterKeysHideOnce) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  // The second sequence hides all that its first two queries see, or all there is.
  const std::vector<float> some{1, 0, 1, 1, 1, 1, 1, 0, 5, 0, 0, 0, 0, 0, 0, 1, 1, 0};
  const std::vector<float> none{0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
  for (const auto& mask : {some, none})
    for (const DataType type : {DataType::kFloat, DataType::kBool, DataType::kInt32}) {
      const Form form{.last = {},
                      .bias = {2, 1, 1, 9},
                      .bias_type = type,
                      .mask = mask,
                      .lengths = "",
                      .total = {},
                      .more = {real("mask_value", kLowest), integer("finite_causal", 1),
                               integer("long_bias", 1)}};
      Maker maker = attention(form);
      const auto results = compile_and_run_typed(maker);
      ASSERT_TRUE(results) << results.error().message;
      const auto found = (*results)[0].elements<float>();
      const auto expected = expected_of_mask(form, maker, (*results)[1], (*results)[2], kLowest);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], 1e-5) << i << ", " << name_of(type);
    }
}

TEST(ExecAttention, RefusesCachesOfIntegersThatDoNotFit) {
  struct Kept {
    std::int64_t bits = 8, width = 5;
    std::size_t k_scales = 1, v_scales = 1;
    DataType type = DataType::kInt8;
  };
  const auto code = [](const Kept& kept) {
    return code_of_form(
        {.past = {2, 2, 4, kept.width},
         .cache = kept.type,
         .more = {integer("cache_bits", kept.bits), reals("k_scales", kept.k_scales),
                  reals("v_scales", kept.v_scales)}});
  };
  EXPECT_EQ(code({}), ctxgen::test::kOk);
  EXPECT_EQ(code({.k_scales = 10, .v_scales = 10}), ctxgen::test::kOk);
  EXPECT_EQ(code({.bits = 4, .width = 3, .type = DataType::kUint8}), ctxgen::test::kOk);
  for (const std::size_t scales : {0, 2, 5, 11})
    EXPECT_EQ(code({.k_scales = scales}), ErrorCode::kInvalidGraph) << scales;
  EXPECT_EQ(code({.k_scales = 10}), ErrorCode::kInvalidGraph);
  for (const std::int64_t bits : {std::int64_t{0}, std::int64_t{-8}, std::int64_t{16}})
    EXPECT_EQ(code({.bits = bits}), ErrorCode::kInvalidGraph) << bits;
  for (const std::int64_t width : {4, 6, 0}) {
    EXPECT_EQ(code({.width = width}), ErrorCode::kInvalidGraph) << width;
    EXPECT_EQ(code({.bits = 4, .width = width, .type = DataType::kUint8}),
              ErrorCode::kInvalidGraph);
  }
  for (const DataType type : {DataType::kFloat, DataType::kUint8})
    EXPECT_EQ(code({.type = type}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_form({.cache = DataType::kInt8}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_form({.more = {reals("k_scales", 1)}}), ErrorCode::kInvalidGraph);
}

TEST(ExecAttention, NewKeysMayHaveToBeAsManyAsQueries) {
  for (const std::int64_t rows : {2, 3, 4}) {
    const Form form{.k = {2, rows, 10},
                    .v = {2, rows, 10},
                    .last = {},
                    .lengths = "",
                    .total = {},
                    .more = {integer("same_rows", 1)}};
    Form any = form;
    any.more = {};
    EXPECT_EQ(code_of_form(any), ctxgen::test::kOk);
    if (rows == 3)
      EXPECT_EQ(code_of_form(form), ctxgen::test::kOk);
    else
      EXPECT_EQ(code_of_form(form), ErrorCode::kInvalidGraph);
  }
}

TEST(ExecAttention, DistancesAreOfAllHeads) {
  for (const Dims& dims : {Dims{4, 1}, Dims{4, 9}})
    EXPECT_EQ(code_of_form({.distances = dims}), ctxgen::test::kOk) << to_string(dims);
  for (const Dims& dims : {Dims{2, 9}, Dims{36}, Dims{4, 0}, Dims{1, 4, 9}})
    EXPECT_EQ(code_of_form({.distances = dims}), ErrorCode::kInvalidGraph) << to_string(dims);
}

TEST(ExecAttention, BiasesBroadcast) {
  for (const DataType type : {DataType::kFloat, DataType::kBool}) {
    const auto code = [&](const Dims& dims, bool shorter = false) {
      return code_of_form({.bias = dims, .bias_type = type, .short_bias = shorter});
    };
    for (const Dims& dims :
         {Dims{2, 4, 3, 7}, Dims{1, 1, 1, 7}, Dims{7}, Dims{3, 1}, Dims{4, 3, 7}, Dims{1}})
      EXPECT_EQ(code(dims), ctxgen::test::kOk) << to_string(dims);
    for (const Dims& dims :
         {Dims{3, 4, 3, 7}, Dims{2, 2, 3, 7}, Dims{2, 7}, Dims{6}, Dims{1, 2, 4, 3, 7}})
      EXPECT_EQ(code(dims), ErrorCode::kInvalidGraph) << to_string(dims);
    for (const Dims& dims : {Dims{6}, Dims{3, 1}, Dims{2, 4, 3, 7}})
      EXPECT_EQ(code(dims, true), ctxgen::test::kOk);
    EXPECT_EQ(code({8}, true), ErrorCode::kInvalidGraph);
  }
}

}  // namespace
}  // namespace ctxgen::onednn::test
