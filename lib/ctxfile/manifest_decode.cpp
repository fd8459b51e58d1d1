#include <limits>

#include "ctxgen/base/blob.h"

#include "manifest.h"
#include "manifest_fields.h"

namespace ctxgen {
namespace {

std::string text_of(std::span<const std::byte> bytes) { return std::string(as_text(bytes)); }

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

Result<std::int64_t> non_negative(std::uint64_t number, std::string_view what) {
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return fail(ErrorCode::kCorruptContext, "{} {} passes 2^63 - 1", what, number);
  return static_cast<std::int64_t>(number);
}

Result<DataType> type_of(const ManifestField& field) {
  const auto number = CTXGEN_TRY(field.u32());
  if (!is_known_data_type(number))
    return fail(ErrorCode::kCorruptContext, "data type {} is not known", number);
  return static_cast<DataType>(number);
}

Result<std::vector<std::uint32_t>> indices_of(const ManifestField& field) {
  PackedNumbers numbers(CTXGEN_TRY(field.bytes()));
  std::vector<std::uint32_t> list;
  while (!numbers.done()) {
    const auto number = CTXGEN_TRY(numbers.varint());
    if (number > std::numeric_limits<std::uint32_t>::max())
      return fail(ErrorCode::kCorruptContext, "index {} passes 32 bits", number);
    list.push_back(static_cast<std::uint32_t>(number));
  }
  return list;
}

Result<std::vector<Hash128>> hashes_of(const ManifestField& field) {
  PackedNumbers numbers(CTXGEN_TRY(field.bytes()));
  std::vector<Hash128> list;
  while (!numbers.done()) {
    Hash128 hash;
    hash.high = CTXGEN_TRY(numbers.fixed64());
    hash.low = CTXGEN_TRY(numbers.fixed64());
    list.push_back(hash);
  }
  return list;
}

Result<Dims> shape_of(const ManifestField& field) {
  PackedNumbers numbers(CTXGEN_TRY(field.bytes()));
  Dims dims;
  while (!numbers.done()) {
    if (dims.size() == kMaxRank)
      return fail(ErrorCode::kCorruptContext, "rank is above {}", kMaxRank);
    const auto number = CTXGEN_TRY(numbers.varint());
    dims.push_back(CTXGEN_TRY(non_negative(number, "dim")));
  }
  return dims;
}

/// Field numbers are manifest.proto's; unknown ones come from a newer minor version. A number, a
/// name or a packed list that occurs twice counts the second time (our writers write it once).
class Decoder {
 public:
  explicit Decoder(std::uint64_t max_messages) : max_messages_(max_messages) {}

  Status manifest(std::span<const std::byte> bytes, Manifest& out) {
    return each_field(bytes, [&](const ManifestField& field) -> Status {
      if (field.number == 1) {
        Hash128 hash;
        Program next = CTXGEN_TRY(program(field, hash));
        out.programs.push_back(std::move(next));
        out.program_hashes.push_back(hash);
      }
      if (field.number == 2) out.blobs.push_back(CTXGEN_TRY(blob(field)));
      return {};
    });
  }

 private:
  /// One more thing that takes memory of its own, however few bytes it has in the file.
  Status count_message() {
    if (++messages_ > max_messages_)
      return fail(ErrorCode::kCorruptContext, "more than {} items", max_messages_);
    return {};
  }

  template <class Function>
  static Status each_field(std::span<const std::byte> bytes, Function&& function) {
    wire::Reader reader(bytes);
    while (const wire::Field* field = reader.next()) CTXGEN_CHECK(function(ManifestField(*field)));
    return reader.status(ErrorCode::kCorruptContext);
  }
  template <class Function>
  Status each_field_of(const ManifestField& message, Function&& function) {
    CTXGEN_CHECK(count_message());
    return each_field(CTXGEN_TRY(message.bytes()), std::forward<Function>(function));
  }

  Result<ManifestBlob> blob(const ManifestField& message) {
    ManifestBlob out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      switch (field.number) {
        case 1: out.offset = CTXGEN_TRY(field.varint()); break;
        case 2: out.size = CTXGEN_TRY(field.varint()); break;
        case 3: out.hash.high = CTXGEN_TRY(field.fixed64()); break;
        case 4: out.hash.low = CTXGEN_TRY(field.fixed64()); break;
        case 5: out.encoding = CTXGEN_TRY(field.u32()); break;
        case 6: out.content_size = CTXGEN_TRY(field.varint()); break;
        default: break;
      }
      return {};
    }));
    return out;
  }

  Result<Program> program(const ManifestField& message, Hash128& hash) {
    Program out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      switch (field.number) {
        case 1: out.name = text_of(CTXGEN_TRY(field.bytes())); break;
        case 2: out.source = text_of(CTXGEN_TRY(field.bytes())); break;
        case 3:
          if (auto counted = count_message(); !counted) return counted;
          out.symbols.push_back(text_of(CTXGEN_TRY(field.bytes())));
          break;
        case 4: out.values.push_back(CTXGEN_TRY(value(field))); break;
        case 5: out.inputs = CTXGEN_TRY(indices_of(field)); break;
        case 6: out.outputs = CTXGEN_TRY(indices_of(field)); break;
        case 7: out.weights.push_back(CTXGEN_TRY(weight(field))); break;
        case 8: out.ops.push_back(CTXGEN_TRY(op(field))); break;
        case 9: out.plans.push_back(CTXGEN_TRY(plan(field))); break;
        case 10: hash.high = CTXGEN_TRY(field.fixed64()); break;
        case 11: hash.low = CTXGEN_TRY(field.fixed64()); break;
        case 12: out.isa = text_of(CTXGEN_TRY(field.bytes())); break;
        case 13: out.variant_of = text_of(CTXGEN_TRY(field.bytes())); break;
        case 14: out.certificate = CTXGEN_TRY(certificate(field)); break;
        default: break;
      }
      return {};
    }));
    return out;
  }

  Result<ProgramValue> value(const ManifestField& message) {
    ProgramValue out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      switch (field.number) {
        case 1: out.name = text_of(CTXGEN_TRY(field.bytes())); break;
        case 2: out.type = CTXGEN_TRY(type_of(field)); break;
        case 3:
          if (out.dims.size() == kMaxRank)
            return fail(ErrorCode::kCorruptContext, "rank is above {}", kMaxRank);
          out.dims.push_back(CTXGEN_TRY(dim(field)));
          break;
        case 4: out.has_rank = CTXGEN_TRY(field.varint()) == 0; break;
        default: break;
      }
      return {};
    }));
    return out;
  }

  Result<ProgramDim> dim(const ManifestField& message) {
    ProgramDim out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      if (field.number == 1) {
        const auto number = CTXGEN_TRY(field.varint());
        out = {.value = CTXGEN_TRY(non_negative(number, "dim")), .symbol = -1};
      } else if (field.number == 2) {
        const auto index = CTXGEN_TRY(field.u32());
        if (index > static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max()))
          return fail(ErrorCode::kCorruptContext, "symbol {} passes 2^31 - 1", index);
        out = {.value = -1, .symbol = static_cast<std::int32_t>(index)};
      }
      return {};
    }));
    return out;
  }

  Result<ProgramWeight> weight(const ManifestField& message) {
    ProgramWeight out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      switch (field.number) {
        case 1: out.name = text_of(CTXGEN_TRY(field.bytes())); break;
        case 2: out.type = CTXGEN_TRY(type_of(field)); break;
        case 3: out.dims = CTXGEN_TRY(shape_of(field)); break;
        case 4: out.packed.push_back(CTXGEN_TRY(packed(field))); break;
        default: break;
      }
      return {};
    }));
    return out;
  }

  Result<PackedWeight> packed(const ManifestField& message) {
    PackedWeight out{.layout = {}, .blob = BlobIndex{0}};
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      if (field.number == 1) out.layout = copy_of(CTXGEN_TRY(field.bytes()));
      if (field.number == 2) out.blob = BlobIndex{CTXGEN_TRY(field.u32())};
      return {};
    }));
    return out;
  }

  Result<Operand> operand(const ManifestField& message) {
    Operand out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      if (field.number == 1) out = Operand::value(CTXGEN_TRY(field.u32()));
      if (field.number == 2) out = Operand::weight(CTXGEN_TRY(field.u32()));
      return {};
    }));
    return out;
  }

  Result<ProgramOp> op(const ManifestField& message) {
    ProgramOp out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      switch (field.number) {
        case 1: out.kind = text_of(CTXGEN_TRY(field.bytes())); break;
        case 2: out.name = text_of(CTXGEN_TRY(field.bytes())); break;
        case 3: out.inputs.push_back(CTXGEN_TRY(operand(field))); break;
        case 4: out.outputs = CTXGEN_TRY(indices_of(field)); break;
        case 5: out.params.push_back(CTXGEN_TRY(param(field))); break;
        case 6: out.post_ops.push_back(CTXGEN_TRY(post_op(field))); break;
        default: break;
      }
      return {};
    }));
    return out;
  }

  Result<ProgramParam> param(const ManifestField& message) {
    ProgramParam out;
    bool has_value = false;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      has_value |= field.number >= 2 && field.number <= 6;
      switch (field.number) {
        case 1: out.name = text_of(CTXGEN_TRY(field.bytes())); break;
        case 2: out.value = CTXGEN_TRY(field.zigzag()); break;
        case 3: out.value = CTXGEN_TRY(field.f64()); break;
        case 4: out.value = text_of(CTXGEN_TRY(field.bytes())); break;
        case 5: out.value = CTXGEN_TRY(integers(field)); break;
        case 6: out.value = CTXGEN_TRY(reals(field)); break;
        default: break;
      }
      return {};
    }));
    if (!has_value)
      return fail(ErrorCode::kCorruptContext, "parameter \"{}\" has no value", out.name);
    return out;
  }

  Result<std::vector<std::int64_t>> integers(const ManifestField& message) {
    std::vector<std::int64_t> out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      if (field.number != 1) return {};
      PackedNumbers numbers(CTXGEN_TRY(field.bytes()));
      while (!numbers.done()) {
        const auto number = CTXGEN_TRY(numbers.varint());
        out.push_back(wire::unzigzag(number));
      }
      return {};
    }));
    return out;
  }

  Result<std::vector<double>> reals(const ManifestField& message) {
    std::vector<double> out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      if (field.number != 1) return {};
      PackedNumbers numbers(CTXGEN_TRY(field.bytes()));
      while (!numbers.done()) out.push_back(std::bit_cast<double>(CTXGEN_TRY(numbers.fixed64())));
      return {};
    }));
    return out;
  }

  Result<PostOp> post_op(const ManifestField& message) {
    PostOp out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      switch (field.number) {
        case 1: out.kind = text_of(CTXGEN_TRY(field.bytes())); break;
        case 2: out.alpha = CTXGEN_TRY(field.f32()); break;
        case 3: out.beta = CTXGEN_TRY(field.f32()); break;
        case 4: out.operand = CTXGEN_TRY(operand(field)); break;
        default: break;
      }
      return {};
    }));
    return out;
  }

  Result<Certificate> certificate(const ManifestField& message) {
    Certificate out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      switch (field.number) {
        case 1: out.bound = CTXGEN_TRY(field.f64()); break;
        case 2: out.norm = text_of(CTXGEN_TRY(field.bytes())); break;
        case 3: out.samples.high = CTXGEN_TRY(field.fixed64()); break;
        case 4: out.samples.low = CTXGEN_TRY(field.fixed64()); break;
        case 5: out.searched = CTXGEN_TRY(field.varint()); break;
        case 6: out.held_out = CTXGEN_TRY(field.varint()); break;
        case 7: out.searched_error = CTXGEN_TRY(field.f64()); break;
        case 8: out.held_out_error = CTXGEN_TRY(field.f64()); break;
        case 9: out.producer = text_of(CTXGEN_TRY(field.bytes())); break;
        case 10: out.fingerprint = text_of(CTXGEN_TRY(field.bytes())); break;
        case 11: out.choices.push_back(CTXGEN_TRY(choice(field))); break;
        case 12: out.programs = CTXGEN_TRY(hashes_of(field)); break;
        default: break;
      }
      return {};
    }));
    return out;
  }

  Result<OpChoice> choice(const ManifestField& message) {
    OpChoice out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      if (field.number == 1) out.op = text_of(CTXGEN_TRY(field.bytes()));
      if (field.number == 2) out.choice = text_of(CTXGEN_TRY(field.bytes()));
      return {};
    }));
    return out;
  }

  Result<StoredPlan> plan(const ManifestField& message) {
    StoredPlan out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      switch (field.number) {
        case 1: out.input_dims.push_back(CTXGEN_TRY(plan_dims(field))); break;
        case 2: out.arena_bytes = CTXGEN_TRY(field.varint()); break;
        case 3: out.scratch_bytes = CTXGEN_TRY(field.varint()); break;
        case 4: out.payload = copy_of(CTXGEN_TRY(field.bytes())); break;
        default: break;
      }
      return {};
    }));
    return out;
  }

  Result<Dims> plan_dims(const ManifestField& message) {
    Dims out;
    CTXGEN_CHECK(each_field_of(message, [&](const ManifestField& field) -> Status {
      if (field.number == 1) out = CTXGEN_TRY(shape_of(field));
      return {};
    }));
    return out;
  }

  std::uint64_t max_messages_;
  std::uint64_t messages_ = 0;
};

}  // namespace

Result<Manifest> decode_manifest(std::span<const std::byte> bytes, ManifestLimits limits) {
  if (bytes.size() > limits.bytes)
    return fail(ErrorCode::kCorruptContext, "manifest of {} bytes, at most {} are allowed",
                bytes.size(), limits.bytes);
  Manifest manifest;
  Decoder decoder(limits.messages);
  CTXGEN_CHECK_AT(decoder.manifest(bytes, manifest), "manifest");
  return manifest;
}

}  // namespace ctxgen
