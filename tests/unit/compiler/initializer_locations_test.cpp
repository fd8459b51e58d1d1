#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/onnx_lite/external_place.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "code_of.h"
#include "parse_model.h"
#include "toy_provider.h"

namespace ctxgen {
namespace {

using test::code_of;

// Neg is compiled; the others stay with what they read. "far" lies in external data.
constexpr const char* kLocationsModel = R"(
<ir_version: 8, opset_import: ["" : 17]>
graph (float[2] x) => (float[2] y)
<float[2] zeta = {1, 2}, float[2] alpha = {3, 4},
 float[2] far = ["location": "weights.data", "offset": "8", "length": "8"],
 string[1] text = {"t"}> {
  a = Neg(x)
  b = Add(a, zeta)
  c = Mul(b, alpha)
  d = Identity(text)
  y = Add(c, far)
})";

Blob weights() {
  const float values[] = {0, 0, 5, 6};
  std::vector<std::byte> bytes(sizeof(values));
  std::memcpy(bytes.data(), values, sizeof(values));
  return Blob::own(std::move(bytes));
}

class Locations : public testing::Test {
 protected:
  using Kind = InitializerLocation::Kind;
  ToyProvider toy{"toy", {"Neg"}};

  Result<CompiledModel> compile(
      std::function<Result<InitializerLocation>(const InitializerInfo&)> location) {
    CompileOptions options;
    options.providers = {"toy"};
    options.extra_providers = {&toy};
    options.initializer_location = std::move(location);
    ModelInput input{{}, parse_model(kLocationsModel), "net.onnx"};
    input.external_data = {{"weights.data", weights()}};
    return compile_in_memory(input, options);
  }

  /// Where the compiled model says that `name` is, read with these buffers.
  static std::optional<ExternalDataRef> place(const CompiledModel& compiled, const char* name,
                                              std::vector<std::pair<std::string, Blob>> buffers) {
    ReadModelOptions read;
    read.external_buffers = std::move(buffers);
    const auto model = read_model(compiled.model, read);
    if (!model) {
      ADD_FAILURE() << model.error().message;
      return std::nullopt;
    }
    const auto found = external_place(*model, model->graph.value(model->graph.find(name)));
    return found ? *found : std::nullopt;
  }
};

TEST_F(Locations, EachThatStaysIsAskedOnceInTheOrderOfNames) {
  std::vector<std::string> asked;
  const auto compiled = compile([&](const InitializerInfo& info) -> Result<InitializerLocation> {
    asked.emplace_back(info.name);
    EXPECT_EQ(info.model, "net.onnx");
    EXPECT_EQ(info.type, DataType::kFloat);
    EXPECT_EQ(info.bytes.size(), 8U);
    EXPECT_EQ(info.external.has_value(), info.name == "far");
    if (info.external) {
      EXPECT_EQ(info.external->file, "weights.data");
      EXPECT_EQ(info.external->offset, 8U);
    }
    return InitializerLocation{};
  });
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_EQ(asked, (std::vector<std::string>{"alpha", "far", "zeta"}));
  for (const char* name : {"alpha", "far", "zeta"}) EXPECT_FALSE(place(*compiled, name, {}));
}

TEST_F(Locations, APlaceIsWrittenAndItsBytesAreTheCallers) {
  std::vector<std::byte> file(64 + 8);
  const auto compiled = compile([&](const InitializerInfo& info) -> Result<InitializerLocation> {
    if (info.name != "zeta") return InitializerLocation{};
    std::ranges::copy(info.bytes, file.begin() + 64);
    return InitializerLocation{Kind::kPlace, {"sub/mine.data", 64}};
  });
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto found = place(*compiled, "zeta", {{"sub/mine.data", Blob::own(file)}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->location, "sub/mine.data");
  EXPECT_EQ(found->offset, 64U);
  EXPECT_EQ(found->length, 8U);
}

TEST_F(Locations, KeepRefersToTheSourcesFile) {
  const auto compiled = compile([&](const InitializerInfo& info) -> Result<InitializerLocation> {
    return InitializerLocation{info.external ? Kind::kKeep : Kind::kInline, {}};
  });
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto found = place(*compiled, "far", {{"weights.data", weights()}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->location, "weights.data");
  EXPECT_EQ(found->offset, 8U);
}

TEST_F(Locations, WrongAnswersAreRefused) {
  const auto answer = [&](InitializerLocation location) {
    return code_of(compile([&](const InitializerInfo& info) -> Result<InitializerLocation> {
      return info.name == "alpha" ? location : InitializerLocation{};
    }));
  };
  EXPECT_EQ(answer({Kind::kKeep, {}}), ErrorCode::kInvalidArgument);  // it is inline
  for (const char* file : {"", "/w", "../w", "a/../../w", "a/"})
    EXPECT_EQ(answer({Kind::kPlace, {file, 0}}), ErrorCode::kInvalidArgument) << file;
  EXPECT_EQ(answer({Kind::kPlace, {"w", UINT64_MAX}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(compile([](const InitializerInfo&) -> Result<InitializerLocation> {
              return fail(ErrorCode::kCancelled, "no more");
            })),
            ErrorCode::kCancelled);
}

TEST_F(Locations, AFunctionAndAFileContradictEachOther) {
  CompileOptions options;
  options.external_initializers = "w";
  options.initializer_location = [](const InitializerInfo&) { return InitializerLocation{}; };
  EXPECT_EQ(code_of(check_options(options, 1)), ErrorCode::kInvalidArgument);
}

TEST(ExternalBuffers, WhatIsInNoneOfThemIsAnError) {
  ModelInput input{{}, parse_model(kLocationsModel), "net.onnx"};
  input.external_data = {{"other.data", weights()}};
  EXPECT_EQ(code_of(compile_in_memory(input, {})), ErrorCode::kIoError);
  input.external_data = {{"weights.data", Blob::own(std::vector<std::byte>(9))}};
  EXPECT_EQ(code_of(compile_in_memory(input, {})), ErrorCode::kInvalidGraph);
}

}  // namespace
}  // namespace ctxgen
