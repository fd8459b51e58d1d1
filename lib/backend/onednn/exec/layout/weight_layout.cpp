#include "layout/weight_layout.h"

#include <algorithm>

#include "ctxgen/base/byte_io.h"
#include "ctxgen/ctxfile/weight_reference.h"
#include "ctxgen/onednn/exec.h"

#include "plan/dnnl_error.h"

namespace ctxgen::onednn {
namespace {

using dnnl::memory;
constexpr std::uint8_t kLayoutVersion = 1;
constexpr std::uint32_t kFirstTag = 2;  // "a"; 0 is undef, 1 is any
constexpr auto kEndOfTags = static_cast<std::uint32_t>(dnnl_format_tag_last);

std::optional<memory::desc> md_of_tag(const memory::dims& dims, memory::data_type type,
                                      std::uint32_t tag) {
  const memory::desc md(dims, type, static_cast<memory::format_tag>(tag), true);
  if (!md || md.get_format_kind() != memory::format_kind::blocked) return std::nullopt;
  return md;
}

}  // namespace

memory::desc logical_md(const Dims& dims, bool transposed, DataType type) {
  Dims strides = plain_strides(dims);
  if (transposed) {
    const std::size_t last = dims.size() - 1;
    strides[last] = dims[last - 1];
    strides[last - 1] = 1;
  }
  return make_md(dims, strides, type);
}

std::optional<std::vector<std::byte>> encode_layout(const memory::desc& md, bool transposed) {
  const memory::dims dims = md.get_dims();
  for (std::uint32_t tag = kFirstTag; tag < kEndOfTags; ++tag) {
    const auto candidate = md_of_tag(dims, md.get_data_type(), tag);
    // Equality passes over the strides of dims of size 1, but kernels look for their own tag: with
    // another one's strides the same bytes are refused.
    if (!candidate || *candidate != md || candidate->get_strides() != md.get_strides()) continue;
    ByteWriter writer;
    writer.u8(kLayoutVersion);
    writer.u8(transposed ? 1 : 0);
    writer.u16(static_cast<std::uint16_t>(tag));
    writer.u8(static_cast<std::uint8_t>(dims.size()));
    for (const std::int64_t dim : dims) writer.i64(dim);
    return writer.release();
  }
  return std::nullopt;
}

std::uint16_t packing_of(std::span<const std::byte> layout) {
  if (layout.empty() || is_reference_layout(layout)) return kPlainPacking;
  ByteReader reader(layout, "layout");
  if (!reader.u8() || !reader.u8()) return 0;
  return reader.u16().value_or(0);
}

bool knows_packing(std::uint16_t packing) {
  return packing == kPlainPacking || (packing >= kFirstTag && packing < kEndOfTags);
}

Result<WeightForm> decode_layout(std::span<const std::byte> layout, const ProgramWeight& weight) {
  WeightForm form;
  form.plain = layout.empty() || is_reference_layout(layout);
  if (form.plain) return form;
  ByteReader reader(layout, weight.name);
  const std::uint8_t version = CTXGEN_TRY(reader.u8());
  const std::uint8_t transposed = CTXGEN_TRY(reader.u8());
  const std::uint16_t tag = CTXGEN_TRY(reader.u16());
  const std::uint8_t rank = CTXGEN_TRY(reader.u8());
  if (version == kLayoutVersion && tag >= kEndOfTags && !knows_packing(tag))
    return fail(ErrorCode::kVersionMismatch,
                "weight \"{}\": packing {} is not known to this release with oneDNN {}",
                weight.name, tag, library_version());
  if (version != kLayoutVersion || transposed > 1 || rank < 1 + transposed || rank > kMaxRank ||
      !knows_packing(tag) || tag == kPlainPacking)
    return fail(ErrorCode::kCorruptContext, "weight \"{}\": layout version {}, tag {}, rank {}",
                weight.name, version, tag, rank);
  Dims dims;
  for (std::uint8_t i = 0; i < rank; ++i) dims.push_back(CTXGEN_TRY(reader.i64()));
  const auto have = checked_element_count(dims);
  const auto expected = checked_element_count(weight.dims);
  if (!have || have != expected || *have > kMaxTensorBytes || reader.remaining() != 0)
    return fail(ErrorCode::kCorruptContext,
                "weight \"{}\": layout of dims {}, expected those of {}", weight.name,
                to_string(dims), to_string(weight.dims));
  const auto md = md_of_tag(to_dnnl(dims), dnnl_type(weight.type), tag);
  if (!md)
    return fail(ErrorCode::kCorruptContext, "weight \"{}\": tag {} does not fit rank {}",
                weight.name, tag, rank);
  form.md = *md;
  form.transposed = transposed == 1;
  return form;
}

Result<WeightForms> decode_forms(const Program& program) {
  WeightForms forms(program.weights.size());
  for (std::size_t i = 0; i < program.weights.size(); ++i)
    for (const PackedWeight& packed : program.weights[i].packed)
      forms[i].push_back(CTXGEN_TRY(decode_layout(packed.layout, program.weights[i])));
  return forms;
}

std::optional<memory::desc> chosen_form(const NodeBuilder& builder, std::uint32_t weight,
                                        const memory::desc& logical, bool transposed) {
  const BuildContext& context = builder.context();
  if (weight == kNone || context.forms == nullptr || context.choices.empty()) return std::nullopt;
  const std::uint16_t choice = context.choices[builder.node().op].form;
  const auto& forms = (*context.forms)[weight];
  if (choice >= forms.size()) return std::nullopt;
  const WeightForm& form = forms[choice];
  if (form.plain) return logical;
  if (form.transposed != transposed || form.md.get_dims() != logical.get_dims())
    return std::nullopt;
  return form.md;
}

std::optional<memory::desc> tuned_packing(const NodeBuilder& builder, const Dims& dims) {
  const TunedForms* tuned = builder.context().tuned;
  if (tuned == nullptr || builder.node().packed_weight == kNone) return std::nullopt;
  const auto& tag = (*tuned)[builder.node().op].tag;
  if (!tag) return std::nullopt;
  return md_of_tag(to_dnnl(dims), dnnl_type(builder.weight_type()),
                   static_cast<std::uint32_t>(*tag));
}

std::optional<memory::desc> stored_packing(const NodeBuilder& builder, std::uint32_t weight,
                                           const Dims& dims, bool transposed, TakesPacking* takes) {
  const BuildContext& context = builder.context();
  if (weight == kNone || !context.create_primitives || context.forms == nullptr)
    return std::nullopt;
  const memory::dims wanted = to_dnnl(dims);
  for (const WeightForm& form : (*context.forms)[weight])
    if (!form.plain && form.transposed == transposed && form.md.get_dims() == wanted &&
        takes(form.md))
      return form.md;
  return std::nullopt;
}

std::optional<std::size_t> form_of_use(std::span<const WeightForm> forms, const PackedUse& use) {
  const auto found = std::ranges::find_if(forms, [&](const WeightForm& form) {
    return !form.plain && form.transposed == use.transposed && form.md == use.wanted;
  });
  if (found == forms.end()) return std::nullopt;
  return static_cast<std::size_t>(found - forms.begin());
}

bool has_plain_form(std::span<const WeightForm> forms) {
  return std::ranges::any_of(forms, &WeightForm::plain);
}

bool is_stored_packed(const NodeBuilder& builder, std::uint32_t weight) {
  const BuildContext& context = builder.context();
  if (weight == kNone || !context.create_primitives || context.forms == nullptr) return false;
  return std::ranges::any_of((*context.forms)[weight],
                             [](const WeightForm& form) { return !form.plain; });
}

}  // namespace ctxgen::onednn
