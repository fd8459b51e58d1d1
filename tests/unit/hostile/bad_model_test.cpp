// Files that are no model, or one that breaks the rules: the right code, a message that names the culprit, nothing written.
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/runtime/session.h"

#include "code_of.h"
#include "proto_builder.h"
#include "small_model.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::Proto;

std::string small_text() { return std::string(as_text(test::small_model().bytes)); }

/// y = x + w, where w lies in another file: 4 floats.
std::string external(std::string_view location, std::string_view offset = "0") {
  const auto entry = [](std::string_view key, std::string_view value) {
    return Proto().text(1, key).text(2, value);
  };
  auto parts = test::relu_graph();
  parts.nodes = {test::node("Add", {"x", "w"}, {"y"}, {}, "", "sum")};
  parts.initializers = {test::tensor("w", 1, {4})
                            .message(13, entry("location", location))
                            .message(13, entry("offset", offset))
                            .message(13, entry("length", "16"))
                            .varint(14, 1)};
  return test::model(test::graph(parts)).str();
}

std::string cycle() {
  auto parts = test::relu_graph();
  parts.nodes = {test::node("Add", {"x", "b"}, {"a"}, {}, "", "first"),
                 test::node("Relu", {"a"}, {"b"}, {}, "", "second"),
                 test::node("Relu", {"b"}, {"y"}, {}, "", "third")};
  return test::model(test::graph(parts)).str();
}

std::string of_opset(std::int64_t version) {
  return test::model(test::graph(test::relu_graph()), {test::opset("", version)}).str();
}

struct Case {
  std::string_view name;
  ErrorCode code;
  std::string_view culprit;  // stands in the message
  std::function<std::string()> model;
};

const Case kCases[] = {
    {"Empty", ErrorCode::kInvalidGraph, "bad.onnx", [] { return std::string(); }},
    {"Truncated", ErrorCode::kInvalidGraph, "bad.onnx",
     [] { return small_text().substr(0, small_text().size() / 2); }},
    {"Text", ErrorCode::kInvalidGraph, "bad.onnx", [] { return std::string("hello, world\n"); }},
    {"Cycle", ErrorCode::kInvalidGraph, "first", cycle},
    {"Opset28", ErrorCode::kUnsupported, "opset 28", [] { return of_opset(28); }},
    {"OpsetHuge", ErrorCode::kUnsupported, "9223372036854775807",
     [] { return of_opset(INT64_MAX); }},
    {"OpsetNegative", ErrorCode::kInvalidGraph, "opset -1", [] { return of_opset(-1); }},
    {"DataMissing", ErrorCode::kIoError, "none.bin", [] { return external("none.bin"); }},
    {"DataTooShort", ErrorCode::kInvalidGraph, "short.bin", [] { return external("short.bin"); }},
    {"DataBehindTheEnd", ErrorCode::kInvalidGraph, "good.bin",
     [] { return external("good.bin", "1"); }},
    {"DataFarBehindTheEnd", ErrorCode::kInvalidGraph, "good.bin",
     [] { return external("good.bin", "18446744073709551615"); }},
    {"DataAbsolute", ErrorCode::kInvalidGraph, "/etc/passwd",
     [] { return external("/etc/passwd"); }},
    {"DataAbove", ErrorCode::kInvalidGraph, "../outside.bin",
     [] { return external("../outside.bin"); }},
    {"DataAboveAndBack", ErrorCode::kInvalidGraph, "x/../../in/good.bin",
     [] { return external("x/../../in/good.bin"); }},
    {"DataBehindALink", ErrorCode::kInvalidGraph, "link.bin", [] { return external("link.bin"); }},
    {"DataBehindALinkedFolder", ErrorCode::kInvalidGraph, "up/outside.bin",
     [] { return external("up/outside.bin"); }},
    {"DataInAFolder", ErrorCode::kIoError, "folder", [] { return external("folder"); }},
    {"DataInAFifo", ErrorCode::kIoError, "fifo", [] { return external("fifo"); }},
};

class BadModel : public testing::TestWithParam<Case> {
 protected:
  BadModel() {
    folder_.write("outside.bin", std::string(16, 'S'));
    folder_.write("in/good.bin", std::string(16, '\0'));
    folder_.write("in/short.bin", std::string(15, '\0'));
    folder_.write("in/folder/x", "");
    folder_.write("in/x/y", "");
    EXPECT_EQ(::symlink("../outside.bin", (folder_ / "in/link.bin").c_str()), 0);
    EXPECT_EQ(::symlink("..", (folder_ / "in/up").c_str()), 0);
    EXPECT_EQ(::mkfifo((folder_ / "in/fifo").c_str(), 0600), 0);
    model_ = folder_.write("in/bad.onnx", GetParam().model());
    before_ = files();
  }

  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path()))
      names.insert(entry.path().string());
    return names;
  }

  void expect_refused(const test::Outcome& outcome) const {
    EXPECT_EQ(outcome, GetParam().code);
    EXPECT_NE(outcome.message.find(GetParam().culprit), std::string::npos) << outcome.message;
    EXPECT_EQ(files(), before_);
  }

  test::TempFolder folder_;
  std::filesystem::path model_;
  std::set<std::string> before_;
};

TEST_P(BadModel, IsNotCompiled) {
  const ModelInput input{.path = model_, .bytes = {}, .name = "bad.onnx"};
  expect_refused(code_of(compile_to_files({input}, {folder_ / "in/bad_ctx.onnx"}, {})));
  expect_refused(code_of(compile_in_memory(input, {})));
}

TEST_P(BadModel, IsNotExplained) {
  expect_refused(code_of(explain({.path = model_, .bytes = {}, .name = "bad.onnx"}, {})));
}

TEST_P(BadModel, IsNotOpened) { expect_refused(code_of(Session::open(model_))); }

INSTANTIATE_TEST_SUITE_P(All, BadModel, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(GoodModel, IsCompiledInTheSameFolder) {  // the cases above fail for the reason they name
  test::TempFolder folder;
  folder.write("in/good.bin", std::string(16, '\0'));
  const auto path = folder.write("in/good.onnx", external("good.bin"));
  const ModelInput input{.path = path, .bytes = {}, .name = "good.onnx"};
  EXPECT_EQ(code_of(compile_to_files({input}, {folder / "in/good_ctx.onnx"}, {})), test::kOk);
  EXPECT_EQ(code_of(Session::open(folder / "in/good_ctx.onnx")), test::kOk);
}

}  // namespace
}  // namespace ctxgen
