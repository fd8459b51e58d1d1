#include <algorithm>
#include <format>

#include <gmock/gmock.h>

#include "ctxgen/onednn/provider.h"

#include "reference.h"

// Attention in all spellings, against the CPU kernels.
namespace ctxgen::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kContrib = "com.microsoft";

Tensor ints_of(const std::vector<std::int32_t>& values) {
  Tensor tensor = Tensor::allocate(DataType::kInt32, {std::ssize(values)}).value();
  std::ranges::copy(values, tensor.mutable_elements<std::int32_t>().begin());
  return tensor;
}

/// Attends once as GenAI's decoders do, the total length taken from the dims of the mask.
struct GroupQuery {
  std::int64_t batch = 2, heads = 6, kv_heads = 2, size = 8, queries = 3, past = 5;
  std::int64_t present = 8;                 // total_sequence_length
  std::vector<std::int32_t> last = {7, 6};  // seqlens_k
  bool packed = false;
  std::string rotary = {};  // "", "halves", "neighbours"
  std::int64_t rotated = 8;
  std::vector<Attribute> more = {};
  bool symbolic = false, bias = false, sinks = false, norms = false;
  std::int64_t cache_bits = 0;  // 0: floats
  bool per_channel = false;
};

/// Scales so that some numbers are beyond the integers.
std::string scales_of(TestGraph& g, const GroupQuery& form) {
  const std::int64_t count = form.per_channel ? form.kv_heads * form.size : 1;
  Tensor scales = Tensor::allocate(DataType::kFloat, {1, count}).value();
  float scale = form.cache_bits == 4 ? 0.2F : 0.015F;
  for (float& one : scales.mutable_elements<float>()) one = scale *= 1.01F;
  return g.tensor_constant(std::move(scales));
}

void add_integer_caches(TestGraph& g, const GroupQuery& form, std::vector<std::string>& inputs) {
  inputs.resize(std::max<std::size_t>(inputs.size(), 14));
  const DataType type = form.cache_bits == 4 ? DataType::kUint8 : DataType::kInt8;
  const std::int64_t width = form.cache_bits == 4 ? (form.size + 1) / 2 : form.size;
  for (const std::size_t i : {3, 4})
    if (form.past > 0)
      inputs[i] = g.tensor_input(std::format("integers_{}", i),
                                 g.random_of(type, {form.batch, form.kv_heads, form.past, width}));
  for (const std::size_t i : {12, 13}) inputs[i] = scales_of(g, form);
}

std::vector<std::string> inputs_of(TestGraph& g, const GroupQuery& form) {
  const std::int64_t width = form.heads * form.size, kv_width = form.kv_heads * form.size;
  std::vector<std::string> inputs(9);
  inputs[0] = g.input("q", {form.batch, form.queries, width + (form.packed ? 2 * kv_width : 0)});
  if (!form.packed) {
    inputs[1] = g.input("k", {form.batch, form.queries, kv_width});
    inputs[2] = g.input("v", {form.batch, form.queries, kv_width});
  }
  if (form.past > 0 && form.cache_bits == 0) {
    inputs[3] = g.input("past_key", {form.batch, form.kv_heads, form.past, form.size});
    inputs[4] = g.input("past_value", {form.batch, form.kv_heads, form.past, form.size});
  }
  inputs[5] = g.tensor_input("seqlens_k", ints_of(form.last));
  const std::string mask = g.tensor_input(
      "mask", Tensor::allocate(DataType::kInt64, {form.batch, form.present}).value());
  if (form.symbolic) g.set_dims(mask, {"", "total"});
  if (form.symbolic && form.past > 0 && form.cache_bits == 0)
    for (const std::size_t i : {3, 4}) g.set_dims(inputs[i], {"", "", "past", ""});
  inputs[6] = g.add("Cast", {g.add("Gather", {g.add("Shape", {mask}), g.int_tensor({}, {1})})},
                    {attr("to", static_cast<std::int64_t>(DataType::kInt32))});
  if (!form.rotary.empty()) {
    inputs[7] = g.constant({20, form.rotated / 2});
    inputs[8] = g.constant({20, form.rotated / 2});
  }
  if (form.bias || form.sinks) inputs.resize(12);
  if (form.bias) inputs[10] = g.input("bias", {1, form.heads, form.queries, form.present});
  if (form.sinks) inputs[11] = g.constant({form.heads});
  if (form.norms) {
    inputs.resize(16);
    for (const std::size_t i : {14, 15}) inputs[i] = g.constant({form.size});
  }
  if (form.cache_bits > 0) add_integer_caches(g, form, inputs);
  return inputs;
}

void add_group_query(TestGraph& g, const GroupQuery& form) {
  std::vector<Attribute> attributes = form.more;
  attributes.push_back(attr("num_heads", form.heads));
  attributes.push_back(attr("kv_num_heads", form.kv_heads));
  if (form.cache_bits > 0) {
    const std::string type = form.per_channel ? "PER_CHANNEL" : "PER_TENSOR";
    for (const char* name : {"k_quant_type", "v_quant_type"})
      attributes.push_back(attr(name, type));
    attributes.push_back(attr("kv_cache_bit_width", form.cache_bits));
  }
  if (!form.rotary.empty()) {
    attributes.push_back(attr("do_rotary", 1));
    attributes.push_back(attr("rotary_interleaved", form.rotary == "neighbours" ? 1 : 0));
  }
  const std::string out =
      g.add_in(kContrib, "GroupQueryAttention", inputs_of(g, form), attributes, 1, 3);
  for (const ValueId id : g.model.graph.node(g.last_node()).outputs)
    g.output(g.model.graph.value(id).name);
}

void expect_same_attention(const GroupQuery& form) {
  TestGraph g(17);
  add_group_query(g, form);
  expect_same(g);
}

std::string refusal_of(const GroupQuery& form, bool total_of_dims = true) {
  TestGraph g(17);
  std::vector<std::string> inputs = inputs_of(g, form);
  if (!total_of_dims)
    inputs[6] = g.tensor_input("total", ints_of({static_cast<std::int32_t>(form.present)}));
  std::vector<Attribute> attributes = form.more;
  attributes.push_back(attr("num_heads", form.heads));
  attributes.push_back(attr("kv_num_heads", form.kv_heads));
  g.output(g.add_in(kContrib, "GroupQueryAttention", inputs, attributes, 1, 3));
  const auto capabilities = onednn::make_provider()->capabilities(g.view());
  EXPECT_TRUE(capabilities.has_value());
  for (const Rejection& rejection : capabilities->rejections)
    if (rejection.node == g.last_node()) return rejection.reason;
  return "";
}

TEST(DnnlAttention, GroupQueryOfAllForms) {
  for (const bool symbolic : {false, true})
    for (const bool packed : {false, true})
      for (const char* rotary : {"", "halves", "neighbours"}) {
        SCOPED_TRACE(
            std::format("symbolic {}, packed {}, rotary \"{}\"", symbolic, packed, rotary));
        expect_same_attention({.packed = packed, .rotary = rotary, .symbolic = symbolic});
        expect_same_attention({.batch = 1,
                               .queries = 1,
                               .past = 5,
                               .present = 6,
                               .last = {5},
                               .packed = packed,
                               .rotary = rotary,
                               .rotated = 4,
                               .symbolic = symbolic});
      }
}

TEST(DnnlAttention, GroupQueryWithBiasAndSinks) {
  for (const bool bias : {false, true})
    for (const bool sinks : {false, true})
      for (const std::int64_t past : {5, 12}) {
        SCOPED_TRACE(std::format("bias {}, sinks {}, past {}", bias, sinks, past));
        const GroupQuery form{.past = past, .rotary = "halves", .bias = bias, .sinks = sinks};
        expect_same_attention(form);
        GroupQuery one = form;
        one.queries = 1;
        one.present = 6;
        one.last = {5, 3};
        one.more = {attr("local_window_size", 2)};
        expect_same_attention(one);
      }
}

TEST(DnnlAttention, GroupQueryWithNormsOfHeads) {
  for (const bool packed : {false, true})
    for (const char* rotary : {"", "halves"})
      for (const std::int64_t queries : {1, 3}) {
        SCOPED_TRACE(std::format("packed {}, rotary \"{}\", {} queries", packed, rotary, queries));
        GroupQuery form{.queries = queries,
                        .present = 5 + queries,
                        .last = {static_cast<std::int32_t>(4 + queries), 3},
                        .packed = packed,
                        .rotary = rotary};
        form.norms = true;
        form.more = {attr("qk_norm_epsilon", 0.1F)};
        expect_same_attention(form);
      }
}

TEST(DnnlAttention, GroupQueryOverCachesOfIntegers) {
  for (const std::int64_t bits : {8, 4})
    for (const bool per_channel : {false, true})
      for (const std::int64_t size : {8, 37, 64})
        for (const std::int64_t queries : {1, 3, 20})
          for (const std::int64_t past : {0, 5, 300}) {
            SCOPED_TRACE(std::format("{} bits, per channel {}, size {}, {} queries, past {}", bits,
                                     per_channel, size, queries, past));
            expect_same_attention({.size = size,
                                   .queries = queries,
                                   .past = past,
                                   .present = past + queries,
                                   .last = {static_cast<std::int32_t>(past + queries - 1),
                                            static_cast<std::int32_t>(past == 0 ? 0 : queries)},
                                   .cache_bits = bits,
                                   .per_channel = per_channel});
          }
}

TEST(DnnlAttention, GroupQueryThatIsNotCausal) {
  GroupQuery form{.more = {attr("causal", 0)}};
  expect_same_attention(form);
  form.bias = true;
  expect_same_attention(form);
}

TEST(DnnlAttention, GroupQueryOfPromptsAndBuffers) {
  // A first prompt: the lengths do not count. A buffer longer than what is in it, some of it unused.
  expect_same_attention(
      {.queries = 4, .past = 0, .present = 4, .last = {3, 1}, .rotary = "halves"});
  expect_same_attention(
      {.queries = 4, .past = 9, .present = 4, .last = {3, 1}, .rotary = "halves"});
  expect_same_attention({.queries = 1, .past = 12, .present = 8, .last = {7, 3}});
  expect_same_attention({.queries = 1, .past = 12, .present = 14, .last = {12, 0}});
  expect_same_attention({.heads = 4,
                         .kv_heads = 4,
                         .size = 16,
                         .queries = 70,
                         .past = 150,
                         .present = 230,
                         .last = {219, 75}});
}

TEST(DnnlAttention, GroupQueryWithAttributes) {
  for (const std::int64_t queries : {1, 3, 20}) {
    GroupQuery form{
        .queries = queries,
        .past = 5,
        .present = 5 + queries,
        .last = {static_cast<std::int32_t>(4 + queries), static_cast<std::int32_t>(queries)}};
    form.more = {attr("local_window_size", 3)};
    expect_same_attention(form);
    form.more = {attr("softcap", 0.5F), attr("scale", 0.7F)};
    expect_same_attention(form);
    form.more = {attr("smooth_softmax", 1)};
    expect_same_attention(form);
    form.more = {attr("k_quant_type", std::string("NONE")), attr("qk_output", 0)};
    expect_same_attention(form);
  }
}

TEST(DnnlAttention, GroupQueryOfConstantLengths) {
  TestGraph g(17);
  const GroupQuery form;
  std::vector<std::string> inputs = inputs_of(g, form);
  inputs[5] = g.tensor_constant(ints_of(form.last));
  g.output(g.add_in(kContrib, "GroupQueryAttention", inputs,
                    {attr("num_heads", form.heads), attr("kv_num_heads", form.kv_heads)}, 1, 3));
  expect_same(g);
}

TEST(DnnlAttention, LayersShareTheirLengths) {
  TestGraph g(17);
  GroupQuery form{.symbolic = true};
  const std::vector<std::string> inputs = inputs_of(g, form);
  const std::vector<Attribute> attributes{attr("num_heads", form.heads),
                                          attr("kv_num_heads", form.kv_heads)};
  std::vector<std::string> next = inputs;
  for (int layer = 0; layer < 3; ++layer)
    next[0] = g.add("Tanh", {g.add_in(kContrib, "GroupQueryAttention", next, attributes, 1, 3)});
  g.output(next[0]);
  Program program;
  EXPECT_EQ(compiled_results(g, &program).size(), 1U);
  EXPECT_EQ(std::ranges::count(program.ops, "attention", &ProgramOp::kind), 3);
  expect_same(g);
}

TEST(DnnlAttention, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal_of({}), "");
  EXPECT_THAT(refusal_of({}, false), HasSubstr("shape input"));
}

struct Heads {
  std::int64_t batch = 2, heads = 4, kv_heads = 2, size = 8, queries = 5, keys = 9, past = 0;
  bool flat = true;
  std::int64_t opset = 24;
  std::size_t outputs = 0;  // 0: with the presents if there is a past
  std::vector<Attribute> attributes = {};
};

std::vector<std::string> heads_of(TestGraph& g, const Heads& form) {
  const auto dims = [&](std::int64_t heads, std::int64_t rows) {
    return form.flat ? Dims{form.batch, rows, heads * form.size}
                     : Dims{form.batch, heads, rows, form.size};
  };
  std::vector<std::string> inputs{g.input("q", dims(form.heads, form.queries)),
                                  g.input("k", dims(form.kv_heads, form.keys)),
                                  g.input("v", dims(form.kv_heads, form.keys))};
  inputs.resize(7);
  if (form.past > 0) {
    inputs[4] = g.input("past_key", {form.batch, form.kv_heads, form.past, form.size});
    inputs[5] = g.input("past_value", {form.batch, form.kv_heads, form.past, form.size});
  }
  return inputs;
}

/// `change` sets further inputs.
template <class Change>
void expect_same_heads(Heads form, const Change& change) {
  TestGraph g(form.opset);
  std::vector<std::string> inputs = heads_of(g, form);
  change(g, inputs);
  if (form.flat) {
    form.attributes.push_back(attr("q_num_heads", form.heads));
    form.attributes.push_back(attr("kv_num_heads", form.kv_heads));
  }
  g.add("Attention", inputs, form.attributes,
        form.outputs > 0 ? form.outputs
        : form.past > 0  ? 3
                         : 1);
  for (const ValueId id : g.model.graph.node(g.last_node()).outputs)
    g.output(g.model.graph.value(id).name);
  expect_same(g);
}

TEST(DnnlAttention, AttentionOfAllForms) {
  const auto nothing = [](TestGraph&, std::vector<std::string>&) {};
  for (const bool flat : {true, false})
    for (const std::int64_t past : {0, 6})
      for (const std::int64_t queries : {1, 5, 40}) {
        SCOPED_TRACE(std::format("flat {}, past {}, {} queries", flat, past, queries));
        expect_same_heads({.queries = queries, .past = past, .flat = flat}, nothing);
        expect_same_heads({.queries = queries,
                           .past = past,
                           .flat = flat,
                           .opset = 23,
                           .attributes = {attr("is_causal", 1), attr("scale", 0.4F)}},
                          nothing);
      }
  expect_same_heads({.attributes = {attr("softcap", 0.7F)}}, nothing);
}

TEST(DnnlAttention, AttentionWithMasks) {
  for (const std::int64_t queries : {1, 40})
    for (const Dims& dims :
         {Dims{2, 4, queries, 9}, Dims{1, 4, 1, 9}, Dims{queries, 9}, Dims{9}, Dims{queries, 1}}) {
      SCOPED_TRACE(std::format("{} queries, mask {}", queries, to_string(dims)));
      expect_same_heads({.queries = queries},
                        [&](TestGraph& g, auto& inputs) { inputs[3] = g.input("mask", dims); });
      expect_same_heads({.queries = queries, .attributes = {attr("is_causal", 1)}},
                        [&](TestGraph& g, auto& inputs) {
                          Tensor mask = Tensor::allocate(DataType::kBool, dims).value();
                          std::uint32_t bits = 0xB5B5ACE1;
                          for (std::byte& one : mask.mutable_bytes()) {
                            bits = bits * 1664525 + 1013904223;
                            one = static_cast<std::byte>(bits >> 31U);
                          }
                          inputs[3] = g.tensor_input("mask", std::move(mask));
                        });
    }
  // From opset 24 on a mask may be shorter than the keys, and keys may be counted.
  expect_same_heads({}, [](TestGraph& g, auto& inputs) { inputs[3] = g.input("mask", {5, 7}); });
  expect_same_heads({}, [](TestGraph& g, auto& inputs) {
    Tensor lengths = Tensor::allocate(DataType::kInt64, {2}).value();
    lengths.mutable_elements<std::int64_t>()[0] = 4;
    lengths.mutable_elements<std::int64_t>()[1] = 100;
    inputs[6] = g.tensor_input("lengths", std::move(lengths));
  });
}

TEST(DnnlAttention, AttentionsCapIsOverItsMask) {
  for (const std::int64_t past : {0, 6})
    for (const std::int64_t queries : {1, 40})
      expect_same_heads(
          {.queries = queries,
           .past = past,
           .attributes = {attr("softcap", 0.7F), attr("is_causal", 1)}},
          [&](TestGraph& g, auto& inputs) { inputs[3] = g.input("mask", {queries, past + 9}); });
}

TEST(DnnlAttention, AttentionGivesLogits) {
  for (const std::int64_t mode : {0, 1, 2, 3})
    for (const std::int64_t past : {0, 6})
      for (const bool flat : {true, false}) {
        SCOPED_TRACE(std::format("mode {}, past {}, flat {}", mode, past, flat));
        expect_same_heads(
            {.past = past,
             .flat = flat,
             .outputs = 4,
             .attributes = {attr("qk_matmul_output_mode", mode), attr("softcap", 0.7F)}},
            [&](TestGraph& g, auto& inputs) { inputs[3] = g.input("mask", {1, 4, 5, past + 9}); });
      }
}

TEST(DnnlAttention, AttentionGivesLogitsAlone) {
  TestGraph g(24);
  Heads form{.flat = false};
  g.add("Attention", heads_of(g, form), {attr("qk_matmul_output_mode", 2)}, 4);
  const auto outputs = g.model.graph.node(g.last_node()).outputs;
  g.output(g.model.graph.value(outputs[3]).name);
  expect_same(g);
}

TEST(DnnlAttention, MultiHeadOfAllForms) {
  for (const std::int64_t queries : {1, 20})
    for (const bool causal : {false, true})
      for (const bool crossed : {false, true})
        for (const std::int64_t past : {0, 5}) {
          SCOPED_TRACE(std::format("{} queries, causal {}, crossed {}, past {}", queries, causal,
                                   crossed, past));
          TestGraph g(17);
          const Dims kv = crossed ? Dims{2, 3, 7, 8} : Dims{2, 7, 24};
          std::vector<std::string> inputs{g.input("q", {2, queries, 24}), g.input("k", kv),
                                          g.input("v", kv)};
          inputs.resize(8);
          if (!crossed && causal) inputs[3] = g.constant({72});
          inputs[5] = g.input("bias", {1, 3, queries, past + 7});
          if (past > 0) {
            inputs[6] = g.input("past_key", {2, 3, past, 8});
            inputs[7] = g.input("past_value", {2, 3, past, 8});
          }
          g.add_in(kContrib, "MultiHeadAttention", inputs,
                   {attr("num_heads", 3), attr("unidirectional", causal ? 1 : 0)}, 1,
                   past > 0 ? 3 : 1);
          for (const ValueId id : g.model.graph.node(g.last_node()).outputs)
            g.output(g.model.graph.value(id).name);
          expect_same(g);
        }
}

/// Ones and zeros; the last sequence has no key.
std::string key_mask(TestGraph& g, std::int64_t batch, std::int64_t keys) {
  Tensor mask = Tensor::allocate(DataType::kInt32, {batch, keys}).value();
  std::int64_t i = 0;
  for (std::int32_t& one : mask.mutable_elements<std::int32_t>()) {
    one = i < (batch - 1) * keys && i % 3 != 1 ? 1 : 0;
    i += 1;
  }
  return g.tensor_input("mask", std::move(mask));
}

TEST(DnnlAttention, MultiHeadWithAMaskOfKeys) {
  for (const std::int64_t queries : {1, 20})
    for (const std::int64_t past : {0, 5}) {
      SCOPED_TRACE(std::format("{} queries, past {}", queries, past));
      TestGraph g(17);
      std::vector<std::string> inputs{g.input("q", {2, queries, 24}), g.input("k", {2, 7, 24}),
                                      g.input("v", {2, 7, 24})};
      inputs.resize(8);
      inputs[4] = key_mask(g, 2, past + 7);
      if (past > 0) {
        inputs[6] = g.input("past_key", {2, 3, past, 8});
        inputs[7] = g.input("past_value", {2, 3, past, 8});
      }
      g.add_in(kContrib, "MultiHeadAttention", inputs,
               {attr("num_heads", 3), attr("mask_filter_value", -3.0F)}, 1, past > 0 ? 3 : 1);
      for (const ValueId id : g.model.graph.node(g.last_node()).outputs)
        g.output(g.model.graph.value(id).name);
      expect_same(g);
    }
}

TEST(DnnlAttention, AttentionThatProjectsItsInput) {
  for (const std::int64_t rows : {1, 6, 40})
    for (const bool masked : {false, true})
      for (const bool causal : {false, true}) {
        SCOPED_TRACE(std::format("{} rows, masked {}, causal {}", rows, masked, causal));
        TestGraph g(17);
        std::vector<std::string> inputs{g.input("x", {2, rows, 10}), g.constant({10, 72}),
                                        g.constant({72})};
        inputs.resize(6);
        if (masked) inputs[3] = key_mask(g, 2, rows);
        if (!masked && causal) inputs[5] = g.input("bias", {1, 3, rows, rows});
        if (!masked && !causal) inputs[2].clear();
        g.output(g.add_in(kContrib, "Attention", inputs,
                          {attr("num_heads", 3), attr("unidirectional", causal ? 1 : 0),
                           attr("mask_filter_value", -3.0F)}));
        expect_same(g);
      }
}

}  // namespace
}  // namespace ctxgen::testing
