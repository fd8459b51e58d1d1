#include "manifest.h"
#include "manifest_fields.h"

namespace ctxgen {
namespace {

/// Field numbers are manifest.proto's.
class Encoder {
 public:
  [[nodiscard]] std::uint64_t messages() const { return messages_; }

  [[nodiscard]] ManifestWriter blob(const ManifestBlob& blob) {
    ManifestWriter out = begin();
    out.varint(1, blob.offset);
    out.varint(2, blob.size);
    out.fixed64(3, blob.hash.high);
    out.fixed64(4, blob.hash.low);
    out.varint(5, blob.encoding);
    out.varint(6, blob.content_size);
    return out;
  }

  [[nodiscard]] ManifestWriter program(const Program& program, const Hash128& hash) {
    ManifestWriter out = begin();
    out.text(1, program.name);
    out.text(2, program.source);
    for (const auto& symbol : program.symbols) out.text(3, symbol, ManifestWriter::Zero::kWrite);
    messages_ += program.symbols.size();
    for (const auto& v : program.values) out.message(4, value(v));
    indices(out, 5, program.inputs);
    indices(out, 6, program.outputs);
    for (const auto& w : program.weights) out.message(7, weight(w));
    for (const auto& o : program.ops) out.message(8, op(o));
    for (const auto& p : program.plans) out.message(9, plan(p));
    out.fixed64(10, hash.high);
    out.fixed64(11, hash.low);
    out.text(12, program.isa);
    out.text(13, program.variant_of);
    if (program.certificate) out.message(14, certificate(*program.certificate));
    return out;
  }

 private:
  ManifestWriter begin() {
    ++messages_;
    return {};
  }

  static void indices(ManifestWriter& out, std::uint32_t field,
                      std::span<const std::uint32_t> list) {
    ManifestWriter packed;
    for (std::uint32_t index : list) packed.packed_varint(index);
    out.bytes(field, packed.data());
  }

  static void shape(ManifestWriter& out, std::uint32_t field, const Dims& dims) {
    ManifestWriter packed;
    for (std::int64_t dim : dims) packed.packed_varint(static_cast<std::uint64_t>(dim));
    out.bytes(field, packed.data());
  }

  ManifestWriter value(const ProgramValue& value) {
    ManifestWriter out = begin();
    out.text(1, value.name);
    out.varint(2, static_cast<std::uint64_t>(value.type));
    for (const ProgramDim& d : value.dims) out.message(3, dim(d));
    out.varint(4, value.has_rank ? 0 : 1);
    return out;
  }

  ManifestWriter dim(const ProgramDim& dim) {
    ManifestWriter out = begin();
    constexpr auto kWrite = ManifestWriter::Zero::kWrite;
    if (dim.value >= 0)
      out.varint(1, static_cast<std::uint64_t>(dim.value), kWrite);
    else if (dim.symbol >= 0)
      out.varint(2, static_cast<std::uint64_t>(dim.symbol), kWrite);
    return out;
  }

  ManifestWriter weight(const ProgramWeight& weight) {
    ManifestWriter out = begin();
    out.text(1, weight.name);
    out.varint(2, static_cast<std::uint64_t>(weight.type));
    shape(out, 3, weight.dims);
    for (const PackedWeight& packed : weight.packed) {
      ManifestWriter form = begin();
      form.bytes(1, packed.layout);
      form.varint(2, packed.blob.bin_index().value);
      out.message(4, form);
    }
    return out;
  }

  ManifestWriter operand(const Operand& operand) {
    ManifestWriter out = begin();
    constexpr auto kWrite = ManifestWriter::Zero::kWrite;
    if (operand.kind == Operand::Kind::kValue) out.varint(1, operand.index, kWrite);
    if (operand.kind == Operand::Kind::kWeight) out.varint(2, operand.index, kWrite);
    return out;
  }

  ManifestWriter op(const ProgramOp& op) {
    ManifestWriter out = begin();
    out.text(1, op.kind);
    out.text(2, op.name);
    for (const Operand& input : op.inputs) out.message(3, operand(input));
    indices(out, 4, op.outputs);
    for (const ProgramParam& p : op.params) out.message(5, param(p));
    for (const PostOp& p : op.post_ops) out.message(6, post_op(p));
    return out;
  }

  ManifestWriter param(const ProgramParam& param) {
    ManifestWriter out = begin();
    out.text(1, param.name);
    std::visit([&](const auto& value) { put_param(out, value); }, param.value);
    return out;
  }
  void put_param(ManifestWriter& out, std::int64_t value) {
    out.zigzag(2, value, ManifestWriter::Zero::kWrite);
  }
  void put_param(ManifestWriter& out, double value) {
    out.f64(3, value, ManifestWriter::Zero::kWrite);
  }
  void put_param(ManifestWriter& out, std::string_view value) {
    out.text(4, value, ManifestWriter::Zero::kWrite);
  }
  void put_param(ManifestWriter& out, std::span<const std::int64_t> values) {
    ManifestWriter list = begin();
    ManifestWriter packed;
    for (std::int64_t value : values) packed.packed_zigzag(value);
    list.bytes(1, packed.data());
    out.message(5, list);
  }
  void put_param(ManifestWriter& out, std::span<const double> values) {
    ManifestWriter list = begin();
    ManifestWriter packed;
    for (double value : values) packed.packed_fixed64(std::bit_cast<std::uint64_t>(value));
    list.bytes(1, packed.data());
    out.message(6, list);
  }

  ManifestWriter post_op(const PostOp& post_op) {
    ManifestWriter out = begin();
    out.text(1, post_op.kind);
    out.f32(2, post_op.alpha);
    out.f32(3, post_op.beta);
    if (post_op.operand.kind != Operand::Kind::kNone) out.message(4, operand(post_op.operand));
    return out;
  }

  ManifestWriter certificate(const Certificate& certificate) {
    ManifestWriter out = begin();
    out.f64(1, certificate.bound);
    out.text(2, certificate.norm);
    out.fixed64(3, certificate.samples.high);
    out.fixed64(4, certificate.samples.low);
    out.varint(5, certificate.searched);
    out.varint(6, certificate.held_out);
    out.f64(7, certificate.searched_error);
    out.f64(8, certificate.held_out_error);
    out.text(9, certificate.producer);
    out.text(10, certificate.fingerprint);
    for (const OpChoice& choice : certificate.choices) {
      ManifestWriter one = begin();
      one.text(1, choice.op);
      one.text(2, choice.choice);
      out.message(11, one);
    }
    ManifestWriter packed;
    for (const Hash128& program : certificate.programs) {
      packed.packed_fixed64(program.high);
      packed.packed_fixed64(program.low);
    }
    out.bytes(12, packed.data());
    return out;
  }

  ManifestWriter plan(const StoredPlan& plan) {
    ManifestWriter out = begin();
    for (const Dims& dims : plan.input_dims) {
      ManifestWriter form = begin();
      shape(form, 1, dims);
      out.message(1, form);
    }
    out.varint(2, plan.arena_bytes);
    out.varint(3, plan.scratch_bytes);
    out.bytes(4, plan.payload);
    return out;
  }

  std::uint64_t messages_ = 0;  // as the reader counts them
};

}  // namespace

Result<std::vector<std::byte>> encode_manifest(std::span<const Program> programs,
                                               std::span<const Hash128> hashes,
                                               std::span<const ManifestBlob> blobs,
                                               ManifestLimits limits) {
  CTXGEN_ASSERT(programs.size() == hashes.size());
  Encoder encoder;
  ManifestWriter out;
  for (std::size_t i = 0; i < programs.size(); ++i)
    out.message(1, encoder.program(programs[i], hashes[i]));
  for (const ManifestBlob& blob : blobs) out.message(2, encoder.blob(blob));
  if (out.data().size() > limits.bytes)
    return fail(ErrorCode::kResourceLimit, "the manifest takes {} bytes, at most {} are allowed",
                out.data().size(), limits.bytes);
  if (encoder.messages() > limits.messages)
    return fail(ErrorCode::kResourceLimit, "the manifest has {} items, at most {} are allowed",
                encoder.messages(), limits.messages);
  return out.release();
}

}  // namespace ctxgen
