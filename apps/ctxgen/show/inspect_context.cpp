#include "show/inspect_context.h"

#include <algorithm>
#include <format>
#include <map>
#include <set>
#include <vector>

#include "ctxgen/ctxfile/needs.h"

#include "show/certificate_fields.h"
#include "show/sharing_table.h"
#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

/// How often a blob is used: by weights in all, and by how many programs.
struct BlobUse {
  std::uint64_t weights = 0;
  std::set<std::size_t> programs;
};

std::vector<BlobUse> blob_uses(const ContextReader& reader) {
  std::vector<BlobUse> uses(reader.blobs().size());
  for (std::size_t p = 0; p < reader.programs().size(); ++p)
    for (const ProgramWeight& weight : reader.programs()[p].weights)
      for (const PackedWeight& packed : weight.packed) {
        const std::uint32_t blob = packed.blob.bin_index().value;
        if (blob >= uses.size()) continue;
        ++uses[blob].weights;
        uses[blob].programs.insert(p);
      }
  return uses;
}

struct Totals {
  std::uint64_t bytes = 0, stored_bytes = 0, shared_blobs = 0, saved_bytes = 0;
};

Totals totals(const ContextReader& reader, const std::vector<BlobUse>& uses) {
  Totals sum;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::uint64_t size = reader.blobs()[i].size;
    sum.bytes += size;
    sum.stored_bytes += reader.blobs()[i].stored;
    if (uses[i].weights < 2) continue;
    ++sum.shared_blobs;
    sum.saved_bytes += size * (uses[i].weights - 1);
  }
  return sum;
}

std::vector<SharedBlobs> sharing_of(const ContextReader& reader) {
  std::vector<ProgramUser> users;
  for (const Program& program : reader.programs()) users.push_back({program.name, &program});
  std::vector<std::uint64_t> bytes;
  for (const BlobEntry& blob : reader.blobs()) bytes.push_back(blob.size);
  return find_shared_blobs(users, bytes);
}

std::string value_text(const Program& program, std::uint32_t index) {
  const ProgramValue& value = program.values[index];
  std::string dims;
  for (const ProgramDim& dim : value.dims) {
    dims += dims.empty() ? "" : ", ";
    if (dim.value >= 0)
      dims += std::to_string(dim.value);
    else if (dim.symbol >= 0)
      dims += program.symbols[static_cast<std::size_t>(dim.symbol)];
    else
      dims += "?";
  }
  return std::format("{} {}{}", value.name, name_of(value.type),
                     value.has_rank ? "[" + dims + "]" : "[...]");
}

std::map<std::string, std::uint64_t> kinds(const Program& program) {
  std::map<std::string, std::uint64_t> counts;
  for (const ProgramOp& op : program.ops) ++counts[op.kind.str()];
  return counts;
}

/// What an op reads first, a weight or another operand, and what it gives.
std::string types_of(const Program& program, const ProgramOp& op) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, op.inputs.size()); ++i) {
    const Operand& operand = op.inputs[i];
    if (operand.kind == Operand::Kind::kNone) continue;
    const DataType type = operand.kind == Operand::Kind::kWeight
                              ? program.weights[operand.index].type
                              : program.values[operand.index].type;
    text += std::format("{}{}", text.empty() ? "" : ", ", name_of(type));
  }
  if (op.outputs.empty()) return text;
  return std::format("{} -> {}", text, name_of(program.values[op.outputs[0]].type));
}

using KindTypes = std::map<std::string, std::map<std::string, std::uint64_t>>;
KindTypes kind_types(const Program& program) {
  KindTypes counts;
  for (const ProgramOp& op : program.ops) ++counts[op.kind.str()][types_of(program, op)];
  return counts;
}

std::string plan_text(const StoredPlan& plan) {
  std::string dims;
  for (const Dims& input : plan.input_dims) dims += (dims.empty() ? "" : " ") + to_string(input);
  return std::format("{}: arena {}, scratch {}", dims, size_text(plan.arena_bytes),
                     size_text(plan.scratch_bytes));
}

std::string certificate_text(const Certificate& certificate, bool verbose) {
  std::string text =
      std::format("  proof   {}; samples {}\n", to_string(certificate), certificate.samples.hex());
  if (verbose)
    for (const auto& [op, choice] : certificate.choices)
      text += std::format("  choice  {} {}\n", choice, op);
  return text;
}

std::string program_text(const ContextReader& reader, std::size_t index, bool verbose) {
  const Program& program = reader.programs()[index];
  std::string text = std::format(
      "program {}\n  hash {}\n  {}, {}, {}\n", program.name, reader.program_hash(index).hex(),
      count_text(program.ops.size(), "op"), count_text(program.weights.size(), "weight"),
      count_text(program.plans.size(), "plan"));
  if (!program.isa.empty())
    text +=
        std::format("  for {}{}\n", program.isa,
                    program.variant_of.empty() ? "" : ": another form of " + program.variant_of);
  for (const std::uint32_t id : program.inputs)
    text += "  input   " + value_text(program, id) + "\n";
  for (const std::uint32_t id : program.outputs)
    text += "  output  " + value_text(program, id) + "\n";
  for (const auto& [kind, count] : kinds(program)) text += std::format("  {:5} {}\n", count, kind);
  for (const auto& [kind, types] : kind_types(program))
    for (const auto& [signature, count] : types)
      if (signature.contains("float16"))
        text += std::format("  types   {} {} of {}\n", signature, count, kind);
  if (program.certificate) text += certificate_text(*program.certificate, verbose);
  for (const StoredPlan& plan : program.plans) text += "  plan    " + plan_text(plan) + "\n";
  if (!verbose) return text;
  for (const ProgramWeight& weight : program.weights)
    for (const PackedWeight& packed : weight.packed)
      text += std::format("  weight  {} {}{} -> blob {} ({})\n", weight.name, name_of(weight.type),
                          to_string(weight.dims), packed.blob.bin_index().value,
                          packed.layout.empty() ? "plain" : "packed");
  return text;
}

void write_program(JsonWriter& json, const ContextReader& reader, std::size_t index) {
  const Program& program = reader.programs()[index];
  json.begin_object()
      .field("name", program.name)
      .field("hash", reader.program_hash(index).hex())
      .field("weights", std::uint64_t{program.weights.size()})
      .field("isa", program.isa)
      .field("variant_of", program.variant_of)
      .key("inputs")
      .begin_array();
  for (const std::uint32_t id : program.inputs) json.value(value_text(program, id));
  json.end_array().key("outputs").begin_array();
  for (const std::uint32_t id : program.outputs) json.value(value_text(program, id));
  json.end_array().key("ops").begin_object();
  for (const auto& [kind, count] : kinds(program)) json.field(kind, count);
  json.end_object().key("types").begin_object();
  for (const auto& [kind, types] : kind_types(program)) {
    json.key(kind).begin_object();
    for (const auto& [signature, count] : types) json.field(signature, count);
    json.end_object();
  }
  json.end_object().key("certificate");
  if (program.certificate) {
    json.begin_object();
    write_certificate_fields(json, *program.certificate);
    json.end_object();
  } else {
    json.null();
  }
  json.key("plans").begin_array();
  for (const StoredPlan& plan : program.plans) {
    json.begin_object().key("input_dims").begin_array();
    for (const Dims& dims : plan.input_dims) {
      json.begin_array();
      for (const std::int64_t dim : dims) json.value(dim);
      json.end_array();
    }
    json.end_array()
        .field("arena_bytes", plan.arena_bytes)
        .field("scratch_bytes", plan.scratch_bytes)
        .end_object();
  }
  json.end_array().end_object();
}

}  // namespace

std::string context_text(const std::string& name, const ContextReader& reader, bool verbose) {
  const std::vector<BlobUse> uses = blob_uses(reader);
  const Totals sum = totals(reader, uses);
  const ContextInfo& info = reader.info();
  std::string text =
      std::format("{}: context binary, {}\nformat {}.{}, written by {} for {}\nfingerprint {}\n",
                  name, size_text(reader.file_size()), info.format_major, info.format_minor,
                  info.producer, info.source, info.fingerprint);
  if (!info.needs.empty()) text += std::format("needs {}\n", to_string(info.needs));
  text += std::format("{}, {} of weights; {} used more than once, saving {}\n",
                      count_text(reader.blobs().size(), "blob"), size_text(sum.bytes),
                      sum.shared_blobs, size_text(sum.saved_bytes));
  if (sum.stored_bytes != sum.bytes)
    text +=
        std::format("compressed: the weights take {} of the file\n", size_text(sum.stored_bytes));
  text += sharing_text(sharing_of(reader), verbose);
  for (std::size_t i = 0; i < reader.programs().size(); ++i)
    text += program_text(reader, i, verbose);
  if (!verbose) return text;
  TextTable table({0, 1, 2, 3, 4, 5});
  table.row({"blob", "offset", "bytes", "stored", "weights", "programs", "hash"});
  for (std::size_t i = 0; i < uses.size(); ++i)
    table.row({std::to_string(i), std::to_string(reader.blobs()[i].offset),
               std::to_string(reader.blobs()[i].size), std::to_string(reader.blobs()[i].stored),
               std::to_string(uses[i].weights), std::to_string(uses[i].programs.size()),
               reader.blobs()[i].hash.hex()});
  return text + table.text();
}

void write_context(JsonWriter& json, const std::string& name, const ContextReader& reader) {
  const std::vector<BlobUse> uses = blob_uses(reader);
  const Totals sum = totals(reader, uses);
  const ContextInfo& info = reader.info();
  json.begin_object()
      .field("name", name)
      .field("bytes", reader.file_size())
      .field("format", std::format("{}.{}", info.format_major, info.format_minor))
      .field("producer", info.producer)
      .field("source", info.source)
      .field("fingerprint", info.fingerprint)
      .field("weight_bytes", sum.bytes)
      .field("stored_weight_bytes", sum.stored_bytes)
      .field("shared_blobs", sum.shared_blobs)
      .field("saved_bytes", sum.saved_bytes);
  json.key("needs").begin_array();
  for (const Need& need : info.needs) json.value(to_string(need));
  json.end_array();
  write_sharing(json.key("sharing"), sharing_of(reader));
  json.key("programs").begin_array();
  for (std::size_t i = 0; i < reader.programs().size(); ++i) write_program(json, reader, i);
  json.end_array().key("blobs").begin_array();
  for (std::size_t i = 0; i < uses.size(); ++i)
    json.begin_object()
        .field("offset", reader.blobs()[i].offset)
        .field("bytes", reader.blobs()[i].size)
        .field("stored_bytes", reader.blobs()[i].stored)
        .field("hash", reader.blobs()[i].hash.hex())
        .field("weights", uses[i].weights)
        .field("programs", std::uint64_t{uses[i].programs.size()})
        .end_object();
  json.end_array().end_object();
}

}  // namespace ctxgen::cli
