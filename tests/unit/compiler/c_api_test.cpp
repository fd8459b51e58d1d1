#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/onnx_lite/external_place.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "c_api_status.h"
#include "ctxgen_compiler.h"
#include "parse_model.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

// MatMul and Relu are compiled, Mod stays on cpu with what it reads. `n` is a dimension to plan for.
constexpr const char* kModel = R"(
<ir_version: 8, opset_import: ["" : 17]>
graph (float[n, 4] x) => (float[n, 2] z) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[2] kept = {2, 3}> {
  m = MatMul(x, w)
  y = Relu(m)
  z = Mod <fmod = 1> (y, kept)
})";

constexpr const char* kOverridable = R"(
<ir_version: 8, opset_import: ["" : 17]>
graph (float[n, 4] x, float[4, 2] w) => (float[n, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
  y = MatMul(x, w)
})";

constexpr const char* kNobodyRuns = R"(
<ir_version: 8, opset_import: ["" : 17, "test.unknown" : 1]>
graph (float[2] x) => (float[2] y) {
  y = test.unknown.Frobnicate(x)
})";

class CApi : public testing::Test {
 protected:
  void SetUp() override { ASSERT_DONE(ctxgen_compile_options_create(&options)); }
  void TearDown() override {
    ctxgen_compiler_release(compiler);
    ctxgen_compile_options_release(options);
  }

  /// Compiles `text` to memory with `options`.
  Failure compile(const char* text = kModel) {
    ctxgen_compiler_release(compiler);
    compiler = nullptr;
    source = parse_model(text);
    if (Failure f = take(ctxgen_compiler_create(options, &compiler)); f.code != CTXGEN_OK) return f;
    if (Failure f = take(ctxgen_compiler_add_model_memory(compiler, "net.onnx", source.bytes.data(),
                                                          source.bytes.size()));
        f.code != CTXGEN_OK)
      return f;
    if (Failure f = take(ctxgen_compiler_set_output_memory(compiler)); f.code != CTXGEN_OK)
      return f;
    return take(ctxgen_compiler_run(compiler));
  }

  /// The model that went to memory.
  Model model() {
    const void* data = nullptr;
    size_t size = 0;
    EXPECT_EQ(code(ctxgen_compiler_model(compiler, 0, &data, &size)), CTXGEN_OK);
    ReadModelOptions read;
    for (auto& [name, bytes] : bins()) read.external_buffers.emplace_back(name, Blob::own(bytes));
    read.external_buffers.emplace_back("mine.data", Blob::own(std::vector<std::byte>(72)));
    auto result = read_model(Blob{nullptr, {static_cast<const std::byte*>(data), size}}, read);
    EXPECT_TRUE(result) << result.error().message;
    return result ? std::move(*result) : Model();
  }

  const Node* ep_context(const Model& m) {
    for (const Node& node : m.graph.nodes())
      if (node.op_type == "EPContext") return &node;
    return nullptr;
  }

  std::map<std::string, std::vector<std::byte>> bins() {
    std::map<std::string, std::vector<std::byte>> all;
    for (size_t i = 0; i < ctxgen_compiler_bin_count(compiler); ++i) {
      const char* name = nullptr;
      const void* data = nullptr;
      size_t size = 0;
      EXPECT_EQ(code(ctxgen_compiler_bin(compiler, i, &name, &data, &size)), CTXGEN_OK);
      const auto* bytes = static_cast<const std::byte*>(data);
      all.emplace(name, std::vector<std::byte>(bytes, bytes + size));
    }
    return all;
  }

  ctxgen_model_report report() {
    ctxgen_model_report r{};
    r.struct_size = sizeof(r);
    EXPECT_EQ(code(ctxgen_compiler_report(compiler, 0, &r)), CTXGEN_OK);
    return r;
  }

  std::string write_source(const char* name, const char* text = kModel) {
    const Blob bytes = parse_model(text);
    const std::filesystem::path path = folder.path() / name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.bytes.data()),
               static_cast<std::streamsize>(bytes.bytes.size()));
    return path.string();
  }

  std::vector<std::string> files() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  /// Compiles a model in a file to files beside it.
  Failure compile_file(const std::string& path) {
    ctxgen_compiler* one = nullptr;
    if (Failure f = take(ctxgen_compiler_create(options, &one)); f.code != CTXGEN_OK) return f;
    Failure f = take(ctxgen_compiler_add_model_file(one, path.c_str()));
    if (f.code == CTXGEN_OK) f = take(ctxgen_compiler_run(one));
    ctxgen_compiler_release(one);
    return f;
  }

  ctxgen_compile_options* options = nullptr;
  ctxgen_compiler* compiler = nullptr;
  Blob source;
  test::TempFolder folder;
};

TEST(CStatus, NullIsSuccess) {
  EXPECT_EQ(ctxgen_status_code(nullptr), CTXGEN_OK);
  EXPECT_STREQ(ctxgen_status_message(nullptr), "");
  ctxgen_status_release(nullptr);
  EXPECT_NE(std::string(ctxgen_compiler_version()), "");
}

TEST(CStatus, NullArgumentsAreRefused) {
  EXPECT_EQ(code(ctxgen_compile_options_create(nullptr)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compile_options_set_embed(nullptr, 1)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compiler_create(nullptr, nullptr)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compiler_run(nullptr)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(ctxgen_compiler_model_count(nullptr), 0U);
  EXPECT_EQ(ctxgen_compiler_bin_count(nullptr), 0U);
  EXPECT_EQ(ctxgen_compiler_warning(nullptr, 0, 0), nullptr);
  ctxgen_compiler_release(nullptr);
  ctxgen_compile_options_release(nullptr);
}

TEST_F(CApi, SetConfig) {
  ASSERT_DONE(ctxgen_compile_options_set_config(options, "ep.context_embed_mode", "1"));
  EXPECT_EQ(code(ctxgen_compile_options_set_config(options, "ep.context_embed_mode", "1")),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compile_options_set_config(options, "ep.unknown", "1")),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compile_options_set_config(options, nullptr, "1")),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(compile().code, CTXGEN_OK);
  EXPECT_TRUE(bins().empty());
}

TEST_F(CApi, SettersAndKeysThatDifferContradictEachOther) {
  ASSERT_DONE(ctxgen_compile_options_set_config(options, "ep.context_node_name_prefix", "a"));
  ASSERT_DONE(ctxgen_compile_options_set_node_prefix(options, "b"));
  const Failure failure = compile();
  EXPECT_EQ(failure.code, CTXGEN_INVALID_ARGUMENT);
  EXPECT_NE(failure.message.find("ep.context_node_name_prefix"), std::string::npos);
  EXPECT_NE(failure.message.find("ctxgen_compile_options_set_node_prefix"), std::string::npos);
}

TEST_F(CApi, SetProviders) {
  const char* const cpu[] = {"cpu"};
  ASSERT_DONE(ctxgen_compile_options_set_providers(options, cpu, 1));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(report().compiled_nodes, 0U);
  EXPECT_EQ(report().warnings, 1U);
  EXPECT_NE(ctxgen_compiler_warning(compiler, 0, 0), nullptr);
  EXPECT_EQ(ctxgen_compiler_warning(compiler, 0, 1), nullptr);
  const char* const unknown[] = {"abacus"};
  ASSERT_DONE(ctxgen_compile_options_set_providers(options, unknown, 1));
  EXPECT_EQ(compile().code, CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, AddProviderOption) {
  ASSERT_DONE(ctxgen_compile_options_add_provider_option(options, "dnnl", "no_such_option", "1"));
  const Failure failure = compile();
  EXPECT_EQ(failure.code, CTXGEN_INVALID_ARGUMENT);
  EXPECT_NE(failure.message.find("no_such_option"), std::string::npos);
}

TEST_F(CApi, SetEmbed) {
  ASSERT_DONE(ctxgen_compile_options_set_embed(options, 1));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_TRUE(bins().empty());
  const Model m = model();
  ASSERT_NE(ep_context(m), nullptr);
  EXPECT_EQ(ep_context(m)->int_or("embed_mode", 0), 1);
}

TEST_F(CApi, SetNodePrefix) {
  ASSERT_DONE(ctxgen_compile_options_set_node_prefix(options, "left_"));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  const Model m = model();
  ASSERT_NE(ep_context(m), nullptr);
  EXPECT_TRUE(ep_context(m)->string_or("partition_name", "").starts_with("left_"));
}

TEST_F(CApi, SetBinPath) {
  const std::string bin = (folder.path() / "weights.bin").string();
  ASSERT_DONE(ctxgen_compile_options_set_bin_path(options, bin.c_str()));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(files(), std::vector<std::string>{"weights.bin"});
  EXPECT_EQ(ep_context(model())->string_or("ep_cache_context", ""), "weights.bin");
}

TEST_F(CApi, AnEmptyPathIsNotTakenForNone) {
  for (const auto set : {ctxgen_compile_options_set_bin_path, ctxgen_compile_options_set_append,
                         ctxgen_compile_options_set_external_data_folder})
    EXPECT_EQ(code(set(options, "")), CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, SetBinaryInformation) {
  EXPECT_EQ(code(ctxgen_compile_options_set_binary_information(options, "", "net")),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compile_options_set_binary_information(options, "f", "")),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compile_options_set_binary_information(options, "f", "a/b")),
            CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(
      ctxgen_compile_options_set_binary_information(options, folder.path().c_str(), "other"));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(files(), std::vector<std::string>{"other_dnnl.bin"});
  EXPECT_EQ(ep_context(model())->string_or("ep_cache_context", ""), "other_dnnl.bin");
}

TEST_F(CApi, SetExternalInitializers) {
  std::string values = "1";  // 100 of them: too many for shape inference to read, so they may move
  for (int i = 1; i < 100; ++i) values += ", 1";
  const std::string text = R"(
<ir_version: 8, opset_import: ["" : 17]>
graph (float[100] x) => (float[100] y) <float[100] kept = {)" +
                           values + R"(}> {
  y = Mod <fmod = 1> (x, kept)
})";
  EXPECT_EQ(code(ctxgen_compile_options_set_external_initializers(options, "", 0)),
            CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_compile_options_set_external_initializers(options, "net.weights", 400));
  ASSERT_EQ(compile(text.c_str()).code, CTXGEN_OK);
  EXPECT_TRUE(bins().contains("net.weights"));
  ASSERT_DONE(ctxgen_compile_options_set_external_initializers(options, "net.weights", 401));
  ASSERT_EQ(compile(text.c_str()).code, CTXGEN_OK);
  EXPECT_EQ(bins().at("net.weights").size(), 64U);  // the header alone: outputs are known before
}

TEST_F(CApi, SetInitializerLocationFunction) {
  struct Seen {
    int answer = CTXGEN_LOCATION_PLACE;
    std::vector<std::string> names;
  } seen;
  const ctxgen_location_function function = [](void* user, const ctxgen_initializer* initializer,
                                               const char** file, uint64_t* offset) -> int {
    auto& s = *static_cast<Seen*>(user);
    s.names.emplace_back(initializer->name);
    EXPECT_STREQ(initializer->model, "net.onnx");
    EXPECT_EQ(initializer->rank, 1U);
    EXPECT_EQ(initializer->size, 8U);
    EXPECT_EQ(initializer->external_file, nullptr);
    *file = "mine.data";
    *offset = 64;
    return s.answer;
  };
  ASSERT_DONE(ctxgen_compile_options_set_initializer_location_function(options, function, &seen));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(seen.names, std::vector<std::string>{"kept"});
  const Model m = model();
  const auto place = external_place(m, m.graph.value(m.graph.find("kept")));
  ASSERT_TRUE(place && *place);
  EXPECT_EQ((*place)->location, "mine.data");
  EXPECT_EQ((*place)->offset, 64U);
  seen.answer = CTXGEN_LOCATION_FAIL;
  EXPECT_EQ(compile().code, CTXGEN_CANCELLED);
  seen.answer = CTXGEN_LOCATION_KEEP;  // it is inline
  EXPECT_EQ(compile().code, CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_compile_options_set_external_initializers(options, "w", 0));
  EXPECT_EQ(compile().code, CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, SetExternalDataFolder) {
  constexpr const char* kExternal = R"(
<ir_version: 8, opset_import: ["" : 17]>
graph (float[2] x) => (float[2] y) <float[2] far = ["location": "far.data", "offset": "0", "length": "8"]> {
  y = Mod <fmod = 1> (x, far)
})";
  EXPECT_NE(compile(kExternal).code, CTXGEN_OK);
  std::ofstream(folder.path() / "far.data", std::ios::binary) << "\0\0\200\077\0\0\200\077";
  std::filesystem::resize_file(folder.path() / "far.data", 8);
  ASSERT_DONE(ctxgen_compile_options_set_external_data_folder(options, folder.path().c_str()));
  EXPECT_EQ(compile(kExternal).code, CTXGEN_OK);
}

TEST_F(CApi, AddProfile) {
  const ctxgen_dim dim{"n", 7};
  ASSERT_DONE(ctxgen_compile_options_add_profile(options, &dim, 1, nullptr, 0));
  const int64_t sizes[] = {9, 4};
  const ctxgen_shape shape{"x", sizes, 2};
  ASSERT_DONE(ctxgen_compile_options_add_profile(options, nullptr, 0, &shape, 1));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  const auto planned = bins().begin()->second.size();
  ctxgen_compile_options_release(options);
  options = nullptr;
  ASSERT_DONE(ctxgen_compile_options_create(&options));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_NE(bins().begin()->second, std::vector<std::byte>());
  EXPECT_GE(planned, bins().begin()->second.size());
  EXPECT_EQ(ep_context(model())->int_or("max_size", -1), 0);  // nothing was planned ahead
  const ctxgen_dim unknown{"no_such_dim", 7};
  ASSERT_DONE(ctxgen_compile_options_add_profile(options, &unknown, 1, nullptr, 0));
  EXPECT_EQ(compile().code, CTXGEN_INVALID_ARGUMENT);
  const ctxgen_dim negative{"n", -1};
  EXPECT_EQ(code(ctxgen_compile_options_add_profile(options, &negative, 1, nullptr, 0)),
            CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, AddFixedDim) {
  ASSERT_DONE(ctxgen_compile_options_add_fixed_dim(options, "n", 5));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  const Model m = model();
  EXPECT_EQ(m.graph.value(m.graph.inputs.front()).type.fixed_dims(), (Dims{5, 4}));
}

TEST_F(CApi, AddInputName) {
  ASSERT_DONE(ctxgen_compile_options_add_input_name(options, "no such value"));
  EXPECT_EQ(compile().code, CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compile_options_add_input_name(options, nullptr)), CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, AddOutputName) {
  const std::string output = "y";
  ASSERT_DONE(ctxgen_compile_options_add_output_name(options, output.c_str()));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  const Model m = model();
  ASSERT_EQ(m.graph.outputs.size(), 1U);
  EXPECT_EQ(m.graph.value(m.graph.outputs.front()).name, output);
}

TEST_F(CApi, SetFreezeInitializers) {
  ASSERT_EQ(compile(kOverridable).code, CTXGEN_OK);
  EXPECT_EQ(model().graph.inputs.size(), 2U);
  ASSERT_DONE(ctxgen_compile_options_set_freeze_initializers(options, 1));
  ASSERT_EQ(compile(kOverridable).code, CTXGEN_OK);
  EXPECT_EQ(model().graph.inputs.size(), 1U);
}

TEST_F(CApi, SetSubgraphs) {
  ASSERT_DONE(ctxgen_compile_options_set_subgraphs(options, 1));
  EXPECT_EQ(compile().code, CTXGEN_OK);
  ASSERT_DONE(ctxgen_compile_options_set_embed(options, 1));
  const Failure failure = compile();  // an embedded payload has no place in a body
  EXPECT_EQ(failure.code, CTXGEN_INVALID_ARGUMENT);
  EXPECT_NE(failure.message.find("subgraphs"), std::string::npos);
}

TEST_F(CApi, SetGraphOptimization) {
  for (const int level : {0, 1, 2, 99}) {
    ASSERT_DONE(ctxgen_compile_options_set_graph_optimization(options, level));
    EXPECT_EQ(compile().code, CTXGEN_OK) << level;
  }
  for (const int level : {3, 4, 98, -1})
    EXPECT_EQ(code(ctxgen_compile_options_set_graph_optimization(options, level)),
              CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, SetFlagsNoNodesCompiled) {
  ASSERT_DONE(ctxgen_compile_options_set_flags(options, CTXGEN_ERROR_IF_NO_NODES_COMPILED));
  EXPECT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(compile(kNobodyRuns).code, CTXGEN_NOT_SATISFIED);
  EXPECT_EQ(code(ctxgen_compile_options_set_flags(options, 4)), CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, SetFlagsOutputExists) {
  ASSERT_DONE(ctxgen_compile_options_set_flags(options, CTXGEN_ERROR_IF_OUTPUT_EXISTS));
  const std::string net = write_source("net.onnx");
  for (const ctxgen_code expected : {CTXGEN_OK, CTXGEN_INVALID_ARGUMENT}) {
    ctxgen_compiler* one = nullptr;
    ASSERT_DONE(ctxgen_compiler_create(options, &one));
    ASSERT_DONE(ctxgen_compiler_add_model_file(one, net.c_str()));
    EXPECT_EQ(code(ctxgen_compiler_run(one)), expected);
    ctxgen_compiler_release(one);
  }
}

TEST_F(CApi, SetStrict) {
  ASSERT_DONE(ctxgen_compile_options_set_strict(options, 1));
  EXPECT_EQ(compile().code, CTXGEN_NOT_SATISFIED);
}

TEST_F(CApi, SetRequireRunnable) {
  EXPECT_EQ(compile(kNobodyRuns).code, CTXGEN_OK);
  ASSERT_DONE(ctxgen_compile_options_set_require_runnable(options, 1));
  EXPECT_EQ(compile(kNobodyRuns).code, CTXGEN_NOT_SATISFIED);
}

TEST_F(CApi, SetThreads) {
  EXPECT_EQ(code(ctxgen_compile_options_set_threads(options, -1)), CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_compile_options_set_threads(options, 1));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  const auto one = bins();
  ASSERT_DONE(ctxgen_compile_options_set_threads(options, 3));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(bins(), one);  // one file serves every number of threads
}

TEST_F(CApi, SetJobs) {
  EXPECT_EQ(code(ctxgen_compile_options_set_jobs(options, 5000)), CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_compile_options_set_jobs(options, 1));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  const auto one = bins();
  ASSERT_DONE(ctxgen_compile_options_set_jobs(options, 2));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(bins(), one);
}

TEST_F(CApi, SetKeepUnchanged) {
  ASSERT_DONE(ctxgen_compile_options_set_keep_unchanged(options, 1));
  const std::string net = write_source("net.onnx");
  ASSERT_EQ(compile_file(net).code, CTXGEN_OK);
  const auto output = folder.path() / "net_ctx.onnx";
  std::filesystem::last_write_time(output, std::filesystem::file_time_type{});
  ASSERT_EQ(compile_file(net).code, CTXGEN_OK);
  EXPECT_EQ(std::filesystem::last_write_time(output), std::filesystem::file_time_type{});
  ASSERT_DONE(ctxgen_compile_options_set_keep_unchanged(options, 0));
  ASSERT_EQ(compile_file(net).code, CTXGEN_OK);
  EXPECT_NE(std::filesystem::last_write_time(output), std::filesystem::file_time_type{});
}

/// A product with 64 x 64 ones.
std::string wide_model() {
  std::string ones = "1";
  for (int i = 1; i < 64 * 64; ++i) ones += ", 1";
  return R"(<ir_version: 8, opset_import: ["" : 17]>
graph (float[8, 64] x) => (float[8, 64] y) <float[64, 64] w = {)" +
         ones + R"(}> { y = MatMul(x, w) })";
}

/// Two weights in one partition.
std::string deep_model() {
  std::string ones = "1", twos = "2";
  for (int i = 1; i < 8 * 8; ++i) {
    ones += ", 1";
    twos += ", 2";
  }
  return R"(<ir_version: 8, opset_import: ["" : 17]>
graph (float[8, 8] x) => (float[8, 8] y) <float[8, 8] v = {)" +
         ones + "}, float[8, 8] w = {" + twos + R"(}> { h = MatMul(x, v) y = MatMul(h, w) })";
}

TEST_F(CApi, SetForce) {
  const std::string net = write_source("net.onnx");
  ASSERT_EQ(compile_file(net).code, CTXGEN_OK);
  std::filesystem::copy_file(folder.path() / "net_ctx.onnx", folder.path() / "other_ctx.onnx");
  ASSERT_EQ(compile_file(net).code, CTXGEN_OK);  // the same bin: the other goes on
  write_source("net.onnx", wide_model().c_str());
  EXPECT_EQ(compile_file(net).code, CTXGEN_NOT_SATISFIED);
  ASSERT_DONE(ctxgen_compile_options_set_force(options, 1));
  EXPECT_EQ(compile_file(net).code, CTXGEN_OK);
  ASSERT_DONE(ctxgen_compile_options_set_force(options, 0));
  EXPECT_EQ(compile_file(net).code,
            CTXGEN_OK);  // the other does not load any more: nothing to lose
}

TEST_F(CApi, OutputsReplaceNothingThatIsRead) {
  const std::string net = write_source("net.onnx");
  const auto before = std::filesystem::file_size(net);
  ASSERT_DONE(ctxgen_compile_options_set_bin_path(options, net.c_str()));
  EXPECT_EQ(compile_file(net).code, CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_compile_options_set_bin_path(
      options, (folder.path() / "net_ctx.onnx").string().c_str()));
  EXPECT_EQ(compile_file(net).code, CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(files(), std::vector<std::string>{"net.onnx"});
  EXPECT_EQ(std::filesystem::file_size(net), before);
}

TEST_F(CApi, SetDryRun) {
  ASSERT_DONE(ctxgen_compile_options_set_dry_run(options, 1));
  ASSERT_EQ(compile_file(write_source("net.onnx")).code, CTXGEN_OK);
  EXPECT_EQ(files(), std::vector<std::string>{"net.onnx"});
}

TEST_F(CApi, SetCompression) {
  EXPECT_EQ(code(ctxgen_compile_options_set_compression(options, 20)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compile_options_set_compression(options, -1)), CTXGEN_INVALID_ARGUMENT);
  const std::string text = wide_model();
  ASSERT_EQ(compile(text.c_str()).code, CTXGEN_OK);
  const auto stored = bins().begin()->second.size();
  ASSERT_DONE(ctxgen_compile_options_set_compression(options, 9));
  ASSERT_EQ(compile(text.c_str()).code, CTXGEN_OK);
  EXPECT_LT(bins().begin()->second.size() + 15000, stored);
}

TEST_F(CApi, SetPortable) {
  ASSERT_DONE(ctxgen_compile_options_set_portable(options, 1));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(ep_context(model())->string_or("hardware_architecture", ""), "portable");
}

TEST_F(CApi, SetIsa) {
  EXPECT_EQ(code(ctxgen_compile_options_set_isa(options, "")), CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_compile_options_set_isa(options, "pentium"));
  const Failure unknown = compile();
  EXPECT_EQ(unknown.code, CTXGEN_INVALID_ARGUMENT);
  EXPECT_NE(unknown.message.find("pentium"), std::string::npos) << unknown.message;
  // It limits a process for good: in one of its own.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        bool well = code(ctxgen_compile_options_set_isa(options, "sse41")) == CTXGEN_OK &&
                    compile().code == CTXGEN_OK;
        well = well && ep_context(model())->string_or("hardware_architecture", "") == "sse41";
        std::exit(well ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(CApi, SetAppend) {
  ASSERT_EQ(compile_file(write_source("net.onnx")).code, CTXGEN_OK);
  const std::string bin = (folder.path() / "net_dnnl.bin").string();
  const auto before = std::filesystem::file_size(bin);
  ASSERT_DONE(ctxgen_compile_options_set_append(options, bin.c_str()));
  EXPECT_EQ(compile().code, CTXGEN_INVALID_ARGUMENT);  // to memory
  ASSERT_EQ(compile_file(write_source("wide.onnx", wide_model().c_str())).code, CTXGEN_OK);
  EXPECT_GE(std::filesystem::file_size(bin), before + 64 * 64 * 4);
  EXPECT_EQ(files(), (std::vector<std::string>{"net.onnx", "net_ctx.onnx", "net_dnnl.bin",
                                               "wide.onnx", "wide_ctx.onnx"}));
}

TEST_F(CApi, SetLike) {
  ASSERT_EQ(compile_file(write_source("net.onnx")).code, CTXGEN_OK);
  const std::string context = (folder.path() / "net_ctx.onnx").string();
  ASSERT_DONE(ctxgen_compile_options_set_like(options, context.c_str()));
  EXPECT_EQ(compile().code, CTXGEN_OK);
  std::string tuned = kModel;
  tuned.replace(tuned.find("{1, 2, 3"), 8, "{9, 8, 7");
  EXPECT_EQ(compile(tuned.c_str()).code, CTXGEN_OK);
  EXPECT_EQ(compile(wide_model().c_str()).code, CTXGEN_NOT_SATISFIED);
  EXPECT_EQ(code(ctxgen_compile_options_set_like(options, "")), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compile_options_set_like(options, nullptr)), CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, SetCache) {
  const std::string cache = (folder.path() / "cache").string();
  ASSERT_DONE(ctxgen_compile_options_set_cache(options, cache.c_str(), 0));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_FALSE(std::filesystem::is_empty(cache));
  const auto cold = bins();
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(bins(), cold);
  std::filesystem::remove_all(cache);
  ASSERT_DONE(ctxgen_compile_options_set_cache(options, "", 0));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_FALSE(std::filesystem::exists(cache));
}

TEST_F(CApi, SetRemoteCache) {
  const std::string cache = (folder.path() / "cache").string();
  // There is no server, and there has to be a local cache: neither the one nor the other is passed over.
  ASSERT_DONE(ctxgen_compile_options_set_remote_cache(options, "http://127.0.0.1:9", nullptr, 1));
  const std::string net = write_source("net.onnx");
  EXPECT_EQ(compile_file(net).code, CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_compile_options_set_cache(options, cache.c_str(), 0));
  EXPECT_EQ(compile_file(net).code, CTXGEN_OK);
  EXPECT_EQ(compile().code, CTXGEN_INVALID_ARGUMENT) << "what goes to memory is not shared";
  ASSERT_DONE(ctxgen_compile_options_set_remote_cache(options, "ftp://127.0.0.1", nullptr, 0));
  EXPECT_EQ(compile_file(net).code, CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_compile_options_set_remote_cache(options, "", nullptr, 0));
  EXPECT_EQ(compile_file(net).code, CTXGEN_OK);
  EXPECT_EQ(code(ctxgen_compile_options_set_remote_cache(options, nullptr, nullptr, 0)),
            CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, Regroup) {
  const std::string one = write_source("one.onnx"), two = write_source("two.onnx");
  ASSERT_EQ(compile_file(one).code, CTXGEN_OK);
  ASSERT_EQ(compile_file(two).code, CTXGEN_OK);
  std::filesystem::create_directory(folder / "group");
  const std::string models[] = {(folder / "one_ctx.onnx").string(),
                                (folder / "two_ctx.onnx").string()};
  const std::string outputs[] = {(folder / "group" / "one_ctx.onnx").string(),
                                 (folder / "group" / "two_ctx.onnx").string()};
  const char* in[] = {models[0].c_str(), models[1].c_str()};
  const char* out[] = {outputs[0].c_str(), outputs[1].c_str()};
  ASSERT_DONE(ctxgen_regroup(in, out, 2, nullptr));
  EXPECT_TRUE(std::filesystem::exists(folder / "group" / "one_dnnl.bin"));
  EXPECT_FALSE(std::filesystem::exists(folder / "group" / "two_dnnl.bin"));
  // Out again, into one file.
  const std::string alone = (folder / "alone_ctx.onnx").string();
  const char* second[] = {outputs[1].c_str()};
  const char* single[] = {alone.c_str()};
  ctxgen_regroup_options how{};
  how.struct_size = sizeof how;
  how.embed = 1;
  ASSERT_DONE(ctxgen_regroup(second, single, 1, &how));
  EXPECT_TRUE(std::filesystem::exists(alone));
  EXPECT_FALSE(std::filesystem::exists(folder / "alone_dnnl.bin"));
  how.no_clobber = 1;
  EXPECT_EQ(code(ctxgen_regroup(second, single, 1, &how)), CTXGEN_INVALID_ARGUMENT);
  how.struct_size = 3;
  EXPECT_EQ(code(ctxgen_regroup(second, single, 1, &how)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_regroup(nullptr, single, 1, nullptr)), CTXGEN_INVALID_ARGUMENT);
  const char* hole[] = {nullptr};
  EXPECT_EQ(code(ctxgen_regroup(hole, single, 1, nullptr)), CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, Bundle) {
  ASSERT_EQ(compile_file(write_source("one.onnx")).code, CTXGEN_OK);
  const std::string model = (folder / "one_ctx.onnx").string();
  const char* models[] = {model.c_str()};
  const std::string layout = (folder / "layout").string(), image = (folder / "image").string();
  const std::string package = (folder / "package").string();
  ASSERT_DONE(ctxgen_bundle(models, 1, layout.c_str(), CTXGEN_BUNDLE_OCI, "v1"));
  EXPECT_TRUE(std::filesystem::exists(folder / "layout/index.json"));
  ASSERT_DONE(ctxgen_bundle(models, 1, image.c_str(), CTXGEN_BUNDLE_OCI_IMAGE, nullptr));
  EXPECT_TRUE(std::filesystem::exists(folder / "image/oci-layout"));
  ASSERT_DONE(ctxgen_bundle(models, 1, package.c_str(), CTXGEN_BUNDLE_MODEL_PACKAGE, nullptr));
  EXPECT_TRUE(std::filesystem::exists(folder / "package/manifest.json"));
  EXPECT_EQ(code(ctxgen_bundle(models, 1, layout.c_str(), CTXGEN_BUNDLE_OCI, nullptr)),
            CTXGEN_INVALID_ARGUMENT)
      << "the folder is not empty";
  const std::string other = (folder / "other").string();
  EXPECT_EQ(code(ctxgen_bundle(models, 1, other.c_str(), CTXGEN_BUNDLE_OCI, "not a tag")),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_bundle(nullptr, 0, other.c_str(), CTXGEN_BUNDLE_OCI, nullptr)),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_bundle(models, 1, nullptr, CTXGEN_BUNDLE_OCI, nullptr)),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_FALSE(std::filesystem::exists(other));
}

TEST_F(CApi, Shards) {
  const char* names[] = {"a.onnx", "b.onnx", "c.onnx", "d.onnx"};
  size_t all[4] = {9, 9, 9, 9}, some[2] = {9, 9};
  ASSERT_DONE(ctxgen_shards_by_name(names, 4, 3, all));
  ASSERT_DONE(ctxgen_shards_by_name(names + 2, 2, 3, some));
  EXPECT_EQ(all[2], some[0]) << "a name has its share in every list";
  EXPECT_EQ(all[3], some[1]);
  for (const size_t shard : all) EXPECT_LT(shard, 3U);
  EXPECT_EQ(code(ctxgen_shards_by_name(names, 4, 0, all)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_shards_by_name(names, 4, 3, nullptr)), CTXGEN_INVALID_ARGUMENT);
  const std::string one = write_source("one.onnx"), two = write_source("two.onnx");
  const char* files[] = {one.c_str(), two.c_str()};
  ASSERT_DONE(ctxgen_shards_by_weights(files, 2, 2, some));
  for (const size_t shard : some) EXPECT_LT(shard, 2U);
}

/// Whether this process has a file open that lies in `folder` under no name.
bool has_unnamed_file(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with(folder.string()) && target.ends_with("(deleted)")) return true;
  }
  return false;
}

TEST_F(CApi, SetWeightMemory) {
  struct Seen {
    std::filesystem::path folder;
    bool spilled = false;
  } seen{std::filesystem::canonical(folder.path())};
  const ctxgen_progress_function look = [](void* user, const char*, double) {
    auto& all = *static_cast<Seen*>(user);
    all.spilled = all.spilled || has_unnamed_file(all.folder);
  };
  ASSERT_DONE(ctxgen_compile_options_set_progress_function(options, look, &seen));
  const std::string net = write_source("wide.onnx", wide_model().c_str());
  ASSERT_EQ(compile_file(net).code, CTXGEN_OK);
  EXPECT_FALSE(seen.spilled);
  ASSERT_DONE(ctxgen_compile_options_set_weight_memory(options, 0));
  ASSERT_EQ(compile_file(net).code, CTXGEN_OK);
  EXPECT_TRUE(seen.spilled);
}

TEST_F(CApi, SetProgressFunction) {
  std::vector<std::string> stages;
  const ctxgen_progress_function function = [](void* user, const char* stage, double fraction) {
    EXPECT_GE(fraction, 0);
    EXPECT_LE(fraction, 1);
    auto& all = *static_cast<std::vector<std::string>*>(user);
    if (all.empty() || all.back() != stage) all.emplace_back(stage);
  };
  ASSERT_DONE(ctxgen_compile_options_set_progress_function(options, function, &stages));
  ASSERT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(stages, (std::vector<std::string>{"import", "check", "infer", "fold", "partition",
                                              "compile", "rewrite", "write"}));
}

TEST_F(CApi, ProgressGoesOnInsideOfAPartition) {
  struct Seen {
    double last = 0;
    int inside = 0;
  } seen;
  const ctxgen_progress_function function = [](void* user, const char* stage, double fraction) {
    if (std::string_view(stage) != "compile") return;
    auto& all = *static_cast<Seen*>(user);
    EXPECT_GE(fraction, all.last);
    all.last = fraction;
    all.inside += fraction > 0 && fraction < 1 ? 1 : 0;
  };
  ASSERT_DONE(ctxgen_compile_options_set_progress_function(options, function, &seen));
  ASSERT_EQ(compile_file(write_source("wide.onnx", wide_model().c_str())).code, CTXGEN_OK);
  EXPECT_GT(seen.inside, 0);
}

TEST_F(CApi, CancelledInsideOfAPartition) {
  struct State {
    bool packing = false;
    std::string last;
  } state;
  const ctxgen_progress_function look = [](void* user, const char* stage, double fraction) {
    auto& all = *static_cast<State*>(user);
    all.last = stage;
    all.packing = all.packing || (all.last == "compile" && fraction > 0);
  };
  const ctxgen_cancel_function cancel = [](void* user) {
    return static_cast<State*>(user)->packing ? 1 : 0;
  };
  ASSERT_DONE(ctxgen_compile_options_set_progress_function(options, look, &state));
  ASSERT_DONE(ctxgen_compile_options_set_cancel_function(options, cancel, &state));
  EXPECT_EQ(compile_file(write_source("deep.onnx", deep_model().c_str())).code, CTXGEN_CANCELLED);
  EXPECT_EQ(state.last, "compile");
}

TEST_F(CApi, SetCancelFunction) {
  int left = 3;
  const ctxgen_cancel_function function = [](void* user) {
    return --*static_cast<int*>(user) <= 0 ? 1 : 0;
  };
  ASSERT_DONE(ctxgen_compile_options_set_cancel_function(options, function, &left));
  EXPECT_EQ(compile().code, CTXGEN_CANCELLED);
  ASSERT_DONE(ctxgen_compile_options_set_cancel_function(options, nullptr, nullptr));
  EXPECT_EQ(compile().code, CTXGEN_OK);
}

TEST_F(CApi, SetLogFunction) {
  std::vector<std::string> lines;
  const ctxgen_log_function function = [](void* user, ctxgen_log_level, const char* message) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(message);
  };
  EXPECT_EQ(code(ctxgen_set_log_function(function, &lines, 9)), CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_set_log_function(function, &lines, CTXGEN_LOG_TRACE));
  EXPECT_EQ(compile().code, CTXGEN_OK);
  ASSERT_DONE(ctxgen_set_log_function(nullptr, nullptr, CTXGEN_LOG_ERROR));
  const std::size_t said = lines.size();
  EXPECT_EQ(compile().code, CTXGEN_OK);
  EXPECT_EQ(lines.size(), said);
}

TEST_F(CApi, AModelFromMemoryNeedsAnOutput) {
  source = parse_model(kModel);
  ASSERT_DONE(ctxgen_compiler_create(options, &compiler));
  EXPECT_EQ(code(ctxgen_compiler_run(compiler)), CTXGEN_INVALID_ARGUMENT);  // no model
  EXPECT_EQ(code(ctxgen_compiler_set_output_memory(compiler)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compiler_add_model_memory(compiler, "net.onnx", "", 0)),
            CTXGEN_INVALID_ARGUMENT);
  EXPECT_EQ(code(ctxgen_compiler_add_model_memory(compiler, "a/b.onnx", "x", 1)),
            CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_compiler_add_model_memory(compiler, "net.onnx", source.bytes.data(),
                                               source.bytes.size()));
  EXPECT_EQ(code(ctxgen_compiler_run(compiler)), CTXGEN_INVALID_ARGUMENT);  // no output
  ASSERT_DONE(ctxgen_compiler_set_output_memory(compiler));
  ASSERT_DONE(ctxgen_compiler_run(compiler));
  EXPECT_EQ(code(ctxgen_compiler_run(compiler)), CTXGEN_INVALID_ARGUMENT);  // once
}

TEST_F(CApi, TheContextPathIsTheOutputOfAModelFromMemory) {
  source = parse_model(kModel);
  const std::string output = (folder.path() / "from_memory.onnx").string();
  ASSERT_DONE(ctxgen_compile_options_set_config(options, "ep.context_file_path", output.c_str()));
  ASSERT_DONE(ctxgen_compiler_create(options, &compiler));
  ASSERT_DONE(ctxgen_compiler_add_model_memory(compiler, "net.onnx", source.bytes.data(),
                                               source.bytes.size()));
  ASSERT_DONE(ctxgen_compiler_run(compiler));
  EXPECT_EQ(files(), (std::vector<std::string>{"from_memory.onnx", "from_memory_dnnl.bin"}));
}

TEST_F(CApi, ModelFilesShareOneBinAndFilesAreNotMixedWithMemory) {
  const std::string a = write_source("a.onnx"), b = write_source("b.onnx");
  ASSERT_DONE(ctxgen_compiler_create(options, &compiler));
  ASSERT_DONE(ctxgen_compiler_add_model_file(compiler, a.c_str()));
  ASSERT_DONE(ctxgen_compiler_add_model_file(compiler, b.c_str()));
  ASSERT_DONE(ctxgen_compiler_set_output_memory(compiler));
  EXPECT_EQ(code(ctxgen_compiler_run(compiler)), CTXGEN_INVALID_ARGUMENT);
  ctxgen_compiler_release(compiler);
  ASSERT_DONE(ctxgen_compiler_create(options, &compiler));
  ASSERT_DONE(ctxgen_compiler_add_model_file(compiler, a.c_str()));
  ASSERT_DONE(ctxgen_compiler_add_model_file(compiler, b.c_str()));
  ASSERT_DONE(ctxgen_compiler_run(compiler));
  EXPECT_EQ(files(), (std::vector<std::string>{"a.onnx", "a_ctx.onnx", "a_dnnl.bin", "b.onnx",
                                               "b_ctx.onnx"}));
  const void* data = nullptr;
  size_t size = 0;
  EXPECT_EQ(code(ctxgen_compiler_model(compiler, 0, &data, &size)), CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, GroupsInMemoryShareOneBin) {
  source = parse_model(kModel);
  ASSERT_DONE(ctxgen_compile_options_set_config(options, "ep.share_ep_contexts", "1"));
  ASSERT_DONE(ctxgen_compiler_create(options, &compiler));
  for (const char* name : {"a.onnx", "b.onnx"}) {
    ASSERT_DONE(
        ctxgen_compiler_add_model_memory(compiler, name, source.bytes.data(), source.bytes.size()));
    ASSERT_DONE(ctxgen_compiler_set_output_memory(compiler));
  }
  ASSERT_DONE(ctxgen_compiler_run(compiler));
  EXPECT_EQ(ctxgen_compiler_model_count(compiler), 2U);
  EXPECT_EQ(ctxgen_compiler_bin_count(compiler), 1U);
}

TEST_F(CApi, AddExternalData) {
  constexpr const char* kExternal = R"(
<ir_version: 8, opset_import: ["" : 17]>
graph (float[2] x) => (float[2] y) <float[2] far = ["location": "far.data", "offset": "0", "length": "8"]> {
  y = Mod <fmod = 1> (x, far)
})";
  source = parse_model(kExternal);
  const float values[] = {2, 3};
  ASSERT_DONE(ctxgen_compiler_create(options, &compiler));
  EXPECT_EQ(code(ctxgen_compiler_add_external_data(compiler, "far.data", values, sizeof(values))),
            CTXGEN_INVALID_ARGUMENT);  // of which model?
  ASSERT_DONE(ctxgen_compiler_add_model_memory(compiler, "net.onnx", source.bytes.data(),
                                               source.bytes.size()));
  ASSERT_DONE(ctxgen_compiler_add_external_data(compiler, "far.data", values, sizeof(values)));
  EXPECT_EQ(code(ctxgen_compiler_add_external_data(compiler, "far.data", values, sizeof(values))),
            CTXGEN_INVALID_ARGUMENT);
  ASSERT_DONE(ctxgen_compiler_set_output_memory(compiler));
  ASSERT_DONE(ctxgen_compiler_run(compiler));
  const Model m = model();
  const auto far = m.graph.value(m.graph.find("far")).initializer->elements<float>();
  EXPECT_EQ(std::vector<float>(far.begin(), far.end()), (std::vector<float>{2, 3}));
}

TEST_F(CApi, SetOutputFunction) {
  struct Sink {
    std::vector<std::byte> bytes;
    bool fails = false;
  } sink;
  const ctxgen_write_function function = [](void* user, const void* data, size_t size) {
    auto& s = *static_cast<Sink*>(user);
    const auto* bytes = static_cast<const std::byte*>(data);
    s.bytes.insert(s.bytes.end(), bytes, bytes + size);
    return s.fails ? 1 : 0;
  };
  ASSERT_EQ(compile().code, CTXGEN_OK);
  const void* data = nullptr;
  size_t size = 0;
  ASSERT_DONE(ctxgen_compiler_model(compiler, 0, &data, &size));
  for (const bool fails : {false, true}) {
    sink = {{}, fails};
    ctxgen_compiler* one = nullptr;
    ASSERT_DONE(ctxgen_compiler_create(options, &one));
    ASSERT_DONE(ctxgen_compiler_add_model_memory(one, "net.onnx", source.bytes.data(),
                                                 source.bytes.size()));
    EXPECT_EQ(code(ctxgen_compiler_set_output_function(one, nullptr, nullptr)),
              CTXGEN_INVALID_ARGUMENT);
    ASSERT_DONE(ctxgen_compiler_set_output_function(one, function, &sink));
    EXPECT_EQ(code(ctxgen_compiler_run(one)), fails ? CTXGEN_CANCELLED : CTXGEN_OK);
    if (!fails) {
      ASSERT_EQ(sink.bytes.size(), size);
      EXPECT_EQ(std::memcmp(sink.bytes.data(), data, size), 0);
    }
    ctxgen_compiler_release(one);
  }
}

TEST_F(CApi, AFailedWriteFunctionLeavesNoBin) {
  const ctxgen_write_function function = [](void*, const void*, size_t) { return 1; };
  ASSERT_DONE(ctxgen_compile_options_set_binary_information(options, folder.path().c_str(), "net"));
  source = parse_model(kModel);
  ASSERT_DONE(ctxgen_compiler_create(options, &compiler));
  ASSERT_DONE(ctxgen_compiler_add_model_memory(compiler, "net.onnx", source.bytes.data(),
                                               source.bytes.size()));
  ASSERT_DONE(ctxgen_compiler_set_output_function(compiler, function, nullptr));
  EXPECT_EQ(code(ctxgen_compiler_run(compiler)), CTXGEN_CANCELLED);
  EXPECT_EQ(files(), std::vector<std::string>());
}

TEST_F(CApi, SetOutputFile) {
  const std::string net = write_source("net.onnx");
  ASSERT_DONE(ctxgen_compiler_create(options, &compiler));
  ASSERT_DONE(ctxgen_compiler_add_model_file(compiler, net.c_str()));
  EXPECT_EQ(code(ctxgen_compiler_set_output_file(compiler, "")), CTXGEN_INVALID_ARGUMENT);
  const std::string output = (folder.path() / "other_ctx.onnx").string();
  ASSERT_DONE(ctxgen_compiler_set_output_file(compiler, output.c_str()));
  ASSERT_DONE(ctxgen_compiler_run(compiler));
  EXPECT_EQ(files(), (std::vector<std::string>{"net.onnx", "other_ctx.onnx", "other_dnnl.bin"}));
  EXPECT_EQ(code(ctxgen_compiler_add_model_file(compiler, net.c_str())), CTXGEN_INVALID_ARGUMENT);
}

TEST_F(CApi, ReportsSayTheirSize) {
  ASSERT_EQ(compile().code, CTXGEN_OK);
  ctxgen_model_report small{};
  small.struct_size = 8;
  EXPECT_EQ(code(ctxgen_compiler_report(compiler, 0, &small)), CTXGEN_INVALID_ARGUMENT);
  EXPECT_STREQ(report().input, "net.onnx");
  EXPECT_STREQ(report().output, "net_ctx.onnx");
  EXPECT_EQ(report().nodes, 3U);
  EXPECT_EQ(report().compiled_nodes, 2U);
  EXPECT_EQ(report().partitions, 1U);
  EXPECT_GT(report().model_bytes, 0U);
  small.struct_size = sizeof(small);
  EXPECT_EQ(code(ctxgen_compiler_report(compiler, 1, &small)), CTXGEN_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace ctxgen
