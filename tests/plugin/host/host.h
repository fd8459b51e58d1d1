#pragma once

// What the verbs of ort_host share: its options, the library, sessions and their inputs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

namespace ort_host {

using Pairs = std::unordered_map<std::string, std::string>;

struct Options {
  std::string verb, library, plugin, model, output, info, ep_name = "CtxgenDnnlExecutionProvider";
  std::string second, second_output, stream, weights, outputs, policy, optimized, data, source;
  int threads = 0, rounds = 1, flags = 0, count = 1, fill = 0, optimization = -1,
      log = ORT_LOGGING_LEVEL_WARNING;
  bool memory = false, embed = false, plain = false, reuse = false, apart = false;
  Pairs config, ep, files;
};

/// This program was not used right, or what it wanted to see did not happen: status 2.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The library lacks what the verb needs: status 3.
struct TooOld : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[nodiscard]] Options parse(int argc, char** argv, const char* usage);

/// Opens the library and makes its C++ API usable.
const OrtApiBase& open_library(const std::string& path);

/// The library's API, newer than the headers of this program.
/// Errors  TooOld.
[[nodiscard]] const OrtApi& newer_api(std::uint32_t version);

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

/// An experimental function of 1.28 or later, by name.
/// Errors  TooOld.
template <class Function>
Function experimental(const char* name) {
  using Any = void (*)();
  const auto find = newer_member<Any (*)(const char*)>(newer_api(28), 32);
  const Any found = find(name);
  if (found == nullptr) throw TooOld(std::string("no function ") + name);
  return reinterpret_cast<Function>(found);
}

inline constexpr const char* kRegistration = "ctxgen";

/// With the plugin registered, unless --plain.
[[nodiscard]] Ort::Env make_env(const Options& options);
[[nodiscard]] std::vector<Ort::ConstEpDevice> devices_of(Ort::Env& env, const Options& options);
[[nodiscard]] Ort::SessionOptions session_options(Ort::Env& env, const Options& options);
[[nodiscard]] std::vector<char> bytes_of(const std::string& path);
[[nodiscard]] Ort::Session make_session(Ort::Env& env, const Options& options);

/// The arguments of runs: floats are numbers of a fixed pattern, other elements have the value of --fill;
/// dims without a size are 1.
struct Arguments {
  explicit Arguments(const Ort::Session& session, int fill = 0);
  std::vector<Ort::Value> run(Ort::Session& session, const Ort::RunOptions& run_options = {}) const;
  std::vector<std::string> names;
  std::vector<const char*> pointers;
  std::vector<Ort::Value> inputs;
  std::size_t input_count = 0;
};

/// The bytes of tensors, one after the other.
[[nodiscard]] std::string bytes_of(const std::vector<Ort::Value>& values);

/// What the program does; each returns its status.
using Verb = int (*)(const Options&);
[[nodiscard]] Verb find_living_verb(std::string_view name);   // registering, loading, ending
[[nodiscard]] Verb find_compile_verb(std::string_view name);  // context models made and taken apart
[[nodiscard]] Verb find_query_verb(std::string_view name);    // what the plugin says of itself
[[nodiscard]] Verb find_run_verb(std::string_view name);      // runs of a session

}  // namespace ort_host
