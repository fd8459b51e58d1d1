/* What the C APIs of ctxgen have in common: status objects and log levels (C99). Do not include this by
 * itself: ctxgen_compiler.h and ctxgen_runtime.h do. Each library has these functions, and either
 * takes a status of the other of the same release.
 */
#ifndef CTXGEN_STATUS_H
#define CTXGEN_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CTXGEN_API __attribute__((visibility("default")))

/* ---- status ------------------------------------------------------------------------------- */

typedef struct ctxgen_status ctxgen_status;

typedef enum ctxgen_code {
  CTXGEN_OK = 0,
  CTXGEN_INVALID_ARGUMENT = 1, /* an option or argument is wrong, or two cannot be combined */
  CTXGEN_IO_ERROR = 2,         /* a file could not be opened, read, mapped, written or renamed */
  CTXGEN_INVALID_GRAPH = 3,    /* the model breaks ONNX rules */
  CTXGEN_CORRUPT_CONTEXT = 4,  /* a context binary is missing, unreadable or fails verification */
  CTXGEN_VERSION_MISMATCH = 5, /* another format, oneDNN version or instruction set */
  CTXGEN_NOT_IMPLEMENTED = 6,  /* valid, but not supported */
  CTXGEN_RESOURCE_LIMIT = 7,   /* a declared size passes a limit, or memory ran out */
  CTXGEN_NOT_SATISFIED = 8, /* not what was asked for: strict, error if nothing was compiled, ... */
  CTXGEN_BACKEND_ERROR = 9, /* oneDNN failed */
  CTXGEN_INTERNAL = 10,     /* a bug in ctxgen */
  CTXGEN_CANCELLED = 11     /* the caller, or a callback of it, ended the work */
} ctxgen_code;

/* CTXGEN_OK for NULL. */
CTXGEN_API ctxgen_code ctxgen_status_code(const ctxgen_status* status);
/* One line: names the culprit, gives expected and actual. "" for NULL. */
CTXGEN_API const char* ctxgen_status_message(const ctxgen_status* status);
CTXGEN_API void ctxgen_status_release(ctxgen_status* status);

/* ---- log ---------------------------------------------------------------------------------- */

typedef enum ctxgen_log_level {
  CTXGEN_LOG_TRACE = 0,
  CTXGEN_LOG_DEBUG = 1,
  CTXGEN_LOG_INFO = 2,
  CTXGEN_LOG_WARNING = 3,
  CTXGEN_LOG_ERROR = 4
} ctxgen_log_level;

/* May be called from any thread, with a text that lives during the call. */
typedef void (*ctxgen_log_function)(void* user, ctxgen_log_level level, const char* message);

#ifdef __cplusplus
}
#endif

#endif /* CTXGEN_STATUS_H */
