#include "host.h"

#include <dlfcn.h>

#include <cstring>
#include <fstream>
#include <map>
#include <span>

namespace ort_host {

Options parse(int argc, char** argv, const char* usage) {
  Options options;
  const std::map<std::string, std::string*> texts = {
      {"--library", &options.library}, {"--plugin", &options.plugin},
      {"--model", &options.model},     {"--output", &options.output},
      {"--info", &options.info},       {"--ep-name", &options.ep_name},
      {"--stream", &options.stream},   {"--weights", &options.weights},
      {"--second", &options.second},   {"--second-output", &options.second_output},
      {"--outputs", &options.outputs}, {"--policy", &options.policy},
      {"--data", &options.data},       {"--optimized", &options.optimized},
      {"--source", &options.source}};
  const std::map<std::string, int*> numbers = {
      {"--threads", &options.threads}, {"--rounds", &options.rounds},
      {"--flags", &options.flags},     {"--count", &options.count},
      {"--fill", &options.fill},       {"--optimization", &options.optimization},
      {"--log", &options.log}};
  const std::map<std::string, bool*> switches = {{"--memory", &options.memory},
                                                 {"--embed", &options.embed},
                                                 {"--plain", &options.plain},
                                                 {"--reuse", &options.reuse},
                                                 {"--apart", &options.apart}};
  const std::map<std::string, Pairs*> pairs = {
      {"--config", &options.config}, {"--ep", &options.ep}, {"--file", &options.files}};
  if (argc < 2 || argv[1][0] == '-') throw Failed(usage);
  options.verb = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (switches.contains(flag)) {
      *switches.at(flag) = true;
      continue;
    }
    if (++i == argc) throw Failed(flag + ": unknown, or without a value\n" + usage);
    const std::string value = argv[i];
    const std::size_t equals = value.find('=');
    if (texts.contains(flag))
      *texts.at(flag) = value;
    else if (numbers.contains(flag))
      *numbers.at(flag) = std::stoi(value);
    else if (pairs.contains(flag) && equals != std::string::npos)
      (*pairs.at(flag))[value.substr(0, equals)] = value.substr(equals + 1);
    else
      throw Failed(flag + ": unknown\n" + usage);
  }
  return options;
}

namespace {

const OrtApiBase* library = nullptr;

}  // namespace

const OrtApiBase& open_library(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) throw Failed(dlerror());
  using GetApiBase = const OrtApiBase* (*)();
  const auto get_api_base = reinterpret_cast<GetApiBase>(dlsym(handle, "OrtGetApiBase"));
  const OrtApi* api = get_api_base == nullptr ? nullptr : get_api_base()->GetApi(23);
  if (api == nullptr) throw Failed(path + ": not ONNX Runtime 1.23 or later");
  Ort::InitApi(api);
  library = get_api_base();
  return *library;
}

const OrtApi& newer_api(std::uint32_t version) {
  const OrtApi* api = library->GetApi(version);
  if (api == nullptr) throw TooOld("the library is older than 1." + std::to_string(version));
  return *api;
}

Ort::Env make_env(const Options& options) {
  Ort::Env env(static_cast<OrtLoggingLevel>(options.log), "ort_host");
  if (!options.plain) env.RegisterExecutionProviderLibrary(kRegistration, options.plugin);
  return env;
}

std::vector<Ort::ConstEpDevice> devices_of(Ort::Env& env, const Options& options) {
  std::vector<Ort::ConstEpDevice> devices;
  for (const Ort::ConstEpDevice& device : env.GetEpDevices())
    if (options.ep_name == device.EpName()) devices.push_back(device);
  if (devices.empty()) throw Failed("the plugin has no device " + options.ep_name);
  return devices;
}

namespace {

OrtStatus* take_ours(const OrtEpDevice** devices, std::size_t count, const OrtKeyValuePairs*,
                     const OrtKeyValuePairs*, const OrtEpDevice** selected, std::size_t most,
                     std::size_t* taken, void* state) {
  *taken = 0;
  for (std::size_t i = 0; i < count && *taken < most; ++i)
    if (*static_cast<const std::string*>(state) == Ort::GetApi().EpDevice_EpName(devices[i]))
      selected[(*taken)++] = devices[i];
  return nullptr;
}

OrtStatus* take_nothing(const OrtEpDevice**, std::size_t, const OrtKeyValuePairs*,
                        const OrtKeyValuePairs*, const OrtEpDevice**, std::size_t,
                        std::size_t* taken, void*) {
  *taken = 0;
  return nullptr;
}

OrtStatus* fail_to_take(const OrtEpDevice**, std::size_t, const OrtKeyValuePairs*,
                        const OrtKeyValuePairs*, const OrtEpDevice**, std::size_t, std::size_t*,
                        void*) {
  return Ort::GetApi().CreateStatus(ORT_FAIL, "no choice was made");
}

void set_policy(Ort::SessionOptions& session, const Options& options) {
  auto* ours = const_cast<std::string*>(&options.ep_name);
  if (options.policy == "cpu")
    session.SetEpSelectionPolicy(OrtExecutionProviderDevicePolicy_PREFER_CPU);
  else if (options.policy == "performance")
    session.SetEpSelectionPolicy(OrtExecutionProviderDevicePolicy_MAX_PERFORMANCE);
  else if (options.policy == "takes")
    session.SetEpSelectionPolicy(take_ours, ours);
  else if (options.policy == "nothing")
    session.SetEpSelectionPolicy(take_nothing, nullptr);
  else if (options.policy == "fails")
    session.SetEpSelectionPolicy(fail_to_take, nullptr);
  else
    throw Failed("--policy " + options.policy + " is not known");
}

/// The source of a weightless model, in memory that lives until the program ends.
void set_source_model(Ort::SessionOptions& session, const std::string& path) {
  static std::vector<char> bytes;
  bytes = bytes_of(path);
  using Set = OrtStatus* (*)(OrtSessionOptions*, const void*, std::size_t);
  Ort::ThrowOnError(newer_member<Set>(newer_api(29), 34)(session, bytes.data(), bytes.size()));
}

/// Files of external data that the application has in memory, which lives until the program ends.
void set_files(Ort::SessionOptions& session, const Pairs& files) {
  static std::vector<std::vector<char>> contents;
  std::vector<std::string> names;
  std::vector<char*> data;
  std::vector<std::size_t> sizes;
  for (const auto& [name, path] : files) {
    contents.push_back(bytes_of(path));
    names.push_back(name);
    data.push_back(contents.back().data());
    sizes.push_back(contents.back().size());
  }
  if (!names.empty()) session.AddExternalInitializersFromFilesInMemory(names, data, sizes);
}

}  // namespace

Ort::SessionOptions session_options(Ort::Env& env, const Options& options) {
  Ort::SessionOptions session;
  Pairs ep = options.ep;
  if (options.threads > 0) {
    session.SetIntraOpNumThreads(options.threads);
    ep.emplace("threads", std::to_string(options.threads));
  }
  if (options.verb != "dynamic")
    for (const auto& [key, value] : options.config)
      session.AddConfigEntry(key.c_str(), value.c_str());
  if (!options.source.empty()) set_source_model(session, options.source);
  set_files(session, options.files);
  if (options.verb == "profile") session.EnableProfiling(options.output.c_str());
  if (options.optimization >= 0)
    session.SetGraphOptimizationLevel(static_cast<GraphOptimizationLevel>(options.optimization));
  if (!options.optimized.empty()) session.SetOptimizedModelFilePath(options.optimized.c_str());
  if (!options.policy.empty())
    set_policy(session, options);
  else if (!options.plain)
    session.AppendExecutionProvider_V2(env, devices_of(env, options), ep);
  return session;
}

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Ort::Session make_session(Ort::Env& env, const Options& options) {
  const Ort::SessionOptions setup = session_options(env, options);
  if (!options.memory) return {env, options.model.c_str(), setup};
  const std::vector<char> bytes = bytes_of(options.model);
  return {env, bytes.data(), bytes.size(), setup};
}

namespace {

/// Numbers between -1 and 1 that look like noise.
void fill_with_pattern(std::span<float> numbers) {
  std::uint32_t state = 1;
  for (float& number : numbers) {
    state = state * 1664525U + 1013904223U;
    number = static_cast<float>(state >> 8) / 8388608.0F - 1.0F;
  }
}

void fill_input(Ort::Value& input, int fill) {
  const auto info = input.GetTensorTypeAndShapeInfo();
  const std::size_t count = info.GetElementCount();
  switch (info.GetElementType()) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return fill_with_pattern({input.GetTensorMutableData<float>(), count});
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      std::fill_n(input.GetTensorMutableData<std::int64_t>(), count, fill);
      return;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      std::fill_n(input.GetTensorMutableData<std::int32_t>(), count, fill);
      return;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      std::fill_n(input.GetTensorMutableData<bool>(), count, fill != 0);
      return;
    default: std::memset(input.GetTensorMutableRawData(), 0, input.GetTensorSizeInBytes());
  }
}

}  // namespace

Arguments::Arguments(const Ort::Session& session, int fill) {
  Ort::AllocatorWithDefaultOptions allocator;
  for (std::size_t i = 0; i < session.GetInputCount(); ++i) {
    names.push_back(session.GetInputNameAllocated(i, allocator).get());
    const auto type = session.GetInputTypeInfo(i);
    const auto info = type.GetTensorTypeAndShapeInfo();
    std::vector<std::int64_t> shape = info.GetShape();
    for (std::int64_t& size : shape) size = std::max<std::int64_t>(size, 1);
    inputs.push_back(
        Ort::Value::CreateTensor(allocator, shape.data(), shape.size(), info.GetElementType()));
    fill_input(inputs.back(), fill);
  }
  input_count = names.size();
  for (std::size_t i = 0; i < session.GetOutputCount(); ++i)
    names.push_back(session.GetOutputNameAllocated(i, allocator).get());
  for (const std::string& name : names) pointers.push_back(name.c_str());
}

std::vector<Ort::Value> Arguments::run(Ort::Session& session,
                                       const Ort::RunOptions& run_options) const {
  return session.Run(run_options, pointers.data(), inputs.data(), input_count,
                     pointers.data() + input_count, names.size() - input_count);
}

std::string bytes_of(const std::vector<Ort::Value>& values) {
  std::string bytes;
  for (const Ort::Value& value : values)
    bytes.append(static_cast<const char*>(value.GetTensorRawData()), value.GetTensorSizeInBytes());
  return bytes;
}

}  // namespace ort_host
