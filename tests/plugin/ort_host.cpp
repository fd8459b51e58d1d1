// An application on ONNX Runtime for the tests of the plugin: does one thing with one library, both
// named by path, in a process of its own. It is built with the headers of 1.23 and serves every
// later library. `ort_host --help` lists what it does.
//
// Status 0: done. 1: ONNX Runtime refused, "CODE: TEXT" on stdout. 2: this program was not used
// right, or what it wanted to see did not happen. 3: the library is too old for it.

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

namespace {

constexpr const char* kUsage =
    "usage: ort_host VERB --library FILE --plugin FILE [--model FILE] [options]\n"
    "  run             load the model and run it; --rounds N: register, load, run, unregister N "
    "times\n"
    "  keep            the same, and leave without unregistering, everything destroyed in order\n"
    "  leak            the same, and exit with nothing destroyed\n"
    "  static          the same, with environment and session destroyed after main\n"
    "  early           unregister while a session lives, run it again, then destroy it\n"
    "  orphan          destroy the environment, then run the session\n"
    "  mapped          run, unregister, and print which libraries stay mapped\n"
    "  load            make a session only\n"
    "  compile         CompileModel to --output\n"
    "  verdict         GetModelCompatibilityForEpDevices of --info\n"
    "  incompatibility GetHardwareDeviceEpIncompatibilityDetails of every device and of a made-up GPU "
    "(1.24)\n"
    "  dynamic         SetEpDynamicOptions with the --config entries\n"
    "  profile         run the model and print the file of the profile\n"
    "  terminate       stop a run that is under way from another thread\n"
    "options:\n"
    "  --output PATH   of compile, and where the file of profile's name begins\n"
    "  --threads N     for the session and the EP; default: what they take by themselves\n"
    "  --memory        give the session the model's bytes\n"
    "  --embed         of compile: the context lies in the model\n"
    "  --flags N       of compile: OrtCompileApiFlags\n"
    "  --stream WORD   of compile: \"writes\" the output through a function, or one that \"fails\"\n"
    "  --weights FILE  of compile: where a function places initializers\n"
    "  --config K=V    a session configuration entry; repeatable\n"
    "  --ep K=V        an option of the EP; repeatable\n"
    "  --ep-name NAME  of the plugin (default CtxgenDnnlExecutionProvider)\n";

using Pairs = std::unordered_map<std::string, std::string>;

struct Options {
  std::string verb, library, plugin, model, output, info, ep_name = "CtxgenDnnlExecutionProvider";
  std::string stream, weights;
  int threads = 0, rounds = 1, flags = 0;
  bool memory = false, embed = false;
  Pairs config, ep;
};

struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Options parse(int argc, char** argv) {
  Options options;
  const std::map<std::string, std::string*> texts = {
      {"--library", &options.library}, {"--plugin", &options.plugin},
      {"--model", &options.model},     {"--output", &options.output},
      {"--info", &options.info},       {"--ep-name", &options.ep_name},
      {"--stream", &options.stream},   {"--weights", &options.weights}};
  const std::map<std::string, int*> numbers = {
      {"--threads", &options.threads}, {"--rounds", &options.rounds}, {"--flags", &options.flags}};
  const std::map<std::string, bool*> switches = {{"--memory", &options.memory},
                                                 {"--embed", &options.embed}};
  const std::map<std::string, Pairs*> pairs = {{"--config", &options.config},
                                               {"--ep", &options.ep}};
  if (argc < 2 || argv[1][0] == '-') throw Failed(kUsage);
  options.verb = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (switches.contains(flag)) {
      *switches.at(flag) = true;
      continue;
    }
    if (++i == argc) throw Failed(flag + ": unknown, or without a value\n" + kUsage);
    const std::string value = argv[i];
    const std::size_t equals = value.find('=');
    if (texts.contains(flag))
      *texts.at(flag) = value;
    else if (numbers.contains(flag))
      *numbers.at(flag) = std::stoi(value);
    else if (pairs.contains(flag) && equals != std::string::npos)
      (*pairs.at(flag))[value.substr(0, equals)] = value.substr(equals + 1);
    else
      throw Failed(flag + ": unknown\n" + kUsage);
  }
  return options;
}

const OrtApiBase& open_library(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) throw Failed(dlerror());
  using GetApiBase = const OrtApiBase* (*)();
  const auto get_api_base = reinterpret_cast<GetApiBase>(dlsym(handle, "OrtGetApiBase"));
  const OrtApi* api = get_api_base == nullptr ? nullptr : get_api_base()->GetApi(23);
  if (api == nullptr) throw Failed(path + ": not ONNX Runtime 1.23 or later");
  Ort::InitApi(api);
  return *get_api_base();
}

constexpr const char* kRegistration = "ctxgen";

Ort::Env make_env(const Options& options) {
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "ort_host");
  env.RegisterExecutionProviderLibrary(kRegistration, options.plugin);
  return env;
}

std::vector<Ort::ConstEpDevice> devices_of(Ort::Env& env, const Options& options) {
  std::vector<Ort::ConstEpDevice> devices;
  for (const Ort::ConstEpDevice& device : env.GetEpDevices())
    if (options.ep_name == device.EpName()) devices.push_back(device);
  if (devices.empty()) throw Failed("the plugin has no device " + options.ep_name);
  return devices;
}

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
  if (options.verb == "profile") session.EnableProfiling(options.output.c_str());
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

/// The arguments of runs with inputs of zeros; dims without a size are 1.
struct Arguments {
  explicit Arguments(const Ort::Session& session) {
    Ort::AllocatorWithDefaultOptions allocator;
    for (std::size_t i = 0; i < session.GetInputCount(); ++i) {
      names.push_back(session.GetInputNameAllocated(i, allocator).get());
      const auto type = session.GetInputTypeInfo(i);
      const auto info = type.GetTensorTypeAndShapeInfo();
      std::vector<std::int64_t> shape = info.GetShape();
      for (std::int64_t& size : shape) size = std::max<std::int64_t>(size, 1);
      inputs.push_back(
          Ort::Value::CreateTensor(allocator, shape.data(), shape.size(), info.GetElementType()));
      const std::size_t count = inputs.back().GetTensorTypeAndShapeInfo().GetElementCount();
      if (info.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
        std::fill_n(inputs.back().GetTensorMutableData<float>(), count, 0.0F);
    }
    input_count = names.size();
    for (std::size_t i = 0; i < session.GetOutputCount(); ++i)
      names.push_back(session.GetOutputNameAllocated(i, allocator).get());
    for (const std::string& name : names) pointers.push_back(name.c_str());
  }
  std::vector<Ort::Value> run(Ort::Session& session,
                              const Ort::RunOptions& run_options = {}) const {
    return session.Run(run_options, pointers.data(), inputs.data(), input_count,
                       pointers.data() + input_count, names.size() - input_count);
  }
  std::vector<std::string> names;
  std::vector<const char*> pointers;
  std::vector<Ort::Value> inputs;
  std::size_t input_count = 0;
};

void load_and_run(Ort::Env& env, const Options& options) {
  Ort::Session session = make_session(env, options);
  const Arguments arguments(session);
  for (int i = 0; i < 3; ++i) arguments.run(session);
}

int run(const Options& options) {
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "ort_host");
  for (int round = 0; round < options.rounds; ++round) {
    env.RegisterExecutionProviderLibrary(kRegistration, options.plugin);
    load_and_run(env, options);
    env.UnregisterExecutionProviderLibrary(kRegistration);
  }
  return 0;
}

int keep(const Options& options) {
  Ort::Env env = make_env(options);
  load_and_run(env, options);
  return 0;
}

int leak(const Options& options) {
  auto* env = new Ort::Env(make_env(options));
  auto* session = new Ort::Session(make_session(*env, options));
  Arguments(*session).run(*session);
  return 0;
}

int destroy_after_main(const Options& options) {
  static std::optional<Ort::Env> env;
  static std::optional<Ort::Session> session;
  env = make_env(options);
  session = make_session(*env, options);
  Arguments(*session).run(*session);
  return 0;
}

int unregister_early(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  const Arguments arguments(session);
  arguments.run(session);
  try {
    env.UnregisterExecutionProviderLibrary(kRegistration);
  } catch (const Ort::Exception& error) {  // a release may refuse that
    std::cout << "unregister: " << error.what() << "\n";
  }
  arguments.run(session);
  return 0;
}

int run_orphan(const Options& options) {
  auto env = std::make_unique<Ort::Env>(make_env(options));
  Ort::Session session = make_session(*env, options);
  const Arguments arguments(session);
  arguments.run(session);
  env.reset();
  arguments.run(session);
  return 0;
}

int print_mapped(const Options& options) {
  run(options);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    for (const char* name : {"libctxgen_onnxruntime.so", "libgomp.so", "libdnnl.so"})
      if (line.find(name) != std::string::npos && line.find("r-xp") != std::string::npos)
        std::cout << name << "\n";
  return 0;
}

int load(const Options& options) {
  Ort::Env env = make_env(options);
  const Ort::Session session = make_session(env, options);
  std::cout << session.GetInputCount() << " inputs\n";
  return 0;
}

OrtStatus* write_part(void* file, const void* bytes, std::size_t size) {
  static_cast<std::ofstream*>(file)->write(static_cast<const char*>(bytes),
                                           static_cast<std::streamsize>(size));
  return nullptr;
}

OrtStatus* fail_to_write(void*, const void*, std::size_t) {
  return Ort::GetApi().CreateStatus(ORT_FAIL, "the tape is full");
}

/// Initializers that a function appends to a file.
struct Weights {
  std::string path;
  std::ofstream file;
};

OrtStatus* place_initializer(void* state, const char*, const OrtValue* value,
                             const OrtExternalInitializerInfo*,
                             OrtExternalInitializerInfo** place) {
  auto& weights = *static_cast<Weights*>(state);
  std::size_t size = 0;
  const void* data = nullptr;
  OrtStatus* status = Ort::GetApi().GetTensorSizeInBytes(value, &size);
  if (status == nullptr) status = Ort::GetApi().GetTensorData(value, &data);
  if (status != nullptr) return status;
  const auto at = static_cast<std::int64_t>(weights.file.tellp());
  weights.file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  const std::string name = weights.path.substr(weights.path.rfind('/') + 1);
  return Ort::GetApi().CreateExternalInitializerInfo(name.c_str(), at, size, place);
}

int compile_model(const Options& options) {
  Ort::Env env = make_env(options);
  const Ort::SessionOptions setup = session_options(env, options);
  Ort::ModelCompilationOptions compilation(env, setup);
  const std::vector<char> bytes = bytes_of(options.model);
  if (options.memory)
    compilation.SetInputModelFromBuffer(bytes.data(), bytes.size());
  else
    compilation.SetInputModelPath(options.model.c_str());
  std::ofstream output;
  if (options.stream == "writes") output.open(options.output, std::ios::binary);
  if (options.stream.empty())
    compilation.SetOutputModelPath(options.output.c_str());
  else
    compilation.SetOutputModelWriteFunc(options.stream == "writes" ? write_part : fail_to_write,
                                        &output);
  Weights weights{options.weights, {}};
  if (!options.weights.empty()) {
    weights.file.open(options.weights, std::ios::binary);
    compilation.SetOutputModelGetInitializerLocationFunc(place_initializer, &weights);
  }
  compilation.SetEpContextEmbedMode(options.embed);
  compilation.SetFlags(static_cast<std::uint32_t>(options.flags));
  Ort::Status status = Ort::CompileModel(env, compilation);
  if (!status.IsOK()) throw Ort::Exception(status.GetErrorMessage(), status.GetErrorCode());
  return 0;
}

int print_verdict(const Options& options) {
  Ort::Env env = make_env(options);
  std::vector<const OrtEpDevice*> devices;
  for (const Ort::ConstEpDevice& device : devices_of(env, options)) devices.push_back(device);
  OrtCompiledModelCompatibility verdict{};
  Ort::ThrowOnError(Ort::GetApi().GetModelCompatibilityForEpDevices(
      devices.data(), devices.size(), options.info.c_str(), &verdict));
  constexpr const char* kNames[] = {"not applicable", "optimal", "prefer recompilation",
                                    "unsupported"};
  std::cout << kNames[verdict] << "\n";
  return 0;
}

/// The member of OrtApi `after` places after the last one of 1.23.
template <class Function>
Function newer_member(const OrtApi& api, std::size_t after) {
  void* member = nullptr;
  const auto* members = reinterpret_cast<const std::byte*>(&api);
  std::copy_n(
      members + offsetof(OrtApi, CreateExternalInitializerInfo) + (after + 1) * sizeof member,
      sizeof member, reinterpret_cast<std::byte*>(&member));
  return reinterpret_cast<Function>(member);
}

/// A device that is not there; the first member of OrtEpApi after those of 1.23 makes it.
const OrtHardwareDevice* make_gpu(const OrtEpApi& api) {
  using Create =
      OrtStatus* (*)(OrtHardwareDeviceType, std::uint32_t vendor, std::uint32_t device,
                     const char* vendor_name, const OrtKeyValuePairs*, OrtHardwareDevice**);
  Create create = nullptr;
  std::copy_n(reinterpret_cast<const std::byte*>(&api) + sizeof(OrtEpApi), sizeof create,
              reinterpret_cast<std::byte*>(&create));
  OrtHardwareDevice* device = nullptr;
  Ort::ThrowOnError(create(OrtHardwareDeviceType_GPU, 0, 0, "ort_host", nullptr, &device));
  return device;  // for the rest of the process
}

int print_incompatibility(const Options& options, const OrtApiBase& base) {
  const OrtApi* api = base.GetApi(24);
  if (api == nullptr) return 3;
  using Details = void*;
  const auto count_devices = newer_member<OrtStatus* (*)(const OrtEnv*, std::size_t*)>(*api, 7);
  const auto get_devices =
      newer_member<OrtStatus* (*)(const OrtEnv*, const OrtHardwareDevice**, std::size_t)>(*api, 8);
  const auto get_details =
      newer_member<OrtStatus* (*)(const OrtEnv*, const char*, const OrtHardwareDevice*, Details*)>(
          *api, 9);
  const auto get_reasons = newer_member<OrtStatus* (*)(Details, std::uint32_t*)>(*api, 10);
  const auto release = newer_member<void (*)(Details)>(*api, 13);
  Ort::Env env = make_env(options);
  std::size_t count = 0;
  Ort::ThrowOnError(count_devices(env, &count));
  std::vector<const OrtHardwareDevice*> devices(count);
  Ort::ThrowOnError(get_devices(env, devices.data(), count));
  devices.push_back(make_gpu(*Ort::GetApi().GetEpApi()));
  for (const OrtHardwareDevice* device : devices) {
    Details details = nullptr;
    Ort::ThrowOnError(get_details(env, options.ep_name.c_str(), device, &details));
    std::uint32_t reasons = 0;
    Ort::ThrowOnError(get_reasons(details, &reasons));
    release(details);
    std::cout << "device of type " << Ort::GetApi().HardwareDevice_Type(device) << ": reasons "
              << reasons << "\n";
  }
  return 0;
}

/// Two threads run the session at the same time.
int profile(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  const Arguments arguments(session), others(session);
  std::thread other([&] { others.run(session); });
  arguments.run(session);
  other.join();
  Ort::AllocatorWithDefaultOptions allocator;
  std::cout << session.EndProfilingAllocated(allocator).get() << "\n";
  return 0;
}

int set_dynamic(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : options.config) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  Ort::ThrowOnError(
      Ort::GetApi().SetEpDynamicOptions(session, keys.data(), values.data(), keys.size()));
  Arguments(session).run(session);
  return 0;
}

/// ONNX Runtime itself looks at the flag between nodes. So many runs are stopped, a little later
/// each time, until one says that it was stopped inside a node. After that the session has to run
/// as before.
int terminate_run(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  const Arguments arguments(session);
  arguments.run(session);
  const auto start = std::chrono::steady_clock::now();
  arguments.run(session);
  const auto whole = std::chrono::steady_clock::now() - start;
  std::map<std::string, int> seen;
  for (int attempt = 0; attempt < 200; ++attempt) {
    Ort::RunOptions run_options;
    std::atomic<bool> begun = false;
    std::thread stopper([&] {
      while (!begun) std::this_thread::yield();
      std::this_thread::sleep_for(whole * (attempt % 10 + 1) / 20);
      run_options.SetTerminate();
    });
    std::string text = "finished";
    begun = true;
    try {
      arguments.run(session, run_options);
    } catch (const Ort::Exception& error) {
      text = error.what();
    }
    stopper.join();
    if (text.find("the run was stopped") != std::string::npos) {
      arguments.run(session);
      std::cout << "stopped inside a node\n";
      return 0;
    }
    ++seen[text];
  }
  for (const auto& [text, times] : seen) std::cout << times << " times: " << text << "\n";
  return 2;
}

int dispatch(const Options& options) {
  const OrtApiBase& base = open_library(options.library);
  const std::map<std::string, int (*)(const Options&)> verbs = {{"run", run},
                                                                {"keep", keep},
                                                                {"leak", leak},
                                                                {"static", destroy_after_main},
                                                                {"orphan", run_orphan},
                                                                {"early", unregister_early},
                                                                {"mapped", print_mapped},
                                                                {"load", load},
                                                                {"compile", compile_model},
                                                                {"verdict", print_verdict},
                                                                {"dynamic", set_dynamic},
                                                                {"profile", profile},
                                                                {"terminate", terminate_run}};
  if (options.verb == "incompatibility") return print_incompatibility(options, base);
  const auto verb = verbs.find(options.verb);
  if (verb == verbs.end()) throw Failed(kUsage);
  return verb->second(options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch(parse(argc, argv));
  } catch (const Ort::Exception& error) {
    std::cout << error.GetOrtErrorCode() << ": " << error.what() << std::endl;
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "ort_host: " << error.what() << std::endl;
    return 2;
  }
}
