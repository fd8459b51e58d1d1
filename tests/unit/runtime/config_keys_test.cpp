#include "ctxgen/runtime/config_keys.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::kOk;

test::Outcome set(SessionOptions& options, std::string_view key, std::string_view value) {
  return code_of(set_session_config(options, key, value));
}

TEST(SessionConfigKeys, SetTheOptionsTheyName) {
  SessionOptions options;
  EXPECT_EQ(set(options, "ep.share_ep_contexts", "1"), kOk);
  EXPECT_EQ(set(options, "ep.stop_share_ep_contexts", "1"), kOk);
  EXPECT_EQ(set(options, "ep.context_file_path", "models/m_ctx.onnx"), kOk);
  EXPECT_EQ(set(options, "ep.context_source_model_path", "sources/m.onnx"), kOk);
  EXPECT_EQ(set(options, "session.model_external_initializers_file_folder_path", "weights"), kOk);
  EXPECT_EQ(set(options, "session.fail_on_suboptimal_compiled_model", "1"), kOk);
  EXPECT_EQ(set(options, "session.disable_cpu_ep_fallback", "1"), kOk);
  EXPECT_TRUE(options.share_ep_contexts && options.stop_share_ep_contexts);
  EXPECT_EQ(options.context_file_path, "models/m_ctx.onnx");
  EXPECT_EQ(options.source_model_path, "sources/m.onnx");
  EXPECT_EQ(options.external_data_folder, "weights");
  EXPECT_TRUE(options.fail_on_suboptimal && options.disable_cpu_fallback);
  EXPECT_EQ(set(options, "ep.share_ep_contexts", "0"), kOk);
  EXPECT_FALSE(options.share_ep_contexts) << "the last value holds";
}

TEST(SessionConfigKeys, WhatASessionDoesNotDoIsRefused) {
  SessionOptions options;
  EXPECT_EQ(set(options, "ep.context_enable", "0"), kOk);
  EXPECT_EQ(set(options, "ep.context_enable", "1"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(set(options, "session.disable_model_compile", "1"), kOk);
  EXPECT_EQ(set(options, "session.disable_model_compile", "0"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(set(options, "ep.context_embed_mode", "1"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(set(options, "session.no_such_key", "1"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(set(options, "ep.context_file_path", std::string(1025, 'x')),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(set(options, std::string(129, 'x'), ""), ErrorCode::kInvalidArgument);
}

TEST(SessionConfigKeys, SwitchesAreZeroOrOne) {
  for (const SessionConfigKey& key : session_config_keys()) {
    if (!key.values.contains('0') && !key.values.contains('1')) continue;
    SessionOptions options;
    for (const char* value : {"", "true", "2", " 1"})
      EXPECT_EQ(set(options, key.name, value), ErrorCode::kInvalidArgument) << key.name;
  }
}

TEST(SessionConfigKeys, AreSorted) {
  EXPECT_TRUE(std::ranges::is_sorted(session_config_keys(), {}, &SessionConfigKey::name));
}

}  // namespace
}  // namespace ctxgen
