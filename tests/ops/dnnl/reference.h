#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test_graph.h"

namespace ctxgen::testing {

using List = std::vector<std::int64_t>;

inline double at(const Tensor& tensor, std::int64_t index) {
  return tensor.elements<float>()[static_cast<std::size_t>(index)];
}

/// Expects what the graph computed for `name` to be `expected`, summed in double precision.
inline void expect_reference(const TestGraph& g, const std::string& name,
                             const std::vector<double>& expected, double tolerance = 1e-5) {
  const Tensor& actual = g.value(name);
  ASSERT_EQ(static_cast<std::size_t>(actual.element_count()), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual.elements<float>()[i], expected[i],
                tolerance * std::max(1.0, std::abs(expected[i])))
        << name << " at " << i;
  }
}

}  // namespace ctxgen::testing
