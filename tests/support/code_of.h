#pragma once

#include <ostream>
#include <string>

#include "ctxgen/base/status.h"

namespace ctxgen::test {

/// The printed form of what a Result holds, for comparisons whose failures can be read:
/// "ok", or the name of the error code's enumerator.
struct Outcome {
  bool ok = true;
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // not compared

  Outcome() = default;
  Outcome(ErrorCode wanted) : ok(false), code(wanted) {}  // NOLINT: EXPECT_EQ(code_of(x), kIoError)
  bool operator==(const Outcome& other) const {
    return ok == other.ok && (ok || code == other.code);
  }
};

inline std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  if (outcome.ok) return out << "ok";
  return out << error_info(outcome.code).printed << " (code " << static_cast<int>(outcome.code)
             << ") " << outcome.message;
}

template <class T>
Outcome code_of(const Result<T>& result) {
  Outcome outcome;
  if (result) return outcome;
  outcome.ok = false;
  outcome.code = result.error().code;
  outcome.message = result.error().message;
  return outcome;
}

inline const Outcome kOk{};

}  // namespace ctxgen::test
