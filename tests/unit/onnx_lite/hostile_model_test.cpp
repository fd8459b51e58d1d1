#include <random>

#include <gtest/gtest.h>

#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/onnx_lite/write_model.h"

#include "code_of.h"
#include "proto_builder.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::function;
using test::GraphParts;
using test::node;
using test::opset;
using test::Proto;

/// A small model with something of everything that has a reader.
std::string sample() {
  GraphParts then_branch;
  then_branch.nodes = {node("Neg", {"c"}, {"t"})};
  then_branch.initializers = {test::floats("unused", {1}, {1})};
  then_branch.outputs = {test::value_info("t", 1, {"?"})};
  GraphParts else_branch;
  else_branch.nodes = {node("Twice", {"x"}, {"e"}, {}, "local")};
  else_branch.outputs = {test::value_info("e", 1, {"?"})};

  GraphParts parts = test::relu_graph();
  parts.inputs.push_back(test::value_info("flag", 9, {}));
  parts.initializers = {test::int64s("i", {2}, {1, 2}),
                        test::tensor("packed", 7, {3}).packed(7, {1, -1, 300}),
                        test::tensor("s", 8, {2}).text(6, "a").text(6, "b")};
  parts.more = Proto().message(15, Proto()
                                       .message(1, test::floats("sparse", {2}, {7, 8}))
                                       .message(2, test::int64s("", {2}, {1, 5}))
                                       .varint(3, 6));
  parts.nodes = {
      node("Constant", {}, {"c"}, {test::attr_tensor("value", test::floats("", {2}, {1, 2}))}),
      node("Twice", {"x"}, {"m"}, {test::attr_float("a", 2)}, "local", "call"),
      node("If", {"flag"}, {"y"},
           {test::attr_graph("then_branch", graph(then_branch)),
            test::attr_graph("else_branch", graph(else_branch)), test::attr_ints("is", {1, 2})})};
  parts.value_infos = {test::value_info("m", 1, {"n", "4"})};
  Proto model = test::model(graph(parts), {opset("", 18), opset("local", 1)});
  model.message(14, Proto().text(1, "key").text(2, "value"));
  model.message(25, function("Twice", {"a"}, {"b"}, {"a"},
                             {node("LeakyRelu", {"a"}, {"t"}, {test::attr_ref("alpha", "a", 1)}),
                              node("Abs", {"t"}, {"b"})},
                             18, {test::attr_float("a", 1)}));
  return model.str();
}

// A copy of exactly the size, so that the sanitizer sees a read past the end.
Blob exact(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return Blob::own({bytes.begin(), bytes.end()});
}

/// What is read must be whole enough to be written, and what is written to be read.
void expect_error_or_model(std::string_view text, const std::string& what) {
  const auto model = read_model(exact(text), {});
  if (!model) {
    EXPECT_FALSE(model.error().message.empty()) << what;
    return;
  }
  std::string written;
  const Status status = write_model(*model, identity_rewrite(*model),
                                    [&written](std::span<const std::byte> part) -> Status {
                                      written += as_text(part);
                                      return {};
                                    });
  ASSERT_EQ(code_of(status), test::kOk) << what;
  EXPECT_EQ(code_of(read_model(exact(written), {})), test::kOk) << what;
}

TEST(HostileModel, TheSampleIsRead) {
  EXPECT_EQ(code_of(read_model(exact(sample()), {})), test::kOk);
}

TEST(HostileModel, NumbersAbove64Bits) {
  const std::string unknown_field = "\xf8\x07\xff\xff\xff\xff\xff\xff\xff\xff\xff";
  const auto code = [&](std::string_view last_byte) {
    return code_of(read_model(exact(sample() + unknown_field + std::string(last_byte)), {}));
  };
  EXPECT_EQ(code("\x01"), test::kOk);
  EXPECT_EQ(code("\x02"), ErrorCode::kInvalidGraph);      // 65 bits
  EXPECT_EQ(code("\x80\x01"), ErrorCode::kInvalidGraph);  // eleven bytes
}

TEST(HostileModel, EveryTruncation) {
  const std::string text = sample();
  for (std::size_t size = 0; size < text.size(); ++size)
    expect_error_or_model(std::string_view(text).substr(0, size), std::to_string(size) + " bytes");
}

TEST(HostileModel, EveryBitFlip) {
  const std::string text = sample();
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      expect_error_or_model(damaged, "byte " + std::to_string(i) + " bit " + std::to_string(bit));
    }
}

TEST(HostileModel, RandomMutations) {
  const std::string text = sample();
  constexpr unsigned kSeed = 1;
  std::mt19937 random(kSeed);
  const auto below = [&random](std::size_t n) { return random() % n; };
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = text;
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(damaged.size());
      switch (below(4)) {
        case 0: damaged[at] = static_cast<char>(random()); break;
        case 1: damaged.erase(at, 1 + below(8)); break;
        case 2: damaged.insert(at, text.substr(below(text.size()), below(40))); break;
        default: damaged.insert(at, 1 + below(3), '\xff'); break;
      }
      if (damaged.empty()) damaged = text;
    }
    expect_error_or_model(damaged,
                          "seed " + std::to_string(kSeed) + " round " + std::to_string(round));
  }
}

TEST(HostileModel, TensorFiles) {
  const std::string text =
      test::tensor("w", 7, {3}).packed(7, {1, -1, 300}).str() + Proto().text(12, "doc").str();
  for (std::size_t size = 0; size < text.size(); ++size)
    static_cast<void>(read_tensor(exact(std::string_view(text).substr(0, size))));
  EXPECT_EQ(code_of(read_tensor(exact(text))), test::kOk);
}

}  // namespace
}  // namespace ctxgen
