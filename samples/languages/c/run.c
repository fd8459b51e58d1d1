/* cc run.c $(pkg-config --cflags --libs ctxgen-runtime) -o run && ./run classifier_ctx.onnx */
#include <ctxgen_runtime.h>
#include <stdio.h>
#include <stdlib.h>

static void check(ctxgen_status* status) {
  if (status == NULL) return;
  fprintf(stderr, "%s\n", ctxgen_status_message(status));
  exit(1);
}

int main(int argc, char** argv) {
  ctxgen_session* session;
  ctxgen_run_context* context;
  const float x[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  const int64_t dims[2] = {1, 8};
  const ctxgen_tensor input = {sizeof input, 1 /* float32 */, 2, dims, x, sizeof x};
  ctxgen_tensor y = {sizeof y, 0, 0, NULL, NULL, 0};
  size_t i;
  if (argc != 2) return 2;
  check(ctxgen_session_create_from_file(NULL, argv[1], NULL, &session));
  check(ctxgen_run_context_create(session, &context));
  check(ctxgen_run_context_set_input(context, 0, &input));
  check(ctxgen_run_context_run(context));
  check(ctxgen_run_context_output(context, 0, &y));
  for (i = 0; i < y.size / sizeof(float); ++i) printf("%.4f ", ((const float*)y.data)[i]);
  printf("\n");
  ctxgen_run_context_release(context);
  ctxgen_session_release(session);
  return 0;
}
