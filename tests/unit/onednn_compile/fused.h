#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fuse/fuse.h"
#include "lower_partition.h"
#include "test_graph.h"

namespace ctxgen::testing {

/// The whole graph lowered and fused.
inline Program fused(const TestGraph& graph) {
  auto lowered = onednn::lower_partition(graph.view(), graph.whole());
  EXPECT_TRUE(lowered.has_value()) << lowered.error().message;
  if (!lowered) return {};
  const Status status = onednn::fuse(*lowered);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(lowered->weights.size(), lowered->program.weights.size());
  return std::move(lowered->program);
}

/// Expects the fused program to be `lines`, and its results to be those of the CPU kernels.
inline void expect_fused(const TestGraph& graph, const std::vector<std::string>& lines,
                         double tolerance = 1e-5) {
  EXPECT_THAT(summary(fused(graph)), ::testing::ElementsAreArray(lines));
  expect_same(graph, tolerance);
}

}  // namespace ctxgen::testing
