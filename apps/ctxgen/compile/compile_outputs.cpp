#include "compile/compile_outputs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ctxgen/base/file_roles.h"
#include "ctxgen/compiler/compile.h"

#include "flags/arguments.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

fs::path default_output(const fs::path& folder, const std::string& input) {
  return folder / default_output_name(fs::path(input).filename().string());
}

/// Models of a batch are told apart by their stems: output names and partition names come from them.
Status check_stems(const std::vector<std::string>& inputs) {
  std::map<std::string, std::string> seen;
  for (const std::string& input : inputs) {
    if (input == "-")
      return fail(ErrorCode::kInvalidArgument, "stdin (-) cannot be part of a batch");
    const auto [at, added] = seen.emplace(fs::path(input).stem().string(), input);
    if (!added)
      return fail(ErrorCode::kInvalidArgument, "\"{}\" and \"{}\" have the same stem \"{}\"",
                  at->second, input, at->first);
  }
  return {};
}

Status plan_single(OutputPlan& plan, const std::string& output) {
  const std::string& input = plan.inputs.front();
  if (output == "-" || (!output.empty() && is_standard_output(output))) {
    plan.to_stdout = true;
  } else if (output.empty()) {
    if (input == "-") return fail(ErrorCode::kInvalidArgument, "a model from stdin (-) needs -o");
    plan.outputs.push_back(default_output(fs::path(input).parent_path(), input));
  } else if (is_folder(output) || output.ends_with('/')) {
    if (input == "-")
      return fail(ErrorCode::kInvalidArgument,
                  "a model from stdin (-) needs a file name, \"{}\" is a folder", output);
    plan.outputs.push_back(default_output(output, input));
    if (!is_there(output)) plan.new_folder = output;
  } else {
    plan.outputs.emplace_back(output);
  }
  return {};
}

Status plan_batch(OutputPlan& plan, const std::string& output) {
  CTXGEN_CHECK(check_stems(plan.inputs));
  if (output == "-") return fail(ErrorCode::kInvalidArgument, "-o -: a batch cannot go to stdout");
  fs::path folder = output;
  if (output.empty()) {
    folder = fs::path(plan.inputs.front()).parent_path();
    for (const std::string& input : plan.inputs)
      if (fs::path(input).parent_path() != folder)
        return fail(ErrorCode::kInvalidArgument,
                    "models from several folders share one context binary: give -o FOLDER");
  } else if (is_there(folder) && !is_folder(folder)) {
    return fail(ErrorCode::kInvalidArgument, "-o: a batch needs a folder, \"{}\" is a file",
                output);
  } else if (!is_there(folder)) {
    plan.new_folder = folder;
  }
  for (const std::string& input : plan.inputs)
    plan.outputs.push_back(default_output(folder, input));
  return {};
}

}  // namespace

std::vector<std::string> expand_models(const std::vector<std::string>& arguments) {
  std::vector<std::string> models;
  for (const std::string& argument : arguments) {
    if (argument == "-" || is_there(argument)) {
      models.push_back(argument);
    } else {
      for (std::string& part : split(argument, ',')) models.push_back(std::move(part));
    }
  }
  return models;
}

Result<OutputPlan> plan_outputs(const std::vector<std::string>& arguments,
                                const std::string& output) {
  return plan_outputs_of(expand_models(arguments), output);
}

Result<OutputPlan> plan_outputs_of(std::vector<std::string> models, const std::string& output) {
  OutputPlan plan;
  plan.inputs = std::move(models);
  for (const std::string& input : plan.inputs)
    if (input.empty()) return fail(ErrorCode::kInvalidArgument, "an empty model name");
  CTXGEN_CHECK(plan.inputs.size() == 1 ? plan_single(plan, output) : plan_batch(plan, output));
  return plan;
}

}  // namespace ctxgen::cli
