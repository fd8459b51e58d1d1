#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/file_roles.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/base/spill_file.h"
#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/compiler/build_counts.h"
#include "ctxgen/compiler/source_index.h"
#include "ctxgen/ctxfile/certificate.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/sharing.h"
#include "ctxgen/ctxfile/tuning_table.h"
#include "ctxgen/partition/shape_profile.h"
#include "ctxgen/remote/remote_counts.h"

namespace ctxgen {

class Provider;  // ctxgen/partition/provider.h, for those who bring their own

inline constexpr std::uint64_t kDefaultCacheBytes = std::uint64_t{5} << 30;
inline constexpr int kDefaultCacheSeconds = 10;

/// Where a model to compile comes from.
struct ModelInput {
  std::filesystem::path path;  // a file; "-" and memory: empty, with `bytes` set
  Blob bytes;                  // a serialised ModelProto in memory
  std::string name;            // base name used for outputs and attributes ("model.onnx")
  /// External data in memory, by the locations that the model gives; looked at before any folder.
  std::vector<std::pair<std::string, Blob>> external_data = {};
};

/// Where an initializer's bytes are outside its model: `offset` bytes into a file whose path is
/// relative to the model's folder.
struct InitializerPlace {
  std::string file;
  std::uint64_t offset = 0;
};

/// An initializer that a context model keeps, as its location function sees it.
struct InitializerInfo {
  std::string_view model, name;  // base name of the source, name of the initializer
  DataType type = DataType::kUndefined;
  std::span<const std::int64_t> dims;
  std::span<const std::byte> bytes;          // dense row-major, little-endian
  std::optional<InitializerPlace> external;  // where the source has it, if not inline
};

/// Where such an initializer goes.
struct InitializerLocation {
  enum class Kind {
    kInline,  // into the context model
    kKeep,    // stays where the source has it: the context model refers to that file
    kPlace,   // `place`; its bytes are the caller's to write there
  } kind = Kind::kInline;
  InitializerPlace place = {};
};

/// Stages as reported to `progress`, in order.
enum class CompileStage { kImport, kCheck, kInfer, kFold, kPartition, kCompile, kRewrite, kWrite };

/// ONNX Runtime's default where its Compile API is told to move initializers to a file.
inline constexpr std::uint64_t kDefaultExternalThreshold = 1024;

/// What is simplified in the model itself, beyond partitions (docs/cli.md).
enum class GraphOptimization { kNone, kBasic, kExtended, kAll };

/// The other process of a compile for several instruction sets, as the first one sees it. Ends with
/// the object.
class VariantProcess {
 public:
  virtual ~VariantProcess() = default;
  /// Hands over what serve_variant() reads; gives what it writes.
  [[nodiscard]] virtual Result<Blob> compile(std::span<const std::byte> request) = 0;
};

/// What single ops become in place of f32, whatever options say of all of them.
struct PrecisionChoice {
  ChoiceTable table;
  /// What was measured of it; the compile enters its programs. None: nothing was.
  std::optional<Certificate> certificate;
};

/// How a choice was found, and what it saves.
struct PrecisionSearchReport {
  std::map<std::string, std::size_t> ops;  // how many are of which precision, as OpPrecision has it
  int trials = 0;
  double seconds = 0;
  std::uint64_t bytes_f32 = 0, bytes = 0;  // of context binaries
  double run_ms_f32 = 0, run_ms = 0;       // of one sample, the least of several runs
};

/// A shape whose constants another form than that of our tables makes faster.
struct TuningGain {
  TuningRow row;
  std::string table_form;
  std::size_t ops = 0;  // of the models, which have this shape
};

/// A shape for which the form of our tables is the fastest, or others gain too little to tell.
struct TuningStay {
  TunedShape shape;
  std::string table_form;
  std::size_t ops = 0;       // of the models
  std::string closest;       // of the other forms; "": no kernel took one
  double closest_share = 0;  // its time over that of the table's form, of one measurement
};

/// What was measured for a tuning table, and what it gains.
struct TuningReport {
  std::size_t shapes = 0;      // of ops whose constants have a choice of forms
  std::size_t known = 0;       // of these, by a file or a cache
  std::size_t measured = 0;    // whole
  std::size_t unfinished = 0;  // for lack of time
  std::vector<TuningGain> gains;
  std::vector<TuningStay> stays;        // of those that were measured
  double run_us = 0, table_run_us = 0;  // of all models, the least of several runs; 0: not measured
  double seconds = 0;
  bool interrupted = false;
};

/// A choice that is found while a model is compiled (ctxgen/tuning/error_budget.h).
struct PrecisionBudget {
  std::string request =
      {};  // what the choice follows from, besides the model and other options; "": there is none
  std::function<Result<PrecisionChoice>()> search = {};  // called once, if outputs have to be made
};

/// How errors call an option: by the names that the caller knows.
enum class OptionNames {
  kFields,   // CompileOptions::embed
  kFlags,    // --embed
  kSetters,  // ctxgen_compile_options_set_embed
};

/// Each field has a row with its names elsewhere in ctxgen/compiler/option_table.h.
struct CompileOptions {
  OptionNames names = OptionNames::kFields;
  std::vector<std::string> providers;  // by priority; empty: dnnl, cpu
  /// Providers to use instead of the built-in ones of those names (tests; not owned).
  std::vector<const Provider*> extra_providers;
  std::vector<std::pair<std::string, std::pair<std::string, std::string>>> provider_options;
  PrecisionBudget budget;
  PrecisionChoice precision;
  /// Forms of constants that were measured on a machine (ctxgen/tuning/tuning_file.h); without a library: those of
  /// our tables.
  TuningTable tuning;
  bool embed = false;
  std::string node_prefix;
  std::vector<ShapeProfile> profiles;
  std::vector<std::pair<std::string, std::int64_t>> fix_dims;
  /// A part of the model (of one only): what computes these values from those. Values inside of bodies and functions have no
  /// names here. None: the inputs that it needs; the model's outputs.
  std::vector<std::string> input_names, output_names;
  bool freeze_initializers = false;
  GraphOptimization graph_optimization = GraphOptimization::kNone;
  bool subgraphs = false;         // compile in bodies of If, Loop and Scan too
  bool strict = false;            // NOT_SATISFIED if anything falls back to cpu
  bool require_compiled = false;  // NOT_SATISFIED if nothing was compiled
  bool require_runnable = false;  // NOT_SATISFIED on a node that cpu cannot run
  /// A context model whose programs are to be had with other weights: NOT_SATISFIED if the one model of this compile
  /// differs from it in anything else, or the options do. It changes no byte.
  std::filesystem::path like;
  bool no_clobber = false;  // INVALID_ARGUMENT if an output exists
  /// Replace a bin even if context models next to it, which this compile does not write, need what is in
  /// it; else that is NOT_SATISFIED.
  bool force = false;
  bool keep_unchanged = false;  // files: leave one alone that has the same bytes already
  bool dry_run = false;         // files: do everything but write; the report has names and sizes
  bool make_folder = false;     // files: make the outputs' folder, if its parent is there
  bool disable_model_compile = false;  // NOT_SATISFIED if a node would be compiled
  bool fail_on_suboptimal = false;  // NOT_SATISFIED if the result is not optimal for this machine
  /// Whether the models of this compile share a bin: a batch does, so `false` contradicts one.
  std::optional<bool> share_ep_contexts;
  /// Whether the group ends with this compile: it does, so `false` contradicts sharing.
  std::optional<bool> stop_share_ep_contexts;
  /// The context model of a compile with one model. Written to a file: must name it. Otherwise: its
  /// base name gives the names of the outputs, its folder is that of the bin (compile_models).
  std::filesystem::path context_file_path;
  std::filesystem::path external_data_folder;  // default: the model's folder
  /// What the caller reads and writes besides (a report, a dependency file): the compile does not touch
  /// these, but refuses what would replace one of them, or be replaced by one.
  std::vector<FileUse> other_files;
  std::filesystem::path bin;  // default: next to the output
  /// A bin to add to, instead of making one. What is in it stays, under its names, and is not compiled
  /// again, so that the models that name it go on loading. It must be for the same target, from the same
  /// versions (kVersionMismatch else). Other compiles that add to it wait.
  std::filesystem::path append;
  std::string external_initializers;  // bare name of a file next to the output for what stays
  /// Bytes; smaller initializers stay in the model. Nothing: kDefaultExternalThreshold.
  std::optional<std::uint64_t> external_threshold;
  /// Asked once for every dense, numeric initializer of the main graph that a context model keeps, in
  /// the order of their names. An error ends the compile. Contradicts external_initializers.
  std::function<Result<InitializerLocation>(const InitializerInfo&)> initializer_location;
  WeightlessMode weightless = WeightlessMode::kNone;
  int compress_level = 0;  // 1 to 19: weights that shrink are stored as zstd; 0: none is
  int threads = 0;         // of the compile without `jobs`; never changes the bytes
  /// Programs for any x86-64 machine and any oneDNN of the same major version: weights are stored
  /// plain and packed at each load; 8-bit products stay out, which not every machine has.
  bool portable = false;
  /// The instruction set to compile for, in the provider's words ("avx2"); none: this process's.
  /// It limits this process for good, also in what it runs, and works once, before oneDNN is used
  /// here in any other way; later it is INVALID_ARGUMENT, unless it is what the process has.
  /// Several: programs for each in one bin, of which a load picks the best. The smallest one, which
  /// the others must include, decides what is compiled; it limits this process, and each other one
  /// needs a process of its own.
  std::vector<std::string> isas;
  /// Starts a process that compiles the same inputs with the same options for `isa`; needed where
  /// `isas` names several (`ctxgen compile` starts itself). The process calls serve_variant().
  std::function<Result<std::unique_ptr<VariantProcess>>(const std::string& isa)> start_variant;
  int jobs = 0;  // compile threads; never changes the bytes
  /// Weights that a compile to files makes stay in memory up to this sum; more of them are in an
  /// unnamed file next to the first output until the bin is written.
  std::uint64_t weight_memory_bytes = SpillFile::kDefaultMemoryBytes;
  /// Where results of earlier compiles are kept. Nothing: the folder that CTXGEN_CACHE_DIR names, if
  /// it does; empty: nowhere. It never changes the bytes.
  std::optional<std::filesystem::path> cache_dir;
  std::uint64_t cache_max_bytes =
      kDefaultCacheBytes;  // least recently used entries are evicted above this
  /// A cache of whole compiles to files on an HTTP server, asked after that folder, without which there is none;
  /// empty: what CTXGEN_CACHE_URL names, if it does. It never changes the bytes, and no failure of it is one of the
  /// compile.
  std::string cache_url;
  std::filesystem::path cache_headers;  // lines "Name: value" for its requests
  /// Of waiting for it in one compile, beyond what a transfer at 4 MiB/s takes.
  int cache_timeout_seconds = kDefaultCacheSeconds;
  std::function<void(CompileStage, double fraction)> progress;
  std::function<bool()> cancelled;
};

/// The part of a model that CompileOptions::input_names and output_names name, as the bytes of a model of its own: what
/// a compile with these options compiles.
/// Errors  INVALID_ARGUMENT (no names, or names that give no part), those of reading the model.
[[nodiscard]] Result<Blob> part_of_model(const ModelInput& input, const CompileOptions& options);

/// Options that cannot be combined, or a compile of so many models, whatever is in these. Every
/// compile checks this first.
/// Errors  INVALID_ARGUMENT naming both.
[[nodiscard]] Status check_options(const CompileOptions& options, std::size_t models);

struct PartitionReport {
  std::string name, provider;
  std::size_t nodes = 0, inputs = 0, outputs = 0;
  std::uint64_t weight_bytes = 0;
  std::size_t plans = 0;                // made ahead; none: the first run of each size makes one
  std::vector<std::string> notes = {};  // what a user should know of it, one line each
};

struct NodeReport {
  std::string name;
  ShortText op_type, provider;  // provider "": none
  ShortText graph;      // "": the main graph; else "If_0/then_branch", with `subgraphs` only
  int partition = -1;   // index into ModelReport::partitions
  bool folded = false;  // computed at compile time
  std::vector<std::string> reasons;  // "dnnl: pads are not constant"
};

struct ModelReport {
  std::string input_name, output_name;
  std::size_t nodes = 0, compiled_nodes = 0, folded_nodes = 0;
  std::size_t removed_nodes = 0;  // by graph_optimization; not among `nodes`
  std::vector<PartitionReport> partitions;
  std::vector<NodeReport> assignment;
  std::vector<std::string> warnings;
  /// What is not planned ahead and how to ask for it: a warning where the result is kept. "": all is.
  std::string unplanned;
  /// What instructions that the target lacks cost, one line each (Provider::target_costs()).
  std::vector<std::string> costs;
  std::uint64_t model_bytes = 0;
};

/// One output of a compile to files.
struct FileReport {
  enum class Kind { kBin, kExternalInitializers, kForeignBin, kModel };
  enum class State { kWritten, kUnchanged, kPlanned };
  std::filesystem::path path;  // as the caller spells it
  Kind kind = Kind::kModel;
  std::uint64_t bytes = 0;
  State state = State::kWritten;  // kPlanned: with dry_run, kUnchanged: with keep_unchanged
};

/// "bin", "external_initializers", "foreign_bin", "model".
[[nodiscard]] std::string_view name_of(FileReport::Kind kind);

struct ExternalInitializersReport {
  std::string name;
  std::uint64_t bytes = 0, tensors = 0;
};

struct CompileReport {
  std::vector<ModelReport> models;
  struct Bin {
    std::string name;
    std::uint64_t bytes = 0, weight_bytes = 0, blobs = 0;
    std::uint64_t kept_programs = 0;  // with CompileOptions::append: that were in it before
  };
  std::vector<Bin> bins;
  std::optional<ExternalInitializersReport> external;  // where initializers were moved to a file
  std::uint64_t bytes_added = 0, bytes_stored = 0;     // weights before and after deduplication
  std::uint64_t bytes_left_in_sources = 0;             // of weights, by `weightless`
  std::vector<FileReport> files;  // of a compile to files, in the order of writing
  bool dry_run = false;           // nothing was written
  bool up_to_date = false;        // for callers that find that there is nothing to do
  /// Identifies what was asked for (compile_key()).
  Hash128 key;
  /// Every file that the compile read, as the caller spells it: the models in their order, each
  /// followed by its external data and the context binaries of its foreign EPContext nodes.
  std::vector<std::filesystem::path> files_read;
  std::vector<SharedBlobs> sharing;  // users are "<model>: <partition>"
  std::vector<SplitWeights> split;
  BuildCounts counts;
  std::optional<RemoteCounts> remote;                     // where a remote cache was asked
  std::optional<PrecisionSearchReport> precision_search;  // where there was one
  std::optional<TuningReport> tuning;                     // where forms were measured
  double seconds = 0;
};

/// Metadata key under which context models hold ModelKey::parts.
inline constexpr std::string_view kCompileKeyPartsMetadata = "ctxgen.compile_key_parts";

/// A compiled model in memory: the context model and the bins it names.
struct CompiledModel {
  Blob model;
  std::vector<std::pair<std::string, Blob>> bins;  // by relative name; external initializers too
  CompileReport report;
};

/// Compiles models into memory. `output_names` are the context models' base names.
[[nodiscard]] Result<CompiledModel> compile_in_memory(const ModelInput& input,
                                                      const CompileOptions& options);

/// Compiles models to files: one context model each and one bin per provider for all of them.
/// All bins appear first, then the models, each by temporary and rename.
/// Errors  INVALID_ARGUMENT: an output that is a file that is read, or is written twice, by real path and
///         by inode; an output may replace its own earlier version only. IO_ERROR: a folder that takes no
///         files. Both before anything is written, and as far as possible before any work.
[[nodiscard]] Result<CompileReport> compile_to_files(
    const std::vector<ModelInput>& inputs, const std::vector<std::filesystem::path>& outputs,
    const CompileOptions& options);

/// Of one model in a compile: everything that decides what its context model and its programs are, whatever
/// the other models of the compile are and into which files all of it goes. The context model holds it as
/// metadata (kCompileKeyMetadata, ctxgen/ctxfile/ep_context.h).
struct ModelKey {
  Hash128 hash;
  /// What it is made of, "model=<16 hex digits>;options=...;target=...;versions=...", so that one can say what
  /// became different; metadata, too.
  std::string parts;
};

/// "1234" of "model=1234;options=5678" for "model"; nothing where ModelKey::parts has no such part.
[[nodiscard]] std::optional<std::string_view> key_part(std::string_view parts,
                                                       std::string_view name);

struct CompileKey {
  Hash128 hash;                                   // as CompileReport::key
  std::vector<ModelKey> models;                   // in the order of the inputs
  std::vector<std::string> bin_references;        // how the context models name their bins
  std::vector<std::filesystem::path> files_read;  // as CompileReport::files_read
};

/// The key of what compile_to_files() with these arguments would do, found by reading the inputs: one
/// hash over everything that decides the outputs, the keys of the models (contents of all files
/// read, options, versions, target) and how files are named. Equal keys mean equal outputs.
[[nodiscard]] Result<CompileKey> compile_key(const std::vector<ModelInput>& inputs,
                                             const std::vector<std::filesystem::path>& outputs,
                                             const CompileOptions& options);

/// Where the outputs of a compile could be taken from.
struct CacheLookup {
  enum class Place { kNowhere, kFolder, kRemote } place = Place::kNowhere;
  Hash128 key;                         // as CompileReport::key
  std::optional<RemoteCounts> remote;  // where a remote cache was asked
};

/// Looks for the outputs of a compile in the caches that its options name; reads the models, compiles and fetches nothing.
/// Errors  as compile_key(); INVALID_ARGUMENT: no cache, or a compile whose outputs are in none.
[[nodiscard]] Result<CacheLookup> look_up_compile(const std::vector<ModelInput>& inputs,
                                                  const std::vector<std::filesystem::path>& outputs,
                                                  const CompileOptions& options);

/// The work of a process that CompileOptions::start_variant started. `isas` is the one instruction
/// set. `request` is called when that was accepted and nothing else done.
[[nodiscard]] Status serve_variant(const std::vector<ModelInput>& inputs,
                                   const CompileOptions& options,
                                   const std::function<Result<Blob>()>& request,
                                   const ByteSink& response);

/// Assigns nodes without compiling (`ctxgen explain`).
[[nodiscard]] Result<ModelReport> explain(const ModelInput& input, const CompileOptions& options);

/// "model.onnx" -> "model_ctx.onnx".
[[nodiscard]] std::string default_output_name(const std::string& model_name);
/// ("model_ctx.onnx", "dnnl") -> "model_dnnl.bin".
[[nodiscard]] std::string default_bin_name(const std::string& output_name,
                                           std::string_view provider);

}  // namespace ctxgen
