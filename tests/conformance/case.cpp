#include "case.h"

#include <algorithm>
#include <format>
#include <set>
#include <vector>

#include "ctxgen/base/file.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/runtime/session.h"

#include "tensor_difference.h"

namespace ctxgen::conformance {
namespace {

namespace fs = std::filesystem;

void collect_operators(const Graph& graph, std::set<std::string>& names) {
  for (const Node& node : graph.nodes()) {
    names.insert(node.op_type.str());
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs)
        if (body != nullptr) collect_operators(*body, names);
  }
}

/// Operators of the model, calls of functions included; nothing if it cannot be read.
std::set<std::string> operators_of(const fs::path& path) {
  std::set<std::string> names;
  for (const bool expand : {false, true}) {
    ReadModelOptions options;
    options.expand_functions = expand;
    if (const auto model = read_model_file(path, options)) collect_operators(model->graph, names);
  }
  return names;
}

struct OpenCase {
  std::unique_ptr<Session> session;
  std::size_t partitions = 0;
};

Result<OpenCase> open_compiled(const fs::path& path) {
  ModelInput input;
  input.path = path;
  input.name = path.filename().string();
  CompileOptions compile;
  compile.jobs = compile.threads = 1;
  const CompiledModel compiled = CTXGEN_TRY(compile_in_memory(input, compile));
  SessionOptions options;
  options.threads = 1;
  options.context_file_path = path;
  options.bin_source = [&compiled](std::string_view name) -> Result<Blob> {
    for (const auto& [known, blob] : compiled.bins)
      if (known == name) return blob;
    return fail(ErrorCode::kInternal, "no bin \"{}\" was compiled", name);
  };
  OpenCase open;
  open.session = CTXGEN_TRY(Session::open_memory(compiled.model, options));
  open.partitions = compiled.report.models.front().partitions.size();
  return open;
}

Result<OpenCase> open_case(const fs::path& path, Via via) {
  if (via == Via::kCompile) return open_compiled(path);
  SessionOptions options;
  options.threads = 1;
  OpenCase open;
  open.session = CTXGEN_TRY(Session::open(path, options));
  return open;
}

Result<RuntimeValue> read_file(const fs::path& path, const ValueType& type) {
  auto value = read_value(CTXGEN_TRY(map_file(path)), type);
  if (!value)
    return std::unexpected(with_context(std::move(value).error(), path.filename().string()));
  return value;
}

Result<std::vector<NamedValue>> read_inputs(const fs::path& folder, const Session& session) {
  std::vector<NamedValue> inputs;
  for (const IoInfo& info : session.inputs()) {
    const fs::path path = folder / std::format("input_{}.pb", inputs.size());
    if (info.has_default || !fs::exists(path)) continue;
    inputs.push_back({info.name, CTXGEN_TRY(read_file(path, info.type))});
  }
  return inputs;
}

/// Nothing if all outputs are as stored.
Result<std::string> run_data_set(const fs::path& folder, const Session& session, bool random) {
  const auto inputs = CTXGEN_TRY(read_inputs(folder, session));
  const auto outputs = CTXGEN_TRY(session.run_values(inputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const RuntimeValue expected =
        CTXGEN_TRY(read_file(folder / std::format("output_{}.pb", i), session.outputs()[i].type));
    const std::string text = random && outputs[i].is_tensor() && expected.is_tensor()
                                 ? difference_of_form(outputs[i].tensor(), expected.tensor())
                                 : difference(outputs[i], expected);
    if (!text.empty())
      return std::format("{}: output {} \"{}\" {}", folder.filename().string(), i,
                         session.outputs()[i].name, text);
  }
  return std::string();
}

Result<CaseResult> run_all(const fs::path& folder, Via via,
                           const std::set<std::string>& operators) {
  const OpenCase open = CTXGEN_TRY(open_case(folder / "model.onnx", via));
  const bool random = std::ranges::any_of(operators, is_random_operator);
  CaseResult result{Outcome::kFailed, open.partitions, "there is no test_data_set_0"};
  for (int i = 0;; ++i) {
    const fs::path data = folder / std::format("test_data_set_{}", i);
    if (!fs::exists(data)) return result;
    result.reason = CTXGEN_TRY(run_data_set(data, *open.session, random));
    result.outcome = result.reason.empty() ? Outcome::kPassed : Outcome::kFailed;
    if (!result.reason.empty()) return result;
  }
}

CaseResult refusal(const Error& error, const std::set<std::string>& operators) {
  CaseResult result;
  result.reason = std::format("{}: {}", error_info(error.code).printed, error.message);
  if (error.code != ErrorCode::kUnsupported) return result;
  const bool named = std::ranges::any_of(operators, [&](const std::string& name) {
    return error.message.find(name) != std::string::npos;
  });
  if (named)
    result.outcome = Outcome::kSkipped;
  else
    result.reason = "refused without naming an operator: " + result.reason;
  return result;
}

}  // namespace

CaseResult run_case(const fs::path& folder, Via via) {
  const auto operators = operators_of(folder / "model.onnx");
  auto result = run_all(folder, via, operators);
  CaseResult done = result ? std::move(*result) : refusal(result.error(), operators);
  std::ranges::replace(done.reason, '\n', ' ');
  return done;
}

}  // namespace ctxgen::conformance
