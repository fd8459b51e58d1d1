/* A C99 program over the installed C API.
 *   consumer files IN.onnx OUT.onnx       file to file
 *   consumer memory IN.onnx DATA OUT      model and external data from memory; model and bins to memory,
 *                                         written here to OUT.onnx and beside it
 *   consumer stream IN.onnx FOLDER        model through a function to FOLDER/streamed.onnx, bin to a file
 *   consumer group OUTFOLDER A.onnx B.onnx
 *   consumer fail IN.onnx                 prints the status of a wrong call
 */
#include <ctxgen_compiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(ctxgen_status* status) {
  if (status == NULL) return;
  fprintf(stderr, "%d: %s\n", (int)ctxgen_status_code(status), ctxgen_status_message(status));
  ctxgen_status_release(status);
  exit(1);
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  void* data;
  if (file == NULL) exit(2);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  data = malloc(*size);
  if (data == NULL || fread(data, 1, *size, file) != *size) exit(2);
  fclose(file);
  return data;
}

static void write_file(const char* folder, const char* name, const void* data, size_t size) {
  char path[4096];
  FILE* file;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, size, file) != size) exit(2);
  fclose(file);
}

static int append(void* user, const void* data, size_t size) {
  return fwrite(data, 1, size, (FILE*)user) == size ? 0 : 1;
}

static void print_report(const ctxgen_compiler* compiler) {
  size_t i;
  for (i = 0; i < ctxgen_compiler_model_count(compiler); ++i) {
    ctxgen_model_report report;
    report.struct_size = sizeof report;
    check(ctxgen_compiler_report(compiler, i, &report));
    printf("%s -> %s: %u of %u nodes, %u warnings\n", report.input, report.output,
           (unsigned)report.compiled_nodes, (unsigned)report.nodes, (unsigned)report.warnings);
  }
}

int main(int argc, char** argv) {
  ctxgen_compile_options* options = NULL;
  ctxgen_compiler* compiler = NULL;
  void* model = NULL;
  void* external = NULL;
  FILE* stream = NULL;
  size_t size = 0, i;
  if (argc < 3) return 2;
  check(ctxgen_compile_options_create(&options));
  check(ctxgen_compile_options_set_config(options, "ep.context_enable", "1"));
  if (strcmp(argv[1], "stream") == 0)
    check(ctxgen_compile_options_set_binary_information(options, argv[3], "streamed"));
  if (strcmp(argv[1], "fail") == 0) {
    ctxgen_status* status = ctxgen_compile_options_set_config(options, "ep.no_such_key", "1");
    printf("%d %s\n", (int)ctxgen_status_code(status), ctxgen_status_message(status));
    ctxgen_status_release(status);
  }
  check(ctxgen_compiler_create(options, &compiler));
  ctxgen_compile_options_release(options); /* the compiler has a copy */
  if (strcmp(argv[1], "files") == 0) {
    check(ctxgen_compiler_add_model_file(compiler, argv[2]));
    check(ctxgen_compiler_set_output_file(compiler, argv[3]));
  } else if (strcmp(argv[1], "memory") == 0) {
    model = read_file(argv[2], &size);
    check(ctxgen_compiler_add_model_memory(compiler, "net.onnx", model, size));
    external = read_file(argv[3], &size);
    check(ctxgen_compiler_add_external_data(compiler, "net.data", external, size));
    check(ctxgen_compiler_set_output_memory(compiler));
  } else if (strcmp(argv[1], "stream") == 0) {
    char path[4096];
    snprintf(path, sizeof path, "%s/streamed.onnx", argv[3]);
    stream = fopen(path, "wb");
    check(ctxgen_compiler_add_model_file(compiler, argv[2]));
    check(ctxgen_compiler_set_output_function(compiler, append, stream));
  } else if (strcmp(argv[1], "group") == 0) {
    for (i = 3; i < (size_t)argc; ++i) {
      char path[4096];
      snprintf(path, sizeof path, "%s/%u_ctx.onnx", argv[2], (unsigned)(i - 3));
      check(ctxgen_compiler_add_model_file(compiler, argv[i]));
      check(ctxgen_compiler_set_output_file(compiler, path));
    }
  } else {
    ctxgen_compiler_release(compiler);
    return 0;
  }
  check(ctxgen_compiler_run(compiler));
  if (stream != NULL) fclose(stream);
  if (strcmp(argv[1], "memory") == 0) {
    const void* data;
    const char* name;
    check(ctxgen_compiler_model(compiler, 0, &data, &size));
    write_file(argv[4], "net_ctx.onnx", data, size);
    for (i = 0; i < ctxgen_compiler_bin_count(compiler); ++i) {
      check(ctxgen_compiler_bin(compiler, i, &name, &data, &size));
      write_file(argv[4], name, data, size);
    }
  }
  print_report(compiler);
  ctxgen_compiler_release(compiler);
  free(model);
  free(external);
  return 0;
}
