#include "load/inner_values.h"

#include <algorithm>
#include <set>

namespace ctxgen {

ShownProgram with_inner_values(const Program& program) {
  auto shown = std::make_shared<Program>(program);
  shown->plans.clear();
  std::set<std::string> names;
  for (const std::uint32_t value : program.inputs) names.insert(program.values[value].name);
  for (const std::uint32_t value : program.outputs) names.insert(program.values[value].name);
  std::vector<InnerValue> inner;
  for (const ProgramOp& op : program.ops)
    for (const std::uint32_t value : op.outputs) {
      const std::string& name = program.values[value].name;
      if (name.empty() || !names.insert(name).second) continue;
      shown->outputs.push_back(value);
      inner.push_back({op.name, name});
    }
  return {std::move(shown), std::move(inner)};
}

}  // namespace ctxgen
