#include "io/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <format>
#include <optional>
#include <string>

#include "ctxgen/base/byte_io.h"

namespace ctxgen::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct TypeRow {
  DataType type;
  char kind;  // NumPy's letter
  unsigned bytes;
};

constexpr TypeRow kTypes[] = {
    {DataType::kBool, 'b', 1},      {DataType::kInt8, 'i', 1},        {DataType::kInt16, 'i', 2},
    {DataType::kInt32, 'i', 4},     {DataType::kInt64, 'i', 8},       {DataType::kUint8, 'u', 1},
    {DataType::kUint16, 'u', 2},    {DataType::kUint32, 'u', 4},      {DataType::kUint64, 'u', 8},
    {DataType::kFloat16, 'f', 2},   {DataType::kFloat, 'f', 4},       {DataType::kDouble, 'f', 8},
    {DataType::kComplex64, 'c', 8}, {DataType::kComplex128, 'c', 16},
};

const TypeRow* row_of(DataType type) {
  const auto* found = std::ranges::find(kTypes, type, &TypeRow::type);
  return found == std::end(kTypes) ? nullptr : found;
}

std::unexpected<Error> bad(std::string_view name, std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, "{}: not a .npy file: {}", name, what);
}

/// The header's dictionary.
struct Header {
  std::string descr;
  std::optional<bool> fortran_order;
  std::optional<Dims> shape;
};

/// Reads the Python literal that NumPy writes: three keys, strings, True/False, a tuple of numbers.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view name) : rest_(text), name_(name) {}

  Result<Header> parse() {
    Header header;
    if (!accept('{')) return bad(name_, "no dictionary");
    while (!accept('}')) {
      const std::string key = CTXGEN_TRY(string());
      if (!accept(':')) return bad(name_, "no \":\" after a key");
      CTXGEN_CHECK(entry(key, header));
      accept(',');
    }
    if (header.descr.empty() || !header.fortran_order || !header.shape)
      return bad(name_, "descr, fortran_order or shape is missing");
    return header;
  }

 private:
  Status entry(const std::string& key, Header& header) {
    if (key == "descr") {
      header.descr = CTXGEN_TRY(string());
    } else if (key == "fortran_order") {
      if (accept_word("True"))
        header.fortran_order = true;
      else if (accept_word("False"))
        header.fortran_order = false;
      else
        return bad(name_, "fortran_order is neither True nor False");
    } else if (key == "shape") {
      header.shape = CTXGEN_TRY(tuple());
    } else {
      return bad(name_, std::format("unknown key \"{}\"", key));
    }
    return {};
  }

  Result<std::string> string() {
    skip_blanks();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"'))
      return bad(name_, "expected a string (structured types are not read)");
    const char quote = rest_[0];
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) return bad(name_, "an unterminated string");
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  Result<Dims> tuple() {
    Dims dims;
    if (!accept('(')) return bad(name_, "shape must be a tuple");
    while (!accept(')')) {
      std::int64_t value = 0;
      skip_blanks();
      const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (code != std::errc() || value < 0) return bad(name_, "shape must hold whole numbers");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      if (dims.size() == kMaxRank)
        return fail(ErrorCode::kResourceLimit, "{}: more than {} dimensions", name_, kMaxRank);
      dims.push_back(value);
      accept(',');
    }
    return dims;
  }

  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\t"), rest_.size()));
  }
  bool accept(char character) {
    skip_blanks();
    if (rest_.empty() || rest_[0] != character) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool accept_word(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string_view rest_;
  std::string_view name_;
};

struct ElementType {
  const TypeRow* row = nullptr;
  bool swapped = false;  // big-endian
};

Result<ElementType> element_type(const std::string& descr, std::string_view name) {
  unsigned bytes = 0;
  if (descr.size() >= 3 && std::string_view("<>|=").contains(descr[0])) {
    const auto [end, code] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), bytes);
    if (code == std::errc() && end == descr.data() + descr.size())
      for (const TypeRow& row : kTypes)
        if (row.kind == descr[1] && row.bytes == bytes)
          return ElementType{&row, descr[0] == '>' && bytes > 1};
  }
  return fail(ErrorCode::kInvalidArgument,
              "{}: element type \"{}\" is not supported; give such types as .pb or raw", name,
              descr);
}

/// Turns big-endian numbers; complex ones are two of them.
void swap_bytes(std::span<std::byte> bytes, const TypeRow& row) {
  const std::size_t size = row.kind == 'c' ? row.bytes / 2 : row.bytes;
  for (std::size_t at = 0; at + size <= bytes.size(); at += size)
    std::ranges::reverse(bytes.subspan(at, size));
}

/// Copies elements stored first dimension fastest into row-major order.
void copy_fortran(std::span<const std::byte> from, std::span<std::byte> to, const Dims& dims,
                  std::size_t size) {
  const std::size_t rank = dims.size();
  Dims index(rank, 0);
  Dims strides(rank, 1);
  for (std::size_t i = 1; i < rank; ++i) strides[i] = strides[i - 1] * dims[i - 1];
  for (std::size_t at = 0; at + size <= to.size(); at += size) {
    std::int64_t source = 0;
    for (std::size_t i = 0; i < rank; ++i) source += index[i] * strides[i];
    std::memcpy(to.data() + at, from.data() + static_cast<std::size_t>(source) * size, size);
    for (std::size_t i = rank; i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace

Result<Tensor> read_npy(const Blob& file, std::string_view name) {
  const std::string_view text = as_text(file.bytes);
  if (!text.starts_with(kMagic)) return bad(name, "no magic");
  ByteReader reader(file.bytes.subspan(kMagic.size()), name);
  const auto read_header = [&]() -> Result<std::span<const std::byte>> {
    const std::uint8_t major = CTXGEN_TRY(reader.u8());
    static_cast<void>(CTXGEN_TRY(reader.u8()));  // minor
    if (major < 1 || major > 3) return bad(name, std::format("version {}", major));
    const std::uint64_t length =
        major == 1 ? std::uint64_t{CTXGEN_TRY(reader.u16())} : CTXGEN_TRY(reader.u32());
    return reader.take(length);
  };
  const auto dictionary = read_header();
  if (!dictionary) return bad(name, dictionary.error().message);
  const Header header = CTXGEN_TRY(HeaderParser(as_text(*dictionary), name).parse());
  const ElementType element = CTXGEN_TRY(element_type(header.descr, name));
  const auto size = checked_size_bytes(element.row->type, *header.shape);
  if (!size || *size != reader.remaining())
    return bad(name,
               std::format("shape {} of {} does not fit {} bytes of data", to_string(*header.shape),
                           name_of(element.row->type), reader.remaining()));
  const Blob data = file.slice(file.bytes.size() - *size, *size);
  const bool reordered = *header.fortran_order && header.shape->size() > 1;
  if (!reordered && !element.swapped)
    return Tensor::borrow(element.row->type, *header.shape, data.owner, data.bytes);
  Tensor tensor = CTXGEN_TRY(Tensor::allocate(element.row->type, *header.shape));
  if (reordered)
    copy_fortran(data.bytes, tensor.mutable_bytes(), *header.shape, element.row->bytes);
  else
    std::ranges::copy(data.bytes, tensor.mutable_bytes().begin());
  if (element.swapped) swap_bytes(tensor.mutable_bytes(), *element.row);
  return tensor;
}

bool npy_can_hold(DataType type) { return row_of(type) != nullptr; }

std::vector<std::byte> write_npy(const Tensor& tensor) {
  const TypeRow* row = row_of(tensor.type());
  CTXGEN_ASSERT(row != nullptr);
  std::string shape;
  for (const std::int64_t dim : tensor.dims()) shape += std::format("{}, ", dim);
  if (tensor.rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.rank() == 1) shape.resize(shape.size() - 1);
  std::string dictionary =
      std::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({}), }}",
                  row->bytes == 1 ? '|' : '<', row->kind, row->bytes, shape);
  constexpr std::size_t prefix = kMagic.size() + 4;
  while ((prefix + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  ByteWriter writer;
  writer.text(kMagic);
  writer.u8(1);
  writer.u8(0);
  writer.u16(static_cast<std::uint16_t>(dictionary.size()));
  writer.text(dictionary);
  writer.bytes(tensor.bytes());
  return writer.release();
}

}  // namespace ctxgen::cli
