#include "ctxgen/tuning/samples.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace ctxgen {
namespace {

constexpr std::int64_t kEveryHeldOut = 4;

Status check_array(const std::string& name, const Tensor& array, const IoInfo& input) {
  if (array.is_string() || array.type() != input.type.element)
    return fail(ErrorCode::kInvalidArgument,
                "samples: array \"{}\" has elements of {}, input is {}", name,
                name_of(array.type()), input.type_text);
  if (array.rank() == 0 || (input.type.has_rank() && array.rank() != input.type.rank() + 1))
    return fail(
        ErrorCode::kInvalidArgument,
        "samples: array \"{}\" has rank {}, input is {}: expected one axis more, that of the "
        "samples, in front",
        name, array.rank(), input.type_text);
  return {};
}

/// Number of samples, the same in all arrays.
Result<std::int64_t> count_of(const SampleArrays& arrays) {
  std::int64_t count = -1;
  for (const auto& [name, array] : arrays.arrays) {
    if (count < 0) count = array.dims()[0];
    if (array.dims()[0] != count)
      return fail(ErrorCode::kInvalidArgument, "samples: array \"{}\" has {} samples, \"{}\" {}",
                  name, array.dims()[0], arrays.arrays.front().first, count);
  }
  if (count < 2)
    return fail(ErrorCode::kInvalidArgument,
                "samples: expected at least 2, one of which is held out, got {}",
                std::max<std::int64_t>(count, 0));
  return count;
}

Result<Tensor> slice(const Tensor& array, std::int64_t index) {
  Tensor part = CTXGEN_TRY(Tensor::allocate(array.type(), Dims(array.dims().span().subspan(1))));
  const std::size_t bytes = part.bytes().size();
  if (bytes > 0)
    std::memcpy(part.mutable_bytes().data(),
                array.bytes().data() + static_cast<std::size_t>(index) * bytes, bytes);
  return part;
}

}  // namespace

Result<Samples> split_samples(const SampleArrays& arrays, std::span<const IoInfo> inputs) {
  for (const auto& [name, array] : arrays.arrays) {
    const auto input = std::ranges::find(inputs, name, &IoInfo::name);
    if (input == inputs.end())
      return fail(ErrorCode::kInvalidArgument, "samples: the model has no input \"{}\"", name);
    CTXGEN_CHECK(check_array(name, array, *input));
  }
  for (const IoInfo& input : inputs)
    if (!input.has_default &&
        !std::ranges::contains(arrays.arrays, input.name, [](const auto& a) { return a.first; }))
      return fail(ErrorCode::kInvalidArgument, "samples: no array for input \"{}\"", input.name);
  const std::int64_t count = CTXGEN_TRY(count_of(arrays));
  Samples samples;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool held = i % kEveryHeldOut == kEveryHeldOut - 1 || i == count - 1;
    auto& sample = (held ? samples.held_out : samples.searched).emplace_back();
    for (const auto& [name, array] : arrays.arrays) {
      Tensor part = CTXGEN_TRY(slice(array, i));
      sample.push_back({name, std::move(part)});
    }
  }
  return samples;
}

}  // namespace ctxgen
