// A C++ program over the installed compile API: models of one group to memory.
#include <ctxgen/compiler/compile_models.h>
#include <ctxgen/compiler/config_keys.h>

#include <cstdio>

int main(int argc, char** argv) {
  std::vector<ctxgen::ModelInput> inputs;
  for (int i = 1; i < argc; ++i) {
    ctxgen::ModelInput input;
    input.path = argv[i];
    input.name = input.path.filename().string();
    inputs.push_back(std::move(input));
  }
  ctxgen::CompileOptions options;
  const ctxgen::ConfigEntry key{"ep.share_ep_contexts", "1"};
  if (auto status = ctxgen::apply_config(options, std::span(&key, 1)); !status) return 1;
  const auto compiled =
      ctxgen::compile_models(inputs, std::vector<ctxgen::ModelOutput>(inputs.size()), options);
  if (!compiled) {
    std::fprintf(stderr, "%s\n", compiled.error().message.c_str());
    return 1;
  }
  std::printf("%zu models, %zu bins\n", compiled->models.size(), compiled->bins.size());
  return 0;
}
