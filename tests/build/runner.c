/* A C99 program over the installed C API of the runtime.
 *   runner MODEL OUTPUT [KEY=VALUE...]   runs MODEL on inputs of 0, 0.25, 0.5, ... 1.5, 0, ... and writes the
 *                                        bytes of its first output; symbolic dims are 2
 * A KEY "bin" or "data" gives the file NAME:PATH as a context binary or external data from memory; the
 * model then comes from memory too. A KEY "memory" is 0, 1 or 2: on demand, prefault, lock.
 */
#include <ctxgen_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(ctxgen_status* status) {
  if (status == NULL) return;
  fprintf(stderr, "%d: %s\n", (int)ctxgen_status_code(status), ctxgen_status_message(status));
  ctxgen_status_release(status);
  exit(1);
}

static void print_message(void* user, ctxgen_log_level level, const char* message) {
  printf("%s %d: %s\n", (const char*)user, (int)level, message);
}

static void* take_memory(size_t size) {
  void* data = malloc(size > 0 ? size : 1);
  if (data == NULL) exit(2);
  return data;
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  void* data;
  if (file == NULL) exit(2);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  data = take_memory(*size);
  if (fread(data, 1, *size, file) != *size) exit(2);
  fclose(file);
  return data;
}

/* Returns whether the model shall come from memory. */
static int set_option(ctxgen_session_options* options, char* text) {
  char* value = strchr(text, '=');
  char* path;
  void* data;
  size_t size;
  int is_bin;
  if (value == NULL) exit(2);
  *value++ = '\0';
  is_bin = strcmp(text, "bin") == 0;
  if (strcmp(text, "memory") == 0) {
    check(ctxgen_session_options_set_weight_memory(options, atoi(value)));
    return 0;
  }
  if (!is_bin && strcmp(text, "data") != 0) {
    check(ctxgen_session_options_set_config(options, text, value));
    return 0;
  }
  path = strchr(value, ':');
  if (path == NULL) exit(2);
  *path++ = '\0';
  data = read_file(path, &size); /* lives as long as the process */
  check(is_bin ? ctxgen_session_options_add_bin(options, value, data, size)
               : ctxgen_session_options_add_external_data(options, value, data, size));
  return 1;
}

static void set_inputs(const ctxgen_session* session, ctxgen_run_context* context) {
  size_t i, k;
  for (i = 0; i < ctxgen_session_input_count(session); ++i) {
    ctxgen_value_info info;
    ctxgen_tensor tensor;
    int64_t dims[12];
    size_t count = 1;
    float* data;
    info.struct_size = sizeof info;
    check(ctxgen_session_input(session, i, &info));
    printf("input %s %s\n", info.name, info.type_text);
    if (info.kind != CTXGEN_KIND_TENSOR || info.element_type != 1) exit(2);
    for (k = 0; k < info.rank; ++k) {
      dims[k] = info.dims[k] < 0 ? 2 : info.dims[k];
      count *= (size_t)dims[k];
    }
    data = (float*)take_memory(count * sizeof(float)); /* lives as long as the process */
    for (k = 0; k < count; ++k) data[k] = 0.25f * (float)(k % 7);
    tensor.struct_size = sizeof tensor;
    tensor.type = 1;
    tensor.rank = info.rank;
    tensor.dims = dims;
    tensor.data = data;
    tensor.size = count * sizeof(float);
    check(ctxgen_run_context_set_input(context, i, &tensor));
  }
}

int main(int argc, char** argv) {
  static char user[] = "log";
  ctxgen_environment* environment = NULL;
  ctxgen_session_options* options = NULL;
  ctxgen_session* session = NULL;
  ctxgen_run_context* context = NULL;
  ctxgen_tensor first;
  void* memory;
  FILE* file;
  int i, from_memory = 0;
  if (argc < 3) return 2;
  check(ctxgen_environment_create(print_message, user, CTXGEN_LOG_WARNING, &environment));
  check(ctxgen_session_options_create(&options));
  for (i = 3; i < argc; ++i) from_memory |= set_option(options, argv[i]);
  if (from_memory) {
    size_t size;
    void* model = read_file(argv[1], &size); /* lives as long as the process */
    check(ctxgen_session_create_from_memory(environment, model, size, options, &session));
  } else {
    check(ctxgen_session_create_from_file(environment, argv[1], options, &session));
  }
  ctxgen_session_options_release(options);
  ctxgen_environment_release(environment); /* the session keeps it */
  check(ctxgen_run_context_create(session, &context));
  set_inputs(session, context);
  check(ctxgen_run_context_run(context));
  first.struct_size = sizeof first;
  check(ctxgen_run_context_output(context, 0, &first));
  /* Once more, into memory of ours. */
  memory = take_memory(first.size);
  {
    const size_t size = first.size;
    void* before = take_memory(size);
    memcpy(before, first.data, size);
    check(ctxgen_run_context_set_output(context, 0, memory, size));
    check(ctxgen_run_context_run(context));
    check(ctxgen_run_context_output(context, 0, &first));
    if (first.data != memory || first.size != size || memcmp(before, memory, size) != 0) return 3;
    free(before);
  }
  file = fopen(argv[2], "wb");
  if (file == NULL || fwrite(memory, 1, first.size, file) != first.size || fclose(file) != 0)
    return 2;
  ctxgen_session_release(session); /* the context keeps it */
  ctxgen_run_context_release(context);
  free(memory);
  printf("done %s\n", ctxgen_runtime_version());
  return 0;
}
