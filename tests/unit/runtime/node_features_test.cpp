#include "ctxgen/runtime/node_features.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/instruction_set.h"

namespace ctxgen {
namespace {

using Names = std::vector<std::string>;

Names without_prefix(const Names& labels) {
  const std::string prefix = "feature.node.kubernetes.io/cpu-cpuid.";
  Names names;
  for (const std::string& label : labels) {
    EXPECT_TRUE(label.starts_with(prefix)) << label;
    names.push_back(label.substr(prefix.size()));
  }
  return names;
}

Names required(const Names& isas) { return without_prefix(node_features(isas).required); }
Names preferred(const Names& isas) { return without_prefix(node_features(isas).preferred); }

TEST(NodeFeatures, AreThoseOfTheSmallestAndThenOfTheOthers) {
  const Names avx2 = {"AVX", "AVX2", "FMA3"};
  const Names avx512 = {"AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL"};
  EXPECT_EQ(required({"avx2"}), avx2);
  EXPECT_EQ(preferred({"avx2"}), Names{});
  EXPECT_EQ(required({"avx2", "avx512_core"}), avx2);
  EXPECT_EQ(preferred({"avx2", "avx512_core"}), avx512);
  EXPECT_EQ(required({"avx512_core_bf16"}),
            (Names{"AVX", "AVX2", "FMA3", "AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL",
                   "AVX512VNNI", "AVX512BF16"}));
}

TEST(NodeFeatures, NothingIsNeededForWhatRunsAnywhere) {
  for (const Names& isas : {Names{}, Names{"portable"}, Names{"isa24"}, Names{"sse41"}}) {
    EXPECT_EQ(required(isas), Names{});
    EXPECT_EQ(preferred(isas), Names{});
  }
}

TEST(NodeFeatures, EachSetNeedsMoreThanThoseThatItIncludes) {
  for (const NamedInstructionSet& all : instruction_sets())
    for (const NamedInstructionSet& part : instruction_sets()) {
      if (all.value == part.value || !includes(all.value, part.value) || part.name == "sse41")
        continue;
      EXPECT_GT(required({std::string(all.name)}).size(), required({std::string(part.name)}).size())
          << all.name << " " << part.name;
    }
}

}  // namespace
}  // namespace ctxgen
