// Every model of libonnx-testdata and every trained model: what is not in a partition is written as
// it stood in the source.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include <gtest/gtest.h>

#include "ctxgen/compiler/compile.h"

#include "kept_parts.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataFolder = "/usr/share/libonnx-testdata/data";

std::vector<fs::path> models_under(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".onnx") paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

struct Count {
  std::size_t compiled = 0, plain = 0, refused = 0;
};

void check_model(const fs::path& path, Count& count) {
  CompileOptions options;
  options.threads = 1;
  const auto compiled = compile_in_memory({path, {}, path.filename().string()}, options);
  if (!compiled) {
    // Refused, which is allowed for named reasons only; what runs is conformance's question.
    EXPECT_NE(compiled.error().code, ErrorCode::kInternal) << path << compiled.error().message;
    EXPECT_NE(compiled.error().code, ErrorCode::kBackendError) << path << compiled.error().message;
    std::cout << path.parent_path().filename().string() << ": " << compiled.error().message << '\n';
    ++count.refused;
    return;
  }
  onnx::ModelProto source, context;
  ASSERT_TRUE(source.ParseFromString(contents(path))) << path;
  const auto bytes = compiled->model.bytes;
  ASSERT_TRUE(context.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) << path;
  for (const std::string& lost :
       test::lost_parts(source, context, path.parent_path(), compiled->report.models.front()))
    ADD_FAILURE() << path << ": " << lost;
  ++(compiled->report.models.front().partitions.empty() ? count.plain : count.compiled);
}

Count check_all(const fs::path& folder) {
  Count count;
  for (const fs::path& path : models_under(folder)) check_model(path, count);
  std::cout << folder.filename().string() << ": " << count.compiled << " with partitions, "
            << count.plain << " plain, " << count.refused << " refused\n";
  return count;
}

class OnnxData : public testing::TestWithParam<const char*> {};

TEST_P(OnnxData, KeepsWhatIsNotCompiled) {
  const Count count = check_all(fs::path(kDataFolder) / GetParam());
  EXPECT_GT(count.compiled, 0U);
  EXPECT_EQ(count.refused, 0U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OnnxData,
                         testing::Values("simple", "pytorch-converted", "pytorch-operator",
                                         "light"));

TEST(OnnxNodeData, KeepsWhatIsNotCompiled) {
  const Count count = check_all(fs::path(kDataFolder) / "node");
  EXPECT_GT(count.compiled, 300U);
  EXPECT_EQ(count.refused, 0U);
}

TEST(TrainedModels, KeepWhatIsNotCompiled) {
  const char* folder = std::getenv("CTXGEN_MODELS");
  if (folder == nullptr) GTEST_SKIP() << "CTXGEN_MODELS is not set";
  const Count count = check_all(folder);
  EXPECT_GT(count.compiled, 15U);
}

}  // namespace
}  // namespace ctxgen
