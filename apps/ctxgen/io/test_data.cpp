#include "io/test_data.h"

#include <algorithm>
#include <format>

#include "ctxgen/base/file.h"
#include "ctxgen/onnx_lite/read_model.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

/// "test_data_set_10" after "test_data_set_9".
bool set_order(const fs::path& a, const fs::path& b) {
  const std::string left = a.filename().string();
  const std::string right = b.filename().string();
  return left.size() != right.size() ? left.size() < right.size() : left < right;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// input_0.pb, input_1.pb, ...: values of these types.
Result<std::vector<RuntimeValue>> read_numbered(const fs::path& folder, std::string_view role,
                                                std::span<const IoInfo* const> infos) {
  std::vector<RuntimeValue> values;
  for (std::size_t i = 0;; ++i) {
    const fs::path path = folder / std::format("{}_{}.pb", role, i);
    if (!is_there(path)) break;
    if (i == infos.size())
      return fail(ErrorCode::kInvalidArgument, "\"{}\": the model has {} {}s", path.string(),
                  infos.size(), role);
    const Blob file = CTXGEN_TRY(map_file(path));
    auto value = CTXGEN_TRY_AT(read_value(file, infos[i]->type), "{}", path.string());
    values.push_back(std::move(value));
  }
  return values;
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
  std::vector<const IoInfo*> given, made;
  for (const IoInfo& info : inputs)
    if (!info.has_default) given.push_back(&info);
  for (const IoInfo& info : outputs) made.push_back(&info);
  std::vector<RuntimeValue> values = CTXGEN_TRY(read_numbered(folder, "input", given));
  for (std::size_t i = 0; i < values.size(); ++i)
    set.inputs.push_back({given[i]->name, std::move(values[i])});
  set.outputs = CTXGEN_TRY(read_numbered(folder, "output", made));
  if (set.outputs.empty())
    return fail(ErrorCode::kInvalidArgument, "--test-data: \"{}\" has no output_0.pb",
                folder.string());
  return set;
}

}  // namespace ctxgen::cli
