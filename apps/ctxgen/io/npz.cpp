#include "io/npz.h"

#include <zip.h>

#include <algorithm>
#include <format>
#include <memory>
#include <new>
#include <set>
#include <utility>

#include "io/npy.h"

namespace ctxgen::cli {
namespace {

constexpr zip_int64_t kMaxArrays = 65'536;
/// Deflate makes at most 1032 bytes of one (its format's limit).
constexpr std::uint64_t kMostBytesPerByte = 1032;
constexpr std::uint64_t kHeaderSlack = 64 << 10;  // of a .npy file, besides the elements
constexpr std::string_view kEnding = ".npy";

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using Entry = std::unique_ptr<zip_file_t, Discard>;
using Source = std::unique_ptr<zip_source_t, Discard>;

std::unexpected<Error> bad_archive(std::string_view name, std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, "{}: {}", name, what);
}

std::string text_of(zip_error_t& error) {
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

Result<Archive> open_archive(const Blob& file, std::string_view name) {
  if (file.bytes.empty())
    return bad_archive(name, "not a .npz file: it is empty");  // to libzip: a new archive
  zip_error_t error;
  zip_error_init(&error);
  Source source(zip_source_buffer_create(file.bytes.data(), file.bytes.size(), 0, &error));
  Archive archive(source ? zip_open_from_source(source.get(), ZIP_RDONLY | ZIP_CHECKCONS, &error)
                         : nullptr);
  if (!archive) return bad_archive(name, "not a .npz file: " + text_of(error));
  (void)source.release();  // the archive's now
  zip_error_fini(&error);
  if (zip_get_num_entries(archive.get(), 0) > kMaxArrays)
    return fail(ErrorCode::kResourceLimit, "{}: {} arrays, more than {}", name,
                zip_get_num_entries(archive.get(), 0), kMaxArrays);
  return archive;
}

/// What the directory of the archive says of an entry.
struct Listed {
  std::string array;
  std::uint64_t index = 0, size_bytes = 0;
};

Result<Listed> list_entry(zip_t& archive, zip_uint64_t index, std::string_view name) {
  zip_stat_t facts;
  constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                   ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(&archive, index, 0, &facts) != 0 || (facts.valid & kNeeded) != kNeeded)
    return bad_archive(name, std::format("entry {} cannot be read", index));
  const std::string_view entry(facts.name);
  if (!entry.ends_with(kEnding))
    return bad_archive(
        name,
        std::format("\"{}\" is not an array: expected a name that ends with {}", entry, kEnding));
  Listed listed{std::string(entry.substr(0, entry.size() - kEnding.size())), index, facts.size};
  if (facts.encryption_method != ZIP_EM_NONE)
    return bad_archive(name, std::format("array \"{}\" is encrypted", listed.array));
  if (facts.comp_method != ZIP_CM_STORE && facts.comp_method != ZIP_CM_DEFLATE)
    return bad_archive(name,
                       std::format("array \"{}\" is neither stored nor deflated", listed.array));
  if (facts.size > kMaxTensorBytes + kHeaderSlack)
    return fail(ErrorCode::kResourceLimit, "{}: array \"{}\" has {} bytes", name, listed.array,
                facts.size);
  if (facts.size / kMostBytesPerByte > facts.comp_size)
    return bad_archive(name, std::format("array \"{}\": {} bytes cannot become {}", listed.array,
                                         facts.comp_size, facts.size));
  return listed;
}

Result<std::vector<Listed>> list(zip_t& archive, std::string_view name) {
  std::vector<Listed> all;
  std::set<std::string_view> names;
  all.reserve(static_cast<std::size_t>(zip_get_num_entries(&archive, 0)));  // `names` refer to it
  for (zip_int64_t i = 0; i < zip_get_num_entries(&archive, 0); ++i) {
    all.push_back(CTXGEN_TRY(list_entry(archive, static_cast<zip_uint64_t>(i), name)));
    if (!names.insert(all.back().array).second)
      return bad_archive(name, std::format("duplicate array \"{}\"", all.back().array));
  }
  return all;
}

/// The .npy file of an entry; libzip compares its checksum at the end.
Result<Blob> read_entry(zip_t& archive, const Listed& entry, const std::string& what) {
  const Entry file(zip_fopen_index(&archive, entry.index, 0));
  if (!file) return bad_archive(what, zip_error_strerror(zip_get_error(&archive)));
  std::vector<std::byte> bytes;
  try {
    bytes.resize(entry.size_bytes);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kResourceLimit, "{}: out of memory for {} bytes", what,
                entry.size_bytes);
  }
  std::uint64_t read = 0;
  std::byte beyond{};
  while (read < bytes.size()) {
    const zip_int64_t count = zip_fread(file.get(), bytes.data() + read, bytes.size() - read);
    if (count <= 0)
      return bad_archive(what, count < 0 ? zip_error_strerror(zip_file_get_error(file.get()))
                                         : "it ends too early");
    read += static_cast<std::uint64_t>(count);
  }
  const zip_int64_t more = zip_fread(file.get(), &beyond, 1);
  if (more > 0) return bad_archive(what, "it has more bytes than the archive declares");
  if (more < 0) return bad_archive(what, zip_error_strerror(zip_file_get_error(file.get())));
  return Blob::own(std::move(bytes));
}

Result<Tensor> read_array(zip_t& archive, const Listed& entry, std::string_view name) {
  const std::string what = std::format("{}: array \"{}\"", name, entry.array);
  return read_npy(CTXGEN_TRY(read_entry(archive, entry, what)), what);
}

/// libzip's buffers of growing size are its own; what it wrote is read back from them.
Result<std::vector<std::byte>> bytes_of(zip_source_t& source) {
  zip_stat_t facts;
  if (zip_source_stat(&source, &facts) != 0 || (facts.valid & ZIP_STAT_SIZE) == 0 ||
      zip_source_open(&source) != 0)
    return fail(ErrorCode::kResourceLimit, "an archive cannot be read back: {}",
                zip_error_strerror(zip_source_error(&source)));
  std::vector<std::byte> bytes(facts.size);
  const zip_int64_t read = zip_source_read(&source, bytes.data(), bytes.size());
  zip_source_close(&source);
  if (read < 0 || static_cast<std::uint64_t>(read) != bytes.size())
    return fail(ErrorCode::kInternal, "an archive of {} bytes gave {}", bytes.size(), read);
  return bytes;
}

Status add_array(zip_t& archive, const NamedArray& array, const std::vector<std::byte>& npy) {
  const auto refused = [&]() -> Status {
    return fail(ErrorCode::kResourceLimit, "array \"{}\": {}", array.name,
                zip_error_strerror(zip_get_error(&archive)));
  };
  Source content(zip_source_buffer(&archive, npy.data(), npy.size(), 0));
  if (!content) return refused();
  const std::string entry = array.name + std::string(kEnding);
  const zip_int64_t index = zip_file_add(&archive, entry.c_str(), content.get(), ZIP_FL_ENC_UTF_8);
  if (index < 0) return refused();
  (void)content.release();  // the archive's now
  const auto at = static_cast<zip_uint64_t>(index);
  constexpr zip_uint16_t kFirstDay = 1U << 5 | 1U;  // 1980-01-01, where the format's time begins
  if (zip_set_file_compression(&archive, at, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(&archive, at, 0, kFirstDay, 0) != 0)
    return refused();
  return {};
}

}  // namespace

Result<std::vector<NamedArray>> read_npz(const Blob& file, std::string_view name) {
  const Archive archive = CTXGEN_TRY(open_archive(file, name));
  std::vector<NamedArray> arrays;
  for (const Listed& entry : CTXGEN_TRY(list(*archive, name)))
    arrays.push_back({entry.array, CTXGEN_TRY(read_array(*archive, entry, name))});
  return arrays;
}

Result<Tensor> read_npz_array(const Blob& file, std::string_view name, std::string_view array) {
  const Archive archive = CTXGEN_TRY(open_archive(file, name));
  const std::vector<Listed> all = CTXGEN_TRY(list(*archive, name));
  auto found = std::ranges::find(all, array, &Listed::array);
  if (found == all.end() && all.size() == 1) found = all.begin();
  if (found != all.end()) return read_array(*archive, *found, name);
  std::string names;
  for (const Listed& entry : all) names += (names.empty() ? "" : ", ") + entry.array;
  return bad_archive(
      name, std::format("no array \"{}\"; there are {}", array, names.empty() ? "none" : names));
}

Result<std::vector<std::byte>> write_npz(std::span<const NamedArray> arrays) {
  std::vector<std::vector<std::byte>> files;  // outlive the archive
  for (const NamedArray& array : arrays) files.push_back(write_npy(array.tensor));
  zip_error_t error;
  zip_error_init(&error);
  const Source source(zip_source_buffer_create(nullptr, 0, 0, &error));
  Archive archive(source ? zip_open_from_source(source.get(), ZIP_TRUNCATE, &error) : nullptr);
  if (!archive) return fail(ErrorCode::kResourceLimit, "an archive: {}", text_of(error));
  zip_error_fini(&error);
  zip_source_keep(source.get());  // next to the archive's reference: it holds the result
  for (std::size_t i = 0; i < arrays.size(); ++i)
    CTXGEN_CHECK(add_array(*archive, arrays[i], files[i]));
  if (zip_close(archive.get()) != 0)
    return fail(ErrorCode::kResourceLimit, "an archive: {}",
                zip_error_strerror(zip_get_error(archive.get())));
  (void)archive.release();
  return bytes_of(*source);
}

}  // namespace ctxgen::cli
