#include "io/run_files.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "ctxgen/base/file.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/weight_reference.h"
#include "ctxgen/onnx_lite/list_contexts.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/weights/external_data.h"

#include "io/tensor_files.h"
#include "io/test_data.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;
using How = FileUse::How;

/// Files of the source that a weightless context binary refers to.
std::set<std::string> referenced_files(const ContextReader& bin) {
  std::set<std::string> files;
  for (const Program& program : bin.programs())
    for (const ProgramWeight& weight : program.weights)
      for (const PackedWeight& packed : weight.packed) {
        if (!is_reference_layout(packed.layout)) continue;
        const auto blob = bin.blob(packed.blob.bin_index());
        if (!blob) continue;
        if (const auto reference = decode_reference(blob->bytes)) files.insert(reference->file);
      }
  return files;
}

/// What a model's EPContext nodes bring with them. What cannot be read is for the load to refuse.
void add_contexts(const Blob& model, const fs::path& folder, std::vector<FileUse>& uses) {
  const auto listed = list_contexts(model);
  if (!listed) return;
  std::set<std::string> bins;
  for (const ListedContext& context : listed->nodes)
    if (context.attributes.embed_mode == 0 && !context.attributes.ep_cache_context.empty())
      bins.insert(context.attributes.ep_cache_context);
  for (const std::string& name : bins) {
    const auto file = map_file_beneath(folder.empty() ? "." : folder, name);
    if (!file) continue;
    uses.push_back({How::kRead, folder / name, "the context binary"});
    const auto reader = ContextReader::open(*file, name, VerifyBlobs::kNever);
    if (!reader) continue;
    for (const std::string& source : referenced_files(*reader))
      uses.push_back({How::kRead, folder / source, "weights of the model"});
  }
}

/// NAME=FILE, or FILE alone: every text after a "=" that is a file may be meant.
void add_inputs(const std::vector<std::string>& inputs, std::vector<FileUse>& uses) {
  for (const std::string& input : inputs)
    for (std::size_t at = 0; at != std::string::npos;) {
      std::error_code ignored;
      if (const fs::path path = input.substr(at); fs::is_regular_file(path, ignored))
        uses.push_back({How::kRead, path, "--input"});
      const std::size_t equals = input.find('=', at);
      at = equals == std::string::npos ? equals : equals + 1;
    }
}

Status add_test_data(const std::string& folder, std::vector<FileUse>& uses) {
  if (folder.empty()) return {};
  for (const fs::path& set : CTXGEN_TRY(find_data_sets(folder))) {
    std::error_code error;
    for (fs::directory_iterator entry(set, error), end; !error && entry != end;
         entry.increment(error))
      if (entry->path().extension() == ".pb")
        uses.push_back({How::kRead, entry->path(), "--test-data"});
  }
  return {};
}

void add_outputs(const Graph& graph, const std::string& folder, std::vector<FileUse>& uses) {
  if (folder.empty()) return;
  std::vector<std::string> names;
  for (const ValueId id : graph.outputs) names.push_back(graph.value(id).name);
  const std::vector<std::string> stems = output_stems(names);
  for (std::size_t i = 0; i < stems.size(); ++i) {
    const ValueType& type = graph.value(graph.outputs[i]).type;
    for (const char* ending : output_endings(type.element))
      uses.push_back({How::kWritten, fs::path(folder) / (stems[i] + ending), "--output-dir"});
  }
}

/// A folder is made with those above it, where they are not there.
Status check_folder_writable(const fs::path& folder) {
  if (folder.empty()) return {};
  fs::path inside = fs::absolute(folder).lexically_normal() / "x";
  std::error_code ignored;
  while (inside.has_relative_path() && !fs::exists(inside.parent_path(), ignored))
    inside = inside.parent_path();
  return check_writable(inside);
}

}  // namespace

Status check_run_files(const RunFiles& files) {
  std::vector<FileUse> uses;
  for (const auto& [path, role] :
       {std::pair(files.profile, "--profile"), std::pair(files.report, "-o"),
        std::pair(files.output_file, "--output-file"), std::pair(files.csv, "--csv"),
        std::pair(files.plot, "--plot")})
    if (!path.empty()) uses.push_back({How::kWritten, path, role});
  CTXGEN_CHECK(check_folder_writable(files.dump_folder));
  if ((uses.empty() && files.output_folder.empty()) || files.model == "-") return {};
  std::vector<FileRead> external;
  ReadModelOptions options;
  options.external_data_folder = files.external_data_folder;
  options.external_files = &external;
  const Model model = CTXGEN_TRY(read_model_file(files.model, options));
  const fs::path path = files.model;
  uses.push_back({How::kRead, path, "the model"});
  for (const FileRead& file : external) uses.push_back({How::kRead, file.path, "external data"});
  add_contexts(model.source, path.parent_path(), uses);
  if (!files.options_file.empty()) uses.push_back({How::kRead, files.options_file, "--options"});
  add_inputs(files.inputs, uses);
  CTXGEN_CHECK(add_test_data(files.test_data, uses));
  add_outputs(model.graph, files.output_folder, uses);
  CTXGEN_CHECK(check_file_uses(uses));
  for (const std::string& file :
       {files.profile, files.report, files.output_file, files.csv, files.plot})
    if (!file.empty()) CTXGEN_CHECK(check_writable(file));
  return check_folder_writable(files.output_folder);
}

}  // namespace ctxgen::cli
