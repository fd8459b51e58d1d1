#include <algorithm>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctxgen/registry/loaders.h"
#include "ctxgen/registry/providers.h"

namespace ctxgen {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Registry, NamesStandInDefaultOrder) {
  EXPECT_THAT(provider_names(), ElementsAre("dnnl", "cpu"));
}

TEST(Registry, ProvidersAreFoundByShortNameAndByEpNameInAnyCase) {
  for (const char* name :
       {"dnnl", "DNNL", "CtxgenDnnlExecutionProvider", "ctxgendnnlexecutionprovider"}) {
    const auto provider = make_provider(name);
    ASSERT_TRUE(provider.has_value()) << name;
    EXPECT_EQ((*provider)->name(), "dnnl") << name;
  }
  for (const std::string& name : provider_names()) {
    const auto by_name = make_provider(name);
    ASSERT_TRUE(by_name.has_value()) << name;
    EXPECT_EQ((*by_name)->name(), name);
    const auto by_source = make_provider((*by_name)->source());
    ASSERT_TRUE(by_source.has_value()) << (*by_name)->source();
    EXPECT_EQ((*by_source)->name(), name);
  }
}

TEST(Registry, UnknownProvidersAreRefusedWithTheKnownOnes) {
  for (const char* name : {"", "cuda", "dnnl "}) {
    const auto provider = make_provider(name);
    ASSERT_FALSE(provider.has_value()) << name;
    EXPECT_EQ(provider.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(provider.error().message, HasSubstr("dnnl"));
  }
}

TEST(Registry, DefaultProvidersAreThoseThatCompile) {
  EXPECT_THAT(default_providers(), ElementsAre("dnnl"));
}

TEST(Registry, EveryProviderSaysWhatItRuns) {
  for (const std::string& name : provider_names()) {
    const auto provider = make_provider(name);
    ASSERT_TRUE(provider.has_value());
    const std::vector<OperatorInfo> rows = (*provider)->operators();
    EXPECT_FALSE(rows.empty()) << name;
    EXPECT_TRUE(std::ranges::is_sorted(rows, {}, [](const OperatorInfo& row) {
      return std::tuple(row.domain, row.op_type, row.since_min);
    })) << name;
  }
}

TEST(Registry, EveryCompilingProviderHasItsLoader) {
  for (const std::string& name : provider_names()) {
    const auto provider = make_provider(name);
    ASSERT_TRUE(provider.has_value());
    const ProgramLoader* found = find_loader(default_loaders(), (*provider)->source());
    EXPECT_EQ(found != nullptr, (*provider)->compiles()) << name;
    EXPECT_EQ(found, (*provider)->loader()) << name;
  }
  EXPECT_EQ(find_loader(default_loaders(), "QNNExecutionProvider"), nullptr);
}

}  // namespace ctxgen
