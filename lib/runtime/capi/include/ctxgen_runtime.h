/* The C API of ctxgen's runtime: runs EPContext models and plain ONNX models (libctxgen_runtime.so, C99).
 *
 * Status     Functions that can fail return NULL for success, else a status that the caller releases.
 *            Nothing is thrown across. After a failure no output parameter was written.
 * Ownership  ..._create gives an object to the caller, ..._release takes it back (NULL is allowed), in any
 *            order: a run context keeps its session, a session its environment. Texts, arrays and
 *            structs that are passed in are copied, unless a function says otherwise. Pointers that
 *            are handed out belong to the object that they came from.
 * Texts      are UTF-8 and end with a zero byte. Paths are as the file system has them.
 * Types      of elements are numbers of TensorProto.DataType (1: float32, 7: int64, 8: string, ...).
 * Tensors    are dense and row-major, in the machine's (little) byte order; what has less than 8 bits is
 *            packed, low bits first.
 * Threads    A session may be used by any number of threads at once, everything else by one thread at a
 *            time; ctxgen_run_context_stop may be called from anywhere.
 * Stability  Functions and structs stay as they are. What is new comes with a new symbol version;
 *            structs that may grow say their size in their first member.
 */
#ifndef CTXGEN_RUNTIME_H
#define CTXGEN_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "ctxgen_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0"; a constant. */
CTXGEN_API const char* ctxgen_runtime_version(void);

/* ---- environment -------------------------------------------------------------------------- */

/* Where messages go. A process may have several, each with the sessions that it was given to. */
typedef struct ctxgen_environment ctxgen_environment;

/* `function` gets messages of `least` (a ctxgen_log_level) and above until the environment and all its sessions are
 * released; NULL: no messages. It may be called from any thread that calls into a session. */
CTXGEN_API ctxgen_status* ctxgen_environment_create(ctxgen_log_function function, void* user,
                                                    int least, ctxgen_environment** environment);
CTXGEN_API void ctxgen_environment_release(ctxgen_environment* environment);

/* ---- options of a session ----------------------------------------------------------------- */

typedef struct ctxgen_session_options ctxgen_session_options;

CTXGEN_API ctxgen_status* ctxgen_session_options_create(ctxgen_session_options** options);
CTXGEN_API void ctxgen_session_options_release(ctxgen_session_options* options);

/* One of ONNX Runtime's session keys (docs/options.md). The last value of a key holds. */
CTXGEN_API ctxgen_status* ctxgen_session_options_set_config(ctxgen_session_options* options,
                                                            const char* key, const char* value);
/* Threads of one run; 0: the physical cores that the process may use. */
CTXGEN_API ctxgen_status* ctxgen_session_options_set_threads(ctxgen_session_options* options,
                                                             int threads);
/* Plans that each partition keeps for shapes that were not planned ahead; at least 1. */
CTXGEN_API ctxgen_status* ctxgen_session_options_set_kept_plans(ctxgen_session_options* options,
                                                                int plans);
/* What one run may hold in tensors that it makes, beyond weights and arenas; 0: three quarters of the
 * memory of the machine or of the control group. */
CTXGEN_API ctxgen_status* ctxgen_session_options_set_max_run_bytes(ctxgen_session_options* options,
                                                                   uint64_t bytes);

typedef enum ctxgen_verify_blobs {
  CTXGEN_VERIFY_AUTO =
      0, /* weights of context binaries, and what stays in the model, each below 16 MiB */
  CTXGEN_VERIFY_ALWAYS = 1,
  CTXGEN_VERIFY_NEVER = 2 /* header and manifest are verified all the same */
} ctxgen_verify_blobs;
/* `verify`: a ctxgen_verify_blobs. */
CTXGEN_API ctxgen_status* ctxgen_session_options_set_verify_blobs(ctxgen_session_options* options,
                                                                  int verify);

typedef enum ctxgen_weight_memory {
  CTXGEN_WEIGHTS_ON_DEMAND = 0, /* page by page, by the first run that reads them */
  CTXGEN_WEIGHTS_PREFAULT = 1,  /* when the session is made */
  CTXGEN_WEIGHTS_LOCK = 2       /* likewise, and they stay (mlock); limited by RLIMIT_MEMLOCK */
} ctxgen_weight_memory;
/* When weights that are read in place come into memory: a ctxgen_weight_memory. */
CTXGEN_API ctxgen_status* ctxgen_session_options_set_weight_memory(ctxgen_session_options* options,
                                                                   int memory);

/* The bytes of a file of external data that the model calls `location`. Not copied: they must live as
 * long as sessions that are made with these options. */
CTXGEN_API ctxgen_status* ctxgen_session_options_add_external_data(ctxgen_session_options* options,
                                                                   const char* location,
                                                                   const void* data, size_t size);
/* The bytes of the context binary that the model calls `name`; likewise. Once one is given, none is
 * looked for in files. */
CTXGEN_API ctxgen_status* ctxgen_session_options_add_bin(ctxgen_session_options* options,
                                                         const char* name, const void* data,
                                                         size_t size);

/* A value that runs may hand on to the next (ctxgen_state): "past=present", names of an input and of the
 * output that the next run takes as it; "auto": all with the usual names of such pairs (docs/runtime.md). May
 * be called several times. */
CTXGEN_API ctxgen_status* ctxgen_session_options_add_state(ctxgen_session_options* options,
                                                           const char* pair);

/* ---- sessions ----------------------------------------------------------------------------- */

typedef struct ctxgen_session ctxgen_session;

/* `environment` and `options` may be NULL: no messages, the defaults. */
CTXGEN_API ctxgen_status* ctxgen_session_create_from_file(ctxgen_environment* environment,
                                                          const char* path,
                                                          const ctxgen_session_options* options,
                                                          ctxgen_session** session);
/* A serialised ModelProto. The bytes are not copied and must live as long as the session and its run
 * contexts. Context binaries in files need the key ep.context_file_path. */
CTXGEN_API ctxgen_status* ctxgen_session_create_from_memory(ctxgen_environment* environment,
                                                            const void* data, size_t size,
                                                            const ctxgen_session_options* options,
                                                            ctxgen_session** session);
CTXGEN_API void ctxgen_session_release(ctxgen_session* session);

typedef enum ctxgen_verdict {
  CTXGEN_FIT_OPTIMAL = 0,
  CTXGEN_FIT_PREFER_RECOMPILATION = 1, /* runs; a compile for this machine would be better */
  CTXGEN_FIT_UNSUPPORTED = 2,          /* making a session would fail */
  CTXGEN_FIT_NOT_COMPILED = 3          /* no EPContext node: a plain model */
} ctxgen_verdict;

/* Whether a model fits this machine, from its metadata and the headers of its context binaries alone: the
 * time does not depend on their sizes. `options` may be NULL; of them threads, bins and the path for a
 * model from memory matter. `reason`, unless NULL, receives what was found and expected, cut to
 * `reason_size` bytes with the zero byte, "" for the first and the last verdict. A status other than
 * NULL: the model itself cannot be read. */
CTXGEN_API ctxgen_status* ctxgen_compatibility(const char* path,
                                               const ctxgen_session_options* options,
                                               ctxgen_verdict* verdict, char* reason,
                                               size_t reason_size);
CTXGEN_API ctxgen_status* ctxgen_compatibility_memory(const void* data, size_t size,
                                                      const ctxgen_session_options* options,
                                                      ctxgen_verdict* verdict, char* reason,
                                                      size_t reason_size);

typedef enum ctxgen_value_kind {
  CTXGEN_KIND_UNKNOWN = 0, /* the model does not say */
  CTXGEN_KIND_TENSOR = 1,
  CTXGEN_KIND_SEQUENCE = 2,
  CTXGEN_KIND_MAP = 3,
  CTXGEN_KIND_OPTIONAL =
      4 /* of a type; as a value: the empty optional. One that holds something is that */
} ctxgen_value_kind;

typedef struct ctxgen_value_info {
  size_t struct_size; /* in: sizeof(ctxgen_value_info) */
  const char* name;
  const char* type_text; /* "float32[batch, 3, 224, 224]" */
  ctxgen_value_kind kind;
  int32_t element_type; /* of the tensor, or of the tensors in it; 0: the model does not say */
  int has_rank;         /* 0: the model does not say */
  size_t rank;
  const int64_t* dims;          /* -1: not fixed */
  const char* const* dim_names; /* the symbol; "" where there is none */
  int has_default;              /* an input that may be left out */
} ctxgen_value_info;

CTXGEN_API size_t ctxgen_session_input_count(const ctxgen_session* session);
CTXGEN_API size_t ctxgen_session_output_count(const ctxgen_session* session);
CTXGEN_API ctxgen_status* ctxgen_session_input(const ctxgen_session* session, size_t index,
                                               ctxgen_value_info* info);
CTXGEN_API ctxgen_status* ctxgen_session_output(const ctxgen_session* session, size_t index,
                                                ctxgen_value_info* info);
/* CTXGEN_INVALID_ARGUMENT where there is no such name. */
CTXGEN_API ctxgen_status* ctxgen_session_input_index(const ctxgen_session* session,
                                                     const char* name, size_t* index);
CTXGEN_API ctxgen_status* ctxgen_session_output_index(const ctxgen_session* session,
                                                      const char* name, size_t* index);

/* ---- values ------------------------------------------------------------------------------- */

typedef struct ctxgen_tensor {
  size_t struct_size; /* sizeof(ctxgen_tensor) */
  int32_t type;
  size_t rank;         /* at most 12 */
  const int64_t* dims; /* none negative */
  const void* data;    /* any alignment; NULL for strings */
  size_t size;         /* bytes */
} ctxgen_tensor;

/* A value of any kind that owns what it holds; copies share it. */
typedef struct ctxgen_value ctxgen_value;

/* Copies the bytes. */
CTXGEN_API ctxgen_status* ctxgen_value_create_tensor(const ctxgen_tensor* tensor,
                                                     ctxgen_value** value);
/* A tensor of strings, one per element; `sizes` in bytes, or NULL: they end with zero bytes. */
CTXGEN_API ctxgen_status* ctxgen_value_create_strings(const int64_t* dims, size_t rank,
                                                      const char* const* texts, const size_t* sizes,
                                                      size_t count, ctxgen_value** value);
/* Tensors of one type, or maps. `element_type`: of tensors; it is needed where there is none. */
CTXGEN_API ctxgen_status* ctxgen_value_create_sequence(int32_t element_type,
                                                       const ctxgen_value* const* items,
                                                       size_t count, ctxgen_value** value);
/* Two tensors of rank 1 and of one length: keys (int64 or strings, ascending) and values. */
CTXGEN_API ctxgen_status* ctxgen_value_create_map(const ctxgen_value* keys,
                                                  const ctxgen_value* values, ctxgen_value** value);
CTXGEN_API ctxgen_status* ctxgen_value_create_empty_optional(ctxgen_value** value);
CTXGEN_API void ctxgen_value_release(ctxgen_value* value);

/* CTXGEN_KIND_UNKNOWN for NULL. */
CTXGEN_API ctxgen_value_kind ctxgen_value_kind_of(const ctxgen_value* value);
/* Type, shape and, unless they are strings, bytes of a tensor. In: tensor->struct_size. */
CTXGEN_API ctxgen_status* ctxgen_value_tensor(const ctxgen_value* value, ctxgen_tensor* tensor);
/* A string of a tensor; it ends with a zero byte that `size` does not count, and may hold others. */
CTXGEN_API ctxgen_status* ctxgen_value_string(const ctxgen_value* value, size_t index,
                                              const char** text, size_t* size);
/* Items of a sequence; of a map 2, its keys and its values; else 0. */
CTXGEN_API size_t ctxgen_value_item_count(const ctxgen_value* value);
/* The caller releases it. */
CTXGEN_API ctxgen_status* ctxgen_value_create_item(const ctxgen_value* value, size_t index,
                                                   ctxgen_value** item);

/* ---- running ------------------------------------------------------------------------------ */

/* What runs need of their own, kept from run to run: with inputs and outputs of the same shapes no run
 * after the first takes memory. A session may have any number, which run at the same time. */
typedef struct ctxgen_run_context ctxgen_run_context;

CTXGEN_API ctxgen_status* ctxgen_run_context_create(const ctxgen_session* session,
                                                    ctxgen_run_context** context);
CTXGEN_API void ctxgen_run_context_release(ctxgen_run_context* context);

/* An input for all runs to come. tensor->data is used in place, it must live until another input
 * stands here or the context is released. Strings: ctxgen_run_context_set_input_value. */
CTXGEN_API ctxgen_status* ctxgen_run_context_set_input(ctxgen_run_context* context, size_t index,
                                                       const ctxgen_tensor* tensor);
/* The same for a value of any kind, which the caller may release at once. NULL: takes the input back. */
CTXGEN_API ctxgen_status* ctxgen_run_context_set_input_value(ctxgen_run_context* context,
                                                             size_t index,
                                                             const ctxgen_value* value);
/* Memory of `size` bytes that receives an output in all runs to come, and may be larger than it. It must
 * not overlap an input or another output. NULL: the context has memory of its own. */
CTXGEN_API ctxgen_status* ctxgen_run_context_set_output(ctxgen_run_context* context, size_t index,
                                                        void* memory, size_t size);

CTXGEN_API ctxgen_status* ctxgen_run_context_run(ctxgen_run_context* context);

/* Output of the last run, good until the next one. CTXGEN_INVALID_ARGUMENT where the last run failed;
 * CTXGEN_NOT_IMPLEMENTED if it is not a tensor. In: tensor->struct_size. */
CTXGEN_API ctxgen_status* ctxgen_run_context_output(const ctxgen_run_context* context, size_t index,
                                                    ctxgen_tensor* tensor);
/* The same of any kind. The caller releases it. It keeps its bytes beyond the next run, unless they are
 * in memory of ctxgen_run_context_set_output. */
CTXGEN_API ctxgen_status* ctxgen_run_context_create_output(const ctxgen_run_context* context,
                                                           size_t index, ctxgen_value** value);

/* Nonzero: runs to come are recorded, each primitive and kernel; 0: no longer. What was recorded stays. */
CTXGEN_API ctxgen_status* ctxgen_run_context_set_profiling(ctxgen_run_context* context,
                                                           int profiling);
/* Writes what was recorded to a file for chrome://tracing and ui.perfetto.dev, and forgets it.
 * CTXGEN_INVALID_ARGUMENT where nothing was. */
CTXGEN_API ctxgen_status* ctxgen_run_context_write_profile(ctxgen_run_context* context,
                                                           const char* path);

/* Ends the run that is under way with CTXGEN_CANCELLED, before its next operator; where none is, the
 * next one. */
CTXGEN_API void ctxgen_run_context_stop(ctxgen_run_context* context);

/* ---- states ------------------------------------------------------------------------------- */

/* What a sequence of runs hands on from one to the next: a value per pair of ctxgen_session_options_add_state.
 * A new one, and one that was reset, holds nothing: values that grow (caches of keys and values) have length
 * 0, others are zeros. Caches of compiled attention grow in place. Each state is used by one run or call at a
 * time, else CTXGEN_INVALID_ARGUMENT; any number may be used at the same time. Memory of one is bounded by
 * ctxgen_session_options_set_max_run_bytes. A run that fails leaves it as it was. */
typedef struct ctxgen_state ctxgen_state;

typedef struct ctxgen_state_info {
  size_t struct_size; /* in: sizeof(ctxgen_state_info) */
  const char* input;
  const char* output;
  int grows;    /* nonzero: it has a length, and can be rewound */
  int in_place; /* nonzero: runs append to it where it is */
} ctxgen_state_info;

CTXGEN_API size_t ctxgen_session_state_count(const ctxgen_session* session);
CTXGEN_API ctxgen_status* ctxgen_session_state(const ctxgen_session* session, size_t index,
                                               ctxgen_state_info* info);

CTXGEN_API ctxgen_status* ctxgen_state_create(const ctxgen_session* session, ctxgen_state** state);
CTXGEN_API void ctxgen_state_release(ctxgen_state* state);
/* The longest of the values that grow, in rows; 0 for NULL. */
CTXGEN_API int64_t ctxgen_state_length(const ctxgen_state* state);
/* Memory that it has; 0 for NULL. */
CTXGEN_API uint64_t ctxgen_state_bytes(const ctxgen_state* state);
/* Room for so many rows, taken when a run first needs some, so that later ones take none. */
CTXGEN_API ctxgen_status* ctxgen_state_reserve(ctxgen_state* state, int64_t length);
/* As new; keeps its memory. */
CTXGEN_API ctxgen_status* ctxgen_state_reset(ctxgen_state* state);
/* Forgets what follows the first `length` rows. CTXGEN_INVALID_ARGUMENT: it is shorter;
 * CTXGEN_NOT_IMPLEMENTED: a value of it does not grow. */
CTXGEN_API ctxgen_status* ctxgen_state_rewind(ctxgen_state* state, int64_t length);
/* Another one with a copy of the values. */
CTXGEN_API ctxgen_status* ctxgen_state_fork(ctxgen_state* state, ctxgen_state** copy);
/* A copy of value `index`, as in ctxgen_session_state. The caller releases it. */
CTXGEN_API ctxgen_status* ctxgen_state_create_value(ctxgen_state* state, size_t index,
                                                    ctxgen_value** value);
/* What the runs to come of the context continue: inputs and outputs of the pairs are the state's, the caller
 * gives none. NULL: no longer. The state must live until then. */
CTXGEN_API ctxgen_status* ctxgen_run_context_set_state(ctxgen_run_context* context,
                                                       ctxgen_state* state);

#ifdef __cplusplus
}
#endif

#endif /* CTXGEN_RUNTIME_H */
