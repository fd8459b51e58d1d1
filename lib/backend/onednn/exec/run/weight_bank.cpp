#include "run/weight_bank.h"

#include <cstring>

#include "ctxgen/base/checked.h"

#include "layout/weight_layout.h"
#include "plan/reorder_weight.h"

namespace ctxgen::onednn {

namespace {

constexpr std::size_t kConstantAlignment = 64;

bool is_aligned(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % kConstantAlignment == 0;
}

Result<AlignedBytes> aligned_copy(std::span<const std::byte> bytes) {
  AlignedBytes copy = CTXGEN_TRY(AlignedBytes::allocate(bytes.size()));
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy;
}

}  // namespace

Result<std::unique_ptr<WeightBank>> WeightBank::create(const Program& program,
                                                       const BlobSource& blobs, Team team) {
  auto bank = std::unique_ptr<WeightBank>(new WeightBank(std::move(team)));
  bank->forms_ = CTXGEN_TRY(decode_forms(program));
  bank->blobs_.resize(program.weights.size());
  for (std::size_t i = 0; i < program.weights.size(); ++i) {
    const ProgramWeight& weight = program.weights[i];
    bank->types_.push_back(weight.type);
    bank->names_.push_back(weight.name);
    for (std::size_t f = 0; f < weight.packed.size(); ++f) {
      const BlobIndex index = weight.packed[f].blob.bin_index();
      Blob blob = CTXGEN_TRY(blobs(index));
      const WeightForm& form = bank->forms_[i][f];
      const std::uint64_t needed =
          form.plain ? checked_size_bytes(weight.type, weight.dims).value_or(UINT64_MAX)
                     : form.md.get_size();
      if (blob.bytes.size() < needed)
        return fail(ErrorCode::kCorruptContext, "weight \"{}\": blob {} has {} bytes, expected {}",
                    weight.name, index.value, blob.bytes.size(), needed);
      // Writers and readers align blobs. This one is a weight in a source's file as well.
      if (!form.plain && !is_aligned(blob.bytes))
        return fail(ErrorCode::kCorruptContext,
                    "weight \"{}\": blob {} is not at a multiple of {} bytes", weight.name,
                    index.value, kConstantAlignment);
      bank->blobs_[i].push_back(std::move(blob));
    }
  }
  return bank;
}

std::uint64_t WeightBank::repacked_weights() const {
  const std::lock_guard lock(mutex_);
  return repacked_weights_;
}

std::uint64_t WeightBank::repacked_bytes() const {
  const std::lock_guard lock(mutex_);
  return repacked_bytes_;
}

const WeightBank::Repacked& WeightBank::keep(Repacked repacked) {
  repacked_weights_ += 1;
  repacked_bytes_ += repacked.bytes.size();
  repacked_.push_back(std::move(repacked));
  return repacked_.back();
}

Result<AlignedBytes> WeightBank::reorder(const std::byte* source, const dnnl::memory::desc& from,
                                         const dnnl::memory::desc& to) const {
  Result<AlignedBytes> bytes;
  team_.run([&] { bytes = reorder_weight(source, from, to); });
  return bytes;
}

Result<std::span<const std::byte>> WeightBank::plain(std::uint32_t weight) {
  const auto& forms = forms_[weight];
  for (std::size_t f = 0; f < forms.size(); ++f)
    if (forms[f].plain) return blobs_[weight][f].bytes;
  for (const Repacked& kept : repacked_)
    if (kept.plain && kept.weight == weight) return kept.view();
  if (forms.empty())
    return fail(ErrorCode::kCorruptContext, "weight \"{}\": no stored form", names_[weight]);
  const WeightForm& form = forms[0];
  Dims dims;
  for (const std::int64_t dim : form.md.get_dims()) dims.push_back(dim);
  AlignedBytes bytes = CTXGEN_TRY(reorder(blobs_[weight][0].bytes.data(), form.md,
                                          logical_md(dims, form.transposed, types_[weight])));
  return keep({weight, true, false, {}, std::move(bytes)}).view();
}

Result<const std::byte*> WeightBank::aligned_plain(std::uint32_t weight) {
  const auto bytes = CTXGEN_TRY(plain(weight));
  if (is_aligned(bytes)) return bytes.data();
  for (const Repacked& kept : repacked_)
    if (kept.plain && kept.weight == weight) return kept.bytes.data();
  return keep({weight, true, false, {}, CTXGEN_TRY(aligned_copy(bytes))}).bytes.data();
}

Result<const std::byte*> WeightBank::packed(const PackedUse& use) {
  if (const auto form = form_of_use(forms_[use.weight], use))
    return blobs_[use.weight][*form].bytes.data();
  for (const Repacked& kept : repacked_)
    if (!kept.plain && kept.weight == use.weight && kept.transposed == use.transposed &&
        kept.md == use.wanted)
      return kept.bytes.data();
  if (use.wanted == use.logical) return aligned_plain(use.weight);
  const auto source = CTXGEN_TRY(plain(use.weight));
  AlignedBytes copy;  // while packing only
  if (!is_aligned(source)) copy = CTXGEN_TRY(aligned_copy(source));
  AlignedBytes bytes = CTXGEN_TRY(
      reorder(copy.data() != nullptr ? copy.data() : source.data(), use.logical, use.wanted));
  return keep({use.weight, false, use.transposed, use.wanted, std::move(bytes)}).bytes.data();
}

Status WeightBank::bind(Plan& plan) {
  const std::lock_guard lock(mutex_);
  for (const PackedUse& use : plan.packed) plan.packed_data.push_back(CTXGEN_TRY(packed(use)));
  std::vector<bool> read(plan.buffers.size());
  for (const Step& step : plan.steps)
    for (const Arg& arg : step.args)
      if (arg.location.kind == Location::Kind::kBuffer) read[arg.location.index] = true;
  plan.weight_data.assign(plan.buffers.size(), nullptr);
  for (std::size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].kind == Buffer::Kind::kWeight && read[i])
      plan.weight_data[i] = CTXGEN_TRY(aligned_plain(plan.buffers[i].index));
  return {};
}

}  // namespace ctxgen::onednn
