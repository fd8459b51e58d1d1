// A plugin EP that holds plugins/onnxruntime/ort_tables.h against a library: each newer member of
// its tables is a function that prints the member's name. What an application does with it
// (ort_host) then shows whether the library finds each member where the header says. Members that
// the header does not know print "unknown".
//
// CTXGEN_PROBE_VERSION: what the tables say that they support; default: the lower one of the
// library's version and the header's.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "ort_tables.h"

namespace {

using namespace ctxgen::plugin;

constexpr const char* kName = "ProbeExecutionProvider";

const OrtApi* api = nullptr;
std::uint32_t version = 23;

template <class Result = OrtStatus*>
Result said(const char* name) {
  std::printf("called %s\n", name);
  std::fflush(stdout);
  return Result{};
}

void* unknown_member() { return said<void*>("unknown"); }

/// Copies its input, one of floats, to its output.
struct Copy : NodeComputeTable {
  Copy() : NodeComputeTable{} {
    ort_version_supported = version;
    CreateState = [](OrtNodeComputeInfo*, OrtNodeComputeContext*, void**) -> OrtStatus* {
      return nullptr;
    };
    ReleaseState = [](OrtNodeComputeInfo*, void*) {};
    Compute = [](OrtNodeComputeInfo*, void*, OrtKernelContext* context) -> OrtStatus* {
      const OrtValue* input = nullptr;
      OrtStatus* status = api->KernelContext_GetInput(context, 0, &input);
      OrtTensorTypeAndShapeInfo* info = nullptr;
      if (status == nullptr) status = api->GetTensorTypeAndShape(input, &info);
      std::size_t rank = 0, count = 0;
      std::int64_t dims[8] = {};
      if (status == nullptr) status = api->GetDimensionsCount(info, &rank);
      if (status == nullptr)
        status = api->GetDimensions(info, dims, std::min(rank, std::size(dims)));
      if (status == nullptr) status = api->GetTensorShapeElementCount(info, &count);
      if (info != nullptr) api->ReleaseTensorTypeAndShapeInfo(info);
      OrtValue* output = nullptr;
      if (status == nullptr) status = api->KernelContext_GetOutput(context, 0, dims, rank, &output);
      const void* from = nullptr;
      void* to = nullptr;
      if (status == nullptr) status = api->GetTensorData(input, &from);
      if (status == nullptr) status = api->GetTensorMutableData(output, &to);
      if (status == nullptr) std::memcpy(to, from, count * sizeof(float));
      return status;
    };
    std::ranges::fill(spare, reinterpret_cast<void*>(unknown_member));
  }
};

OrtStatus* claim_all(OrtEp*, const OrtGraph* graph, OrtEpGraphSupportInfo* info) noexcept {
  std::size_t count = 0;
  if (OrtStatus* status = api->Graph_GetNumNodes(graph, &count)) return status;
  const OrtNode* node = nullptr;
  if (count != 1) return nullptr;
  if (OrtStatus* status = api->Graph_GetNodes(graph, &node, 1)) return status;
  const OrtNodeFusionOptions fusion{.ort_version_supported = version,
                                    .drop_constant_initializers = false};
  return api->GetEpApi()->EpGraphSupportInfo_AddNodesToFuse(info, &node, 1, &fusion);
}

struct Ep : EpTable {
  Ep() : EpTable{} {
    ort_version_supported = version;
    OrtEp::GetName = [](const OrtEp*) noexcept { return kName; };
    OrtEp::GetCapability = claim_all;
    OrtEp::Compile = [](OrtEp*, const OrtGraph**, const OrtNode**, std::size_t count,
                        OrtNodeComputeInfo** infos, OrtNode**) noexcept -> OrtStatus* {
      for (std::size_t i = 0; i < count; ++i) infos[i] = new Copy;
      return nullptr;
    };
    OrtEp::ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos,
                                        std::size_t count) noexcept {
      for (std::size_t i = 0; i < count; ++i) delete static_cast<Copy*>(infos[i]);
    };
    GetKernelRegistry = [](OrtEp*, const OrtKernelRegistry** registry) noexcept {
      *registry = nullptr;
      return said("GetKernelRegistry");
    };
    IsConcurrentRunSupported = [](OrtEp*, bool* supported) noexcept {
      *supported = true;
      return said("IsConcurrentRunSupported");
    };
    Sync = [](OrtEp*) noexcept { return said("Sync"); };
    CreateProfiler = [](OrtEp*, OrtEpProfilerImpl** profiler) noexcept {
      *profiler = nullptr;
      return said("CreateProfiler");
    };
    IsGraphCaptureEnabled = [](const OrtEp*) noexcept {
      said("IsGraphCaptureEnabled");
      return true;  // so that its neighbours are asked
    };
    IsGraphCaptured = [](const OrtEp*, int) noexcept {
      said("IsGraphCaptured");
      return true;  // so that the graph is replayed
    };
    ReplayGraph = [](OrtEp*, int) noexcept { return said("ReplayGraph"); };
    GetGraphCaptureNodeAssignmentPolicy = [](const OrtEp*) noexcept {
      return said<decltype(GetGraphCaptureNodeAssignmentPolicy(nullptr))>(
          "GetGraphCaptureNodeAssignmentPolicy");
    };
    OnSessionInitializationEnd = [](OrtEp*) noexcept { return said("OnSessionInitializationEnd"); };
    GetDefaultMemoryDevice = [](const OrtEp*, const OrtMemoryDevice** device) noexcept {
      *device = nullptr;
      return said("GetDefaultMemoryDevice");
    };
    ReleaseCapturedGraph = [](OrtEp*, int) noexcept { return said("ReleaseCapturedGraph"); };
    GetWeightlessSupport = [](const OrtEp*, auto* support) noexcept {
      *support = {};
      return said("GetWeightlessSupport");
    };
    std::ranges::fill(spare, reinterpret_cast<void*>(unknown_member));
  }
};

struct EpFactory : EpFactoryTable {
  EpFactory() : EpFactoryTable{} {
    ort_version_supported = version;
    OrtEpFactory::GetName = [](const OrtEpFactory*) noexcept { return kName; };
    OrtEpFactory::GetVendor = [](const OrtEpFactory*) noexcept { return "ctxgen"; };
    OrtEpFactory::GetVendorId = [](const OrtEpFactory*) noexcept -> std::uint32_t { return 0; };
    OrtEpFactory::GetVersion = [](const OrtEpFactory*) noexcept { return "1.0.0"; };
    OrtEpFactory::GetSupportedDevices =
        [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, std::size_t count,
           OrtEpDevice** found, std::size_t room, std::size_t* found_count) noexcept -> OrtStatus* {
      *found_count = 0;
      for (std::size_t i = 0; i < count && *found_count < room; ++i) {
        if (api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
        if (OrtStatus* status = api->GetEpApi()->CreateEpDevice(self, devices[i], nullptr, nullptr,
                                                                &found[*found_count]))
          return status;
        ++*found_count;
      }
      return nullptr;
    };
    OrtEpFactory::CreateEp = [](OrtEpFactory*, const OrtHardwareDevice* const*,
                                const OrtKeyValuePairs* const*, std::size_t,
                                const OrtSessionOptions*, const OrtLogger*,
                                OrtEp** ep) noexcept -> OrtStatus* {
      *ep = new Ep;
      return nullptr;
    };
    OrtEpFactory::ReleaseEp = [](OrtEpFactory*, OrtEp* ep) noexcept {
      delete static_cast<Ep*>(ep);
    };
    OrtEpFactory::CreateDataTransfer = [](OrtEpFactory*,
                                          OrtDataTransferImpl** transfer) noexcept -> OrtStatus* {
      *transfer = nullptr;
      return nullptr;
    };
    OrtEpFactory::IsStreamAware = [](const OrtEpFactory*) noexcept { return false; };
    GetHardwareDeviceIncompatibilityDetails = [](OrtEpFactory*, const OrtHardwareDevice*,
                                                 OrtDeviceEpIncompatibilityDetails*) noexcept {
      return said("GetHardwareDeviceIncompatibilityDetails");
    };
    CreateExternalResourceImporterForDevice =
        [](OrtEpFactory*, const OrtEpDevice*, OrtExternalResourceImporterImpl** importer) noexcept {
          *importer = nullptr;
          return said("CreateExternalResourceImporterForDevice");
        };
    GetNumCustomOpDomains = [](OrtEpFactory*, std::size_t* count) noexcept {
      *count = 0;
      return said("GetNumCustomOpDomains");
    };
    GetCustomOpDomains = [](OrtEpFactory*, OrtCustomOpDomain**, std::size_t) noexcept {
      return said("GetCustomOpDomains");
    };
    SelectBestModelCandidate = [](OrtEpFactory*, const OrtHardwareDevice*,
                                  const OrtKeyValuePairs* const*, std::size_t,
                                  const OrtSessionOptions*, std::size_t* index) noexcept {
      *index = 0;
      return said("SelectBestModelCandidate");
    };
    std::ranges::fill(spare, reinterpret_cast<void*>(unknown_member));
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus* CreateEpFactories(
    const char*, const OrtApiBase* base, const OrtLogger*, OrtEpFactory** factories, std::size_t,
    std::size_t* count) {
  api = base->GetApi(23);
  const char* wanted = std::getenv("CTXGEN_PROBE_VERSION");
  const char* minor = std::strchr(base->GetVersionString(), '.') + 1;
  version = static_cast<std::uint32_t>(std::atoi(wanted != nullptr ? wanted : minor));
  version = std::min(version, kNewestOrtApiVersion);
  factories[0] = new EpFactory;
  *count = 1;
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(
    OrtEpFactory* factory) {
  delete static_cast<EpFactory*>(factory);
  return nullptr;
}
