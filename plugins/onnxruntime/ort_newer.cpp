#include "ort_newer.h"

#include <cstring>

namespace ctxgen::plugin {
namespace {

/// The member `places` after the last one of 1.23: members are only ever appended, each of a pointer's size.
template <class Member>
void read_member(const OrtApi& api, std::size_t places, Member& member) noexcept {
  static_assert(sizeof member == sizeof(void*));
  const auto* members = reinterpret_cast<const std::byte*>(&api);
  const std::size_t last = offsetof(OrtApi, CreateExternalInitializerInfo);
  std::memcpy(&member, members + last + places * sizeof member, sizeof member);
}

}  // namespace

NewerApi find_newer_api(const OrtApi& api, int minor_version) noexcept {
  constexpr int kFirstWithShapes = 24, kFirstWithExperiments = 28;
  constexpr std::size_t kHasShape = 1, kTypeAndDims = 25, kGetExperimentalFunction = 33;
  NewerApi newer;
  if (minor_version >= kFirstWithShapes) {
    read_member(api, kHasShape, newer.has_shape);
    read_member(api, kTypeAndDims, newer.type_and_dims);
  }
  if (minor_version >= kFirstWithExperiments)
    read_member(api, kGetExperimentalFunction, newer.experimental);
  return newer;
}

}  // namespace ctxgen::plugin
