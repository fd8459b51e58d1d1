#include "running/value_dump.h"

#include <format>
#include <system_error>

#include "ctxgen/base/file.h"
#include "ctxgen/onnx_lite/context_node.h"

#include "io/tensor_files.h"
#include "running/value_summary.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

/// The node of the source that made a value; of a partition's output, which several may have made, the
/// partition's name.
std::string_view node_of(const ObservedValue& seen) {
  if (!seen.inner_node.empty()) return seen.inner_node;
  if (is_ep_context(seen.node)) return seen.node.string_or("partition_name", seen.node.name);
  return seen.node.name;
}

}  // namespace

ValueDump::ValueDump(fs::path folder) : folder_(std::move(folder)) {
  json_.begin_object().key("values").begin_array();
}

Status ValueDump::check(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return {};
  if (status.type() == fs::file_type::none)
    return fail(ErrorCode::kIoError, "--dump \"{}\": {}", folder.string(), error.message());
  if (!fs::is_directory(status))
    return fail(ErrorCode::kInvalidArgument, "--dump \"{}\" is not a folder", folder.string());
  const bool empty = fs::is_empty(folder, error);
  if (error)
    return fail(ErrorCode::kIoError, "--dump \"{}\": {}", folder.string(), error.message());
  if (!empty)
    return fail(ErrorCode::kInvalidArgument,
                "--dump \"{}\" has files in it: name a folder that is empty or not there",
                folder.string());
  return {};
}

Result<ValueDump> ValueDump::start(fs::path folder) {
  CTXGEN_CHECK(check(folder));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return fail(ErrorCode::kIoError, "--dump \"{}\": {}", folder.string(), error.message());
  return ValueDump(std::move(folder));
}

Result<std::string> ValueDump::write(const ObservedValue& seen) {
  if (!seen.value.is_tensor()) return std::string();
  const Tensor& tensor = seen.value.tensor();
  const std::string name(seen.name);
  std::string file = std::format("{:06}_{}{}", values_, output_stems({&name, 1}).front(),
                                 output_endings(tensor.type()).front());
  CTXGEN_CHECK(write_tensor_file(folder_ / file, name, tensor));
  ++files_;
  return file;
}

void ValueDump::add(const ObservedValue& seen) {
  if (!status_) return;
  const auto file = write(seen);
  if (!file) {
    status_ = std::unexpected(file.error());
    return;
  }
  ++values_;
  json_.begin_object().field("name", seen.name).field("node", node_of(seen));
  if (is_ep_context(seen.node))
    json_.field("partition", seen.node.string_or("partition_name", seen.node.name));
  if (!seen.graph.empty()) json_.field("graph", seen.graph);
  write_value_fields(json_, seen.value);
  json_.key("file");
  file->empty() ? json_.null() : json_.value(*file);
  json_.end_object();
}

Result<std::size_t> ValueDump::finish() {
  CTXGEN_CHECK(std::move(status_));
  json_.end_array().end_object();
  CTXGEN_CHECK(write_file(folder_ / "values.json", as_bytes(json_.finish())));
  return files_;
}

}  // namespace ctxgen::cli
