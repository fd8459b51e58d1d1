#include "ctxgen/compiler/dependency_rules.h"

#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

using Paths = std::vector<std::filesystem::path>;
using test::code_of;

std::string rules(const Paths& targets, const Paths& prerequisites, const Paths& optional = {}) {
  const auto text = dependency_rules(targets, prerequisites, optional);
  EXPECT_EQ(code_of(text), test::kOk);
  return text.value_or("");
}

TEST(DependencyRules, NameTargetsAndPrerequisites) {
  EXPECT_EQ(rules({"m_ctx.onnx", "m_dnnl.bin"}, {"m.onnx"}, {"m.data"}),
            "m_ctx.onnx m_dnnl.bin: \\\n m.onnx \\\n m.data\n\nm.data:\n");
  EXPECT_EQ(rules({"t"}, {"a", "b", "a"}), "t: \\\n a \\\n b\n");
}

TEST(DependencyRules, EscapeWhatMakeAndNinjaReadAlike) {
  EXPECT_EQ(
      rules({"o u"}, {"a b", "c$d", "e#f", "g:h", "i\\j", "k\\ l", "m%n"}),
      "o\\ u: \\\n a\\ b \\\n c$$d \\\n e\\#f \\\n g\\:h \\\n i\\j \\\n k\\\\\\ l \\\n m%n\n");
}

TEST(DependencyRules, RefuseWhatTheyWouldMisread) {
  for (const char* name :
       {"a\nb", "a\rb", "a\tb", "x;rm -r y", "a|b", "a&b", "a*b", "a?b",   "a'b",   "a\"b",  "a<b",
        "a>b",  "a`b",  "a(b)", "a[1]",      "~a",  "a\\", "a:",  "a\\#b", "a\\:b", "a\\$b", ""}) {
    EXPECT_EQ(code_of(dependency_rules(Paths{"t"}, Paths{name}, {})), ErrorCode::kInvalidArgument)
        << name;
    EXPECT_EQ(code_of(dependency_rules(Paths{"t"}, Paths{"p"}, Paths{name})),
              ErrorCode::kInvalidArgument)
        << name;
    EXPECT_EQ(code_of(dependency_rules(Paths{name}, Paths{"p"}, {})), ErrorCode::kInvalidArgument)
        << name;
  }
  for (const char* target : {"a%b", "a=b"})
    EXPECT_EQ(code_of(dependency_rules(Paths{target}, Paths{"p"}, {})),
              ErrorCode::kInvalidArgument);
}

TEST(DependencyRules, KeepAssignmentsOutOfTheFirstPlace) {
  EXPECT_EQ(rules({"t"}, {"n=1.onnx", "p"}, {"q=2"}), "t: \\\n p \\\n n=1.onnx \\\n q=2\n");
  EXPECT_EQ(code_of(dependency_rules(Paths{"t"}, Paths{"n=1.onnx"}, {})),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ctxgen
