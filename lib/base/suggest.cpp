#include "ctxgen/base/suggest.h"

#include <algorithm>
#include <format>

namespace ctxgen {
namespace {

/// Longer words are names of a model, not of a hand; comparing them would take their product in time.
constexpr std::size_t kMaxLetters = 64;
/// More candidates are not words to choose from.
constexpr std::size_t kMaxCandidates = 10'000;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::size_t slips_allowed(std::size_t letters) {
  if (letters <= 5) return letters < 3 ? 0 : 1;
  return letters <= 8 ? 2 : 3;
}

/// Letters added, left out, replaced, or swapped with their neighbour (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool equal = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (equal ? 0U : 1U)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

bool begins_with(std::string_view candidate, std::string_view word) {
  return word.size() > 2 && word.size() < candidate.size() && candidate.size() <= kMaxLetters &&
         distance(word, candidate.substr(0, word.size())) == 0;
}

}  // namespace

std::string closest_word(std::string_view word, std::span<const std::string> candidates) {
  std::string_view best;
  std::size_t least = slips_allowed(word.size()) + 1;
  if (word.size() > kMaxLetters) return "";
  for (const std::string& candidate :
       candidates.first(std::min(candidates.size(), kMaxCandidates))) {
    if (candidate.empty() || candidate.size() > kMaxLetters) continue;
    const std::size_t slips = distance(word, candidate);
    // A word of which nothing is left is not a slip.
    if (slips < least && slips < std::min(word.size(), candidate.size())) {
      least = slips;
      best = candidate;
    }
  }
  if (least > 1)
    for (const std::string& candidate : candidates)
      if (begins_with(candidate, word)) return candidate;
  return std::string(best);
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string closest = closest_word(word, candidates);
  return closest.empty() ? "" : std::format("; did you mean \"{}\"?", closest);
}

std::string one_of_text(std::span<const std::string> words, std::size_t most) {
  std::string text;
  if (words.size() > most) return list_text(words, most);
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

std::string list_text(std::span<const std::string> words, std::size_t most) {
  if (words.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < std::min(words.size(), most); ++i)
    text += (i == 0 ? "" : ", ") + words[i];
  if (words.size() > most) text += std::format(" and {} more", words.size() - most);
  return text;
}

}  // namespace ctxgen
