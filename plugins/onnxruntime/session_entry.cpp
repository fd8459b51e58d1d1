#include "session_entry.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <format>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/ctxfile/context_file.h"

namespace ctxgen::plugin {
namespace {

constexpr std::size_t kFooterBytes = 3 * sizeof(std::uint64_t);  // hash and size of the list

auto not_an_entry() {
  return fail(ErrorCode::kCorruptContext, "the list of partitions is damaged");
}

/// A number and the space or the end after it, which `text` is shortened by.
std::optional<std::size_t> take_number(std::string_view& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return number;
}

Result<SessionPartition> read_partition(std::string_view line, std::vector<bool>& taken,
                                        const std::shared_ptr<const ContextReader>& reader) {
  const auto program = take_number(line);
  if (!program || *program >= reader->programs().size()) return not_an_entry();
  SessionPartition partition{
      .nodes = {}, .program = {reader, &reader->programs()[*program]}, .attributes = {}};
  while (!line.empty()) {
    const auto node = take_number(line);
    if (!node || *node >= taken.size() || taken[*node]) return not_an_entry();
    taken[*node] = true;
    partition.nodes.push_back(NodeId{static_cast<std::uint32_t>(*node)});
  }
  if (partition.nodes.empty()) return not_an_entry();
  return partition;
}

std::string list_of(const SessionPrograms& made) {
  std::string text;
  for (const SessionPartition& partition : made.partitions) {
    const auto place =
        std::ranges::find(made.content->programs, partition.program->name, &Program::name);
    text += std::to_string(place - made.content->programs.begin());
    for (const NodeId node : partition.nodes) text += std::format(" {}", node.index);
    text += '\n';
  }
  return text;
}

}  // namespace

Result<bool> keep_session_entry(CacheFolder& cache, Hash128 key, const SessionPrograms& made) {
  const std::string text = list_of(made);
  const Hash128 hash = hash_bytes(as_bytes(text));
  const std::uint64_t footer[] = {hash.high, hash.low, text.size()};
  const std::uint64_t context_bytes = CTXGEN_TRY(context_size(*made.content));
  return cache.add(CacheKind::kOutput, key, context_bytes + text.size() + kFooterBytes,
                   [&](CacheEntryWriter& entry) -> Status {
                     const auto append = [&entry](std::span<const std::byte> bytes) {
                       return entry.write(bytes);
                     };
                     CTXGEN_CHECK(write_context(*made.content, append));
                     CTXGEN_CHECK(entry.write(as_bytes(text)));
                     return entry.write(std::as_bytes(std::span(footer)));
                   });
}

Result<SessionPrograms> read_session_entry(const Blob& entry, std::size_t nodes) {
  std::uint64_t footer[3];
  static_assert(sizeof footer == kFooterBytes);
  if (entry.bytes.size() < kFooterBytes) return not_an_entry();
  const std::size_t list_end = entry.bytes.size() - kFooterBytes;
  std::memcpy(footer, entry.bytes.data() + list_end, kFooterBytes);
  const auto [high, low, size] = footer;
  if (size > list_end) return not_an_entry();
  std::string_view text = as_text(entry.bytes.subspan(list_end - size, size));
  if (hash_bytes(as_bytes(text)) != Hash128{.high = high, .low = low}) return not_an_entry();
  const auto reader = std::make_shared<const ContextReader>(CTXGEN_TRY(
      ContextReader::open(entry.slice(0, list_end - size), "the cache", VerifyBlobs::kNever)));
  SessionPrograms programs;
  programs.nodes = nodes;
  programs.cached = true;
  programs.blobs = [reader](BlobIndex index) { return reader->blob(index); };
  std::vector<bool> taken(nodes);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return not_an_entry();
    programs.partitions.push_back(CTXGEN_TRY(read_partition(text.substr(0, end), taken, reader)));
    text.remove_prefix(end + 1);
  }
  return programs;
}

}  // namespace ctxgen::plugin
