#pragma once

#include <span>
#include <string>
#include <vector>

namespace ctxgen {

/// Labels that node-feature-discovery gives to nodes of a Kubernetes cluster
/// ("feature.node.kubernetes.io/cpu-cpuid.AVX512F"), in the order of the instruction sets that need them.
struct NodeFeatures {
  std::vector<std::string> required;   // without them programs do not run
  std::vector<std::string> preferred;  // besides, for the best of several programs
};

/// What nodes must have for programs of these instruction sets, the smallest of them first. Names that are none of
/// ctxgen/base/instruction_set.h ("portable") need nothing. Flags that node-feature-discovery leaves out by
/// default (SSE4.1) are left out.
[[nodiscard]] NodeFeatures node_features(std::span<const std::string> instruction_sets);

}  // namespace ctxgen
