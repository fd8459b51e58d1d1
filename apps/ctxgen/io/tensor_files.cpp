#include "io/tensor_files.h"

#include <algorithm>
#include <cctype>
#include <format>
#include <set>
#include <utility>

#include "ctxgen/base/file.h"
#include "ctxgen/base/suggest.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "io/npy.h"
#include "io/npz.h"
#include "running/random_inputs.h"

namespace ctxgen::cli {
namespace {

Result<Tensor> read_raw(const Blob& file, const std::string& name, const IoInfo& info,
                        const ShapeProfile& shapes) {
  const Dims dims = CTXGEN_TRY(input_dims(info, shapes));
  const auto size = checked_size_bytes(info.type.element, dims);
  if (info.type.element == DataType::kString || !size)
    return fail(ErrorCode::kInvalidArgument, "{}: input \"{}\" ({}) cannot be read from raw bytes",
                name, info.name, info.type_text);
  if (*size != file.bytes.size())
    return fail(ErrorCode::kInvalidArgument,
                "{}: has {} bytes, input \"{}\" as {} {} needs {} (--dim and --shape set sizes)",
                name, file.bytes.size(), info.name, name_of(info.type.element), to_string(dims),
                *size);
  return Tensor::borrow(info.type.element, dims, file.owner, file.bytes);
}

std::vector<std::string> input_names(std::span<const IoInfo> infos) {
  std::vector<std::string> names;
  for (const IoInfo& one : infos) names.push_back(one.name);
  return names;
}

std::string names_of(std::span<const IoInfo> infos) { return list_text(input_names(infos)); }

/// The input that `option` ("NAME=FILE") is for.
const IoInfo* input_of(const std::string& option, std::span<const IoInfo> infos) {
  const IoInfo* found = nullptr;
  for (const IoInfo& info : infos)
    if (option.starts_with(info.name + "=") &&
        (found == nullptr || info.name.size() > found->name.size()))
      found = &info;
  return found;
}

Status add_input(std::vector<NamedValue>& inputs, const IoInfo& info, RuntimeValue value) {
  if (std::ranges::contains(inputs, info.name, &NamedValue::name))
    return fail(ErrorCode::kInvalidArgument, "--input: \"{}\" is given twice", info.name);
  inputs.push_back({info.name, std::move(value)});
  return {};
}

/// Every array of a file to the input of its name.
Status read_all_arrays(const std::filesystem::path& path, std::span<const IoInfo> infos,
                       std::vector<NamedValue>& inputs) {
  const Blob file = CTXGEN_TRY(map_file(path));
  std::vector<NamedArray> arrays = CTXGEN_TRY(read_npz(file, path.string()));
  if (arrays.empty())
    return fail(ErrorCode::kInvalidArgument, "{}: contains no array", path.string());
  for (NamedArray& array : arrays) {
    const auto info = std::ranges::find(infos, array.name, &IoInfo::name);
    if (info == infos.end())
      return fail(ErrorCode::kInvalidArgument, "{}: array \"{}\": the model has no such input ({})",
                  path.string(), array.name, names_of(infos));
    CTXGEN_CHECK(add_input(inputs, *info, std::move(array.tensor)));
  }
  return {};
}

std::string file_stem(const std::string& name, std::size_t position) {
  std::string stem;
  for (const char c : name)
    stem += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' ? c : '_';
  if (stem.empty() || stem.front() == '.') stem = std::format("output_{}{}", position, stem);
  return stem.substr(0, 200);  // file systems stop at 255
}

}  // namespace

Result<RuntimeValue> read_value_file(const std::filesystem::path& path, const IoInfo& info,
                                     const ShapeProfile& shapes) {
  const std::string name = path.string();
  const std::string extension = path.extension().string();
  const Blob file = CTXGEN_TRY(map_file(path));
  if (extension == ".npz") return CTXGEN_TRY(read_npz_array(file, name, info.name));
  if (extension == ".npy") return read_npy(file, name);
  if (extension != ".pb") return read_raw(file, name, info, shapes);
  auto value = CTXGEN_TRY_AT(read_value(file, info.type), "{}", name);
  return value;
}

Result<std::vector<NamedValue>> read_inputs(const std::vector<std::string>& options,
                                            std::span<const IoInfo> infos,
                                            const ShapeProfile& shapes) {
  std::vector<NamedValue> inputs;
  for (const std::string& option : options) {
    const IoInfo* info = input_of(option, infos);
    if (info == nullptr && option.ends_with(".npz")) {
      CTXGEN_CHECK(read_all_arrays(option, infos, inputs));
      continue;
    }
    const std::vector<std::string> names = input_names(infos);
    if (info == nullptr)
      return fail(ErrorCode::kInvalidArgument,
                  "--input: \"{}\" is neither a .npz file nor NAME=FILE with an input of the model "
                  "({}){}",
                  option, names_of(infos), did_you_mean(option.substr(0, option.find('=')), names));
    const std::string file = option.substr(info->name.size() + 1);
    CTXGEN_CHECK(add_input(inputs, *info, CTXGEN_TRY(read_value_file(file, *info, shapes))));
  }
  return inputs;
}

std::vector<std::string> raw_inputs(const std::vector<std::string>& options,
                                    std::span<const IoInfo> infos) {
  std::vector<std::string> names;
  for (const std::string& option : options) {
    const IoInfo* info = input_of(option, infos);
    const std::string extension = std::filesystem::path(option).extension().string();
    if (info != nullptr && extension != ".npy" && extension != ".npz" && extension != ".pb")
      names.push_back(info->name);
  }
  return names;
}

std::vector<std::string> output_stems(std::span<const std::string> names) {
  std::vector<std::string> stems;
  std::set<std::string> taken;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string stem = file_stem(names[i], i);
    while (!taken.insert(stem).second) stem += std::format("_{}", i);
    stems.push_back(std::move(stem));
  }
  return stems;
}

std::vector<const char*> output_endings(DataType type) {
  if (type == DataType::kUndefined) return {".npy", ".pb"};
  return {npy_can_hold(type) ? ".npy" : ".pb"};
}

Status write_tensor_file(const std::filesystem::path& path, const std::string& name,
                         const Tensor& tensor) {
  return write_file(path,
                    npy_can_hold(tensor.type()) ? write_npy(tensor) : write_tensor(tensor, name));
}

Result<std::vector<std::string>> write_outputs(const std::filesystem::path& folder,
                                               std::span<const IoInfo> infos,
                                               std::span<const RuntimeValue> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].is_tensor())
      return fail(ErrorCode::kUnsupported, "output \"{}\" is {}: only tensors are written to files",
                  infos[i].name, describe(outputs[i]));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return fail(ErrorCode::kIoError, "folder \"{}\": {}", folder.string(), error.message());
  std::vector<std::string> given, names;
  for (std::size_t i = 0; i < outputs.size(); ++i) given.push_back(infos[i].name);
  const std::vector<std::string> stems = output_stems(given);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& tensor = outputs[i].tensor();
    names.push_back(stems[i] + output_endings(tensor.type()).front());
    CTXGEN_CHECK(write_tensor_file(folder / names.back(), infos[i].name, tensor));
  }
  return names;
}

Status write_npz_file(const std::filesystem::path& path, std::span<const IoInfo> infos,
                      std::span<const RuntimeValue> outputs) {
  std::vector<NamedArray> arrays;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_tensor() || !npy_can_hold(outputs[i].tensor().type()))
      return fail(ErrorCode::kUnsupported,
                  "output \"{}\" is {}: NumPy has no type for it (--output-dir "
                  "writes tensors of other types as .pb)",
                  infos[i].name, describe(outputs[i]));
    if (!std::ranges::contains(arrays, infos[i].name, &NamedArray::name))  // some models repeat one
      arrays.push_back({infos[i].name, outputs[i].tensor()});
  }
  return write_file(path, CTXGEN_TRY(write_npz(arrays)));
}

}  // namespace ctxgen::cli
