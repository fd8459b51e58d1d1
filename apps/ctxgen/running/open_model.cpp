#include "running/open_model.h"

#include <algorithm>
#include <chrono>

#include "ctxgen/base/log.h"
#include "ctxgen/base/stopwatch.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/onnx_lite/read_model.h"

namespace ctxgen::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Nothing to compile and nothing to change: provider cpu alone.
bool runs_as_it_stands(const CompileOptions& options) {
  return options.providers == std::vector<std::string>{"cpu"} && options.fix_dims.empty() &&
         !options.freeze_initializers && !options.subgraphs &&
         options.graph_optimization == GraphOptimization::kNone &&
         options.external_data_folder.empty() && options.provider_options.empty();
}

/// In the graph and in the bodies of its nodes.
bool has_ep_context(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    if (node.op_type == kEpContextOpType && node.domain == kMicrosoftDomain) return true;
    return std::ranges::any_of(node.attributes, [](const Attribute& attribute) {
      return std::ranges::any_of(attribute.graphs,
                                 [](const auto& body) { return has_ep_context(*body); });
    });
  });
}

Result<OpenModel> open_file(const std::string& path, const SessionOptions& options) {
  OpenModel model;
  const auto start = Clock::now();
  model.session = CTXGEN_TRY(Session::open(path, options));
  model.load_ms = milliseconds_since(start);
  return model;
}

Result<OpenModel> compile_and_open(const std::string& path, const CompileOptions& compile,
                                   SessionOptions options) {
  OpenModel model;
  auto start = Clock::now();
  const ModelInput input = CTXGEN_TRY(model_input(path));
  CompiledModel compiled = CTXGEN_TRY(compile_in_memory(input, compile));
  model.compile_ms = milliseconds_since(start);
  for (const ModelReport& report : compiled.report.models)
    for (const std::string& warning : report.warnings)
      log(LogLevel::kWarning, "{}: {}", report.input_name, warning);
  options.bin_source = [&compiled](std::string_view name) -> Result<Blob> {
    for (const auto& [known, blob] : compiled.bins)
      if (known == name) return blob;
    return fail(ErrorCode::kInternal, "no bin \"{}\" was compiled", name);
  };
  options.context_file_path = path;            // for messages; nothing is read from there
  options.verify_blobs = VerifyBlobs::kNever;  // all of it was just made
  start = Clock::now();
  model.session = CTXGEN_TRY(Session::open_memory(compiled.model, options));
  model.load_ms = milliseconds_since(start);
  model.compiled = std::move(compiled);
  return model;
}

}  // namespace

Result<bool> is_context_model(const std::string& path, const std::string& external_data_folder) {
  ReadModelOptions options;
  options.external_data_folder = external_data_folder;
  const Model model = CTXGEN_TRY(read_model_file(path, options));
  return has_ep_context(model.graph);
}

Status check_external_data(const std::string& path, const std::string& external_data_folder) {
  ReadModelOptions options;
  options.external_data_folder = external_data_folder;
  const Model model = CTXGEN_TRY(read_model_file(path, options));
  if (!model.files_read.empty()) return {};
  return fail(ErrorCode::kInvalidArgument,
              "--external-data-dir \"{}\" has no effect: \"{}\" has no external data",
              external_data_folder, path);
}

Result<OpenModel> open_model(const std::string& path, const ModelFlags& flags,
                             const std::string& compile_flag, bool inner_values) {
  const CompileOptions compile = CTXGEN_TRY(compile_options(flags));
  SessionOptions options;
  options.threads = flags.options.threads;
  options.kept_plans = static_cast<std::size_t>(flags.kept_plans);
  options.states = flags.states;
  options.inner_values = inner_values;
  if (path == "-")
    return fail(ErrorCode::kInvalidArgument,
                "a model from stdin (-) can only be compiled, not run");
  const bool is_context =
      CTXGEN_TRY(is_context_model(path, flags.options.external_data_folder.string()));
  if (is_context && !compile_flag.empty())
    return fail(ErrorCode::kInvalidArgument, "{}: \"{}\" is already compiled", compile_flag, path);
  if (!is_context && flags.verify_blobs)
    return fail(ErrorCode::kInvalidArgument,
                "--verify-blobs: \"{}\" is a plain model, there is no compiled part to verify",
                path);
  if (!is_context && !flags.required_signature.key.empty())
    return fail(ErrorCode::kInvalidArgument,
                "--require-signed: \"{}\" is a plain model, which would be compiled first", path);
  options.required_signature = flags.required_signature;
  options.verify_blobs = flags.verify_blobs.value_or(VerifyBlobs::kAuto);
  OpenModel model = CTXGEN_TRY(is_context || runs_as_it_stands(compile)
                                   ? open_file(path, options)
                                   : compile_and_open(path, compile, std::move(options)));
  model.is_context = is_context;
  return model;
}

}  // namespace ctxgen::cli
