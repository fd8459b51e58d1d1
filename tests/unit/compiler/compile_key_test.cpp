#include <functional>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctxgen/base/file.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "code_of.h"
#include "parse_model.h"
#include "temp_folder.h"
#include "toy_provider.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;
using test::code_of;
using testing::ElementsAre;
using testing::Pair;

constexpr const char* kNet = R"(
<ir_version: 8, opset_import: ["" : 17]>
graph (float[batch, 3] x) => (float[batch, 3] y) <float[3] w = {1, 2, 3}> {
  a = Mul(x, w)
  y = Exp(a)
})";

/// y = x + w, where w lies in `location`.
std::string external_model(const std::string& location) {
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(model, R"(
    <ir_version: 8, opset_import: ["" : 17]>
    graph (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) })");
  if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage());
  onnx::TensorProto& w = *model.mutable_graph()->mutable_initializer(0);
  w.clear_float_data();
  w.clear_raw_data();
  w.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& entry = *w.add_external_data();
  entry.set_key("location");
  entry.set_value(location);
  return model.SerializeAsString();
}

class OptionedProvider : public ToyProvider {
 public:
  using ToyProvider::ToyProvider;
  std::vector<std::string> option_names() const override { return {"speed"}; }
};

class CompileKeys : public testing::Test {
 protected:
  ModelInput net(const char* name = "net.onnx") { return {{}, parse_model(kNet), name}; }
  ModelInput file(const fs::path& path) { return {path, {}, path.filename().string()}; }
  Hash128 key(const std::vector<ModelInput>& inputs, const CompileOptions& options = {},
              const fs::path& folder = "out") {
    std::vector<fs::path> outputs;
    for (const ModelInput& input : inputs)
      outputs.push_back(folder / default_output_name(input.name));
    const auto found = compile_key(inputs, outputs, options);
    EXPECT_EQ(code_of(found), test::kOk);
    return found ? found->hash : Hash128{};
  }
  test::TempFolder temp_;
};

TEST_F(CompileKeys, DependOnEveryOptionThatChangesOutputs) {
  using Change = std::function<void(CompileOptions&)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"providers", [](CompileOptions& o) { o.providers = {"cpu"}; }},
      {"embed", [](CompileOptions& o) { o.embed = true; }},
      {"node_prefix", [](CompileOptions& o) { o.node_prefix = "p_"; }},
      {"profiles", [](CompileOptions& o) { o.profiles = {{{{"batch", 1}}, {}}}; }},
      {"profile size", [](CompileOptions& o) { o.profiles = {{{{"batch", 2}}, {}}}; }},
      {"profile shape", [](CompileOptions& o) { o.profiles = {{{}, {{"x", {1, 3}}}}}; }},
      {"fix_dims", [](CompileOptions& o) { o.fix_dims = {{"batch", 1}}; }},
      {"freeze_initializers", [](CompileOptions& o) { o.freeze_initializers = true; }},
      {"graph_optimization",
       [](CompileOptions& o) { o.graph_optimization = GraphOptimization::kBasic; }},
      {"subgraphs", [](CompileOptions& o) { o.subgraphs = true; }},
      {"disable_model_compile", [](CompileOptions& o) { o.disable_model_compile = true; }},
      {"fail_on_suboptimal", [](CompileOptions& o) { o.fail_on_suboptimal = true; }},
      {"strict", [](CompileOptions& o) { o.strict = true; }},
      {"require_compiled", [](CompileOptions& o) { o.require_compiled = true; }},
      {"require_runnable", [](CompileOptions& o) { o.require_runnable = true; }},
      {"bin", [](CompileOptions& o) { o.bin = "out/other.bin"; }},
      {"external_initializers", [](CompileOptions& o) { o.external_initializers = "w"; }},
      {"external_threshold",
       [](CompileOptions& o) {
         o.external_initializers = "w";
         o.external_threshold = 9;
       }},
  };
  std::map<Hash128, std::string> seen{{key({net()}), "default"}};
  for (const auto& [name, change] : changes) {
    CompileOptions options;
    change(options);
    const auto [at, added] = seen.emplace(key({net()}, options), name);
    EXPECT_TRUE(added) << name << " has the key of " << at->second;
  }
}

TEST_F(CompileKeys, DoNotDependOnTheRest) {
  const Hash128 base = key({net()});
  EXPECT_EQ(key({net()}, {}, "elsewhere/deeper"), base) << "the folder";
  CompileOptions options;
  options.jobs = 3;
  options.threads = 1'000;
  options.no_clobber = true;
  options.dry_run = true;
  options.make_folder = true;
  options.progress = [](CompileStage, double) {};
  options.cancelled = [] { return false; };
  EXPECT_EQ(key({net()}, options), base);
  options = {};
  options.keep_unchanged = true;
  EXPECT_EQ(key({net()}, options), base);
  options = {};
  options.providers = {"CtxgenDnnlExecutionProvider"};  // cpu is appended
  EXPECT_EQ(key({net()}, options), base) << "another spelling of the default";
  options = {};
  options.bin = "out/net_dnnl.bin";
  EXPECT_EQ(key({net()}, options), base) << "the default name, given";
}

TEST_F(CompileKeys, DependOnModelsTheirNamesAndTheirOrder) {
  ModelInput other = net("b.onnx");
  other.bytes = parse_model(std::string(kNet).replace(std::string(kNet).find("Exp"), 3, "Abs"));
  EXPECT_NE(key({net("a.onnx")}), key({net("c.onnx")}));
  ModelInput renamed = other;
  renamed.name = "net.onnx";
  EXPECT_NE(key({net()}), key({renamed}));
  EXPECT_NE(key({net("a.onnx"), other}), key({other, net("a.onnx")}));
  EXPECT_NE(key({net("a.onnx"), other}), key({net("a.onnx")}));
}

TEST_F(CompileKeys, DependOnOptionsOfProviders) {
  const OptionedProvider toy("toy", {"Mul"});
  CompileOptions options;
  options.providers = {"toy"};
  options.extra_providers = {&toy};
  const Hash128 base = key({net()}, options);
  options.provider_options = {{"toy", {"speed", "1"}}};
  const Hash128 slow = key({net()}, options);
  options.provider_options = {{"toy", {"speed", "2"}}};
  EXPECT_NE(base, slow);
  EXPECT_NE(slow, key({net()}, options));
}

TEST_F(CompileKeys, DependOnExternalDataWhereverItLies) {
  temp_.write("a/net.onnx", external_model("w.bin"));
  temp_.write("a/w.bin", "12345678");
  const Hash128 base = key({file(temp_ / "a/net.onnx")});
  temp_.write("b/net.onnx", external_model("w.bin"));
  temp_.write("data/w.bin", "12345678");
  CompileOptions options;
  options.external_data_folder = temp_ / "data";
  EXPECT_EQ(key({file(temp_ / "b/net.onnx")}, options), base);
  temp_.write("data/w.bin", "12345679");
  EXPECT_NE(key({file(temp_ / "b/net.onnx")}, options), base);
}

TEST_F(CompileKeys, OfModelsStandInThem) {
  const auto a = file(temp_.write("a.onnx", external_model("w.bin")));
  const auto b = file(temp_.write("b.onnx", external_model("w.bin")));
  temp_.write("w.bin", "12345678");
  const std::vector<fs::path> outputs = {temp_ / "a_ctx.onnx", temp_ / "b_ctx.onnx"};
  const auto found = compile_key({a, b}, outputs, {});
  const auto report = compile_to_files({a, b}, outputs, {});
  ASSERT_EQ(code_of(found), test::kOk);
  ASSERT_EQ(code_of(report), test::kOk);
  EXPECT_EQ(report->key, found->hash);
  EXPECT_EQ(report->files_read, found->files_read);
  EXPECT_THAT(report->files_read, ElementsAre(a.path, temp_ / "w.bin", b.path));
  ASSERT_EQ(found->models.size(), outputs.size());
  for (std::size_t m = 0; m < outputs.size(); ++m) {
    const auto model = read_model_file(outputs[m]);
    ASSERT_EQ(code_of(model), test::kOk);
    EXPECT_THAT(model->metadata,
                testing::Contains(Pair(kCompileKeyMetadata, found->models[m].hash.hex())));
    EXPECT_THAT(model->metadata,
                testing::Contains(Pair(kCompileKeyPartsMetadata, found->models[m].parts)));
  }
}

// What merging and splitting change is in the key of the compile, not in that of the model.
TEST_F(CompileKeys, OfModelsDependNeitherOnOthersNorOnTheFilesTheyShare) {
  const auto of_models = [&](const std::vector<ModelInput>& inputs, const CompileOptions& options) {
    std::vector<fs::path> outputs;
    for (const ModelInput& input : inputs) outputs.push_back(default_output_name(input.name));
    std::vector<Hash128> hashes;
    const auto found = compile_key(inputs, outputs, options);
    EXPECT_EQ(code_of(found), test::kOk);
    for (const ModelKey& one : found->models) hashes.push_back(one.hash);
    return hashes;
  };
  const Hash128 alone = of_models({net("b.onnx")}, {}).front();
  EXPECT_THAT(of_models({net("a.onnx"), net("b.onnx")}, {}), ElementsAre(testing::_, alone));
  CompileOptions options;
  options.bin = "other.bin";
  EXPECT_THAT(of_models({net("b.onnx")}, options), ElementsAre(alone));
  options = {};
  options.embed = true;
  EXPECT_THAT(of_models({net("b.onnx")}, options), ElementsAre(alone));
  options = {};
  options.external_initializers = "one";
  const Hash128 external = of_models({net("b.onnx")}, options).front();
  EXPECT_NE(external, alone);
  options.external_initializers = "two";
  EXPECT_THAT(of_models({net("b.onnx")}, options), ElementsAre(external));
}

TEST_F(CompileKeys, ReportRelativeFilesAsTheyAreGiven) {
  temp_.write("net.onnx", external_model("w.bin"));
  temp_.write("sub/net.onnx", external_model("w.bin"));
  temp_.write("w.bin", "12345678");
  temp_.write("sub/w.bin", "12345678");
  const fs::path before = fs::current_path();
  fs::current_path(temp_.path());
  const auto here = compile_key({file("net.onnx")}, {"net_ctx.onnx"}, {});
  const auto below = compile_key({file("sub/net.onnx")}, {"net_ctx.onnx"}, {});
  fs::current_path(before);
  ASSERT_EQ(code_of(here), test::kOk);
  ASSERT_EQ(code_of(below), test::kOk);
  EXPECT_THAT(here->files_read, ElementsAre("net.onnx", "w.bin"));
  EXPECT_THAT(below->files_read, ElementsAre("sub/net.onnx", "sub/w.bin"));
}

TEST_F(CompileKeys, NeedReadableInputs) {
  const auto missing = compile_key({file(temp_ / "none.onnx")}, {temp_ / "out.onnx"}, {});
  EXPECT_EQ(code_of(missing), ErrorCode::kIoError);
  temp_.write("net.onnx", external_model("w.bin"));
  const auto half = compile_key({file(temp_ / "net.onnx")}, {temp_ / "out.onnx"}, {});
  EXPECT_EQ(code_of(half), ErrorCode::kIoError);
}

}  // namespace
}  // namespace ctxgen
