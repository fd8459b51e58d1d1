#include "session_sources.h"

#include <algorithm>

#include "ctxgen/onnx_lite/read_model.h"

namespace ctxgen::plugin {
namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::ranges::equal(a.dims(), b.dims()) &&
         std::ranges::equal(a.bytes(), b.bytes());
}

/// What ONNX Runtime's optimizers left as it was has the file's memory from here on.
void take_over(const Graph& source, Graph& graph) {
  for (const Value& value : source.values()) {
    if (!value.initializer || value.initializer->is_string()) continue;
    const ValueId id = graph.find(value.name);
    if (!id.valid()) continue;
    auto& ours = graph.value(id).initializer;
    if (ours && !ours->is_string() && same(*ours, *value.initializer)) ours = value.initializer;
  }
}

}  // namespace

Result<SessionSources> SessionSources::find(Model& model, const std::filesystem::path& path,
                                            const std::optional<std::filesystem::path>& folder,
                                            const EpOptions& options) {
  if (path.empty())
    return fail(ErrorCode::kInvalidArgument,
                "ep.enable_weightless_mode: ONNX Runtime does not say which file the model is "
                "from, in which weights could stay: set ep.context_source_model_path");
  SessionSources sources;
  ReadModelOptions reading;
  reading.external_data_folder = options.external_data_folder;
  sources.source_ = CTXGEN_TRY(read_model_file(path, std::move(reading)));
  const std::string name = path.filename().string();
  CTXGEN_CHECK(sources.index_.add(sources.source_, {.name = name, .path = path}, options.weightless,
                                  folder ? &*folder : nullptr));
  take_over(sources.source_.graph, model.graph);
  return sources;
}

}  // namespace ctxgen::plugin
