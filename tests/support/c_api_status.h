#pragma once

#include <string>

#include <gtest/gtest.h>

#include "ctxgen_status.h"

// Statuses of the C APIs in tests.

namespace ctxgen {

struct Failure {
  ctxgen_code code = CTXGEN_OK;
  std::string message;
};

/// Takes a status over.
inline Failure take(ctxgen_status* status) {
  Failure failure{ctxgen_status_code(status), ctxgen_status_message(status)};
  ctxgen_status_release(status);
  return failure;
}

inline ctxgen_code code(ctxgen_status* status) { return take(status).code; }

#define ASSERT_DONE(call)                                    \
  do {                                                       \
    const Failure failure_ = take(call);                     \
    ASSERT_EQ(failure_.code, CTXGEN_OK) << failure_.message; \
  } while (false)

}  // namespace ctxgen
