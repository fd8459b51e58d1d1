#include "stages/variant_exchange.h"

#include <format>

#include "ctxgen/base/byte_io.h"
#include "ctxgen/base/checked.h"

namespace ctxgen {
namespace {

constexpr std::uint64_t kContextAlignment = 4096;  // used in place, as in a file

template <class Id>
void write_ids(ByteWriter& out, const std::vector<Id>& ids) {
  out.u32(static_cast<std::uint32_t>(ids.size()));
  for (const Id id : ids) out.u32(id.index);
}

template <class Id>
Result<std::vector<Id>> read_ids(ByteReader& in, std::size_t count) {
  const std::uint32_t size = CTXGEN_TRY(in.count(sizeof(std::uint32_t)));
  std::vector<Id> ids;
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint32_t index = CTXGEN_TRY(in.u32());
    if (index >= count)
      return fail(ErrorCode::kCorruptContext, "request: id {} of {}", index, count);
    ids.push_back(Id{index});
  }
  return ids;
}

/// Everything that was read of the model's files and can be part of a program.
Hash128 source_hash(const Model& model) {
  Hasher hasher;
  const Hash128 file = hash_bytes(model.source.bytes);
  hasher.add(file.high);
  hasher.add(file.low);
  for (const Value& value : model.graph.values())
    if (value.initializer_is_external && value.initializer) hasher.add(value.initializer->bytes());
  return hasher.finish();
}

}  // namespace

std::vector<std::byte> encode_request(std::span<PreparedModel> models) {
  ByteWriter out;
  for (PreparedModel& prepared : models) {
    const Hash128 hash = source_hash(prepared.model);
    out.u64(hash.high);
    out.u64(hash.low);
    for (const PreparedGraph& graph : graphs_of(prepared))
      for (const std::vector<Partition>& of_provider : graph.assignment->partitions) {
        out.u32(static_cast<std::uint32_t>(of_provider.size()));
        for (const Partition& partition : of_provider) {
          write_ids(out, partition.nodes);
          write_ids(out, partition.inputs);
          write_ids(out, partition.outputs);
        }
      }
  }
  return out.release();
}

namespace {

Result<std::vector<Partition>> read_partitions(ByteReader& in, const Graph& graph) {
  const std::uint32_t count = CTXGEN_TRY(in.count(3 * sizeof(std::uint32_t)));
  std::vector<Partition> partitions;
  for (std::uint32_t i = 0; i < count; ++i) {
    Partition& partition = partitions.emplace_back();
    partition.nodes = CTXGEN_TRY(read_ids<NodeId>(in, graph.node_count()));
    partition.inputs = CTXGEN_TRY(read_ids<ValueId>(in, graph.value_count()));
    partition.outputs = CTXGEN_TRY(read_ids<ValueId>(in, graph.value_count()));
  }
  return partitions;
}

}  // namespace

Status apply_request(std::span<const std::byte> request, std::span<PreparedModel> models) {
  ByteReader in(request, "request");
  for (PreparedModel& prepared : models) {
    const std::uint64_t high = CTXGEN_TRY(in.u64());
    const std::uint64_t low = CTXGEN_TRY(in.u64());
    if (source_hash(prepared.model) != Hash128{high, low})
      return fail(ErrorCode::kInvalidGraph, "{}: the model has changed while it was compiled",
                  prepared.name);
    for (const PreparedGraph& graph : graphs_of(prepared))
      for (std::vector<Partition>& of_provider : graph.assignment->partitions)
        of_provider = CTXGEN_TRY(read_partitions(in, *graph.graph));
  }
  return {};
}

std::string answer_name(const std::array<std::size_t, 4>& place) {
  return std::format("{}.{}.{}.{}", place[0], place[1], place[2], place[3]);
}

std::vector<std::byte> encode_answer(std::span<const std::uint64_t> left_out) {
  ByteWriter out;
  for (const std::uint64_t count : left_out) out.u64(count);
  out.pad_to(kContextAlignment);
  return out.release();
}

Result<VariantAnswer> decode_answer(const Blob& answer, std::size_t models) {
  ByteReader in(answer.bytes, "answer");
  std::vector<std::uint64_t> left_out;
  for (std::size_t m = 0; m < models; ++m) left_out.push_back(CTXGEN_TRY(in.u64()));
  const std::uint64_t begin = align_up(in.offset(), kContextAlignment);
  if (begin > answer.bytes.size())
    return fail(ErrorCode::kCorruptContext, "answer: {} bytes, need {}", answer.bytes.size(),
                begin);
  ContextReader reader = CTXGEN_TRY(ContextReader::open(
      answer.slice(begin, answer.bytes.size() - begin), "answer", VerifyBlobs::kNever));
  return VariantAnswer{std::move(left_out), std::move(reader)};
}

}  // namespace ctxgen
