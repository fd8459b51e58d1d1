#pragma once

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace ctxgen::test {

/// Keeps the worst error of the running test against double precision as its property "ulp_of_terms", of which
/// bench/kernels/errors.py makes a table: in units in the last place of `terms`, the absolute values of all that was added up.
inline void note_error(double error, double terms) {
  static const testing::TestInfo* running = nullptr;
  static double worst = 0;
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  if (test != running) worst = -1;
  running = test;
  constexpr double kUlp = std::numeric_limits<float>::epsilon();
  if (!(terms > std::numeric_limits<float>::min())) return;
  const double units = std::fabs(error) / (kUlp * terms);
  if (!(units > worst)) return;  // infinity less itself, too
  worst = units;
  testing::Test::RecordProperty("ulp_of_terms", std::to_string(worst));
}

}  // namespace ctxgen::test
