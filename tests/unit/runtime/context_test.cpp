#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "ctxgen/runtime/session.h"

#include "code_of.h"
#include "model_bytes.h"
#include "temp_folder.h"
#include "toy_loader.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::kOk;
using test::kToySource;
using test::ModelBytes;
using test::notes_of;
using test::Outcome;
using test::TempFolder;
using test::toy_context;
using test::toy_program;

using Attributes = std::map<std::string, test::AttributeValue>;

/// An EPContext node x -> y of partition "p0" in `bin`, with changes to its attributes.
test::Proto ep_node(const std::string& context, const Attributes& changes = {},
                    const std::string& input = "x", const std::string& output = "y",
                    const std::string& partition = "p0") {
  Attributes attributes{{"main_context", 1},           {"embed_mode", 0},
                        {"ep_cache_context", "m.bin"}, {"partition_name", partition},
                        {"source", kToySource},        {"notes", notes_of(context, partition)}};
  for (const auto& [key, value] : changes) attributes[key] = value;
  return ModelBytes::node("ep_" + partition, "EPContext", {input}, {output},
                          {attributes.begin(), attributes.end()}, "com.microsoft");
}

ModelBytes one_node(const test::Proto& node) {
  ModelBytes model;
  model.input("x", {2}).output("y", {2}).add(node);
  return model;
}

SessionOptions toy_options() {
  SessionOptions options;
  options.loaders = {&test::toy_loader()};
  return options;
}

std::vector<float> run(const Session& session, const std::vector<float>& values) {
  Tensor x = *Tensor::allocate(DataType::kFloat, Dims{2});
  std::memcpy(x.mutable_bytes().data(), values.data(), 8);
  const auto outputs = session.run({{{"x", x}}});
  if (!outputs) {
    ADD_FAILURE() << outputs.error().message;
    return {};
  }
  std::vector<float> result(2);
  std::memcpy(result.data(), outputs->front().bytes().data(), 8);
  return result;
}

/// A folder with a context model and its bin.
class ContextModel : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Session>> open(const ModelBytes& model,
                                        SessionOptions options = toy_options()) {
    return Session::open(folder_.write("m_ctx.onnx", model.text()), options);
  }
  void write_bin(const std::string& context, const std::string& name = "m.bin") {
    folder_.write(name, context);
  }
  TempFolder folder_;
  const std::string context_ = toy_context({toy_program("p0")}, {1.0F});
};

TEST_F(ContextModel, FindsTheBinBesideTheModel) {
  write_bin(context_);
  const auto session = open(one_node(ep_node(context_)));
  ASSERT_EQ(code_of(session), kOk);
  EXPECT_EQ(run(**session, {1, 2}), (std::vector<float>{2, 3}));
  EXPECT_EQ((*session)->statistics().partitions, 1U);
}

TEST_F(ContextModel, FindsTheBinInASubfolder) {
  write_bin(context_, "sub/m.bin");
  EXPECT_EQ(code_of(open(one_node(ep_node(context_, {{"ep_cache_context", "sub/m.bin"}})))), kOk);
}

TEST_F(ContextModel, ReadsAnEmbeddedPayload) {
  const auto session =
      open(one_node(ep_node(context_, {{"embed_mode", 1}, {"ep_cache_context", context_}})));
  ASSERT_EQ(code_of(session), kOk);
  EXPECT_EQ(run(**session, {1, 2}), (std::vector<float>{2, 3}));
}

TEST_F(ContextModel, AbsentAttributesHaveTheSchemasDefaults) {
  const auto session = open(one_node(ModelBytes::node(
      "ep", "EPContext", {"x"}, {"y"},
      {{"ep_cache_context", context_}, {"partition_name", "p0"}, {"source", kToySource}},
      "com.microsoft")));
  ASSERT_EQ(code_of(session), kOk);
  EXPECT_EQ(run(**session, {1, 2}), (std::vector<float>{2, 3}));
}

TEST_F(ContextModel, SecondaryNodesUseThePrimaryContextWhereverItStands) {
  const std::string context = toy_context(
      {toy_program("p0", "x", "t"), toy_program("p1", "t", "y", BlobIndex{1})}, {1.0F, 10.0F});
  write_bin(context);
  const Attributes secondary{{"main_context", 0}, {"ep_cache_context", ""}};
  for (const bool primary_first : {true, false}) {
    ModelBytes model;
    model.input("x", {2}).output("y", {2});
    model.add(ep_node(context, primary_first ? Attributes{} : secondary, "x", "t", "p0"));
    model.add(ep_node(context, primary_first ? secondary : Attributes{}, "t", "y", "p1"));
    const auto session = open(model);
    ASSERT_EQ(code_of(session), kOk);
    EXPECT_EQ(run(**session, {1, 2}), (std::vector<float>{12, 13}));
  }
}

TEST_F(ContextModel, SeveralPrimaryContextsAndCpuNodesMix) {
  const std::string first = toy_context({toy_program("p0", "x", "t")}, {1.0F});
  const std::string second = toy_context({toy_program("p1", "u", "v")}, {-100.0F});
  write_bin(first);
  ModelBytes model;
  model.input("x", {2}).output("y", {2}).initializer("w", {50, 500});
  model.add(ep_node(first, {}, "x", "t", "p0"));
  model.add(ModelBytes::node("add", "Add", {"t", "w"}, {"u"}));
  model.add(ep_node(second, {{"embed_mode", 1}, {"ep_cache_context", second}}, "u", "v", "p1"));
  model.add(ModelBytes::node("relu", "Relu", {"v"}, {"y"}));
  const auto session = open(model);
  ASSERT_EQ(code_of(session), kOk);
  EXPECT_EQ(run(**session, {1, 2}), (std::vector<float>{0, 403}));
  EXPECT_EQ((*session)->statistics().nodes, 4U);
}

TEST_F(ContextModel, APartitionInTwoContextsIsAmbiguous) {
  const std::string first = toy_context({toy_program("p0", "x", "t"), toy_program("p1", "t", "y")});
  const std::string second =
      toy_context({toy_program("p1", "t", "y"), toy_program("p2", "x", "z")});
  write_bin(first);
  write_bin(second, "n.bin");
  ModelBytes model;
  model.input("x", {2}).output("y", {2}).output("z", {2});
  model.add(ep_node(first, {}, "x", "t", "p0"));
  model.add(ep_node(second, {{"ep_cache_context", "n.bin"}}, "x", "z", "p2"));
  model.add(ep_node(first, {{"main_context", 0}}, "t", "y", "p1"));
  EXPECT_EQ(code_of(open(model)), ErrorCode::kCorruptContext);
}

TEST_F(ContextModel, AModelFromMemoryNeedsAPlaceForTheBin) {
  write_bin(context_);
  const Blob model = one_node(ep_node(context_)).blob();
  SessionOptions options = toy_options();
  EXPECT_EQ(code_of(Session::open_memory(model, options)), ErrorCode::kInvalidArgument);
  options.context_file_path = folder_ / "m_ctx.onnx";
  EXPECT_EQ(code_of(Session::open_memory(model, options)), kOk);
}

TEST_F(ContextModel, ABinSourceReplacesFiles) {
  SessionOptions options = toy_options();
  std::string asked;
  options.bin_source = [&](std::string_view name) -> Result<Blob> {
    asked = name;
    const auto bytes = as_bytes(context_);
    return Blob::own({bytes.begin(), bytes.end()});
  };
  const auto session = Session::open_memory(one_node(ep_node(context_)).blob(), options);
  ASSERT_EQ(code_of(session), kOk);
  EXPECT_EQ(asked, "m.bin");
  EXPECT_EQ(run(**session, {1, 2}), (std::vector<float>{2, 3}));
}

TEST_F(ContextModel, AForeignSourceIsRefusedWithItsName) {
  const Outcome outcome =
      code_of(open(one_node(ep_node(context_, {{"source", "QNNExecutionProvider"}}))));
  EXPECT_EQ(outcome, ErrorCode::kUnsupported);
  EXPECT_NE(outcome.message.find("QNNExecutionProvider"), std::string::npos) << outcome.message;
}

TEST_F(ContextModel, AMissingBinNamesThePlaceThatWasTried) {
  const Outcome outcome = code_of(open(one_node(ep_node(context_))));
  EXPECT_EQ(outcome, ErrorCode::kCorruptContext);
  EXPECT_NE(outcome.message.find((folder_ / "m.bin").string()), std::string::npos)
      << outcome.message;
}

TEST_F(ContextModel, PathsStayInTheModelsFolder) {
  const TempFolder elsewhere;
  elsewhere.write("m.bin", context_);
  const std::string up = "../" + elsewhere.path().filename().string() + "/m.bin";
  std::filesystem::create_symlink(elsewhere / "m.bin", folder_ / "link.bin");
  for (const std::string& path : {up, (elsewhere / "m.bin").string(), std::string("link.bin"),
                                  std::string(""), std::string(".")})
    EXPECT_EQ(code_of(open(one_node(ep_node(context_, {{"ep_cache_context", path}})))),
              ErrorCode::kCorruptContext)
        << path;
}

TEST_F(ContextModel, EveryTruncationOfTheBinIsRefused) {
  const Blob model = one_node(ep_node(context_)).blob();
  SessionOptions options = toy_options();
  const auto bytes = as_bytes(context_);
  const Blob whole = Blob::own({bytes.begin(), bytes.end()});
  std::size_t size = 0;
  options.bin_source = [&](std::string_view) -> Result<Blob> { return whole.slice(0, size); };
  for (; size < whole.bytes.size(); ++size)
    EXPECT_EQ(code_of(Session::open_memory(model, options)), ErrorCode::kCorruptContext)
        << size << " bytes";
  EXPECT_EQ(code_of(Session::open_memory(model, options)), kOk);
}

TEST_F(ContextModel, AProgramOfAnotherCompileIsAnInterruptedOne) {
  write_bin(toy_context({toy_program("p0")}, {2.0F}));  // another weight, so another hash
  const Outcome outcome = code_of(open(one_node(ep_node(context_))));
  EXPECT_EQ(outcome, ErrorCode::kCorruptContext);
  EXPECT_NE(outcome.message.find("interrupted compile"), std::string::npos) << outcome.message;
}

TEST_F(ContextModel, NotesWithoutAHashAreRefused) {
  write_bin(context_);
  EXPECT_EQ(code_of(open(one_node(ep_node(context_, {{"notes", "ops=1"}})))),
            ErrorCode::kCorruptContext);
}

TEST_F(ContextModel, AMissingPartitionIsRefused) {
  write_bin(context_);
  EXPECT_EQ(code_of(open(one_node(ep_node(context_, {{"partition_name", "p9"}})))),
            ErrorCode::kCorruptContext);
}

TEST_F(ContextModel, ASecondaryNodeWithoutPrimaryIsRefused) {
  write_bin(context_);
  EXPECT_EQ(code_of(open(one_node(ep_node(context_, {{"main_context", 0}})))),
            ErrorCode::kCorruptContext);
}

TEST_F(ContextModel, ChangedInputsAndOutputsAreRefused) {
  write_bin(context_);
  const auto with = [&](const std::vector<test::DimText>& dims, DataType type) {
    ModelBytes model;
    model.input("x", dims, type).output("y", {2}).add(ep_node(context_));
    return code_of(open(model));
  };
  EXPECT_EQ(with({2}, DataType::kFloat), kOk);
  EXPECT_EQ(with({"n"}, DataType::kFloat), kOk);
  EXPECT_EQ(with({2}, DataType::kInt32), ErrorCode::kCorruptContext);
  EXPECT_EQ(with({3}, DataType::kFloat), ErrorCode::kCorruptContext);
  EXPECT_EQ(with({2, 1}, DataType::kFloat), ErrorCode::kCorruptContext);
  ModelBytes renamed;
  renamed.input("q", {2}).output("y", {2}).add(ep_node(context_, {}, "q"));
  EXPECT_EQ(code_of(open(renamed)), ErrorCode::kCorruptContext);
}

TEST_F(ContextModel, InputsAreMatchedByName) {
  Program program = toy_program("p0", "a", "y");
  program.values.push_back({"b", DataType::kFloat, {ProgramDim{2, -1}}, true});
  program.inputs = {0, 2};
  const std::string context = toy_context({program});
  write_bin(context);
  ModelBytes model;
  model.input("x", {2}).output("y", {2}).initializer("w", {7, 7});
  model.add(ModelBytes::node("id", "Add", {"x", "w"}, {"a"}));
  model.add(ModelBytes::node("neg", "Relu", {"x"}, {"b"}));
  model.add(ModelBytes::node("ep", "EPContext", {"b", "a"}, {"y"},
                             {{"embed_mode", 0},
                              {"ep_cache_context", "m.bin"},
                              {"partition_name", "p0"},
                              {"source", kToySource}},
                             "com.microsoft"));
  const auto session = open(model);
  ASSERT_EQ(code_of(session), kOk);
  EXPECT_EQ(run(**session, {1, 2}), (std::vector<float>{9, 10})) << "toy adds 1 to input a";
}

TEST_F(ContextModel, AContextOfAnotherMachineIsAVersionMismatch) {
  const std::string context = toy_context({toy_program("p0")}, {1.0F}, "toy-7");
  write_bin(context);
  EXPECT_EQ(code_of(open(one_node(ep_node(context)))), ErrorCode::kVersionMismatch);
}

TEST_F(ContextModel, AContextThatShouldBeRecompiledStillRuns) {
  const std::string context = toy_context({toy_program("p0")}, {1.0F}, "toy-0");
  write_bin(context);
  EXPECT_EQ(code_of(open(one_node(ep_node(context)))), kOk);
}

TEST_F(ContextModel, AttributesOfAnotherKindAreRefused) {
  write_bin(context_);
  EXPECT_EQ(code_of(open(one_node(ep_node(context_, {{"main_context", 2}})))),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(open(one_node(ep_node(context_, {{"embed_mode", "0"}})))),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(open(one_node(ep_node(context_, {{"source", 1}})))), ErrorCode::kInvalidGraph);
}

TEST_F(ContextModel, EveryFlippedByteOfTheModelEndsWithAnAnswer) {
  write_bin(context_);
  const std::string good = one_node(ep_node(context_)).text();
  SessionOptions options = toy_options();
  options.context_file_path = folder_ / "m_ctx.onnx";
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x15);
    const auto bytes = as_bytes(bad);
    const auto session = Session::open_memory(Blob::own({bytes.begin(), bytes.end()}), options);
    if (session) {
      EXPECT_LE((*session)->inputs().size(), 1U);
    } else {
      EXPECT_FALSE(session.error().message.empty());
    }
  }
}

}  // namespace
}  // namespace ctxgen
