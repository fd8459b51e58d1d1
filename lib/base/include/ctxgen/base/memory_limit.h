#pragma once

#include <cstdint>

namespace ctxgen {

/// What one kind of use may take unless somebody says otherwise: three quarters of the memory that
/// the process may use, the machine's or its control group's.
[[nodiscard]] std::uint64_t default_memory_limit_bytes();

}  // namespace ctxgen
