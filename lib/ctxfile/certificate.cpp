#include "ctxgen/ctxfile/certificate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <format>
#include <functional>
#include <string_view>

namespace ctxgen {
namespace {

constexpr std::array<std::string_view, 3> kNorms{"max", "rms", "mean"};  // docs/precision.md

}  // namespace

std::string to_string(const Certificate& certificate) {
  return std::format(
      "every output is within {} of f32 by the norm {}: at most {:.3g} on {} samples, {:.3g} on {} "
      "held out; {} op{} not f32",
      certificate.bound, certificate.norm, certificate.searched_error, certificate.searched,
      certificate.held_out_error, certificate.held_out, certificate.choices.size(),
      certificate.choices.size() == 1 ? " is" : "s are");
}

Status check_certificate(const Certificate& certificate, const Hash128& program) {
  const auto is_error = [&](double error) { return error >= 0 && error <= certificate.bound; };
  if (!std::isfinite(certificate.bound) || !(certificate.bound > 0))
    return fail(ErrorCode::kCorruptContext, "certificate: a bound of {}", certificate.bound);
  if (!std::ranges::contains(kNorms, certificate.norm))
    return fail(ErrorCode::kCorruptContext, "certificate: a norm \"{}\", expected max, rms or mean",
                certificate.norm);
  if (certificate.searched == 0 || certificate.held_out == 0)
    return fail(ErrorCode::kCorruptContext, "certificate: {} samples and {} held out",
                certificate.searched, certificate.held_out);
  if (!is_error(certificate.searched_error) || !is_error(certificate.held_out_error))
    return fail(ErrorCode::kCorruptContext, "certificate: errors {} and {} with a bound of {}",
                certificate.searched_error, certificate.held_out_error, certificate.bound);
  if (std::ranges::adjacent_find(certificate.choices, std::greater_equal(), &OpChoice::op) !=
          certificate.choices.end() ||
      std::ranges::adjacent_find(certificate.programs, std::greater_equal()) !=
          certificate.programs.end())
    return fail(ErrorCode::kCorruptContext, "certificate: ops and programs must ascend");
  if (std::ranges::binary_search(certificate.programs, program)) return {};
  return fail(ErrorCode::kCorruptContext, "certificate: it is of other programs than {}",
              program.hex());
}

}  // namespace ctxgen
