#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/runtime_value.h"
#include "ctxgen/base/spill_file.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Opset versions of the default domain and of ai.onnx.ml that ctxgen knows.
inline constexpr std::int64_t kMaxOpset = 27;
inline constexpr std::int64_t kMaxMlOpset = 5;
inline constexpr std::int64_t kMinIrVersion =
    1;  // 3 was the first with opsets; older ones are read by its rules
inline constexpr std::int64_t kMaxIrVersion = 13;

/// Limits on what a model may declare, so that a small file cannot ask for much (docs/security.md).
inline constexpr std::uint64_t kMaxSubgraphDepth = 32;
inline constexpr std::uint64_t kMaxCallDepth = 32;  // functions that call functions
struct ModelLimits {                         // what passes one is refused with RESOURCE_LIMIT
  std::uint64_t nodes = 4'000'000;           // function bodies counted as often as they are called
  std::uint64_t items = 16'000'000;          // values, attributes, fields outside the graph
  std::uint64_t name_bytes = 64 << 10;       // of one name
  std::uint64_t names_bytes = 1 << 30;       // of all names together
  std::uint64_t opset_imports = 1024;        // of the model, of each function
  std::uint64_t expanded_bytes = 256 << 20;  // text of function bodies where they are called
  std::uint64_t external_files = 16'384;
};

struct FileRead;  // ctxgen/weights/external_data.h

struct ReadModelOptions {
  std::filesystem::path external_data_folder;  // empty: external data is an error
  /// External data in memory, by location; what is not there is looked for in the folder.
  std::vector<std::pair<std::string, Blob>> external_buffers = {};
  std::string file_name;         // base name, for messages and attributes
  bool expand_functions = true;  // calls of model-local functions, in place
  ModelLimits limits = {};
  /// Gets every file of external data in order of first use, the very bytes that tensors refer to.
  std::vector<FileRead>* external_files = nullptr;
  SpillFile* spill = nullptr;  // keeps tensors that are decoded (not owned; null: memory does)
};

/// Reads a serialised ModelProto with a bounds-checked walk of the wire format, without protobuf
/// and onnx: tensor bytes (raw_data, packed float/double data, external data) are referenced in
/// place, never copied; other typed fields are decoded into new memory.
///
/// Nodes   are sorted where the file does not have them in topological order; what is in order stays.
/// Checks  the rules that later stages rely on: IR and opset versions, no cycles, single
///         assignment, known names, tensor sizes, rank <= kMaxRank, nesting, external-data paths.
///         docs/import.md lists what is taken beyond the standard.
/// Errors  INVALID_GRAPH, UNSUPPORTED (opset, IR or rank above what is known), RESOURCE_LIMIT,
///         IO_ERROR; each names the culprit.
[[nodiscard]] Result<Model> read_model(Blob source, const ReadModelOptions& options);

/// The same for a file: maps it; external data is looked for in its folder.
[[nodiscard]] Result<Model> read_model_file(const std::filesystem::path& path,
                                            ReadModelOptions options = {});

/// Decodes one serialised TensorProto (a backend-test .pb file).
[[nodiscard]] Result<Tensor> read_tensor(Blob source);
/// Decodes a value of backend-test data, a TensorProto, SequenceProto, OptionalProto or MapProto as
/// the type says: the files do not say it themselves.
/// Errors  INVALID_GRAPH, UNSUPPORTED (sparse tensors; sequences and optionals inside of those).
[[nodiscard]] Result<RuntimeValue> read_value(Blob source, const ValueType& type);
/// Encodes a tensor as TensorProto (raw_data, or string_data).
[[nodiscard]] std::vector<std::byte> write_tensor(const Tensor& tensor, std::string_view name);

}  // namespace ctxgen
