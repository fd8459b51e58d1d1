// What the plugin says of itself, of devices and of models, and what ONNX Runtime says of its nodes.

#include <iostream>
#include <map>

#include "host.h"

struct OrtEpAssignedSubgraph;
struct OrtEpAssignedNode;

namespace ort_host {
namespace {

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

int print_incompatibility(const Options& options) {
  const OrtApi& api = newer_api(24);
  using Details = void*;
  const auto count_devices = newer_member<OrtStatus* (*)(const OrtEnv*, std::size_t*)>(api, 7);
  const auto get_devices =
      newer_member<OrtStatus* (*)(const OrtEnv*, const OrtHardwareDevice**, std::size_t)>(api, 8);
  const auto get_details =
      newer_member<OrtStatus* (*)(const OrtEnv*, const char*, const OrtHardwareDevice*, Details*)>(
          api, 9);
  const auto get_reasons = newer_member<OrtStatus* (*)(Details, std::uint32_t*)>(api, 10);
  const auto release = newer_member<void (*)(Details)>(api, 13);
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

/// "EP operator name" of each node of the session, as ONNX Runtime assigned them (1.24).
int print_assignment(const Options& options) {
  const OrtApi& api = newer_api(24);
  using Subgraphs =
      OrtStatus* (*)(const OrtSession*, const OrtEpAssignedSubgraph* const**, std::size_t*);
  using Nodes =
      OrtStatus* (*)(const OrtEpAssignedSubgraph*, const OrtEpAssignedNode* const**, std::size_t*);
  using EpName = OrtStatus* (*)(const OrtEpAssignedSubgraph*, const char**);
  using NodeText = OrtStatus* (*)(const OrtEpAssignedNode*, const char**);
  const auto get_subgraphs = newer_member<Subgraphs>(api, 17);
  const auto get_ep = newer_member<EpName>(api, 18);
  const auto get_nodes = newer_member<Nodes>(api, 19);
  const auto get_name = newer_member<NodeText>(api, 20);
  const auto get_type = newer_member<NodeText>(api, 22);
  Ort::Env env = make_env(options);
  const Ort::Session session = make_session(env, options);
  const OrtEpAssignedSubgraph* const* subgraphs = nullptr;
  std::size_t count = 0;
  Ort::ThrowOnError(get_subgraphs(session, &subgraphs, &count));
  for (std::size_t i = 0; i < count; ++i) {
    const char *ep = "", *name = "", *type = "";
    Ort::ThrowOnError(get_ep(subgraphs[i], &ep));
    const OrtEpAssignedNode* const* nodes = nullptr;
    std::size_t node_count = 0;
    Ort::ThrowOnError(get_nodes(subgraphs[i], &nodes, &node_count));
    for (std::size_t n = 0; n < node_count; ++n) {
      Ort::ThrowOnError(get_name(nodes[n], &name));
      Ort::ThrowOnError(get_type(nodes[n], &type));
      std::cout << ep << " " << type << " " << name << "\n";
    }
  }
  return 0;
}

/// The memory of the session's inputs and outputs.
int print_memory(const Options& options) {
  Ort::Env env = make_env(options);
  const Ort::Session session = make_session(env, options);
  for (const auto& memory : session.GetMemoryInfoForInputs())
    std::cout << "input in " << memory.GetAllocatorName() << "\n";
  for (const auto& memory : session.GetMemoryInfoForOutputs())
    std::cout << "output in " << memory.GetAllocatorName() << "\n";
  return 0;
}

}  // namespace

Verb find_query_verb(std::string_view name) {
  static const std::map<std::string_view, Verb> verbs = {{"verdict", print_verdict},
                                                         {"incompatibility", print_incompatibility},
                                                         {"assignment", print_assignment},
                                                         {"memory", print_memory}};
  const auto found = verbs.find(name);
  return found == verbs.end() ? nullptr : found->second;
}

}  // namespace ort_host
