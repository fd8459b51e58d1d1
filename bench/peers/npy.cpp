#include "npy.h"

#include <format>
#include <fstream>
#include <regex>
#include <stdexcept>

namespace bench {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMagicSize = 6;

std::string capture(const std::string& header, const char* pattern,
                    const std::filesystem::path& path) {
  std::smatch match;
  if (!std::regex_search(header, match, std::regex(pattern)))
    throw std::runtime_error(std::format("{}: not an array in C order: {}", path.string(), header));
  return match[1];
}

}  // namespace

Array read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  char prefix[12];
  if (!file.read(prefix, 10) ||
      std::string_view(prefix, kMagicSize) != std::string_view(kMagic, kMagicSize))
    throw std::runtime_error(std::format("{}: not a .npy file", path.string()));
  const auto byte = [&](int i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(prefix[i]));
  };
  std::size_t length = byte(8) | byte(9) << 8;
  if (byte(6) > 1) {  // format 2 has four bytes of length
    file.read(prefix + 10, 2);
    length |= byte(10) << 16 | byte(11) << 24;
  }
  std::string header(length, ' ');
  file.read(header.data(), static_cast<std::streamsize>(length));
  capture(header, "'fortran_order': *(False)", path);

  Array array;
  array.type = capture(header, "'descr': *'([^']*)'", path);
  std::size_t size = std::stoul(array.type.substr(2));
  const std::string shape = capture(header, R"('shape': *\(([^)]*)\))", path);
  const std::regex number("[0-9]+");
  for (std::sregex_iterator it(shape.begin(), shape.end(), number), end; it != end; ++it) {
    array.shape.push_back(std::stoll(it->str()));
    size *= static_cast<std::size_t>(array.shape.back());
  }
  array.bytes.resize(size);
  if (!file.read(reinterpret_cast<char*>(array.bytes.data()), static_cast<std::streamsize>(size)))
    throw std::runtime_error(std::format("{}: shorter than its header says", path.string()));
  return array;
}

void write_npy(const std::filesystem::path& path, const std::string& type,
               const std::vector<std::int64_t>& shape, const void* data, std::size_t size_bytes) {
  std::string dims;
  for (std::int64_t dim : shape) dims += std::format("{}, ", dim);
  std::string header =
      std::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, dims);
  header.resize((kMagicSize + 4 + header.size() + 1 + 63) / 64 * 64 - kMagicSize - 4, ' ');
  header.back() = '\n';
  std::ofstream file(path, std::ios::binary);
  file.write(kMagic, kMagicSize).write("\x01\x00", 2);
  file.put(static_cast<char>(header.size() & 0xff)).put(static_cast<char>(header.size() >> 8));
  file << header;
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size_bytes));
  if (!file.flush())
    throw std::runtime_error(std::format("{}: could not be written", path.string()));
}

}  // namespace bench
