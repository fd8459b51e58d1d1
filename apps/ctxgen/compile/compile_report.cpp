#include "compile/compile_report.h"

#include <algorithm>
#include <format>
#include <map>
#include <vector>

#include "show/remote_lines.h"
#include "show/sharing_table.h"
#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

void write_partitions(JsonWriter& json, const std::vector<PartitionReport>& partitions) {
  json.begin_array();
  for (const PartitionReport& partition : partitions)
    json.begin_object()
        .field("name", partition.name)
        .field("provider", partition.provider)
        .field("nodes", std::uint64_t{partition.nodes})
        .field("inputs", std::uint64_t{partition.inputs})
        .field("outputs", std::uint64_t{partition.outputs})
        .field("weight_bytes", partition.weight_bytes)
        .field("plans", std::uint64_t{partition.plans})
        .list("notes", partition.notes)
        .end_object();
  json.end_array();
}

/// Nodes that stay in the model: run by cpu, or by no provider.
std::vector<NodeReport> fallbacks(const ModelReport& model) {
  std::vector<NodeReport> nodes;
  std::ranges::copy_if(model.assignment, std::back_inserter(nodes),
                       [](const NodeReport& node) { return node.partition < 0 && !node.folded; });
  return nodes;
}

void write_model(JsonWriter& json, const ModelReport& model,
                 const std::vector<VerificationRun>* runs) {
  json.begin_object()
      .field("input", model.input_name)
      .field("output", model.output_name)
      .field("nodes", std::uint64_t{model.nodes})
      .field("compiled_nodes", std::uint64_t{model.compiled_nodes})
      .field("folded_nodes", std::uint64_t{model.folded_nodes})
      .field("removed_nodes", std::uint64_t{model.removed_nodes})
      .field("model_bytes", model.model_bytes);
  write_partitions(json.key("partitions"), model.partitions);
  write_assignment(json.key("fallbacks"), fallbacks(model));
  json.key("warnings").begin_array();
  for (const std::string& warning : model.warnings) json.value(warning);
  if (!model.unplanned.empty()) json.value(model.unplanned);
  json.end_array().list("costs", model.costs);
  if (runs != nullptr) {
    json.key("verification").begin_object();
    write_runs(json, *runs, first_divergence(*runs), {});
    json.end_object();
  }
  json.end_object();
}

void write_search(JsonWriter& json, const PrecisionSearchReport& search) {
  json.begin_object().key("ops").begin_object();
  for (const auto& [precision, count] : search.ops) json.field(precision, std::uint64_t{count});
  json.end_object()
      .field("trials", search.trials)
      .field("seconds", search.seconds)
      .field("bytes_f32", search.bytes_f32)
      .field("bytes", search.bytes)
      .field("run_ms_f32", search.run_ms_f32)
      .field("run_ms", search.run_ms)
      .end_object();
}

std::string search_text(const PrecisionSearchReport& search) {
  std::string ops;
  for (const auto& [precision, count] : search.ops)
    ops += std::format("{}{} {}", ops.empty() ? "" : ", ", count, precision);
  return std::format(
      "precision: {}; {} of {} in f32, a run {:.2f} ms of {:.2f}; found by {} in {:.1f} s\n",
      ops.empty() ? "nothing to choose" : ops, size_text(search.bytes), size_text(search.bytes_f32),
      search.run_ms, search.run_ms_f32,
      count_text(static_cast<std::uint64_t>(search.trials), "trial"), search.seconds);
}

void write_tuning(JsonWriter& json, const TuningReport& tuning) {
  json.begin_object()
      .field("shapes", std::uint64_t{tuning.shapes})
      .field("known", std::uint64_t{tuning.known})
      .field("measured", std::uint64_t{tuning.measured})
      .field("unfinished", std::uint64_t{tuning.unfinished})
      .field("run_us", tuning.run_us)
      .field("table_run_us", tuning.table_run_us)
      .field("seconds", tuning.seconds);
  json.key("gains").begin_array();
  for (const TuningGain& gain : tuning.gains)
    json.begin_object()
        .field("shape", to_string(gain.row.shape))
        .field("ops", std::uint64_t{gain.ops})
        .field("form", gain.row.form)
        .field("table_form", gain.table_form)
        .field("us", gain.row.us)
        .field("table_us", gain.row.table_us)
        .end_object();
  json.end_array().key("stays").begin_array();
  for (const TuningStay& stay : tuning.stays)
    json.begin_object()
        .field("shape", to_string(stay.shape))
        .field("ops", std::uint64_t{stay.ops})
        .field("form", stay.table_form)
        .field("closest", stay.closest)
        .field("closest_share", stay.closest_share)
        .end_object();
  json.end_array().end_object();
}

std::string tuning_text(const TuningReport& tuning, bool verbose) {
  std::string text = std::format(
      "tuning: {} of {} faster in another form than the table's; {} measured in {:.1f} s, {} known "
      "before, {} unfinished\n",
      tuning.gains.size(), count_text(tuning.shapes, "shape"), tuning.measured, tuning.seconds,
      tuning.known, tuning.unfinished);
  if (tuning.table_run_us > 0)
    text += std::format("  a run {:.2f} ms, by the table {:.2f} ms\n", tuning.run_us / 1000,
                        tuning.table_run_us / 1000);
  if (!verbose) return text;
  TextTable table({1, 4, 5});
  for (const TuningGain& gain : tuning.gains)
    table.row({to_string(gain.row.shape), count_text(gain.ops, "op"), gain.table_form,
               gain.row.form, std::format("{:.1f} us", gain.row.table_us),
               std::format("{:.1f} us", gain.row.us)});
  for (const TuningStay& stay : tuning.stays)
    table.row({to_string(stay.shape), count_text(stay.ops, "op"), stay.table_form, "stays", "",
               stay.closest.empty()
                   ? "no other was taken"
                   : std::format("{} takes {:.2f} of its time", stay.closest, stay.closest_share)});
  return text + table.text("    ");
}

/// "Resize x2 (dnnl: mode cubic)", most frequent first.
std::string fallback_text(const ModelReport& model) {
  struct Group {
    std::size_t count = 0;
    std::string reason;
  };
  std::map<std::string, Group> groups;
  for (const NodeReport& node : fallbacks(model)) {
    Group& group = groups[node.op_type.str() + (node.provider.empty() ? " (no provider)" : "")];
    ++group.count;
    if (group.reason.empty() && !node.reasons.empty()) group.reason = node.reasons.front();
  }
  std::vector<std::pair<std::string, Group>> sorted(groups.begin(), groups.end());
  std::ranges::stable_sort(sorted, std::ranges::greater{},
                           [](const auto& entry) { return entry.second.count; });
  TextTable table({1});
  for (const auto& [op, group] : sorted) table.row({op, std::to_string(group.count), group.reason});
  return table.text("    ");
}

std::string model_text(const ModelReport& model, bool verbose) {
  std::string text = std::format("{} -> {} ({})\n", model.input_name, model.output_name,
                                 size_text(model.model_bytes));
  const std::size_t left = fallbacks(model).size();
  text += std::format("  {}, {} compiled into {}, {} folded, {} left\n",
                      count_text(model.nodes, "node"), model.compiled_nodes,
                      count_text(model.partitions.size(), "partition"), model.folded_nodes, left);
  if (model.removed_nodes > 0)
    text += std::format("  {} removed by --graph-optimization\n",
                        count_text(model.removed_nodes, "node"));
  if (verbose) {
    TextTable table({2, 3, 4});
    for (const PartitionReport& partition : model.partitions)
      table.row({partition.name, partition.provider, count_text(partition.nodes, "node"),
                 std::format("{} -> {}", partition.inputs, partition.outputs),
                 size_text(partition.weight_bytes)});
    text += table.text("    ");
  }
  for (const PartitionReport& partition : model.partitions)
    for (const std::string& note : partition.notes)
      text += std::format("  {}: {}\n", partition.name, note);
  for (const std::string& cost : model.costs) text += "  " + cost + "\n";
  if (left > 0) text += "  not compiled:\n" + fallback_text(model);
  return text;
}

std::string_view state_text(FileReport::State state) {
  switch (state) {
    case FileReport::State::kUnchanged: return "unchanged";
    case FileReport::State::kPlanned: return "planned";
    case FileReport::State::kWritten: break;
  }
  return "written";
}

}  // namespace

void write_outputs(JsonWriter& json, std::span<const FileReport> files) {
  json.begin_array();
  for (const FileReport& file : files)
    json.begin_object()
        .field("path", file.path.string())
        .field("kind", name_of(file.kind))
        .field("bytes", file.bytes)
        .field("state", state_text(file.state))
        .end_object();
  json.end_array();
}

std::string outputs_text(std::span<const FileReport> files, bool up_to_date) {
  std::string text;
  for (const FileReport& file : files) {
    const char* const what = up_to_date                                    ? "up to date"
                             : file.state == FileReport::State::kUnchanged ? "unchanged"
                             : file.state == FileReport::State::kPlanned   ? "would be written"
                                                                           : nullptr;
    if (what != nullptr)
      text += std::format("{}: {} ({} bytes)\n", what, file.path.string(), file.bytes);
  }
  return text;
}

void write_assignment(JsonWriter& json, const std::vector<NodeReport>& nodes) {
  json.begin_array();
  for (const NodeReport& node : nodes) {
    json.begin_object().field("name", node.name);
    if (!node.graph.empty()) json.field("graph", node.graph);
    json.field("op_type", node.op_type).key("provider");
    node.provider.empty() ? json.null() : json.value(node.provider);
    json.key("partition");
    node.partition < 0 ? json.null() : json.value(node.partition);
    json.field("folded", node.folded).list("reasons", node.reasons).end_object();
  }
  json.end_array();
}

std::string report_json(const CompileReport& report,
                        std::span<const std::vector<VerificationRun>> verifications) {
  JsonWriter json;
  json.begin_object();
  write_report_fields(json, report, verifications);
  json.end_object();
  return json.finish();
}

void write_report_fields(JsonWriter& json, const CompileReport& report,
                         std::span<const std::vector<VerificationRun>> verifications) {
  json.key("models").begin_array();
  for (std::size_t m = 0; m < report.models.size(); ++m)
    write_model(json, report.models[m], m < verifications.size() ? &verifications[m] : nullptr);
  json.end_array().key("bins").begin_array();
  for (const CompileReport::Bin& bin : report.bins)
    json.begin_object()
        .field("name", bin.name)
        .field("bytes", bin.bytes)
        .field("weight_bytes", bin.weight_bytes)
        .field("blobs", bin.blobs)
        .field("kept_programs", bin.kept_programs)
        .end_object();
  json.end_array();
  if (report.external)
    json.key("external_initializers")
        .begin_object()
        .field("name", report.external->name)
        .field("bytes", report.external->bytes)
        .field("tensors", report.external->tensors)
        .end_object();
  if (report.precision_search) write_search(json.key("precision_search"), *report.precision_search);
  if (report.tuning) write_tuning(json.key("tuning"), *report.tuning);
  write_outputs(json.key("files"), report.files);
  write_sharing(json.key("sharing"), report.sharing);
  write_split(json.key("split_layouts"), report.split);
  json.field("up_to_date", report.up_to_date)
      .field("dry_run", report.dry_run)
      .field("weight_bytes_added", report.bytes_added)
      .field("weight_bytes_stored", report.bytes_stored)
      .field("programs_compiled", report.counts.programs_compiled)
      .field("programs_cached", report.counts.programs_cached)
      .field("bytes_packed", report.counts.bytes_packed)
      .field("bytes_cached", report.counts.bytes_cached)
      .field("outputs_cached", report.counts.outputs_cached);
  if (report.remote) write_remote(json.key("remote_cache"), *report.remote);
  json.field("weight_bytes_left_in_sources", report.bytes_left_in_sources)
      .field("key", report.key.hex())
      .key("files_read")
      .begin_array();
  for (const auto& file : report.files_read) json.value(file.string());
  json.end_array().field("seconds", report.seconds);
}

std::string report_text(const CompileReport& report,
                        std::span<const std::vector<VerificationRun>> verifications, bool verbose) {
  std::string text;
  for (std::size_t m = 0; m < report.models.size(); ++m) {
    text += model_text(report.models[m], verbose);
    if (m < verifications.size()) text += runs_text(verifications[m], verbose, "  ");
  }
  if (report.precision_search) text += search_text(*report.precision_search);
  if (report.tuning) text += tuning_text(*report.tuning, verbose);
  for (const CompileReport::Bin& bin : report.bins)
    text += std::format("{} ({}): {}, {} of weights{}\n", bin.name, size_text(bin.bytes),
                        count_text(bin.blobs, "blob"), size_text(bin.weight_bytes),
                        bin.kept_programs == 0
                            ? ""
                            : std::format("; {} kept", count_text(bin.kept_programs, "program")));
  if (report.external)
    text += std::format("{} ({}): {}\n", report.external->name, size_text(report.external->bytes),
                        count_text(report.external->tensors, "external initializer"));
  if (report.bytes_left_in_sources > 0)
    text +=
        std::format("{} of weights stay in the sources\n", size_text(report.bytes_left_in_sources));
  if (report.bytes_added > report.bytes_stored)
    text += std::format("shared weights saved {}\n",
                        size_text(report.bytes_added - report.bytes_stored)) +
            sharing_text(report.sharing, verbose);
  text += split_text(report.split);
  if (report.counts.outputs_cached)
    text += "everything from the cache\n";
  else if (report.counts.programs_cached > 0 || report.counts.bytes_cached > 0)
    text += std::format(
        "from the cache: {} of {}, {} of weights\n", report.counts.programs_cached,
        count_text(report.counts.programs_cached + report.counts.programs_compiled, "program"),
        size_text(report.counts.bytes_cached));
  if (report.remote) text += remote_text(*report.remote);
  text += outputs_text(report.files, report.up_to_date);
  return report.up_to_date ? text : text + std::format("{:.2f} s\n", report.seconds);
}

}  // namespace ctxgen::cli
