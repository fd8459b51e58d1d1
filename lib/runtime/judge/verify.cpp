#include "ctxgen/runtime/verify.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <format>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ctxgen/base/boundary.h"
#include "ctxgen/ctxfile/source_weights.h"
#include "ctxgen/ctxfile/weight_reference.h"
#include "ctxgen/onnx_lite/context_node.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/runtime/elements.h"
#include "ctxgen/weights/external_file.h"

#include "load/content_check.h"
#include "load/context_set.h"
#include "load/signature.h"

namespace ctxgen {
namespace {

using Findings = std::vector<IntegrityFinding>;

/// What the model's metadata and the binary's header say of the target they were made for.
IntegrityFinding compare_fingerprints(const Model& model, const OpenContext& context) {
  const std::string key = kCompatibilityKeyPrefix + context.source;
  const std::string& found = context.reader->info().fingerprint;
  const auto entry =
      std::ranges::find(model.metadata, key, &std::pair<std::string, std::string>::first);
  if (entry == model.metadata.end())
    return {"metadata", std::format("\"{}\" is missing", key), Integrity::kDamaged};
  if (entry->second != found)
    return {"metadata",
            std::format("\"{}\" is \"{}\", context \"{}\" says \"{}\"", key, entry->second,
                        context.name, found),
            Integrity::kDamaged};
  return {"metadata", found};
}

/// Weights that are in the source's files.
void add_sources(const OpenContext& context, const std::filesystem::path& folder,
                 Findings& findings) {
  SourceWeights sources(folder, VerifyBlobs::kAlways);
  std::size_t weights = 0;
  for (const Program& program : context.reader->programs()) {
    const BlobSource blobs = sources.blobs_of(program, context.reader);
    for (const ProgramWeight& weight : program.weights)
      for (const PackedWeight& packed : weight.packed) {
        if (!is_reference_layout(packed.layout)) continue;
        ++weights;
        if (const auto blob = blobs(packed.blob.bin_index()); !blob)
          findings.push_back({program.name,
                              std::format("weight \"{}\": {}", weight.name, blob.error().message),
                              Integrity::kDamaged});
      }
  }
  if (weights > 0)
    findings.push_back({context.name, std::format("{} weights in files of the source", weights)});
}

void add_partitions(const ContextSet& set, Findings& findings) {
  for (const ResolvedNode& resolved : set.nodes) {
    const Node& node = resolved.graph->node(resolved.node);
    const ContextReader& reader = *set.contexts[resolved.context].reader;
    const Program& program = reader.programs()[resolved.program];
    const auto signature = bind_signature(*resolved.graph, node, program);
    if (!signature) {
      findings.push_back({program.name, signature.error().message, Integrity::kDamaged});
      continue;
    }
    findings.push_back(
        {program.name, std::format("{} ops, {} weights, {} plans, program {}", program.ops.size(),
                                   program.weights.size(), program.plans.size(),
                                   reader.program_hash(resolved.program).hex())});
  }
}

Integrity state_of(ContentState state) {
  switch (state) {
    case ContentState::kIntact: return Integrity::kIntact;
    case ContentState::kNotCovered: return Integrity::kNotCovered;
    case ContentState::kChanged: return Integrity::kChanged;
    case ContentState::kDamaged: break;
  }
  return Integrity::kDamaged;
}

/// What stays in the model, and the file next to it that holds its initializers.
Status add_content(const Model& model, std::span<const FileRead> external_files,
                   Findings& findings) {
  ContentCheck content = CTXGEN_TRY(check_content(model, external_files));
  findings.push_back({"content", std::move(content.detail), state_of(content.state)});
  for (const auto& [key, value] : model.metadata) {
    if (key != kExternalFileKey) continue;
    const std::string name = value.substr(0, value.rfind(':'));
    if (const auto file = verify_external_file(model.folder, value); !file)
      findings.push_back({name, file.error().message, Integrity::kDamaged});
    else
      findings.push_back({name, std::format("{} bytes of external initializers", file->bytes),
                          file->is_covered ? Integrity::kIntact : Integrity::kNotCovered});
  }
  return {};
}

Result<Findings> find_faults(const std::filesystem::path& path, const SessionOptions& options) {
  const auto loaders = loaders_of(options);
  ReadModelOptions read;
  std::vector<FileRead> external_files;
  read.external_data_folder = options.external_data_folder;
  read.external_files = &external_files;
  const auto model = std::make_shared<const Model>(CTXGEN_TRY(read_model_file(path, read)));
  const ContextPlaces places{path.has_parent_path() ? path.parent_path() : ".", options.bin_source,
                             VerifyBlobs::kAlways};
  Findings findings;
  if (!is_compiled(*model)) {
    findings.push_back(
        {path.filename().string(), "nothing in it is compiled", Integrity::kNotCompiled});
    return findings;
  }
  CTXGEN_CHECK(add_content(*model, external_files, findings));
  const auto set = open_contexts(model, places, loaders);
  if (!set) {
    if (set.error().code == ErrorCode::kResourceLimit) return std::unexpected(set.error());
    findings.push_back({path.filename().string(), set.error().message, Integrity::kDamaged});
    return findings;
  }
  findings.push_back(
      {path.filename().string(),
       std::format("{} nodes, {} partitions", model->graph.node_count(), set->nodes.size())});
  for (const OpenContext& context : set->contexts) {
    findings.push_back(
        {context.name,
         std::format("{} programs, {} blobs, {} bytes", context.reader->programs().size(),
                     context.reader->blobs().size(), context.reader->file_size())});
    findings.push_back(compare_fingerprints(*model, context));
    add_sources(context, places.folder, findings);
  }
  add_partitions(*set, findings);
  return findings;
}

/// The source must know every input that the context takes; it may have more, with defaults.
Status check_interfaces(const Session& context, const Session& reference) {
  const auto names = [](std::span<const IoInfo> infos) {
    std::string text;
    for (const IoInfo& info : infos)
      text += std::format("{}\"{}\"", text.empty() ? "" : ", ", info.name);
    return text;
  };
  const auto outputs = context.outputs(), expected = reference.outputs();
  if (!std::ranges::equal(outputs, expected, {}, &IoInfo::name, &IoInfo::name))
    return fail(ErrorCode::kInvalidArgument,
                "the context model has the outputs {}, the source {}: it is another model's",
                names(outputs), names(expected));
  for (const IoInfo& input : context.inputs()) {
    const auto source = std::ranges::find(reference.inputs(), input.name, &IoInfo::name);
    if (source == reference.inputs().end() || !may_be_same(input.type, source->type))
      return fail(
          ErrorCode::kInvalidArgument,
          "the context model has the input \"{}\" ({}), the source {}: it is another model's",
          input.name, input.type_text,
          source == reference.inputs().end() ? "has none" : source->type_text);
  }
  return {};
}

/// A value of one graph of the model: (graph, name). Bodies may have equal names.
using ValueKey = std::pair<std::string, std::string>;
/// What the reference gave, in the order in which it did: more than once in bodies that loop.
using ValuesByKey = std::map<ValueKey, std::deque<RuntimeValue>>;

ValueKey key_of(const ObservedValue& seen) {
  return {std::string(seen.graph), std::string(seen.name)};
}

bool same_form(const RuntimeValue& a, const RuntimeValue& b) {
  return a.is_tensor() && b.is_tensor() && a.tensor().type() == b.tensor().type() &&
         a.tensor().dims() == b.tensor().dims();
}

Result<Tensor> as_float(const Tensor& tensor) {
  Tensor result = CTXGEN_TRY(Tensor::allocate(DataType::kFloat, tensor.dims()));
  const ElementReader reader(tensor);
  std::byte* to = result.mutable_bytes().data();
  for (std::int64_t i = 0; i < tensor.element_count(); ++i, to += sizeof(float)) {
    const auto value = static_cast<float>(reader.at(i));
    std::memcpy(to, &value, sizeof(value));
  }
  return result;
}

/// Two floating types are compared as float: partitions compute what is stored as float16 in float, or the
/// other way round. Out  false: they are not of one shape, or hold other things. Errors  RESOURCE_LIMIT.
Result<bool> make_comparable(RuntimeValue& seen, RuntimeValue& wanted) {
  if (same_form(seen, wanted)) return true;
  if (!seen.is_tensor() || !wanted.is_tensor() || seen.tensor().dims() != wanted.tensor().dims() ||
      !ElementReader::is_floating(seen.tensor().type()) ||
      !ElementReader::is_floating(wanted.tensor().type()))
    return false;
  seen = CTXGEN_TRY(as_float(seen.tensor()));
  wanted = CTXGEN_TRY(as_float(wanted.tensor()));
  return true;
}

/// Of a value that a partition made.
ValueComparison compare_value(const ObservedValue& seen, const RuntimeValue& wanted,
                              const NumericPaths& paths, const ToleranceOverrides& tolerance) {
  std::string partition(seen.node.string_or("partition_name", seen.node.name));
  std::string name(seen.name);
  const auto path = paths.partitions.find({partition, name});
  const Roundings roundings = path == paths.partitions.end() ? Roundings{} : path->second;
  Comparison comparison = compare(seen.value, wanted, roundings, tolerance);
  return {std::move(partition), std::move(name), std::move(comparison),
          std::string(seen.inner_node)};
}

/// Runs the context model with every partition on the reference's values: what a partition gave is
/// compared, then replaced. Loops and branches take the reference's way with them.
Status compare_partitions(const Session& context, std::span<const NamedValue> inputs,
                          ValuesByKey& expected, const NumericPaths& paths,
                          const ToleranceOverrides& tolerance, OutputVerification& result) {
  Status failed;
  const ValueObserver observer = [&](const ObservedValue& seen) {
    const auto place = expected.find(key_of(seen));
    const bool known = place != expected.end() && !place->second.empty();
    RuntimeValue wanted;
    if (known) {
      wanted = std::move(place->second.front());
      place->second.pop_front();
    }
    if (!seen.inner_node.empty()) {
      const Result<bool> comparable =
          known ? make_comparable(seen.value, wanted) : Result<bool>(false);
      if (!comparable) failed = std::unexpected(comparable.error());
      if (comparable.value_or(false))
        merge_comparison(result.nodes, compare_value(seen, wanted, paths, tolerance));
      return;
    }
    if (is_ep_context(seen.node)) {
      const std::string name(seen.name);
      if (!known) {
        if (!std::ranges::contains(result.without_reference, name))
          result.without_reference.push_back(name);
        return;
      }
      merge_comparison(result.partitions, compare_value(seen, wanted, paths, tolerance));
    }
    if (known && same_form(seen.value, wanted)) seen.value = std::move(wanted);
  };
  const auto ran = context.run_values(inputs, {.observer = &observer});
  if (!ran) return std::unexpected(ran.error());
  return failed;
}

Result<OutputVerification> compare_outputs(const Session& context, const Session& reference,
                                           std::span<const NamedValue> inputs,
                                           const NumericPaths& paths,
                                           const ToleranceOverrides& tolerance) {
  std::set<ValueKey> boundary;  // every value that a node of the context model makes
  const ValueObserver note = [&](const ObservedValue& seen) { boundary.insert(key_of(seen)); };
  const auto found = CTXGEN_TRY(context.run_values(inputs, {.observer = &note}));
  ValuesByKey expected;
  const ValueObserver keep = [&](const ObservedValue& seen) {
    ValueKey key = key_of(seen);
    if (boundary.contains(key)) expected[std::move(key)].push_back(seen.value);
  };
  const auto wanted = CTXGEN_TRY(reference.run_values(inputs, {.observer = &keep}));
  OutputVerification result;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    result.outputs.push_back(
        {"", context.outputs()[i].name, compare(found[i], wanted[i], paths.outputs[i], tolerance)});
  CTXGEN_CHECK(compare_partitions(context, inputs, expected, paths, tolerance, result));
  return result;
}

}  // namespace

void merge_comparison(std::vector<ValueComparison>& all, ValueComparison one) {
  const auto known = std::ranges::find_if(all, [&](const ValueComparison& other) {
    return other.partition == one.partition && other.value == one.value;
  });
  if (known == all.end())
    all.push_back(std::move(one));
  else
    known->comparison.merge(one.comparison);
}

Result<std::vector<IntegrityFinding>> verify_integrity(const std::filesystem::path& path,
                                                       const SessionOptions& options) {
  return at_boundary("verifying a context", [&] { return find_faults(path, options); });
}

Result<NumericPaths> common_paths(const Session& context, const Session& reference) {
  return at_boundary("comparing two models", [&]() -> Result<NumericPaths> {
    CTXGEN_CHECK(check_interfaces(context, reference));
    NumericPaths paths = context.numeric_paths();
    const NumericPaths source = reference.numeric_paths();
    for (std::size_t i = 0; i < paths.outputs.size(); ++i) paths.outputs[i].join(source.outputs[i]);
    return paths;
  });
}

const ValueComparison* OutputVerification::finite_difference() const {
  const auto other_elements = [](const ValueComparison& value) {
    const Comparison& comparison = value.comparison;
    return comparison.mismatches > comparison.not_finite && !comparison.quantised;
  };
  if (const auto found = std::ranges::find_if(partitions, other_elements);
      found != partitions.end())
    return &*found;
  const bool otherwise = std::ranges::any_of(
      partitions, [](const ValueComparison& value) { return !value.comparison.match; });
  if (otherwise) return nullptr;
  const auto found = std::ranges::find_if(outputs, other_elements);
  return found == outputs.end() ? nullptr : &*found;
}

Result<OutputVerification> verify_outputs(const Session& context, const Session& reference,
                                          std::span<const NamedValue> inputs,
                                          const NumericPaths& paths,
                                          const ToleranceOverrides& tolerance) {
  return at_boundary("verifying outputs",
                     [&] { return compare_outputs(context, reference, inputs, paths, tolerance); });
}

}  // namespace ctxgen
