#include "ctxgen/onnx_lite/content_hash.h"

#include <cstring>
#include <forward_list>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/ctxfile/magic.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/onnx_lite/write_model.h"

#include "code_of.h"
#include "proto_builder.h"
#include "wire/rope.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::GraphParts;
using test::node;
using test::opset;
using test::Proto;

/// External data of the tests: what lies in each file.
const std::map<std::string, std::string> kFiles = {
    {"w.data", std::string(8, '\0') + std::string("\0\0\x80\x3f\0\0\0\x40", 8)}};

Result<std::span<const std::byte>> external(const ExternalDataRef& ref, std::uint64_t size,
                                            std::string_view) {
  const auto file = kFiles.find(ref.location);
  if (file == kFiles.end()) return fail(ErrorCode::kIoError, "no {}", ref.location);
  return as_bytes(file->second).subspan(ref.offset, size);
}

Result<Hash128> try_hash(const std::string& text) { return content_hash(as_bytes(text), external); }

Hash128 hash(const Proto& proto) {
  const auto found = try_hash(proto.str());
  EXPECT_EQ(code_of(found), test::kOk);
  return found.value_or(Hash128{});
}

/// y = Conv-like node of x and w, with a bit of everything.
GraphParts parts() {
  GraphParts all = test::relu_graph();
  all.nodes = {node("Odd", {"x", "w"}, {"m"},
                    {test::attr_int("a", 1), test::attr_ints("b", {1, 2})}, "test", "odd"),
               node("Relu", {"m"}, {"y"})};
  all.initializers = {test::floats("w", {2}, {1, 2})};
  return all;
}
Proto small_model() { return test::model(graph(parts()), {opset("", 18), opset("test", 1)}); }
Proto model_of(const GraphParts& all) {
  return test::model(graph(all), {opset("", 18), opset("test", 1)});
}

// ---- what does not change it ----------------------------------------------------------------------

TEST(ContentHash, TextsForPeopleDoNotCount) {
  GraphParts all = parts();
  all.nodes[0] = node("Odd", {"x", "w"}, {"m"},
                      {test::attr_int("a", 1).text(13, "doc"), test::attr_ints("b", {1, 2})},
                      "test", "another name")
                     .text(6, "doc");
  all.value_infos = {test::value_info("m", 1, {"n", "4"})};
  all.inputs[0].text(3, "doc");
  all.initializers[0].text(12, "doc");
  all.more = Proto().text(10, "doc").text(99, "unknown");
  Proto other = test::model(graph(all, "another name"), {opset("", 18), opset("test", 1)});
  other.text(3, "version").text(6, "doc").message(14, Proto().text(1, "k").text(2, "v"));
  EXPECT_EQ(hash(other), hash(small_model()));
}

TEST(ContentHash, OrderOfFieldsAndOfAttributesAndOpsetsDoesNotCount) {
  GraphParts all = parts();
  all.nodes[0] = Proto()
                     .text(7, "test")
                     .message(5, test::attr_ints("b", {1, 2}))
                     .text(2, "m")
                     .text(4, "Odd")
                     .text(1, "x")
                     .text(1, "w")
                     .message(5, Proto().varint(20, 2).varint(3, 1).text(1, "a"));
  Proto other;
  other.message(7, graph(all))
      .message(8, opset("test", 1))
      .message(8, opset("ai.onnx", 18))
      .message(8, opset("", 18))
      .varint(1, 9);
  EXPECT_EQ(hash(other), hash(small_model()));
}

TEST(ContentHash, TheFormOfNumbersDoesNotCount) {
  GraphParts all = parts();
  all.nodes[0] =
      node("Odd", {"x", "w"}, {"m"},
           {test::attr_int("a", 1), Proto().text(1, "b").packed(8, {1, 2}).varint(20, 7)}, "test");
  EXPECT_EQ(hash(model_of(all)), hash(small_model()));
  all.nodes[0] = node(
      "Odd", {"x", "w"}, {"m"},
      {Proto().text(1, "a").varint(3, 1), Proto().text(1, "b").varint(8, 1).varint(8, 2)}, "test");
  EXPECT_EQ(hash(model_of(all)), hash(small_model())) << "the type of an attribute left out";
}

Proto with_initializer(const Proto& tensor) {
  GraphParts all = parts();
  all.initializers = {tensor};
  return model_of(all);
}

TEST(ContentHash, WhereAndHowATensorIsStoredDoesNotCount) {
  const Hash128 expected = hash(small_model());
  EXPECT_EQ(hash(with_initializer(test::tensor("w", 1, {2}).real(4, 1).real(4, 2))), expected)
      << "float_data";
  EXPECT_EQ(hash(with_initializer(test::tensor("w", 1, {2}).raw<float>(4, {1, 2}))), expected)
      << "packed float_data";
  EXPECT_EQ(hash(with_initializer(
                Proto().packed(1, {2}).varint(2, 1).text(8, "w").raw<float>(9, {1, 2}))),
            expected)
      << "packed dims";
  const auto entry = [](std::string_view key, std::string_view value) {
    return Proto().text(1, key).text(2, value);
  };
  Proto outside = test::tensor("w", 1, {2});
  outside.message(13, entry("location", "w.data"))
      .message(13, entry("offset", "8"))
      .message(13, entry("length", "8"))
      .varint(14, 1);
  EXPECT_EQ(hash(with_initializer(outside)), expected) << "external data";

  EXPECT_EQ(hash(with_initializer(test::tensor("w", 3, {2}).raw<std::int8_t>(9, {-1, 7}))),
            hash(with_initializer(test::tensor("w", 3, {2}).packed(5, {-1, 7}))))
      << "int8 in int32_data";
  EXPECT_EQ(hash(with_initializer(test::tensor("w", 9, {2}).raw<std::int8_t>(9, {1, 0}))),
            hash(with_initializer(test::tensor("w", 9, {2}).packed(5, {5, 0}))))
      << "bool in int32_data";
}

TEST(ContentHash, AContextBinaryInsideCountsByItsSize) {
  const auto embedded = [](const std::string& payload, std::string_view domain = "com.microsoft") {
    GraphParts all = test::relu_graph();
    all.nodes = {node("EPContext", {"x"}, {"y"},
                      {Proto().text(1, "ep_cache_context").text(4, payload).varint(20, 3)},
                      domain)};
    return hash(test::model(graph(all), {opset("", 18), opset("com.microsoft", 1)}));
  };
  const std::string magic(kContextMagic);
  EXPECT_EQ(embedded(magic + "abc"), embedded(magic + "xyz"));
  EXPECT_NE(embedded(magic + "abc"), embedded(magic + "ab"));
  EXPECT_NE(embedded("a_dnnl.bin"), embedded("b_dnnl.bin"));
  EXPECT_NE(embedded(magic + "abc", "test"), embedded(magic + "xyz", "test"))
      << "not an EPContext node";
}

// ---- what does ------------------------------------------------------------------------------------

TEST(ContentHash, WhatDecidesTheOutputsCounts) {
  std::map<std::string, GraphParts> others;
  const auto change = [&others](const std::string& what) -> GraphParts& {
    return others[what] = parts();
  };
  change("operator").nodes[1] = node("Sigmoid", {"m"}, {"y"});
  change("domain").nodes[1] = node("Relu", {"m"}, {"y"}, {}, "test");
  change("overload").nodes[1] = node("Relu", {"m"}, {"y"}).text(8, "o");
  change("input").nodes[1] = node("Relu", {"x"}, {"y"});
  change("absent input").nodes[0] = node(
      "Odd", {"x", "", "w"}, {"m"}, {test::attr_int("a", 1), test::attr_ints("b", {1, 2})}, "test");
  change("output").nodes[1] = node("Relu", {"m"}, {"z"});
  change("attribute").nodes[1] = node("Relu", {"m"}, {"y"}, {test::attr_float("alpha", 0.5F)});
  change("value").nodes[1] = node("Relu", {"m"}, {"y"}, {test::attr_float("alpha", 0.25F)});
  change("kind").nodes[1] = node("Relu", {"m"}, {"y"}, {test::attr_int("alpha", 0)});
  change("reference").nodes[1] = node("Relu", {"m"}, {"y"}, {test::attr_ref("alpha", "beta", 1)});
  change("tensor attribute").nodes[1] =
      node("Relu", {"m"}, {"y"}, {test::attr_tensor("t", test::floats("", {1}, {1}))});
  change("its content").nodes[1] =
      node("Relu", {"m"}, {"y"}, {test::attr_tensor("t", test::floats("", {1}, {2}))});
  change("body").nodes[1] =
      node("Relu", {"m"}, {"y"}, {test::attr_graph("g", graph(test::relu_graph()))});
  change("in a body").nodes[1] =
      node("Relu", {"m"}, {"y"}, {test::attr_graph("g", graph(parts()))});
  std::ranges::reverse(change("order of nodes").nodes);
  change("bits of an initializer").initializers = {test::floats("w", {2}, {1, -2})};
  change("dims").initializers = {test::floats("w", {2, 1}, {1, 2})};
  change("type").initializers = {test::tensor("w", 6, {2}).raw<float>(9, {1, 2})};
  change("name").initializers = {test::floats("v", {2}, {1, 2})};
  change("strings").initializers = {test::tensor("w", 8, {2}).text(6, "ab").text(6, "c")};
  change("other strings").initializers = {test::tensor("w", 8, {2}).text(6, "a").text(6, "bc")};
  change("name of an input").inputs = {test::value_info("z", 1, {"n", "4"})};
  change("type of an input").inputs = {test::value_info("x", 10, {"n", "4"})};
  change("dim").inputs = {test::value_info("x", 1, {"n", "5"})};
  change("symbol").inputs = {test::value_info("x", 1, {"k", "4"})};
  change("unknown dim").inputs = {test::value_info("x", 1, {"?", "4"})};
  change("rank").outputs = {test::value_info("y", 1, {"n"})};
  std::map<Hash128, std::string> seen = {{hash(small_model()), "unchanged"}};
  for (const auto& [what, all] : others) {
    const auto [place, is_new] = seen.emplace(hash(model_of(all)), what);
    EXPECT_TRUE(is_new) << what << " and " << place->second;
  }
  const auto expect_new = [&seen](const Proto& proto, const std::string& what) {
    EXPECT_TRUE(seen.emplace(hash(proto), what).second) << what;
  };
  expect_new(test::model(graph(parts()), {opset("", 17), opset("test", 1)}), "opset");
  expect_new(test::model(graph(parts()), {opset("", 18), opset("test", 1)}, 8), "IR version");
  const auto with_function = [](std::string_view op) {
    return small_model().message(25,
                                 test::function("F", {"a"}, {"b"}, {}, {node(op, {"a"}, {"b"})}));
  };
  expect_new(with_function("Relu"), "function");
  expect_new(with_function("Abs"), "node of a function");
}

TEST(ContentHash, OfWhatIsNoModel) {
  EXPECT_EQ(code_of(try_hash("no model at all")), ErrorCode::kInvalidGraph);
  Proto deep = graph(test::relu_graph());
  for (int i = 0; i < 40; ++i) {
    GraphParts outer = test::relu_graph();
    outer.nodes = {node("If", {"x"}, {"y"}, {test::attr_graph("g", deep)})};
    deep = graph(outer);
  }
  EXPECT_EQ(code_of(try_hash(test::model(deep).str())), ErrorCode::kResourceLimit);
  const std::string whole = small_model().str();
  for (std::size_t n = 0; n < whole.size(); ++n) static_cast<void>(try_hash(whole.substr(0, n)));
}

// ---- before it is written ----------------------------------------------------------------------------

std::string write(const Model& model, const ModelRewrite& rewrite) {
  std::string out;
  EXPECT_EQ(code_of(write_model(model, rewrite,
                                [&out](auto part) -> Status {
                                  out += as_text(part);
                                  return {};
                                })),
            test::kOk);
  return out;
}

TEST(ContentHash, OfARewriteIsThatOfItsBytes) {
  GraphParts all = parts();
  all.initializers.push_back(
      test::floats("big", {2048}, std::vector<float>(2048, 3)));  // written aligned
  const Model model = read_model(model_of(all).blob(), {}).value();
  ModelRewrite rewrite = identity_rewrite(model);
  rewrite.needs_microsoft_opset = true;
  rewrite.metadata = {{"k", "v"}};
  const Hash128 inlined = content_hash(model, rewrite).value();
  EXPECT_EQ(inlined, try_hash(write(model, rewrite)).value());

  rewrite.external_location = "w.data";
  rewrite.external.emplace(model.graph.find("w"), ExternalPlace{8, 8});
  EXPECT_EQ(content_hash(model, rewrite).value(), inlined)
      << "where initializers lie does not count";
  EXPECT_EQ(try_hash(write(model, rewrite)).value(), inlined);
}

TEST(ContentHash, WhatAFileRecords) {
  const Model model = read_model(small_model().blob(), {}).value();
  EXPECT_FALSE(recorded_content(model.source.bytes).value());
  ModelRewrite rewrite = identity_rewrite(model);
  rewrite.metadata = {{std::string(kContentHashKey), std::string(32, 'a')}};
  const std::string written = write(model, rewrite);
  const auto recorded = recorded_content(as_bytes(written)).value();
  ASSERT_TRUE(recorded);
  EXPECT_EQ(recorded->hash, std::string(32, 'a'));
  EXPECT_TRUE(recorded->as_written);

  Proto other =
      small_model().message(14, Proto().text(1, kContentHashKey).text(2, std::string(32, 'b')));
  const auto saved = recorded_content(as_bytes(other.str())).value();
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->hash, std::string(32, 'b'));
  EXPECT_FALSE(saved->as_written) << "its length is as short as can be";
}

// ---- ropes ---------------------------------------------------------------------------------------------

TEST(Rope, MessagesMayBePartedAnywhere) {
  const std::string text =
      Proto().varint(1, 1 << 20).text(2, std::string(300, 'x')).real(3, 0.5F).varint(4, -1).str();
  for (std::size_t run = 1; run <= text.size(); ++run) {
    Rope rope;
    for (std::size_t at = 0; at < text.size(); at += run)
      rope.add(as_bytes(text).subspan(at, std::min(run, text.size() - at)));
    RopeReader reader(rope, rope.whole());
    wire::Reader expected(as_bytes(text));
    std::forward_list<std::string> copies;
    RopeField field;
    while (reader.next(field)) {
      const wire::Field* wanted = expected.next();
      ASSERT_NE(wanted, nullptr);
      EXPECT_EQ(field.tag, wanted->tag);
      EXPECT_EQ(field.number, wanted->number);
      EXPECT_EQ(as_text(rope.bytes(field.body, copies)), wanted->text());
    }
    EXPECT_EQ(code_of(reader.status()), test::kOk);
    EXPECT_EQ(expected.next(), nullptr);
  }
}

TEST(Rope, MalformedMessagesEndTheWalk) {
  for (const std::string text : {"\x0a\x05\x61", "\x08", "\x0b", "\x02", "\x0d\x01\x02",
                                 "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                                 "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"}) {
    Rope rope;
    rope.add(as_bytes(text));
    RopeReader reader(rope, rope.whole());
    RopeField field;
    while (reader.next(field)) {
    }
    EXPECT_EQ(code_of(reader.status()), ErrorCode::kInvalidGraph);
  }
}

}  // namespace
}  // namespace ctxgen
