#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/runtime_value.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/certificate.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/graph/graph.h"
#include "ctxgen/runtime/model_state.h"
#include "ctxgen/runtime/numerics.h"
#include "ctxgen/runtime/run_context.h"
#include "ctxgen/trust/signed_files.h"

namespace ctxgen {

/// When the weights that a session reads in place come into memory.
enum class WeightMemory {
  kOnDemand,  // page by page, by the first run that reads them
  kPrefault,  // while the session is opened
  kLock,      // likewise, and they stay until the last session that uses the file is gone (mlock)
};

struct SessionOptions {
  int threads = 0;  // 0: physical cores that the process may use
  /// Plans that each partition keeps for shapes which were not planned ahead; at least one.
  std::size_t kept_plans = LoadOptions().kept_plans;
  /// Weights in context binaries against their hashes, and what stays in the model against its own
  /// (docs/format.md, the content hash). auto: each if it is below 16 MiB.
  VerifyBlobs verify_blobs = VerifyBlobs::kAuto;
  /// Models from memory: the context model's would-be path, whose folder holds the bin
  /// (ONNX Runtime's ep.context_file_path).
  std::filesystem::path context_file_path;
  /// Where the model's external data is; empty: the model's folder. Never moves the bin (ONNX
  /// Runtime's session.model_external_initializers_file_folder_path).
  std::filesystem::path external_data_folder;
  /// Where the source of a weightless model is; empty: where the compile saw it, from the model's
  /// folder (ONNX Runtime's ep.context_source_model_path).
  std::filesystem::path source_model_path;
  /// External data in memory, by the location that tensors name; what is not here is looked for in
  /// the folder.
  std::vector<std::pair<std::string, Blob>> external_buffers;
  /// Joins the process's group of sessions, which open each context binary once and keep it while one
  /// of them lives (ONNX Runtime's ep.share_ep_contexts). Without it mappings are shared all the same,
  /// but each session opens and reads its binaries itself.
  bool share_ep_contexts = false;
  /// This session is the last to join: sessions that come later start another group
  /// (ep.stop_share_ep_contexts). Requires share_ep_contexts.
  bool stop_share_ep_contexts = false;
  /// Replaces file access for bins: relative name -> bytes (models compiled in memory).
  std::function<Result<Blob>(std::string_view relative_name)> bin_source;
  /// Refuse (NOT_SATISFIED) a model unless its file and every file that it names, as far as this session reads them, were signed
  /// by the holder of a key (docs/security.md). All of their bytes are hashed at load.
  RequiredSignature required_signature;
  /// What one run may hold at once in tensors that it makes, strings and sequences (not weights and
  /// not the arenas of partitions); more ends with RESOURCE_LIMIT. 0: three quarters of the memory
  /// of the machine or of the control group.
  std::uint64_t max_run_bytes = 0;
  WeightMemory weight_memory = WeightMemory::kOnDemand;
  /// Refuse (NOT_SATISFIED) what runs here but had better be compiled again (ONNX Runtime's
  /// session.fail_on_suboptimal_compiled_model).
  bool fail_on_suboptimal = false;
  /// Refuse (NOT_SATISFIED) a model with a node that a CPU kernel would run
  /// (session.disable_cpu_ep_fallback).
  bool disable_cpu_fallback = false;
  /// Observers see the values inside of partitions, too. Such a session plans every shape when it runs,
  /// and each of these values is written in full: for looking, not for speed.
  bool inner_values = false;
  /// What runs may hand on to the next (Session::make_state()): "past=present" pairs of an input and an
  /// output, "auto" all with the usual names of such pairs (docs/runtime.md).
  std::vector<std::string> states;
  /// Load sides to use instead of the built-in ones (tests; not owned).
  std::vector<const ProgramLoader*> loaders;
};

/// An input or output of a model.
struct IoInfo {
  std::string name;
  ValueType type;
  std::string type_text;               // "float32[batch, 3, 224, 224]"
  std::vector<std::string> dim_names;  // per dimension its symbol, or ""
  bool has_default = false;            // an overridable initializer: may be left out
};

struct SessionStatistics {
  LoadStatistics load;
  std::size_t nodes = 0, partitions = 0;
  double model_read_ms = 0, context_read_ms = 0, program_load_ms = 0;
};

/// What a caller hands in for one input.
struct SessionInput {
  std::string name;
  Tensor tensor;
};
using NamedTensor = SessionInput;

/// The same where it need not be a tensor.
struct NamedValue {
  std::string name;
  RuntimeValue value;
};

/// A value that a node has made, before anything reads it. Another of its type and shape may be put
/// in its place.
struct ObservedValue {
  std::string_view graph;  // "": the main graph; else a body, "If_0/then_branch"
  const Node& node;
  std::string_view name;
  RuntimeValue& value;
  /// Of a value inside of a partition (SessionOptions::inner_values), which nothing else reads: the node of
  /// the source that made it, the last one where several were fused. "": `node` made the value.
  std::string_view inner_node = {};
};
/// Sees the values of all graphs in the order in which they are made, those of a loop's body once per
/// iteration.
using ValueObserver = std::function<void(const ObservedValue&)>;

struct RunOptions {
  std::vector<OpTiming>* timings = nullptr;  // receives one entry per node and op
  const std::atomic<bool>* stop = nullptr;   // set from outside: the run ends with CANCELLED soon
  const ValueObserver* observer = nullptr;   // borrowed for the run
};

/// A loaded model: an ONNX model whose nodes are EPContext nodes of ours and nodes that CPU kernels
/// run.
///
/// Threads  run() may be called from several threads at once; each call takes a run state of its
///          own from a pool. So may make_context().
class Session {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Session>> open(const std::filesystem::path& path,
                                                             const SessionOptions& options = {});
  [[nodiscard]] static Result<std::unique_ptr<Session>> open_memory(
      Blob model, const SessionOptions& options = {});
  virtual ~Session() = default;

  [[nodiscard]] virtual std::span<const IoInfo> inputs() const = 0;
  [[nodiscard]] virtual std::span<const IoInfo> outputs() const = 0;
  /// Inputs by name, any order. Outputs in the model's order; `elements()` may be used on all but one
  /// that is an input passed through.
  /// Errors  INVALID_ARGUMENT (unknown, missing, wrong type or shape), those of kernels,
  ///         RESOURCE_LIMIT (SessionOptions::max_run_bytes), UNSUPPORTED for an output that is not a
  ///         tensor: run_values() gives those.
  [[nodiscard]] virtual Result<std::vector<Tensor>> run(
      std::span<const NamedTensor> inputs, std::vector<OpTiming>* timings = nullptr) const = 0;
  /// Inputs and outputs of any kind: sequences, optionals, maps. An optional input that is not
  /// given is empty.
  [[nodiscard]] virtual Result<std::vector<RuntimeValue>> run_values(
      std::span<const NamedValue> inputs, const RunOptions& options = {}) const = 0;
  /// A context for many runs; see there.
  [[nodiscard]] virtual Result<std::unique_ptr<RunContext>> make_context() const = 0;
  /// Of SessionOptions::states.
  [[nodiscard]] virtual std::span<const StatePair> state_pairs() const = 0;
  /// A state for contexts of this session. Errors  INVALID_ARGUMENT: there are no pairs.
  [[nodiscard]] virtual Result<std::unique_ptr<ModelState>> make_state() const = 0;
  [[nodiscard]] virtual const SessionStatistics& statistics() const = 0;
  /// What runs so far made of their shapes, summed over the partitions.
  [[nodiscard]] virtual PlanStatistics plan_statistics() const = 0;
  /// What rounds on the way to its outputs, for tolerances. Computed again by each call.
  [[nodiscard]] virtual NumericPaths numeric_paths() const = 0;
  /// What certificate_of() says of the file (ctxgen/runtime/verify.h), without reading it again.
  [[nodiscard]] virtual Result<std::optional<Certificate>> certificate() const = 0;
  /// What the ops of its programs with a constant compute in, program by program.
  [[nodiscard]] virtual std::vector<OpPrecision> precisions() const = 0;
};

}  // namespace ctxgen
