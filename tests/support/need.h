#pragma once

#include <cstdlib>
#include <print>
#include <utility>

#include "ctxgen/base/status.h"

namespace ctxgen::test {

/// What a program that tests run cannot do without: ends it with the error.
template <class T>
T need(Result<T> result) {
  if (result) return std::move(*result);
  std::println(stderr, "{}", result.error().message);
  std::exit(1);
}
inline void need(const Status& status) {
  if (status) return;
  std::println(stderr, "{}", status.error().message);
  std::exit(1);
}

}  // namespace ctxgen::test
