#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/ctxfile/packed_at_load.h"
#include "ctxgen/ctxfile/program.h"
#include "ctxgen/ctxfile/tuning_table.h"
#include "ctxgen/weights/weight_store.h"

namespace ctxgen::onednn {

inline constexpr std::string_view kSource = "CtxgenDnnlExecutionProvider";

/// The load side of the dnnl provider.
[[nodiscard]] const ProgramLoader& loader();

struct PackOptions {
  std::vector<std::vector<Dims>> profiles;  // input dims (order of Program::inputs) per profile
  int jobs = 0;                             // threads that pack; 0: default_threads()
  bool portable = false;                    // nothing of the result depends on this machine
  /// Weights that are stored plain whatever plans want, and packed at load. Empty: none.
  std::function<bool(std::span<const std::byte> plain)> stays_plain = {};
  const TuningTable* tuning =
      nullptr;  // goes before our tables where a kernel takes it (not owned)
  /// Told of each weight that has its first form, by its plain bytes; its error ends the packing. May be empty.
  std::function<Status(std::uint64_t plain_bytes)> packed = {};
};

/// Compile-time planning: for each profile chooses layouts, packs the weights that the plan wants
/// (once per distinct layout, into `store`) and appends a StoredPlan, whose sizes are those of a run
/// on one thread. Weights that no plan packs are packed for unknown shapes or stored plain. Layouts
/// depend on neither threads nor caches where a table has them (layout/product_packing,
/// layout/conv_packing); elsewhere they are oneDNN's choice for one thread. Portable: all weights are stored plain, and of a plan only
/// its shapes: loading makes the rest.
///
/// In       program: complete but for weights[i].packed and plans; weights[i] is plain_weights[i],
///          dense row-major in its ONNX dims.
/// Out      weights[i].packed with blobs of `store`; plans.
/// Errors   UNSUPPORTED naming the op when oneDNN refuses a configuration or would run a kernel
///          that is slower than a plain loop; RESOURCE_LIMIT; BACKEND_ERROR.
[[nodiscard]] Status plan_and_pack(Program& program, std::span<const Tensor> plain_weights,
                                   const PackOptions& options, WeightStore& store);

/// Whether a tuning table is of this library and instruction set, and of ops and packings that there are.
/// Errors  VERSION_MISMATCH, INVALID_ARGUMENT naming the row.
[[nodiscard]] Status check_tuning(const TuningTable& table);

/// What loads of a program that plan_and_pack() has made pack with one, two, eight or 64 threads, each
/// weight once: those whose form oneDNN chose, for one thread, or has no name for. Reads no weight.
[[nodiscard]] Result<std::vector<PackedAtLoad>> packed_at_some_loads(const Program& program);

/// Dims of every program value for given input dims (the shape functions of all kinds).
[[nodiscard]] Result<std::vector<Dims>> infer_value_dims(const Program& program,
                                                         std::span<const Dims> input_dims);

/// Whether products of 8-bit integers have instructions of their own (VNNI or later). Without them
/// oneDNN's kernels saturate sums of pairs in 16 bits, which is not what ONNX says.
[[nodiscard]] bool has_fast_int8();

/// Whether oneDNN has a kernel for `op`, an op over values and weights of `program`, that is not a
/// slow reference: asked for the dims that are known, with typical ones for the others.
[[nodiscard]] bool runs_fast(const Program& program, const ProgramOp& op);

/// "avx512_core_bf16": the instruction set that oneDNN uses in this process.
[[nodiscard]] std::string isa_name();
struct IsaState {
  std::string_view name;
  bool usable = false;  // by a process on this machine
};
/// All that oneDNN has a name for, smaller ones first.
[[nodiscard]] std::vector<IsaState> isas();
/// "3.12.1".
[[nodiscard]] std::string library_version();
/// usable_cores(), the default of LoadOptions::threads.
[[nodiscard]] int default_threads();

}  // namespace ctxgen::onednn
