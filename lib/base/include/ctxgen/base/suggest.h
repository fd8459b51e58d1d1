#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ctxgen {

/// The candidate that `word` is most likely a slip of: letters added, left out, replaced or swapped
/// with their neighbour, in any case; one slip in words of three to five letters, two up to eight, three in longer ones. Before two
/// slips comes a candidate that begins with the word. "" if none is that close; of equally close ones the first.
[[nodiscard]] std::string closest_word(std::string_view word,
                                       std::span<const std::string> candidates);

/// `; did you mean "batch"?`, or "" if no candidate is close.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string> candidates);

/// "a, b or c"; of more than `most` the first ones and "and N more".
[[nodiscard]] std::string one_of_text(std::span<const std::string> words, std::size_t most = 40);

/// "a, b, c"; of more than `most` the first ones and "and N more"; "none" if there is none.
[[nodiscard]] std::string list_text(std::span<const std::string> words, std::size_t most = 10);

}  // namespace ctxgen
