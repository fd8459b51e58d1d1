#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ctxgen {

/// What tools tell users of a provider (`ctxgen providers`, `--version`).
struct ProviderInfo {
  std::string library = {};  // "oneDNN 3.12.1": what it computes with; "": ctxgen's own code
  std::string instruction_set = {};  // that this process uses; "": the provider does not choose one
  int threads = 0;                   // that it runs with by default; 0: one
};

/// One that a provider has a name for.
struct InstructionSetState {
  std::string_view name;
  bool usable = false;  // by a process on this machine
};

/// One row of a provider's operator table (docs/operators.md).
struct OperatorInfo {
  std::string_view domain;  // "": ai.onnx
  std::string_view op_type;
  std::int64_t since_min = 0,
               since_max = 0;  // versions of the operator, by the opset that introduced them
  bool joins = false;          // moves data only: taken next to other nodes, never alone
  std::string_view limits;     // types, attributes and shapes that it takes
};

/// What this machine's cores and memory reach at best, as measured just now without any library, for
/// tables that judge ops by it.
struct MachinePeaks {
  double gflops = 0;       // 1e9 operations per second: f32 multiply-adds in registers
  double int8_gops = 0;    // the same of u8 by s8; 0: no instruction for it (AMX, VNNI)
  double bf16_gflops = 0;  // the same of bf16; 0: no instruction for it (AMX, AVX-512 BF16)
  double gbytes = 0;       // 1e9 bytes per second: reading memory
};

}  // namespace ctxgen
