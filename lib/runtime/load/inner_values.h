#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/program.h"

namespace ctxgen {

/// A value that is made and read within a partition.
struct InnerValue {
  std::string op;  // ProgramOp::name of the one that makes it
  std::string value;
};

/// A program whose outputs are those of another one, followed by `inner` values of it.
struct ShownProgram {
  std::shared_ptr<const Program> program;
  std::vector<InnerValue> inner;
};

/// All that the ops of `program` make and that has a name, in their order. The blobs are those of
/// `program`; its plans, which are of other outputs, are gone.
[[nodiscard]] ShownProgram with_inner_values(const Program& program);

}  // namespace ctxgen
