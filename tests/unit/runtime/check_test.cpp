#include "ctxgen/runtime/check.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "code_of.h"
#include "model_bytes.h"
#include "temp_folder.h"
#include "toy_loader.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::kOk;
using test::ModelBytes;
using test::TempFolder;
using test::toy_context;
using test::toy_program;

const std::string kKey = std::string("ep_compatibility_info.") + test::kToySource;

class CheckContext : public ::testing::Test {
 protected:
  /// Checks a model whose metadata and bin carry these fingerprints.
  Result<ContextCheck> check(const std::string& in_metadata, const std::string& in_bin) {
    const std::string context = toy_context({toy_program("p0")}, {1.0F}, in_bin);
    folder_.write("m.bin", context);
    return check_model(in_metadata, test::notes_of(context, "p0"));
  }
  Result<ContextCheck> check_model(const std::string& in_metadata, const std::string& notes) {
    ModelBytes model;
    model.input("x", {2}).output("y", {2}).metadata(kKey, in_metadata);
    model.add(ModelBytes::node("ep", "EPContext", {"x"}, {"y"},
                               {{"embed_mode", 0},
                                {"ep_cache_context", "m.bin"},
                                {"partition_name", "p0"},
                                {"notes", notes},
                                {"source", test::kToySource}},
                               "com.microsoft"));
    SessionOptions options;
    options.loaders = {&test::toy_loader()};
    return check_context(folder_.write("m_ctx.onnx", model.text()), options);
  }
  TempFolder folder_;
};

TEST_F(CheckContext, TheWorstFindingDecides) {
  const auto optimal = check("toy-1", "toy-1");
  ASSERT_EQ(code_of(optimal), kOk);
  EXPECT_EQ(optimal->verdict, Compatibility::kOptimal);
  EXPECT_EQ(optimal->partitions, 1U);
  EXPECT_EQ(optimal->findings.size(), 2U);
  EXPECT_EQ(check("toy-0", "toy-1")->verdict, Compatibility::kPreferRecompilation);
  EXPECT_EQ(check("toy-1", "toy-0")->verdict, Compatibility::kPreferRecompilation);
  EXPECT_EQ(check("toy-0", "toy-9")->verdict, Compatibility::kUnsupported);
  EXPECT_FALSE(check("toy-0", "toy-9")->reason.empty());
}

TEST_F(CheckContext, AMissingOrForeignBinIsUnsupported) {
  const auto missing = check_model("toy-1", "");
  ASSERT_EQ(code_of(missing), kOk);
  EXPECT_EQ(missing->verdict, Compatibility::kUnsupported);
  folder_.write("m.bin", "no context at all");
  EXPECT_EQ(check_model("toy-1", "")->verdict, Compatibility::kUnsupported);
  folder_.write("m.bin", toy_context({toy_program("p0")}, {2.0F}));
  EXPECT_EQ(check_model("toy-1", "hash=00000000000000000000000000000000")->verdict,
            Compatibility::kUnsupported);
}

TEST_F(CheckContext, OnlyTheFirstHashOfNotesCounts) {
  const std::string context = toy_context({toy_program("p0")}, {1.0F});
  folder_.write("m.bin", context);
  std::string notes = test::notes_of(context, "p0");
  notes.insert(notes.find(';'), ";hash=");  // as earlier releases wrote them
  EXPECT_EQ(check_model("toy-1", notes)->verdict, Compatibility::kOptimal);
  EXPECT_EQ(check_model("toy-1", "hash=;" + notes)->verdict, Compatibility::kUnsupported);
}

TEST_F(CheckContext, APlainModelFitsAndSaysSo) {
  ModelBytes model;
  model.input("x", {2}).output("y", {2}).add(ModelBytes::node("r", "Relu", {"x"}, {"y"}));
  const auto check = check_context(folder_.write("plain.onnx", model.text()));
  ASSERT_EQ(code_of(check), kOk);
  EXPECT_EQ(check->verdict, Compatibility::kOptimal);
  EXPECT_EQ(check->partitions, 0U);
}

TEST_F(CheckContext, WhatIsNoModelIsAnError) {
  EXPECT_EQ(code_of(check_context(folder_ / "none.onnx")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(check_context(folder_.write("text.onnx", "hello, this is no model"))),
            ErrorCode::kInvalidGraph);
}

// ---- judging by metadata and headers alone --------------------------------------------------------

class JudgeContext : public ::testing::Test {
 protected:
  struct Node {
    std::string source = test::kToySource;
    int main_context = 1;
    std::string payload = {};  // embedded if there is one
  };
  /// Writes a model with one node per entry; `bin`, where it is not empty, beside it.
  void write(const std::vector<Node>& nodes, const std::string& bin,
             const std::string& metadata = "toy-1") {
    ModelBytes model;
    model.input("x", {2}).metadata(kKey, metadata);
    int number = 0;
    for (const Node& node : nodes) {
      const std::string output = "y" + std::to_string(number++);
      model.output(output, {2});
      model.add(ModelBytes::node(
          "ep", "EPContext", {"x"}, {output},
          {{"main_context", node.main_context},
           {"embed_mode", node.payload.empty() ? 0 : 1},
           {"ep_cache_context", node.payload.empty() ? std::string("m.bin") : node.payload},
           {"partition_name", "p0"},
           {"notes", test::notes_of(node.payload.empty() ? bin : node.payload, "p0")},
           {"source", node.source}},
          "com.microsoft"));
    }
    path_ = folder_.write("m_ctx.onnx", model.text());
    if (!bin.empty()) folder_.write("m.bin", bin);
  }
  std::string context(const std::string& fingerprint) {
    return toy_context({toy_program("p0", "x", "y0")}, {1.0F}, fingerprint);
  }
  Compatibility judged() {
    const auto check = judge_context(path_, options());
    EXPECT_EQ(code_of(check), kOk);
    if (!check) return Compatibility::kUnsupported;
    EXPECT_EQ(check->reason.empty(), check->verdict == Compatibility::kOptimal) << check->reason;
    return check->verdict;
  }
  bool loads() { return Session::open(path_, options()).has_value(); }
  SessionOptions options() {
    SessionOptions options;
    options.loaders = {&test::toy_loader()};
    return options;
  }
  TempFolder folder_;
  std::filesystem::path path_;
};

TEST_F(JudgeContext, SaysWhatLoadingSays) {
  struct Row {
    const char* what;
    std::vector<Node> nodes;
    std::string bin;
    Compatibility wanted;
  };
  const std::string fits = context("toy-1");
  std::string other_major = fits;
  other_major[8] = 99;
  std::string damaged_header = fits;
  damaged_header[100] ^= 1;
  const Row rows[] = {
      {"it fits", {{}}, fits, Compatibility::kOptimal},
      {"compiled for another machine that it runs on",
       {{}},
       context("toy-0"),
       Compatibility::kPreferRecompilation},
      {"compiled for another machine", {{}}, context("toy-9"), Compatibility::kUnsupported},
      {"embedded", {{.payload = fits}}, "", Compatibility::kOptimal},
      {"embedded, for another machine",
       {{.payload = context("toy-9")}},
       "",
       Compatibility::kUnsupported},
      {"embedded, truncated",
       {{.payload = fits.substr(0, fits.size() - 1)}},
       "",
       Compatibility::kUnsupported},
      {"truncated", {{}}, fits.substr(0, fits.size() - 1), Compatibility::kUnsupported},
      {"one byte more", {{}}, fits + "x", Compatibility::kUnsupported},
      {"another format", {{}}, other_major, Compatibility::kUnsupported},
      {"a damaged header", {{}}, damaged_header, Compatibility::kUnsupported},
      {"no context at all", {{}}, "no context at all", Compatibility::kUnsupported},
      {"another vendor's",
       {{.source = "OtherExecutionProvider"}},
       fits,
       Compatibility::kUnsupported},
      {"no primary node", {{.main_context = 0}}, fits, Compatibility::kUnsupported},
  };
  for (const Row& row : rows) {
    write(row.nodes, row.bin);
    EXPECT_EQ(judged(), row.wanted) << row.what;
    EXPECT_EQ(loads(), row.wanted != Compatibility::kUnsupported) << row.what;
  }
  std::filesystem::remove(folder_ / "m.bin");
  write({{}}, "");
  EXPECT_EQ(judged(), Compatibility::kUnsupported) << "the bin is missing";
  EXPECT_FALSE(loads());
}

TEST_F(JudgeContext, TheModelsMetadataCountsToo) {
  write({{}}, context("toy-1"), "toy-0");
  EXPECT_EQ(judged(), Compatibility::kPreferRecompilation);
}

TEST_F(JudgeContext, PlainModelsFitAndModelsThatAreNoneAreErrors) {
  ModelBytes plain;
  plain.input("x", {2}).output("y", {2}).add(ModelBytes::node("r", "Relu", {"x"}, {"y"}));
  const auto check = judge_context_memory(plain.blob(), options());
  ASSERT_EQ(code_of(check), kOk);
  EXPECT_EQ(check->partitions, 0U);
  EXPECT_EQ(check->verdict, Compatibility::kOptimal);
  EXPECT_EQ(code_of(judge_context(folder_.write("junk.onnx", "junk"), options())),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(judge_context(folder_.write("empty.onnx", ""), options())),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(judge_context("/nonexistent.onnx", options())), ErrorCode::kIoError);
}

TEST_F(JudgeContext, AFileOfANewerReleaseIsRefusedByItsName) {
  const std::string bin = toy_context({toy_program("p0", "x", "y0")}, {1.0F}, "toy-1", {{1, 77}});
  for (const bool embedded : {false, true}) {
    write({{.payload = embedded ? bin : ""}}, embedded ? "" : bin);
    for (const auto& check : {judge_context(path_, options()), check_context(path_, options())}) {
      ASSERT_EQ(code_of(check), kOk);
      EXPECT_EQ(check->verdict, Compatibility::kUnsupported);
      EXPECT_NE(check->reason.find("written by ctxgen"), std::string::npos) << check->reason;
      EXPECT_NE(check->reason.find("op kind 77"), std::string::npos) << check->reason;
    }
    EXPECT_EQ(code_of(Session::open(path_, options())), ErrorCode::kVersionMismatch);
  }
}

TEST_F(JudgeContext, EveryTruncationOfAModelIsAnErrorOrAVerdict) {
  write({{.payload = context("toy-1")}}, "");
  const std::string whole = test::read_text(path_);
  ASSERT_GT(whole.size(), 100U);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Blob part{nullptr, as_bytes(std::string_view(whole).substr(0, size))};
    const auto check = judge_context_memory(part, options());
    EXPECT_TRUE(check || check.error().code == ErrorCode::kInvalidGraph) << size;
  }
}

TEST_F(JudgeContext, TimeDoesNotDependOnTheSize) {
  // 64 MiB in the one bin's data: only its header is read.
  const std::vector<float> summand{1.0F};
  ContextContent content;
  content.source = test::kToySource;
  content.fingerprint = "toy-1";
  content.programs = {toy_program("p0", "x", "y0")};
  content.blobs = {Blob::own(std::vector<std::byte>(64 << 20, std::byte{1}))};
  content.blob_hashes = {hash_bytes(content.blobs[0].bytes)};
  content.programs[0].weights[0].dims = Dims{16 << 20};
  std::string bin;
  ASSERT_EQ(code_of(write_context(content,
                                  [&](std::span<const std::byte> bytes) -> Status {
                                    bin += as_text(bytes);
                                    return {};
                                  })),
            kOk);
  for (const bool embedded : {false, true}) {
    write({{.payload = embedded ? bin : ""}}, embedded ? "" : bin);
    double least_ms = 1e9;
    for (int i = 0; i < 50; ++i) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(judged(), Compatibility::kOptimal);
      const std::chrono::duration<double, std::milli> spent =
          std::chrono::steady_clock::now() - start;
      least_ms = std::min(least_ms, spent.count());
    }
    EXPECT_LT(least_ms, 1.0) << (embedded ? "embedded" : "a file");
  }
}

}  // namespace
}  // namespace ctxgen
