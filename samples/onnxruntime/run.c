// Runs a model in ONNX Runtime over its C API: run <libctxgen_onnxruntime.so> <model.onnx>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <onnxruntime_c_api.h>

static const OrtApi* api;

static void check(OrtStatus* status) {
  if (status == NULL) return;
  fprintf(stderr, "%s\n", api->GetErrorMessage(status));
  exit(1);
}

// The CPU as a device of the plugin.
static const OrtEpDevice* find_device(const OrtEnv* env) {
  const OrtEpDevice* const* devices = NULL;
  size_t count = 0;
  check(api->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; ++i)
    if (strcmp(api->EpDevice_EpName(devices[i]), "CtxgenDnnlExecutionProvider") == 0)
      return devices[i];
  fprintf(stderr, "the plugin has no device\n");
  exit(1);
}

// Zeros for the first input, whose open dims are 1.
static OrtValue* make_input(const OrtSession* session, OrtAllocator* allocator) {
  OrtTypeInfo* type = NULL;
  const OrtTensorTypeAndShapeInfo* info = NULL;
  int64_t dims[16];
  size_t rank = 0, count = 1;
  check(api->SessionGetInputTypeInfo(session, 0, &type));
  check(api->CastTypeInfoToTensorInfo(type, &info));
  check(api->GetDimensionsCount(info, &rank));
  if (rank > 16) exit(1);
  check(api->GetDimensions(info, dims, rank));
  api->ReleaseTypeInfo(type);
  for (size_t i = 0; i < rank; ++i) {
    if (dims[i] < 0) dims[i] = 1;
    count *= (size_t)dims[i];
  }
  OrtValue* input = NULL;
  void* numbers = NULL;
  check(api->CreateTensorAsOrtValue(allocator, dims, rank, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                    &input));
  check(api->GetTensorMutableData(input, &numbers));
  memset(numbers, 0, count * sizeof(float));
  return input;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: run PLUGIN MODEL\n");
    return 1;
  }
  api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  OrtEnv* env = NULL;
  OrtSessionOptions* options = NULL;
  OrtSession* session = NULL;
  check(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "sample", &env));
  check(api->RegisterExecutionProviderLibrary(env, "ctxgen", argv[1]));
  const OrtEpDevice* device = find_device(env);
  check(api->CreateSessionOptions(&options));
  check(api->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, NULL, NULL, 0));
  check(api->CreateSession(env, argv[2], options, &session));

  OrtAllocator* allocator = NULL;
  char *from = NULL, *to = NULL;
  check(api->GetAllocatorWithDefaultOptions(&allocator));
  check(api->SessionGetInputName(session, 0, allocator, &from));
  check(api->SessionGetOutputName(session, 0, allocator, &to));
  OrtValue* input = make_input(session, allocator);
  OrtValue* output = NULL;
  check(api->Run(session, NULL, (const char* const*)&from, (const OrtValue* const*)&input, 1,
                 (const char* const*)&to, 1, &output));
  OrtTensorTypeAndShapeInfo* shape = NULL;
  size_t count = 0;
  check(api->GetTensorTypeAndShape(output, &shape));
  check(api->GetTensorShapeElementCount(shape, &count));
  printf("%s: %zu elements\n", to, count);

  api->ReleaseTensorTypeAndShapeInfo(shape);
  api->ReleaseValue(output);
  api->ReleaseValue(input);
  check(api->AllocatorFree(allocator, from));
  check(api->AllocatorFree(allocator, to));
  api->ReleaseSession(session);
  api->ReleaseSessionOptions(options);
  check(api->UnregisterExecutionProviderLibrary(env, "ctxgen"));
  api->ReleaseEnv(env);
  return 0;
}
