#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/executable.h"

namespace ctxgen::test {

inline constexpr const char* kToySource = "ToyExecutionProvider";

/// Runs programs of one op: every output is every element of input 0 plus the first element of
/// weight 0.
class ToyExecutable final : public Executable {
 public:
  ToyExecutable(std::size_t outputs, float summand) : outputs_(outputs), summand_(summand) {}
  Result<std::unique_ptr<ExecutionState>> make_state() const override {
    return std::make_unique<ExecutionState>();
  }
  Status run(ExecutionState&, std::span<const TensorView> inputs, OutputAllocator& allocator,
             const ExecutionControl& control) const override {
    const auto count = static_cast<std::size_t>(element_count(inputs[0].dims));
    for (std::size_t o = 0; o < outputs_; ++o) {
      std::byte* out = CTXGEN_TRY(allocator.allocate(o, DataType::kFloat, inputs[0].dims));
      if (out == nullptr) continue;
      for (std::size_t i = 0; i < count; ++i) {
        float value = 0;
        std::memcpy(&value, inputs[0].data + i * 4, 4);
        value += summand_;
        std::memcpy(out + i * 4, &value, 4);
      }
    }
    if (control.timings != nullptr)
      control.timings->push_back({.name = "toy", .kind = "toy", .implementation = ""});
    return {};
  }

 private:
  std::size_t outputs_;
  float summand_;
};

class ToyLoader final : public ProgramLoader {
 public:
  std::string_view source() const override { return kToySource; }
  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program,
                                           const BlobSource& blobs, const LoadOptions&,
                                           LoadStatistics*) const override {
    const Blob blob = CTXGEN_TRY(blobs(program->weights[0].packed[0].blob.bin_index()));
    float summand = 0;
    std::memcpy(&summand, blob.bytes.data(), 4);
    return std::make_unique<ToyExecutable>(program->outputs.size(), summand);
  }
  std::string fingerprint() const override { return "toy-1"; }
  CompatibilityVerdict compatibility(std::string_view fingerprint, int) const override {
    if (fingerprint == "toy-1") return {Compatibility::kOptimal, ""};
    if (fingerprint == "toy-0") return {Compatibility::kPreferRecompilation, "toy-0, have toy-1"};
    return {Compatibility::kUnsupported, "made for " + std::string(fingerprint) + ", have toy-1"};
  }
};

inline const ToyLoader& toy_loader() {
  static const ToyLoader loader;
  return loader;
}

/// One toy program: float[2] input to float[2] output.
inline Program toy_program(const std::string& name, const std::string& input = "x",
                           const std::string& output = "y", BlobIndex blob = {}) {
  Program program;
  program.name = name;
  program.source = kToySource;
  const auto value = [](const std::string& value_name) {
    return ProgramValue{value_name, DataType::kFloat, {ProgramDim{2, -1}}, true};
  };
  program.values = {value(input), value(output)};
  program.inputs = {0};
  program.outputs = {1};
  program.weights = {{"w", DataType::kFloat, Dims{1}, {{{}, blob}}}};
  program.ops = {{"toy", "toy", {Operand::value(0), Operand::weight(0)}, {1}, {}, {}}};
  return program;
}

/// A context binary with these programs; `summands[i]` is blob i.
inline std::string toy_context(const std::vector<Program>& programs,
                               const std::vector<float>& summands = {1.0F},
                               const std::string& fingerprint = "toy-1",
                               const std::vector<Need>& needs = {}) {
  ContextContent content;
  content.needs = needs;
  content.source = kToySource;
  content.fingerprint = fingerprint;
  content.programs = programs;
  for (const float summand : summands) {
    const auto bytes = std::as_bytes(std::span(&summand, 1));
    content.blobs.push_back(Blob::own({bytes.begin(), bytes.end()}));
    content.blob_hashes.push_back(hash_bytes(bytes));
  }
  std::string text;
  const auto written = write_context(content, [&](std::span<const std::byte> bytes) -> Status {
    text += as_text(bytes);
    return {};
  });
  return written ? text : written.error().message;
}

/// EPContext `notes` of a program in a context binary.
inline std::string notes_of(const std::string& context, const std::string& program) {
  const auto bytes = as_bytes(context);
  const auto reader =
      ContextReader::open(Blob::own({bytes.begin(), bytes.end()}), "test", VerifyBlobs::kAlways);
  if (!reader) return reader.error().message;
  const auto index = reader->find(program);
  return index ? "hash=" + reader->program_hash(*index).hex() + ";ops=1;weights=4" : "";
}

}  // namespace ctxgen::test
