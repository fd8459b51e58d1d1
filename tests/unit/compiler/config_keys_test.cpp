#include "ctxgen/compiler/config_keys.h"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "code_of.h"
#include "parse_model.h"
#include "toy_provider.h"

namespace ctxgen {
namespace {

using test::code_of;

Status apply(CompileOptions& options, std::string key, std::string value) {
  const ConfigEntry entry{std::move(key), std::move(value)};
  return apply_config(options, std::span(&entry, 1));
}

test::Outcome refused(std::string key, std::string value, CompileOptions options = {}) {
  return code_of(apply(options, std::move(key), std::move(value)));
}

TEST(ConfigKeys, AreSortedAndSayWhatTheyMean) {
  const auto keys = config_keys();
  EXPECT_TRUE(std::ranges::is_sorted(keys, {}, &ConfigKey::name));
  for (const ConfigKey& key : keys) {
    EXPECT_LE(key.name.size(), kMaxConfigKeyBytes);
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    EXPECT_NE(key.values.empty(), key.does_not_apply.empty()) << key.name;
  }
}

TEST(ConfigKeys, SetTheOptionsOfTheirFlags) {
  CompileOptions options;
  ASSERT_TRUE(apply(options, "ep.context_enable", "1"));
  ASSERT_TRUE(apply(options, "ep.context_file_path", "out/net_ctx.onnx"));
  EXPECT_EQ(options.context_file_path, "out/net_ctx.onnx");
  ASSERT_TRUE(apply(options, "ep.context_embed_mode", "1"));
  EXPECT_TRUE(options.embed);
  ASSERT_TRUE(apply(options, "ep.context_node_name_prefix", "p_"));
  EXPECT_EQ(options.node_prefix, "p_");
  ASSERT_TRUE(apply(options, "ep.context_model_external_initializers_file_name", "net.weights"));
  EXPECT_EQ(options.external_initializers, "net.weights");
  ASSERT_TRUE(apply(options, "session.model_external_initializers_file_folder_path", "data"));
  EXPECT_EQ(options.external_data_folder, "data");
  ASSERT_TRUE(apply(options, "ep.share_ep_contexts", "1"));
  EXPECT_EQ(options.share_ep_contexts, true);
  ASSERT_TRUE(apply(options, "ep.stop_share_ep_contexts", "1"));
  EXPECT_EQ(options.stop_share_ep_contexts, true);
  ASSERT_TRUE(apply(options, "session.disable_cpu_ep_fallback", "1"));
  EXPECT_TRUE(options.strict);
  ASSERT_TRUE(apply(options, "session.disable_model_compile", "1"));
  EXPECT_TRUE(options.disable_model_compile);
  ASSERT_TRUE(apply(options, "session.fail_on_suboptimal_compiled_model", "1"));
  EXPECT_TRUE(options.fail_on_suboptimal);
}

TEST(ConfigKeys, DefaultsChangeNothing) {
  for (const ConfigKey& key : config_keys()) {
    if (!key.does_not_apply.empty() || key.name == "ep.context_enable") continue;
    CompileOptions options;
    ASSERT_TRUE(apply(options, std::string(key.name), std::string(key.default_value))) << key.name;
    EXPECT_TRUE(check_options(options, 1)) << key.name;
    EXPECT_FALSE(options.embed || options.strict || options.fail_on_suboptimal) << key.name;
    EXPECT_TRUE(options.external_initializers.empty() && options.context_file_path.empty());
  }
}

TEST(ConfigKeys, TheKeysThresholdIsZeroAndTheApisIsNot) {
  CompileOptions options;
  EXPECT_EQ(options.external_threshold, std::nullopt);
  EXPECT_EQ(kDefaultExternalThreshold, 1024U);
  ASSERT_TRUE(apply(options, "ep.context_model_external_initializers_file_name", "w"));
  EXPECT_EQ(options.external_threshold, 0U);
  CompileOptions given;
  given.external_threshold = 7;
  ASSERT_TRUE(apply(given, "ep.context_model_external_initializers_file_name", "w"));
  EXPECT_EQ(given.external_threshold, 7U);
}

TEST(ConfigKeys, BadKeysAndValuesAreRefused) {
  EXPECT_EQ(refused("ep.context_enabled", "1"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("", "1"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("ep.context_source_model_path", "a"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused(std::string(kMaxConfigKeyBytes + 1, 'k'), "1"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("ep.context_node_name_prefix", std::string(kMaxConfigValueBytes + 1, 'p')),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("ep.context_enable", "0"), ErrorCode::kInvalidArgument);
  for (const std::string_view key :
       {"ep.context_enable", "ep.context_embed_mode", "ep.share_ep_contexts",
        "ep.stop_share_ep_contexts", "session.disable_cpu_ep_fallback",
        "session.disable_model_compile", "session.fail_on_suboptimal_compiled_model",
        "ep.enable_weightless_ep_context_nodes", "ep.enable_weightless_mode"})
    for (const std::string_view value : {"", "3", "true", "0x1", " 1", "-1"})
      EXPECT_EQ(refused(std::string(key), std::string(value)), ErrorCode::kInvalidArgument)
          << key << "=" << value;
}

TEST(ConfigKeys, EveryKeyThatDoesNotApplyIsRefused) {
  for (const ConfigKey& key : config_keys())
    if (!key.does_not_apply.empty()) {
      EXPECT_EQ(refused(std::string(key.name), std::string(key.default_value)),
                ErrorCode::kInvalidArgument)
          << key.name;
    }
}

TEST(ConfigKeys, AKeyTwiceIsRefused) {
  CompileOptions options;
  const ConfigEntry entries[] = {{"ep.context_embed_mode", "1"}, {"ep.context_embed_mode", "1"}};
  EXPECT_EQ(code_of(apply_config(options, entries)), ErrorCode::kInvalidArgument);
}

TEST(ConfigKeys, AnOptionAndAKeyThatDifferAreRefused) {
  const struct {
    std::function<void(CompileOptions&)> set;
    const char* key;
    const char* value;
  } cases[] = {
      {[](auto& o) { o.embed = true; }, "ep.context_embed_mode", "0"},
      {[](auto& o) { o.node_prefix = "a"; }, "ep.context_node_name_prefix", "b"},
      {[](auto& o) { o.external_initializers = "a"; },
       "ep.context_model_external_initializers_file_name", "b"},
      {[](auto& o) { o.external_data_folder = "a"; },
       "session.model_external_initializers_file_folder_path", "b"},
      {[](auto& o) { o.context_file_path = "a.onnx"; }, "ep.context_file_path", "b.onnx"},
      {[](auto& o) { o.strict = true; }, "session.disable_cpu_ep_fallback", "0"},
      {[](auto& o) { o.disable_model_compile = true; }, "session.disable_model_compile", "0"},
      {[](auto& o) { o.fail_on_suboptimal = true; }, "session.fail_on_suboptimal_compiled_model",
       "0"},
      {[](auto& o) { o.providers = {"dnnl", "CPU"}; }, "session.disable_cpu_ep_fallback", "1"},
  };
  for (const auto& one : cases) {
    CompileOptions options;
    one.set(options);
    const Status status = apply(options, one.key, one.value);
    EXPECT_EQ(code_of(status), ErrorCode::kInvalidArgument) << one.key;
    if (!status) {
      EXPECT_NE(status.error().message.find(one.key), std::string::npos);
    }
  }
}

TEST(ConfigKeys, AnOptionAndAKeyThatAgreePass) {
  CompileOptions options;
  options.embed = options.strict = true;
  options.node_prefix = "a";
  EXPECT_TRUE(apply(options, "ep.context_embed_mode", "1"));
  EXPECT_TRUE(apply(options, "ep.context_node_name_prefix", "a"));
  EXPECT_TRUE(apply(options, "session.disable_cpu_ep_fallback", "1"));
}

TEST(CheckOptions, SharingMeansAWholeGroup) {
  CompileOptions options;
  options.share_ep_contexts = true;
  EXPECT_TRUE(check_options(options, 1));
  EXPECT_TRUE(check_options(options, 3));
  options.stop_share_ep_contexts = true;
  EXPECT_TRUE(check_options(options, 3));
  options.stop_share_ep_contexts = false;
  EXPECT_EQ(code_of(check_options(options, 3)), ErrorCode::kInvalidArgument);
  CompileOptions alone;
  alone.stop_share_ep_contexts = true;
  EXPECT_EQ(code_of(check_options(alone, 1)), ErrorCode::kInvalidArgument);
  CompileOptions apart;
  apart.share_ep_contexts = false;
  EXPECT_TRUE(check_options(apart, 1));
  EXPECT_EQ(code_of(check_options(apart, 2)), ErrorCode::kInvalidArgument);
  CompileOptions embedded;
  embedded.embed = true;
  EXPECT_TRUE(check_options(embedded, 1));
  EXPECT_EQ(code_of(check_options(embedded, 2)), ErrorCode::kInvalidArgument);
  embedded.share_ep_contexts = true;
  EXPECT_EQ(code_of(check_options(embedded, 1)), ErrorCode::kInvalidArgument);
}

TEST(CheckOptions, TheContextPathIsAFileOfOneModel) {
  for (const char* path : {"out/", "out/net", "net.", ".onnx", "/tmp"}) {
    CompileOptions options;
    options.context_file_path = path;
    EXPECT_EQ(code_of(check_options(options, 1)), ErrorCode::kInvalidArgument) << path;
  }
  CompileOptions options;
  options.context_file_path = "out/net_ctx.onnx";
  EXPECT_TRUE(check_options(options, 1));
  EXPECT_EQ(code_of(check_options(options, 2)), ErrorCode::kInvalidArgument);
}

// Neg runs on the toy provider, Exp is left.
constexpr const char* kModel = R"(
<ir_version: 8, opset_import: ["" : 17]>
graph (float[3] x) => (float[3] y) {
  a = Neg(x)
  y = Exp(a)
})";

class CompileWithKeys : public testing::Test {
 protected:
  ToyProvider toy{"toy", {"Neg"}};

  Result<CompiledModel> compile(std::vector<ConfigEntry> entries,
                                std::vector<std::string> providers = {"toy"}) {
    CompileOptions options;
    options.providers = std::move(providers);
    options.extra_providers = {&toy};
    CTXGEN_CHECK(apply_config(options, entries));
    return compile_in_memory(ModelInput{{}, parse_model(kModel), "net.onnx"}, options);
  }
};

TEST_F(CompileWithKeys, TheContextPathNamesTheOutputsInMemory) {
  const auto compiled = compile({{"ep.context_file_path", "out/other_ctx.onnx"}});
  ASSERT_TRUE(compiled);
  EXPECT_EQ(compiled->report.models.front().output_name, "other_ctx.onnx");
  ASSERT_EQ(compiled->bins.size(), 1U);
  EXPECT_EQ(compiled->bins.front().first, "other_toy.bin");
}

TEST_F(CompileWithKeys, FallbackCanBeForbidden) {
  EXPECT_EQ(code_of(compile({{"session.disable_cpu_ep_fallback", "1"}})), ErrorCode::kNotSatisfied);
  EXPECT_TRUE(compile({{"session.disable_cpu_ep_fallback", "0"}}));
}

TEST_F(CompileWithKeys, CompilingCanBeForbidden) {
  EXPECT_EQ(code_of(compile({{"session.disable_model_compile", "1"}})), ErrorCode::kNotSatisfied);
  EXPECT_TRUE(compile({{"session.disable_model_compile", "1"}}, {"cpu"}));
}

}  // namespace
}  // namespace ctxgen
