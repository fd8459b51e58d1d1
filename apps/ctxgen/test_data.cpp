#include "test_data.h"

#include <algorithm>
#include <format>

#include "ctxgen/base/file.h"
#include "ctxgen/onnx_lite/read_model.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

/// "test_data_set_10" behind "test_data_set_9".
bool set_order(const fs::path& a, const fs::path& b) {
  const std::string left = a.filename().string();
  const std::string right = b.filename().string();
  return left.size() != right.size() ? left.size() < right.size() : left < right;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// input_0.pb, input_1.pb, ...
Result<std::vector<Tensor>> read_numbered(const fs::path& folder, std::string_view role,
                                          std::size_t limit) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0;; ++i) {
    const fs::path path = folder / std::format("{}_{}.pb", role, i);
    if (!is_there(path)) break;
    if (i == limit)
      return fail(ErrorCode::kInvalidArgument, "\"{}\": the model has {} {}s", path.string(), limit,
                  role);
    const Blob file = CTXGEN_TRY(map_file(path));
    auto tensor = read_tensor(file);
    if (!tensor) return std::unexpected(with_context(std::move(tensor).error(), path.string()));
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

}  // namespace

Result<std::vector<fs::path>> find_data_sets(const fs::path& folder) {
  std::vector<fs::path> sets;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().filename().string().starts_with("test_data_set_"))
      sets.push_back(entry->path());
  if (error)
    return fail(ErrorCode::kIoError, "folder \"{}\": {}", folder.string(), error.message());
  std::ranges::sort(sets, set_order);
  if (sets.empty() && (is_there(folder / "input_0.pb") || is_there(folder / "output_0.pb")))
    sets.push_back(folder);
  if (sets.empty())
    return fail(ErrorCode::kInvalidArgument,
                "--test-data: \"{}\" has neither test_data_set_* nor input_0.pb", folder.string());
  return sets;
}

Result<TestDataSet> read_data_set(const fs::path& folder, std::span<const IoInfo> inputs,
                                  std::span<const IoInfo> outputs) {
  TestDataSet set;
  set.name = folder.filename().string();
  std::vector<std::string> names;
  for (const IoInfo& info : inputs)
    if (!info.has_default) names.push_back(info.name);
  std::vector<Tensor> tensors = CTXGEN_TRY(read_numbered(folder, "input", names.size()));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    set.inputs.push_back({names[i], std::move(tensors[i])});
  set.outputs = CTXGEN_TRY(read_numbered(folder, "output", outputs.size()));
  if (set.outputs.empty())
    return fail(ErrorCode::kInvalidArgument, "--test-data: \"{}\" has no output_0.pb",
                folder.string());
  return set;
}

}  // namespace ctxgen::cli
