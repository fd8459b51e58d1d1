#include "show/remote_lines.h"

#include <format>

#include "term/console.h"

namespace ctxgen::cli {

void write_remote(JsonWriter& json, const RemoteCounts& counts) {
  json.begin_object()
      .field("hits", counts.hits)
      .field("misses", counts.misses)
      .field("stored", counts.stored)
      .field("errors", counts.errors)
      .field("bytes_received", counts.bytes_received)
      .field("bytes_sent", counts.bytes_sent)
      .field("seconds_waited", counts.seconds_waited)
      .field("problem", counts.problem)
      .end_object();
}

std::string remote_text(const RemoteCounts& counts) {
  std::string text = std::format("remote cache: {}, {} {}, {} stored, {}; {} received, {} sent",
                                 count_text(counts.hits, "hit"), counts.misses,
                                 counts.misses == 1 ? "miss" : "misses", counts.stored,
                                 count_text(counts.errors, "error"),
                                 size_text(counts.bytes_received), size_text(counts.bytes_sent));
  if (counts.seconds_waited >= 0.1) text += std::format(", {:.1f} s waited", counts.seconds_waited);
  return text + "\n";
}

}  // namespace ctxgen::cli
