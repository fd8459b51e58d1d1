// Measures one ONNX Runtime library on one model, in a process of its own, and prints one JSON
// object.
//
// The library is opened by path and used through the C API of version 23, so that one program
// serves Debian's 1.23 and the newest release alike. bench/run.py starts it; `ort_bench --help`
// names the options.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <format>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "npy.h"
#include "ort_decode.h"

namespace bench {
namespace {

constexpr std::uint32_t kApiVersion = 23;  // what the oldest library offers

constexpr const char* kUsage =
    "usage: ort_bench --library FILE (--providers | --model FILE [options])\n"
    "  --providers              print the library's version and providers\n"
    "  --input NAME=FILE.npy    one per input\n"
    "  --threads N              intra-op threads (default 1)\n"
    "  --iterations N           timed runs after the first one (default 10)\n"
    "  --optimization LEVEL     0 none, 1 basic, 2 extended, 99 all (default 99)\n"
    "  --provider NAME          cpu, dnnl or xnnpack (default cpu)\n"
    "  --plugin FILE            register this plugin EP and give it the session, with --threads\n"
    "  --save-optimized FILE    write the optimised model, initializers prepacked in FILE.data, "
    "and stop\n"
    "  --outputs DIR            write the first run's outputs as DIR/output_K.npy\n"
    "  --decode PROMPT,STEPS    of a decoder with a past: the prompt, then steps of one token\n"
    "  --one-buffer             as past and present, for GroupQueryAttention\n"
    "  --profile PREFIX         write a profile of all runs, which slows them down, and print its name\n";

struct Options {
  std::string library, model, provider = "cpu", save_optimized, outputs, plugin, profile, decode;
  std::vector<std::pair<std::string, std::string>> inputs;
  int threads = 1, iterations = 10, optimization = 99;
  bool list_providers = false, one_buffer = false;
};

Options parse(int argc, char** argv) {
  Options options;
  const std::map<std::string, std::string*> texts = {
      {"--library", &options.library},   {"--model", &options.model},
      {"--provider", &options.provider}, {"--save-optimized", &options.save_optimized},
      {"--plugin", &options.plugin},     {"--outputs", &options.outputs},
      {"--profile", &options.profile},   {"--decode", &options.decode}};
  const std::map<std::string, int*> numbers = {{"--threads", &options.threads},
                                               {"--iterations", &options.iterations},
                                               {"--optimization", &options.optimization}};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--providers" || flag == "--one-buffer") {
      (flag == "--providers" ? options.list_providers : options.one_buffer) = true;
      continue;
    }
    if (i + 1 == argc)
      throw std::invalid_argument(
          std::format("{}: unknown, or its value is missing\n{}", flag, kUsage));
    const std::string value = argv[++i];
    if (const auto text = texts.find(flag); text != texts.end()) {
      *text->second = value;
    } else if (const auto number = numbers.find(flag); number != numbers.end()) {
      *number->second = std::stoi(value);
    } else if (const auto equals = value.rfind('=');
               flag == "--input" && equals != std::string::npos) {
      options.inputs.emplace_back(value.substr(0, equals), value.substr(equals + 1));
    } else {
      throw std::invalid_argument(std::format("{} {}: unknown\n{}", flag, value, kUsage));
    }
  }
  if (options.library.empty() || (options.model.empty() && !options.list_providers))
    throw std::invalid_argument(kUsage);
  return options;
}

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

const OrtApiBase& open_library(const std::string& path) {
  void* handle = dlopen(path.c_str(),
                        RTLD_NOW | RTLD_GLOBAL);  // global: provider libraries resolve against it
  if (handle == nullptr) throw std::runtime_error(dlerror());
  using GetApiBase = const OrtApiBase* (*)();
  const auto get_api_base = reinterpret_cast<GetApiBase>(dlsym(handle, "OrtGetApiBase"));
  if (get_api_base == nullptr) throw std::runtime_error(path + ": no OrtGetApiBase");
  const OrtApiBase* base = get_api_base();
  const OrtApi* api = base->GetApi(kApiVersion);
  if (api == nullptr) throw std::runtime_error(path + ": does not offer API version 23");
  Ort::InitApi(api);
  return *base;
}

void append_provider(Ort::SessionOptions& session, const Options& options) {
  if (options.provider == "dnnl") {
    OrtDnnlProviderOptions* dnnl = nullptr;
    Ort::ThrowOnError(Ort::GetApi().CreateDnnlProviderOptions(&dnnl));
    session.AppendExecutionProvider_Dnnl(*dnnl);
    Ort::GetApi().ReleaseDnnlProviderOptions(dnnl);
  } else if (options.provider == "xnnpack") {
    session.AppendExecutionProvider("XNNPACK",
                                    {{"intra_op_num_threads", std::to_string(options.threads)}});
    session.AddConfigEntry("session.intra_op.allow_spinning",
                           "0");  // as that provider's documentation asks
  } else if (options.provider != "cpu") {
    throw std::invalid_argument("--provider " + options.provider +
                                ": not one of cpu, dnnl, xnnpack");
  }
}

/// Every device of the plugin, which names them by its EP.
void append_plugin(Ort::Env& env, Ort::SessionOptions& session, const Options& options) {
  constexpr const char* kName = "CtxgenDnnlExecutionProvider";
  env.RegisterExecutionProviderLibrary("ctxgen", options.plugin);
  std::vector<Ort::ConstEpDevice> devices;
  for (const Ort::ConstEpDevice& device : env.GetEpDevices())
    if (std::string_view(device.EpName()) == kName) devices.push_back(device);
  const std::unordered_map<std::string, std::string> settings = {
      {"threads", std::to_string(options.threads)}};
  session.AppendExecutionProvider_V2(env, devices, settings);
}

Ort::SessionOptions session_options(Ort::Env& env, const Options& options) {
  Ort::SessionOptions session;
  session.SetIntraOpNumThreads(options.threads);
  session.SetInterOpNumThreads(1);
  session.SetLogSeverityLevel(3);
  session.SetGraphOptimizationLevel(static_cast<GraphOptimizationLevel>(options.optimization));
  append_provider(session, options);
  if (!options.plugin.empty()) append_plugin(env, session, options);
  if (!options.profile.empty()) session.EnableProfiling(options.profile.c_str());
  if (!options.save_optimized.empty()) {
    const std::string data =
        std::filesystem::path(options.save_optimized).filename().string() + ".data";
    session.SetOptimizedModelFilePath(options.save_optimized.c_str());
    session.AddConfigEntry("session.optimized_model_external_initializers_file_name", data.c_str());
    session.AddConfigEntry("session.optimized_model_external_initializers_min_size_in_bytes",
                           "1024");
    session.AddConfigEntry("session.save_external_prepacked_constant_initializers", "1");
  }
  return session;
}

struct ElementType {
  const char* code;
  ONNXTensorElementDataType type;
};
constexpr ElementType kElementTypes[] = {
    {"<f4", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},   {"<f8", ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE},
    {"<f2", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16}, {"<i8", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64},
    {"<i4", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32},   {"|b1", ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL},
    {"|u1", ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8},   {"|i1", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8},
};

template <class Key>
const ElementType& find_type(Key ElementType::* member, auto wanted) {
  for (const ElementType& row : kElementTypes)
    if (row.*member == wanted) return row;
  throw std::runtime_error("an element type that the bench does not know");
}

/// What a run takes and gives. Input values point into `arrays`.
struct RunArguments {
  std::vector<Array> arrays;
  std::vector<Ort::Value> inputs;
  std::vector<const char*> input_names, output_names;
  std::vector<std::string> output_storage;
};

RunArguments run_arguments(const Options& options, const Ort::Session& session) {
  RunArguments arguments;
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  for (const auto& [name, file] : options.inputs) arguments.arrays.push_back(read_npy(file));
  for (std::size_t i = 0; i < options.inputs.size(); ++i) {
    Array& array = arguments.arrays[i];
    const auto type = find_type(&ElementType::code, std::string_view(array.type)).type;
    arguments.input_names.push_back(options.inputs[i].first.c_str());
    arguments.inputs.push_back(Ort::Value::CreateTensor(memory, array.bytes.data(),
                                                        array.bytes.size(), array.shape.data(),
                                                        array.shape.size(), type));
  }
  Ort::AllocatorWithDefaultOptions allocator;
  for (std::size_t i = 0; i < session.GetOutputCount(); ++i)
    arguments.output_storage.push_back(session.GetOutputNameAllocated(i, allocator).get());
  for (const std::string& name : arguments.output_storage)
    arguments.output_names.push_back(name.c_str());
  return arguments;
}

/// Runs once and returns the milliseconds that it took.
double timed_run(Ort::Session& session, RunArguments& arguments, std::vector<Ort::Value>* outputs) {
  const auto start = Clock::now();
  auto values = session.Run(Ort::RunOptions{nullptr}, arguments.input_names.data(),
                            arguments.inputs.data(), arguments.inputs.size(),
                            arguments.output_names.data(), arguments.output_names.size());
  const double elapsed_ms = ms_since(start);
  if (outputs != nullptr) *outputs = std::move(values);
  return elapsed_ms;
}

void write_outputs(const std::string& folder, const std::vector<Ort::Value>& outputs) {
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto info = outputs[i].GetTensorTypeAndShapeInfo();
    const ElementType& type = find_type(&ElementType::type, info.GetElementType());
    const std::size_t size = info.GetElementCount() * static_cast<std::size_t>(type.code[2] - '0');
    write_npy(std::filesystem::path(folder) / std::format("output_{}.npy", i), type.code,
              info.GetShape(), outputs[i].GetTensorRawData(), size);
  }
}

/// Bytes of a line of /proc/self/status ("VmRSS", "RssAnon", ...).
std::uint64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":")) return std::stoull(line.substr(key.size() + 1)) * 1024;
  return 0;
}

nlohmann::json providers(const OrtApiBase& base) {
  return {{"version", base.GetVersionString()}, {"providers", Ort::GetAvailableProviders()}};
}

/// `opened` is when opening the library began; its environment, which every process needs, counts
/// as part of it.
nlohmann::json measure(const Options& options, const OrtApiBase& base, Clock::time_point opened) {
  Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "ort_bench");
  nlohmann::json result = {{"version", base.GetVersionString()},
                           {"library_load_ms", ms_since(opened)}};
  const Ort::SessionOptions session_setup = session_options(env, options);
  const auto start = Clock::now();
  Ort::Session session(env, options.model.c_str(), session_setup);
  result["load_ms"] = ms_since(start);
  if (!options.save_optimized.empty()) return result;

  if (!options.decode.empty()) {
    DecodeOptions asked = parse_decode(options.decode);
    asked.one_buffer = options.one_buffer;
    const DecodeTimes times = decode(session, asked);
    result["prefill_ms"] = times.prefill_ms;
    result["steps_ms"] = times.steps_ms;
    return result;
  }
  RunArguments arguments = run_arguments(options, session);
  std::vector<Ort::Value> outputs;
  result["first_run_ms"] = timed_run(session, arguments, &outputs);
  if (!options.outputs.empty()) write_outputs(options.outputs, outputs);
  std::vector<double> runs_ms;
  for (int i = 0; i < options.iterations; ++i)
    runs_ms.push_back(timed_run(session, arguments, nullptr));
  result["runs_ms"] = runs_ms;
  result["resident_bytes"] = status_bytes("VmRSS");
  result["private_bytes"] = status_bytes("RssAnon");
  if (!options.profile.empty()) {
    Ort::AllocatorWithDefaultOptions allocator;
    result["profile"] = session.EndProfilingAllocated(allocator).get();
  }
  std::cout << result.dump() << std::endl;
  _exit(0);  // tearing down is not part of what is compared
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto start = Clock::now();
  const OrtApiBase& base = open_library(options.library);
  const nlohmann::json result =
      options.list_providers ? providers(base) : measure(options, base, start);
  std::cout << result.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    return bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ort_bench: %s\n", error.what());
    return 1;
  }
}
