#include "ctxgen/weights/external_data.h"

#include <algorithm>
#include <charconv>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/file.h"

namespace ctxgen {

Result<std::uint64_t> parse_decimal_u64(std::string_view text, std::string_view what) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  // from_chars takes no blanks and no "+", and for an unsigned type no "-" either.
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range)
    return fail(ErrorCode::kInvalidGraph, "{} is \"{}\", which is too large: it exceeds 64 bits",
                what, text);
  if (error != std::errc() || rest != end)
    return fail(ErrorCode::kInvalidGraph, "{} is \"{}\", expected a decimal number", what, text);
  return number;
}

Result<ExternalDataRef> parse_external_data(
    std::span<const std::pair<std::string_view, std::string_view>> entries,
    std::string_view tensor_name) {
  std::optional<std::string_view> location;
  std::optional<std::string_view> offset;
  std::optional<std::string_view> length;
  for (const auto& [key, value] : entries) {
    auto* const slot = key == "location" ? &location
                       : key == "offset" ? &offset
                       : key == "length" ? &length
                                         : nullptr;
    if (slot == nullptr) continue;  // checksum, basepath and what others invent
    if (slot->has_value())
      return fail(ErrorCode::kInvalidGraph, "tensor \"{}\": external data gives \"{}\" twice",
                  tensor_name, key);
    *slot = value;
  }
  if (!location)
    return fail(ErrorCode::kInvalidGraph, "tensor \"{}\": external data has no location",
                tensor_name);
  const auto number_of = [&](std::string_view text, std::string_view key) {
    return parse_decimal_u64(text, std::format("tensor \"{}\": {}", tensor_name, key));
  };
  ExternalDataRef ref;
  ref.location = *location;
  if (offset) ref.offset = CTXGEN_TRY(number_of(*offset, "offset"));
  if (length) ref.length = CTXGEN_TRY(number_of(*length, "length"));
  return ref;
}

Result<Blob> ExternalDataResolver::resolve(const ExternalDataRef& ref, std::uint64_t size_bytes,
                                           std::string_view tensor_name) {
  if (ref.length && *ref.length != size_bytes)
    return fail(ErrorCode::kInvalidGraph,
                "tensor \"{}\": external data of {} bytes declared, its type and dims need {}",
                tensor_name, *ref.length, size_bytes);
  auto known = mapped_.find(ref.location);
  if (known == mapped_.end()) {
    if (mapped_.size() >= max_files_)
      return fail(ErrorCode::kResourceLimit, "tensor \"{}\": external data in more than {} files",
                  tensor_name, max_files_);
    const auto given = buffers_.find(ref.location);
    if (given == buffers_.end() && folder_.empty())
      return fail(
          ErrorCode::kIoError,
          "tensor \"{}\": external data \"{}\" is in none of the given buffers, and no folder "
          "is given",
          tensor_name, ref.location);
    auto blob = CTXGEN_TRY_AT(given != buffers_.end() ? Result<Blob>(given->second)
                                                      : map_file_beneath(folder_, ref.location),
                              "tensor \"{}\"", tensor_name);
    known = mapped_.emplace(ref.location, std::move(blob)).first;
    order_.push_back(ref.location);
  }
  const Blob& file = known->second;
  if (!range_fits(ref.offset, size_bytes, file.bytes.size()))
    return fail(ErrorCode::kInvalidGraph,
                "tensor \"{}\": needs {} bytes at offset {} of \"{}\", which has {}", tensor_name,
                size_bytes, ref.offset, ref.location, file.bytes.size());
  return file.slice(ref.offset, size_bytes);
}

std::vector<FileRead> ExternalDataResolver::files() const {
  std::vector<FileRead> files;
  files.reserve(order_.size());
  for (const std::string& location : order_)
    files.push_back({folder_ == "." ? std::filesystem::path(location) : folder_ / location,
                     mapped_.find(location)->second, location});
  return files;
}

}  // namespace ctxgen
