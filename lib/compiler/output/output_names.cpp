#include "output/output_names.h"

#include <algorithm>
#include <cctype>
#include <format>

#include "ctxgen/compiler/compile.h"

namespace ctxgen {

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, {}, [](unsigned char c) { return std::tolower(c); },
      [](unsigned char c) { return std::tolower(c); });
}

bool is_cpu_provider(std::string_view name) {
  return same_name(name, "cpu") || same_name(name, "CtxgenCpuExecutionProvider");
}

std::string stem_without_ctx(std::string_view file_name) {
  std::string stem = std::filesystem::path(file_name).stem().string();
  if (stem.size() > 4 && stem.ends_with("_ctx")) stem.resize(stem.size() - 4);
  return stem;
}

std::string default_output_name(const std::string& model_name) {
  return std::filesystem::path(model_name).stem().string() + "_ctx.onnx";
}

std::string default_bin_name(const std::string& output_name, std::string_view provider) {
  return std::format("{}_{}.bin", stem_without_ctx(output_name), provider);
}

Result<std::string> bin_reference(const std::filesystem::path& model_folder,
                                  const std::filesystem::path& bin) {
  auto reference = CTXGEN_TRY_AT(file_reference(model_folder, bin), "context binary");
  return reference;
}

}  // namespace ctxgen
