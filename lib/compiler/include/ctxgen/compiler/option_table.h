#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ctxgen/compiler/compile.h"

namespace ctxgen {

/// A field of CompileOptions.
template <class T>
using OptionField = T CompileOptions::*;
using OptionSlot = std::variant<
    OptionField<bool>, OptionField<int>, OptionField<std::uint64_t>, OptionField<std::string>,
    OptionField<std::filesystem::path>, OptionField<std::vector<std::string>>,
    OptionField<std::optional<bool>>, OptionField<std::optional<std::uint64_t>>,
    OptionField<std::optional<std::filesystem::path>>, OptionField<GraphOptimization>,
    OptionField<WeightlessMode>, OptionField<OptionNames>, OptionField<std::vector<ShapeProfile>>,
    OptionField<std::vector<FileUse>>, OptionField<std::vector<const Provider*>>,
    OptionField<decltype(CompileOptions::provider_options)>,
    OptionField<decltype(CompileOptions::fix_dims)>, OptionField<PrecisionBudget>,
    OptionField<PrecisionChoice>, OptionField<TuningTable>,
    OptionField<decltype(CompileOptions::initializer_location)>,
    OptionField<decltype(CompileOptions::start_variant)>,
    OptionField<decltype(CompileOptions::progress)>,
    OptionField<decltype(CompileOptions::cancelled)>>;

/// Whether a field decides the key of a compile (compile_key()).
enum class InKey {
  kYes,
  kOfForm,  // in that of the compile, not in a model's own: says into which files content is divided
  kByItsEffect,  // what it leads to is in the key: the providers, the target, references to files
  kNo,           // changes no byte of the outputs
};

/// One option of a compile, with its names everywhere.
struct OptionRow {
  std::string_view field;
  OptionSlot slot;
  InKey in_key = InKey::kNo;
  std::string_view flag = "";    // of `ctxgen compile`, the short form first: "-j,--jobs"
  std::string_view value = "";   // what the flag takes, as the help shows it: "FILE"
  std::string_view key = "";     // ONNX Runtime's
  std::string_view setter = "";  // after ctxgen_compile_options_
  std::string_view help = "";    // of the flag
};

/// Options as they are by default, for a caller who knows them by these names.
[[nodiscard]] CompileOptions options_named(OptionNames names);

/// A row for each field, in the order of the fields. It does not compile without.
[[nodiscard]] std::span<const OptionRow> option_rows();

[[nodiscard]] const OptionRow& option_row(OptionSlot slot);

/// The option as its caller knows it (CompileOptions::names): "--embed", "CompileOptions::embed",
/// "ctxgen_compile_options_set_embed"; where that interface has no such option, its key.
[[nodiscard]] std::string option_name(const CompileOptions& options, OptionSlot slot);

/// The first option that a tuning table rules out: it is of one instruction set, and of weights that are packed here.
[[nodiscard]] std::optional<OptionSlot> ruled_out_by_tuning(const CompileOptions& options);

}  // namespace ctxgen
