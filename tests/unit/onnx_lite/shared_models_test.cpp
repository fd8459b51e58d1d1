#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/onnx_lite/write_model.h"

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

using test::code_of;

std::vector<std::filesystem::path> shared_models() {
  std::vector<std::filesystem::path> paths;
  const char* folder = std::getenv("CTXGEN_MODELS");
  if (folder == nullptr) return paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (exists(entry.path() / "model.onnx")) paths.push_back(entry.path() / "model.onnx");
  std::ranges::sort(paths);
  return paths;
}

Status write_file(const Model& model, const std::filesystem::path& path) {
  std::ofstream out(path, std::ios::binary);
  return write_model(model, identity_rewrite(model), [&out](auto part) -> Status {
    out.write(reinterpret_cast<const char*>(part.data()),
              static_cast<std::streamsize>(part.size()));
    return {};
  });
}

// The judge is the onnx package of Python: read, written and parsed, both files must be the same
// messages, save that external tensors of the source are inline in the copy.
TEST(SharedModels, IdentityRewritesAreTheSameMessages) {
  const auto paths = shared_models();
  if (paths.empty()) GTEST_SKIP() << "CTXGEN_MODELS is not set (a folder of models)";
  const test::TempFolder folder;
  std::ofstream list(folder / "list.txt");
  for (const auto& path : paths) {
    const auto model = read_model_file(path);
    ASSERT_EQ(code_of(model), test::kOk) << path;
    const auto copy = folder / (path.parent_path().filename().string() + ".onnx");
    ASSERT_EQ(code_of(write_file(*model, copy)), test::kOk) << path;
    list << path.string() << '\n' << copy.string() << '\n';
  }
  list.close();
  const std::string command =
      "python3 '" SAME_MODELS_SCRIPT "' '" + (folder / "list.txt").string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace ctxgen
