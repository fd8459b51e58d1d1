#include "bundle/tar_frame.h"

#include <algorithm>
#include <cstddef>
#include <format>

namespace ctxgen {
namespace {

// POSIX.1-2017, "pax Interchange Format" and "ustar Interchange Format".
constexpr std::size_t kBlock = 512, kNameBytes = 100;
constexpr std::uint64_t kMaxOctal = (std::uint64_t{1} << 33) - 1;  // 11 digits

/// One header block: a regular file, or one of pax's records (`type` 'x').
std::string header(std::string_view name, std::uint64_t bytes, char type) {
  std::string block(kBlock, '\0');
  const auto put = [&](std::size_t at, std::string_view text) {
    std::ranges::copy(text, block.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, name.substr(0, kNameBytes));
  put(100, "0000644");  // mode
  put(108, "0000000");  // user
  put(116, "0000000");  // group
  put(124, std::format("{:011o}", bytes));
  put(136, "00000000000");  // time
  put(148, "        ");     // checksum, counted as blanks
  block[156] = type;
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  put(329, "0000000");  // device
  put(337, "0000000");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, std::format("{:06o}", sum));
  block[154] = '\0';
  return block;
}

std::string padding(std::uint64_t bytes) {
  return std::string((kBlock - bytes % kBlock) % kBlock, '\0');
}

/// "<length> <key>=<value>\n", where the length counts its own digits.
std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length)
    length = std::to_string(length).size() + rest;
  return std::format("{} {}={}\n", length, key, value);
}

}  // namespace

TarFrame tar_frame(std::string_view name, std::uint64_t file_bytes) {
  std::string records;
  if (name.size() > kNameBytes) records += pax_record("path", name);
  if (file_bytes > kMaxOctal) records += pax_record("size", std::to_string(file_bytes));
  TarFrame frame;
  if (!records.empty())
    frame.before = header("pax", records.size(), 'x') + records + padding(records.size());
  frame.before += header(name, file_bytes > kMaxOctal ? 0 : file_bytes, '0');
  frame.after = padding(file_bytes) + std::string(2 * kBlock, '\0');  // two blocks end the archive
  return frame;
}

}  // namespace ctxgen
