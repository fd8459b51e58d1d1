#pragma once

#include <vector>

#include "program_maker.h"

namespace ctxgen::onednn::test {

/// Runs the program in double precision with plain loops written for clarity, one per kind.
[[nodiscard]] std::vector<std::vector<double>> reference(Maker& maker);

/// Compares with the reference: |a - b| <= tolerance * (1 + |b|). The tolerance covers f32 sums of
/// a few thousand terms of size 1 in another order.
void expect_matches_reference(Maker& maker, double tolerance = 2e-4);

}  // namespace ctxgen::onednn::test
