/* The C API of ctxgen's compiler: ONNX models in, EPContext models out (libctxgen_compiler.so, C99).
 *
 * Status     Functions that can fail return NULL for success, else a status that the caller releases.
 *            Nothing is thrown across. After a failure no output parameter was written.
 * Ownership  ..._create gives an object to the caller, ..._release takes it back (NULL is allowed).
 *            Texts, arrays and structs that are passed in are copied, unless a function says
 *            otherwise. Pointers that are handed out belong to the object that they came from.
 * Texts      are UTF-8 and end with a zero byte. Paths are as the file system has them.
 * Threads    Different objects may be used at the same time; one object by one thread at a time.
 * Stability  Functions and structs stay as they are. What is new comes with a new symbol version;
 *            structs that may grow say their size in their first member.
 */
#ifndef CTXGEN_COMPILER_H
#define CTXGEN_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#include "ctxgen_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CTXGEN_COMPILER_API __attribute__((visibility("default")))

/* "0.1.0"; a constant. */
CTXGEN_COMPILER_API const char* ctxgen_compiler_version(void);

/* ---- log ---------------------------------------------------------------------------------- */

/* `least`: a ctxgen_log_level. For the whole process; NULL: no messages (the default). Set it while
 * nothing compiles. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_set_log_function(ctxgen_log_function function, void* user,
                                                           int least);

/* ---- options ------------------------------------------------------------------------------ */

typedef struct ctxgen_compile_options ctxgen_compile_options;

CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_create(ctxgen_compile_options** options);
CTXGEN_COMPILER_API void ctxgen_compile_options_release(ctxgen_compile_options* options);

/* One of ONNX Runtime's session keys (docs/options.md). A setter and a key that say different things
 * cannot be combined: ctxgen_compiler_run then fails and names both. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_config(
    ctxgen_compile_options* options, const char* key, const char* value);

/* By priority; cpu, where it is missing, comes last. Default: dnnl, cpu. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_providers(
    ctxgen_compile_options* options, const char* const* names, size_t count);
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_add_provider_option(
    ctxgen_compile_options* options, const char* provider, const char* key, const char* value);

/* Nonzero: the context binary is inside the model. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_embed(ctxgen_compile_options* options,
                                                                    int embed);
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_node_prefix(
    ctxgen_compile_options* options, const char* prefix);
/* The context binary; default: next to the output. Not empty. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_bin_path(
    ctxgen_compile_options* options, const char* path);
/* Where the context binary goes, and after which model it is named, when the model goes to memory or
 * to a function: `folder`/`model_name`_dnnl.bin. Neither may be empty. Sets ep.context_file_path. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_binary_information(
    ctxgen_compile_options* options, const char* folder, const char* model_name);

/* Initializers that stay, of `threshold` bytes and more, go to a file of this bare name next to the
 * output. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_external_initializers(
    ctxgen_compile_options* options, const char* name, uint64_t threshold);

typedef struct ctxgen_initializer {
  size_t struct_size;
  const char* model; /* base name of the source */
  const char* name;
  int32_t type; /* TensorProto.DataType */
  const int64_t* dims;
  size_t rank;
  const void* data;          /* dense row-major, little-endian */
  uint64_t size;             /* bytes */
  const char* external_file; /* where the source has it; NULL: inline */
  uint64_t external_offset;
} ctxgen_initializer;

typedef enum ctxgen_location {
  CTXGEN_LOCATION_INLINE = 0, /* into the context model */
  CTXGEN_LOCATION_KEEP = 1,   /* stays where the source has it */
  CTXGEN_LOCATION_PLACE = 2,  /* at *offset of *file; the caller writes the bytes there */
  CTXGEN_LOCATION_FAIL = 3    /* ends the compile with CTXGEN_CANCELLED */
} ctxgen_location;

/* Gives a ctxgen_location. `*file`: relative to the context model's folder; must live until the next call or the end. */
typedef int (*ctxgen_location_function)(void* user, const ctxgen_initializer* initializer,
                                        const char** file, uint64_t* offset);
/* Asked once per initializer that stays, in the order of names. Contradicts a file of external
 * initializers. NULL: no function is called. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_initializer_location_function(
    ctxgen_compile_options* options, ctxgen_location_function function, void* user);

/* Folder of the sources' external data; default: each model's own. Not empty; refused at the compile if it is missing or
 * no model has external data. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_external_data_folder(
    ctxgen_compile_options* options, const char* folder);

typedef struct ctxgen_dim {
  const char* name;
  int64_t size;
} ctxgen_dim;
typedef struct ctxgen_shape {
  const char* input;
  const int64_t* dims;
  size_t rank;
} ctxgen_shape;
/* Plans ahead for one combination of sizes of symbolic dimensions and shapes of inputs. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_add_profile(
    ctxgen_compile_options* options, const ctxgen_dim* dims, size_t dim_count,
    const ctxgen_shape* shapes, size_t shape_count);
/* Replaces a symbolic dimension in the model itself. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_add_fixed_dim(
    ctxgen_compile_options* options, const char* name, int64_t size);
/* A part of the model: an input or output of it, by the name of a value. Without input names the part takes the inputs of the model
 * that it needs, without output names it gives the model's outputs. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_add_input_name(
    ctxgen_compile_options* options, const char* name);
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_add_output_name(
    ctxgen_compile_options* options, const char* name);

/* Nonzero: initializers that are graph inputs become constants. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_freeze_initializers(
    ctxgen_compile_options* options, int freeze);
/* Nonzero: compile in bodies of If, Loop and Scan too. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_subgraphs(
    ctxgen_compile_options* options, int subgraphs);

typedef enum ctxgen_graph_optimization {                           /* ONNX Runtime's numbers */
                                         CTXGEN_OPTIMIZE_NONE = 0, /* the default */
                                         CTXGEN_OPTIMIZE_BASIC = 1,
                                         CTXGEN_OPTIMIZE_EXTENDED = 2,
                                         CTXGEN_OPTIMIZE_ALL = 99
} ctxgen_graph_optimization;
/* `level`: a ctxgen_graph_optimization, for what is simplified outside partitions. Any other level: CTXGEN_INVALID_ARGUMENT. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_graph_optimization(
    ctxgen_compile_options* options, int level);

enum { CTXGEN_ERROR_IF_NO_NODES_COMPILED = 1 << 0, CTXGEN_ERROR_IF_OUTPUT_EXISTS = 1 << 1 };
/* Replaces all flags. Unknown bits: CTXGEN_INVALID_ARGUMENT. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_flags(ctxgen_compile_options* options,
                                                                    uint32_t flags);
/* Nonzero: fail if anything is left to cpu. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_strict(
    ctxgen_compile_options* options, int strict);
/* Nonzero: fail on a node that cpu cannot run. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_require_runnable(
    ctxgen_compile_options* options, int require);

/* Threads of the machine that will run the result; 0: of this one. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_threads(
    ctxgen_compile_options* options, int threads);
/* Threads that compile; 0: as many; never changes the output. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_jobs(ctxgen_compile_options* options,
                                                                   int jobs);

/* Nonzero: replace a context binary even if context models next to it, which are not compiled here, need
 * what is in it; otherwise that is CTXGEN_NOT_SATISFIED. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_force(ctxgen_compile_options* options,
                                                                    int force);
/* Nonzero: outputs whose bytes would stay the same are not written again. Contradicts
 * CTXGEN_ERROR_IF_OUTPUT_EXISTS. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_keep_unchanged(
    ctxgen_compile_options* options, int keep);
/* Nonzero: everything but the writing. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_dry_run(
    ctxgen_compile_options* options, int dry_run);

/* 1 to 19: weights that shrink are stored as zstd; 0, the default: none is. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_compression(
    ctxgen_compile_options* options, int level);
/* Nonzero: programs for any x86-64 machine; weights are packed at each load. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_portable(
    ctxgen_compile_options* options, int portable);
/* The instruction set to compile for, in oneDNN's words ("avx2"). It limits this process for good and
 * works once, before oneDNN is used here in any other way. Several need a process each: that is
 * `ctxgen compile --isa A,B`. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_isa(ctxgen_compile_options* options,
                                                                  const char* isa);
/* A context binary to add to, instead of making one; what is in it stays. For models that go to
 * files. Not empty. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_append(
    ctxgen_compile_options* options, const char* path);
/* A context model that the one model of this compile may differ from in weights only. Not empty. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_like(ctxgen_compile_options* options,
                                                                   const char* path);
/* A folder that keeps packed weights, programs and outputs for later compiles, of at most `max_bytes`
 * (0: 5 GiB). "": none. Default: what the environment's CTXGEN_CACHE_DIR names, if it does. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_cache(ctxgen_compile_options* options,
                                                                    const char* folder,
                                                                    uint64_t max_bytes);
/* An HTTP server that keeps results of compiles to files for other machines, asked after that folder: http(s)://HOST[:PORT][/PATH].
 * "": none, or what the environment's CTXGEN_CACHE_URL names. `headers_file` (may be NULL): lines "Name: value" for each
 * request. A compile waits for it `timeout_seconds` (0: 10) at most, and while it moves 4 MiB per second. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_remote_cache(
    ctxgen_compile_options* options, const char* url, const char* headers_file,
    int timeout_seconds);
/* Packed weights beyond this sum wait in an unnamed file next to the output (default: 64 MiB). */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_weight_memory(
    ctxgen_compile_options* options, uint64_t bytes);

/* `stage`: "import", "check", "infer", "fold", "partition", "compile", "rewrite" or "write";
 * `fraction`: of that stage, 0 to 1. Called by the thread that compiles. */
typedef void (*ctxgen_progress_function)(void* user, const char* stage, double fraction);
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_progress_function(
    ctxgen_compile_options* options, ctxgen_progress_function function, void* user);
/* Asked between stages and while weights are packed; nonzero ends the compile with CTXGEN_CANCELLED and nothing written. */
typedef int (*ctxgen_cancel_function)(void* user);
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compile_options_set_cancel_function(
    ctxgen_compile_options* options, ctxgen_cancel_function function, void* user);

/* ---- compiling ---------------------------------------------------------------------------- */

/* The models of one group: one context model each, one context binary for all. */
typedef struct ctxgen_compiler ctxgen_compiler;

/* Copies the options as they are now. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_create(const ctxgen_compile_options* options,
                                                          ctxgen_compiler** compiler);
CTXGEN_COMPILER_API void ctxgen_compiler_release(ctxgen_compiler* compiler);

/* Adds a model. Its output is <stem>_ctx.onnx next to it unless set otherwise. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_add_model_file(ctxgen_compiler* compiler,
                                                                  const char* path);
/* Adds a serialised ModelProto, called `name` ("model.onnx") in outputs and messages. The bytes are
 * not copied and must live until the compiler is released. Its output must be set. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_add_model_memory(ctxgen_compiler* compiler,
                                                                    const char* name,
                                                                    const void* data, size_t size);
/* External data of the model added last: the bytes of the file that it calls `location`. Not copied;
 * they must live until the compiler is released. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_add_external_data(ctxgen_compiler* compiler,
                                                                     const char* location,
                                                                     const void* data, size_t size);

/* Where the model added last goes. All models of a group go to files, or none does. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_set_output_file(ctxgen_compiler* compiler,
                                                                   const char* path);
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_set_output_memory(ctxgen_compiler* compiler);
/* Gets the model piece by piece, in order; nonzero ends the compile with CTXGEN_CANCELLED. */
typedef int (*ctxgen_write_function)(void* user, const void* data, size_t size);
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_set_output_function(
    ctxgen_compiler* compiler, ctxgen_write_function function, void* user);

/* Compiles what was added. Files appear complete or not at all. Once per compiler. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_run(ctxgen_compiler* compiler);

/* ---- results, after ctxgen_compiler_run; they live as long as the compiler ----------------- */

CTXGEN_COMPILER_API size_t ctxgen_compiler_model_count(const ctxgen_compiler* compiler);
/* A context model that went to memory, else CTXGEN_INVALID_ARGUMENT. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_model(const ctxgen_compiler* compiler,
                                                         size_t index, const void** data,
                                                         size_t* size);
/* What was not written to files: context binaries, and the file of external initializers. */
CTXGEN_COMPILER_API size_t ctxgen_compiler_bin_count(const ctxgen_compiler* compiler);
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_bin(const ctxgen_compiler* compiler,
                                                       size_t index, const char** name,
                                                       const void** data, size_t* size);

typedef struct ctxgen_model_report {
  size_t struct_size; /* in: sizeof(ctxgen_model_report) */
  const char* input;  /* base names */
  const char* output;
  uint64_t nodes, compiled_nodes, folded_nodes, partitions;
  uint64_t model_bytes;
  size_t warnings;
} ctxgen_model_report;
CTXGEN_COMPILER_API ctxgen_status* ctxgen_compiler_report(const ctxgen_compiler* compiler,
                                                          size_t index,
                                                          ctxgen_model_report* report);
/* NULL where there is no such warning. */
CTXGEN_COMPILER_API const char* ctxgen_compiler_warning(const ctxgen_compiler* compiler,
                                                        size_t model, size_t index);

/* ---- many models --------------------------------------------------------------------------- */

/* How context models are written again. All zero but struct_size: one context binary next to the first output. */
typedef struct ctxgen_regroup_options {
  size_t struct_size;                /* in: sizeof(ctxgen_regroup_options) */
  const char* bin;                   /* the context binary; NULL: next to the first model */
  const char* external_initializers; /* base name of the file of initializers; NULL: as it was */
  int embed; /* nonzero: the context binary inside the model, of which there is one */
  int no_clobber, force, keep_unchanged, dry_run; /* as in a compile */
} ctxgen_regroup_options;
/* Writes `count` context models again, to as many outputs in one folder, with one context binary for all (merge), or one of
 * them with a binary of its own (split, embed, extract), byte for byte what one compile of these models writes. NULL for the
 * defaults. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_regroup(const char* const* models,
                                                  const char* const* outputs, size_t count,
                                                  const ctxgen_regroup_options* options);

/* What a bundle is: an OCI image layout of an artifact, or of an image; ONNX Runtime's model package. */
typedef enum ctxgen_bundle_format {
  CTXGEN_BUNDLE_OCI = 0,
  CTXGEN_BUNDLE_OCI_IMAGE = 1,
  CTXGEN_BUNDLE_MODEL_PACKAGE = 2
} ctxgen_bundle_format;
/* Copies `count` context models and all files that they need into `folder`, which is not there or empty. `tag` names what is in
 * an OCI layout; NULL: "latest". */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_bundle(const char* const* models, size_t count,
                                                 const char* folder, ctxgen_bundle_format format,
                                                 const char* tag);

/* Divides models among `shards` machines: by names alone, or so that models with weights in common come to one machine.
 * `shard_of` receives the shard of each, from 0. */
CTXGEN_COMPILER_API ctxgen_status* ctxgen_shards_by_name(const char* const* names, size_t count,
                                                         size_t shards, size_t* shard_of);
CTXGEN_COMPILER_API ctxgen_status* ctxgen_shards_by_weights(const char* const* models, size_t count,
                                                            size_t shards, size_t* shard_of);

#ifdef __cplusplus
}
#endif

#endif /* CTXGEN_COMPILER_H */
