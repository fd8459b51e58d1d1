#include "show/sharing_table.h"

#include <algorithm>
#include <format>

#include "term/console.h"

namespace ctxgen::cli {
namespace {

std::string joined(std::span<const std::string> names) {
  constexpr std::size_t kShown = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += std::format(" and {} more", names.size() - kShown);
  return text;
}

void write_names(JsonWriter& json, std::span<const std::string> names) {
  json.begin_array();
  for (const std::string& name : names) json.value(name);
  json.end_array();
}

}  // namespace

std::string sharing_text(std::span<const SharedBlobs> sharing, bool verbose) {
  const std::size_t shown = verbose ? sharing.size() : std::min<std::size_t>(sharing.size(), 5);
  std::string text;
  for (const SharedBlobs& group : sharing.first(shown))
    text += std::format(
        "  {} in {}, {} {}\n", size_text(group.bytes), count_text(group.blobs, "blob"),
        group.users.size() == 1 ? "used several times by" : "shared by", joined(group.users));
  if (shown < sharing.size())
    text += std::format("  and {} more (-v)\n", count_text(sharing.size() - shown, "group"));
  return text;
}

void write_sharing(JsonWriter& json, std::span<const SharedBlobs> sharing) {
  json.begin_array();
  for (const SharedBlobs& group : sharing) {
    json.begin_object();
    write_names(json.key("users"), group.users);
    json.field("blobs", group.blobs)
        .field("bytes", group.bytes)
        .field("saved_bytes", group.saved_bytes)
        .end_object();
  }
  json.end_array();
}

std::string split_text(std::span<const SplitWeights> split) {
  std::string text;
  for (const SplitWeights& group : split)
    text += std::format("{} in several layouts, {} more than in one: {}\n",
                        count_text(group.weights, "weight"), size_text(group.extra_bytes),
                        joined(group.programs));
  return text;
}

void write_split(JsonWriter& json, std::span<const SplitWeights> split) {
  json.begin_array();
  for (const SplitWeights& group : split) {
    json.begin_object();
    write_names(json.key("programs"), group.programs);
    json.field("weights", group.weights)
        .field("bytes", group.bytes)
        .field("extra_bytes", group.extra_bytes)
        .end_object();
  }
  json.end_array();
}

}  // namespace ctxgen::cli
