#include "variants.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace ctxgen {
namespace {

bool same_values(const Program& a, std::span<const std::uint32_t> of_a, const Program& b,
                 std::span<const std::uint32_t> of_b) {
  if (of_a.size() != of_b.size()) return false;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const ProgramValue& x = a.values[of_a[i]];
    const ProgramValue& y = b.values[of_b[i]];
    if (x.name != y.name || x.type != y.type) return false;
  }
  return true;
}

}  // namespace

Status check_variants(std::span<const Program> programs) {
  std::map<std::string_view, const Program*> bases;
  for (const Program& program : programs)
    if (program.variant_of.empty()) bases.emplace(program.name, &program);
  std::set<std::pair<std::string_view, std::string_view>> seen;  // partition, instruction set
  for (const Program& program : programs) {
    const auto wrong = [&](std::string_view what) -> Status {
      return fail(ErrorCode::kCorruptContext, "program \"{}\": {}", program.name, what);
    };
    if (program.variant_of.empty()) {
      if (!program.isa.empty()) seen.emplace(program.name, program.isa);
      continue;
    }
    if (program.isa.empty()) return wrong("a variant without an instruction set");
    const auto base = bases.find(program.variant_of);
    if (base == bases.end()) return wrong("a variant of a missing partition");
    const Program& other = *base->second;
    if (other.isa.empty()) return wrong("a variant of a program for no instruction set of its own");
    if (other.source != program.source ||
        !same_values(other, other.inputs, program, program.inputs) ||
        !same_values(other, other.outputs, program, program.outputs))
      return wrong("a variant with another interface than its partition");
    seen.emplace(program.variant_of, other.isa);
    if (!seen.emplace(program.variant_of, program.isa).second)
      return wrong("a second variant for its instruction set");
  }
  return {};
}

}  // namespace ctxgen
