// Context models made by the Compile API, where their parts go, and what takes them.

#include <fstream>
#include <iostream>
#include <map>
#include <memory>

#include "host.h"

struct OrtModelPackageOptions;
struct OrtModelPackageContext;
struct OrtModelPackageComponentContext;

namespace ort_host {
namespace {

OrtStatus* write_part(void* file, const void* bytes, std::size_t size) {
  static_cast<std::ofstream*>(file)->write(static_cast<const char*>(bytes),
                                           static_cast<std::streamsize>(size));
  return nullptr;
}

OrtStatus* fail_to_write(void*, const void*, std::size_t) {
  return Ort::GetApi().CreateStatus(ORT_FAIL, "the tape is full");
}

/// Initializers that a function appends to a file, or leaves where the source has them.
struct Weights {
  std::string path;
  std::ofstream file;
  bool reuse = false;
};

OrtStatus* place_initializer(void* state, const char*, const OrtValue* value,
                             const OrtExternalInitializerInfo* external,
                             OrtExternalInitializerInfo** place) {
  const OrtApi& api = Ort::GetApi();
  auto& weights = *static_cast<Weights*>(state);
  if (weights.reuse) {
    if (external == nullptr) return nullptr;  // it goes into the model
    return api.CreateExternalInitializerInfo(api.ExternalInitializerInfo_GetFilePath(external),
                                             api.ExternalInitializerInfo_GetFileOffset(external),
                                             api.ExternalInitializerInfo_GetByteSize(external),
                                             place);
  }
  std::size_t size = 0;
  const void* data = nullptr;
  OrtStatus* status = api.GetTensorSizeInBytes(value, &size);
  if (status == nullptr) status = api.GetTensorData(value, &data);
  if (status != nullptr) return status;
  const auto at = static_cast<std::int64_t>(weights.file.tellp());
  weights.file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  const std::string name = weights.path.substr(weights.path.rfind('/') + 1);
  return api.CreateExternalInitializerInfo(name.c_str(), at, size, place);
}

/// Context binaries of an application that keeps them elsewhere: here in a folder, with other bytes.
constexpr char kKey = 0x5A;

std::string scrambled(std::string bytes) {
  for (char& byte : bytes) byte ^= kKey;
  return bytes;
}

OrtStatus* keep_data(void* state, const char* name, const void* buffer, std::size_t size) {
  const std::string path = *static_cast<const std::string*>(state) + "/" + name + ".kept";
  std::ofstream file(path, std::ios::binary);
  file << scrambled({static_cast<const char*>(buffer), size});
  if (file.flush()) return nullptr;
  return Ort::GetApi().CreateStatus(ORT_FAIL, "the vault is closed");
}

OrtStatus* give_data(void* state, const char* name, OrtAllocator* allocator, void** buffer,
                     std::size_t* size) {
  const std::string path = *static_cast<const std::string*>(state) + "/" + name + ".kept";
  const std::vector<char> kept = bytes_of(path);
  if (kept.empty()) {
    *size = 64;
    *buffer = allocator->Alloc(allocator, *size);  // given back although the function fails
    return Ort::GetApi().CreateStatus(ORT_FAIL, "the vault has no such thing");
  }
  const std::string bytes = scrambled({kept.data(), kept.size()});
  *buffer = allocator->Alloc(allocator, bytes.size());
  std::ranges::copy(bytes, static_cast<char*>(*buffer));
  *size = bytes.size();
  return nullptr;
}

void set_writer(Ort::ModelCompilationOptions& compilation, const std::string& folder) {
  using Function = OrtStatus* (*)(void*, const char*, const void*, std::size_t);
  using Set = OrtStatus* (*)(OrtModelCompilationOptions*, Function, void*);
  const auto set =
      experimental<Set>("OrtCompileApi_ModelCompilationOptions_SetEpContextDataWriteFunc_SinceV28");
  Ort::ThrowOnError(set(compilation, keep_data, const_cast<std::string*>(&folder)));
}

void set_reader(Ort::SessionOptions& session, const std::string& folder) {
  using Function = OrtStatus* (*)(void*, const char*, OrtAllocator*, void**, std::size_t*);
  using Set = OrtStatus* (*)(OrtSessionOptions*, Function, void*);
  const auto set = experimental<Set>("OrtApi_SessionOptions_SetEpContextDataReadFunc_SinceV28");
  Ort::ThrowOnError(set(session, give_data, const_cast<std::string*>(&folder)));
}

void compile_with(Ort::Env& env, const Options& options, const Ort::SessionOptions& setup,
                  const std::string& model, const std::string& target) {
  Ort::ModelCompilationOptions compilation(env, setup);
  const std::vector<char> bytes = bytes_of(model);
  if (options.memory)
    compilation.SetInputModelFromBuffer(bytes.data(), bytes.size());
  else
    compilation.SetInputModelPath(model.c_str());
  std::ofstream output;
  if (options.stream == "writes") output.open(target, std::ios::binary);
  Ort::AllocatorWithDefaultOptions allocator;
  void* buffer = nullptr;
  std::size_t size = 0;
  if (options.stream.empty())
    compilation.SetOutputModelPath(target.c_str());
  else if (options.stream == "buffer")
    compilation.SetOutputModelBuffer(allocator, &buffer, &size);
  else
    compilation.SetOutputModelWriteFunc(options.stream == "writes" ? write_part : fail_to_write,
                                        &output);
  Weights weights{options.weights, {}, options.reuse};
  if (!options.weights.empty()) weights.file.open(options.weights, std::ios::binary);
  if (!options.weights.empty() || options.reuse)
    compilation.SetOutputModelGetInitializerLocationFunc(place_initializer, &weights);
  compilation.SetEpContextEmbedMode(options.embed);
  compilation.SetFlags(static_cast<std::uint32_t>(options.flags));
  if (options.optimization >= 0)
    compilation.SetGraphOptimizationLevel(
        static_cast<GraphOptimizationLevel>(options.optimization));
  if (!options.data.empty()) set_writer(compilation, options.data);
  const Ort::Status status = Ort::CompileModel(env, compilation);
  if (!status.IsOK()) throw Ort::Exception(status.GetErrorMessage(), status.GetErrorCode());
  if (buffer == nullptr) return;
  std::ofstream(target, std::ios::binary)
      .write(static_cast<const char*>(buffer), static_cast<std::streamsize>(size));
  allocator.Free(buffer);
}

int compile_model(const Options& options) {
  Ort::Env env = make_env(options);
  compile_with(env, options, session_options(env, options), options.model, options.output);
  return 0;
}

/// Two models into one context, the second one ends the group.
int compile_group(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::SessionOptions setup = session_options(env, options);
  setup.AddConfigEntry("ep.share_ep_contexts", "1");
  compile_with(env, options, setup, options.model, options.output);
  setup.AddConfigEntry("ep.stop_share_ep_contexts", "1");
  compile_with(env, options, setup, options.second, options.second_output);
  return 0;
}

/// Two sessions that share contexts are there at the same time; the second one runs after the first one is gone.
int run_group(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::SessionOptions setup = session_options(env, options);
  setup.AddConfigEntry("ep.share_ep_contexts", "1");
  auto first = std::make_unique<Ort::Session>(env, options.model.c_str(), setup);
  setup.AddConfigEntry("ep.stop_share_ep_contexts", "1");
  Ort::Session second(env, options.second.c_str(), setup);
  std::ofstream(options.outputs, std::ios::binary)
      << bytes_of(Arguments(*first, options.fill).run(*first));
  first.reset();
  std::ofstream(options.outputs + ".second", std::ios::binary)
      << bytes_of(Arguments(second, options.fill).run(second));
  return 0;
}

/// Runs a context model whose binary a function of this program gives.
int run_from_data(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::SessionOptions setup = session_options(env, options);
  set_reader(setup, options.data);
  const std::vector<char> bytes = bytes_of(options.model);
  Ort::Session session = options.memory ? Ort::Session(env, bytes.data(), bytes.size(), setup)
                                        : Ort::Session(env, options.model.c_str(), setup);
  std::ofstream(options.outputs, std::ios::binary)
      << bytes_of(Arguments(session, options.fill).run(session));
  return 0;
}

/// What a model's metadata says for the plugin: from its file, then from its bytes (1.24).
int print_fingerprint(const Options& options) {
  const OrtApi& api = newer_api(24);
  using FromFile = OrtStatus* (*)(const char*, const char*, OrtAllocator*, char**);
  using FromBytes = OrtStatus* (*)(const void*, std::size_t, const char*, OrtAllocator*, char**);
  const auto from_file = newer_member<FromFile>(api, 14);
  const auto from_bytes = newer_member<FromBytes>(api, 15);
  Ort::AllocatorWithDefaultOptions allocator;
  const std::vector<char> bytes = bytes_of(options.model);
  char* info = nullptr;
  const auto print = [&] {
    std::cout << (info == nullptr ? "nothing" : info) << "\n";
    if (info != nullptr) allocator.Free(info);
    info = nullptr;
  };
  if (!options.memory) {
    Ort::ThrowOnError(from_file(options.model.c_str(), options.ep_name.c_str(), allocator, &info));
    print();
  }
  Ort::ThrowOnError(
      from_bytes(bytes.data(), bytes.size(), options.ep_name.c_str(), allocator, &info));
  print();
  return 0;
}

/// Selects a component of the model package at --model, named by --info, and runs it (1.28).
int run_package(const Options& options) {
  using Create = OrtStatus* (*)(const OrtEnv*, const OrtSessionOptions*, OrtModelPackageOptions**);
  using Open = OrtStatus* (*)(const char*, OrtModelPackageContext**);
  using Select = OrtStatus* (*)(const OrtModelPackageContext*, const char*,
                                const OrtModelPackageOptions*, OrtModelPackageComponentContext**);
  using Name = OrtStatus* (*)(const OrtModelPackageComponentContext*, const char**);
  using Make = OrtStatus* (*)(const OrtEnv*, OrtModelPackageComponentContext*,
                              const OrtSessionOptions*, OrtSession**);
  const auto create = experimental<Create>(
      "OrtModelPackageApi_CreateModelPackageOptionsFromSessionOptions_SinceV28");
  const auto open = experimental<Open>("OrtModelPackageApi_CreateModelPackageContext_SinceV28");
  const auto select = experimental<Select>("OrtModelPackageApi_SelectComponent_SinceV28");
  const auto name = experimental<Name>(
      "OrtModelPackageApi_ModelPackageComponent_GetSelectedVariantName_SinceV28");
  const auto make = experimental<Make>("OrtModelPackageApi_CreateSession_SinceV28");
  Ort::Env env = make_env(options);
  const Ort::SessionOptions setup = session_options(env, options);
  OrtModelPackageOptions* package_options = nullptr;  // all three for the rest of the process
  OrtModelPackageContext* package = nullptr;
  OrtModelPackageComponentContext* component = nullptr;
  Ort::ThrowOnError(create(env, setup, &package_options));
  Ort::ThrowOnError(open(options.model.c_str(), &package));
  Ort::ThrowOnError(select(package, options.info.c_str(), package_options, &component));
  const char* variant = nullptr;
  Ort::ThrowOnError(name(component, &variant));
  OrtSession* made = nullptr;
  Ort::ThrowOnError(make(env, component, nullptr, &made));
  Ort::Session session{made};
  std::ofstream(options.outputs, std::ios::binary)
      << bytes_of(Arguments(session, options.fill).run(session));
  std::cout << variant << "\n";
  return 0;
}

}  // namespace

Verb find_compile_verb(std::string_view name) {
  static const std::map<std::string_view, Verb> verbs = {
      {"compile", compile_model}, {"compile-group", compile_group},   {"run-group", run_group},
      {"data", run_from_data},    {"fingerprint", print_fingerprint}, {"package", run_package}};
  const auto found = verbs.find(name);
  return found == verbs.end() ? nullptr : found->second;
}

}  // namespace ort_host
