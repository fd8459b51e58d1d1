#pragma once

#include <concepts>
#include <cstddef>
#include <random>
#include <vector>

namespace ctxgen::test {

/// `count` numbers of a normal distribution, the same for the same seed.
template <std::integral Count>
std::vector<float> random_floats(Count count, float mean, float deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution(mean, deviation);
  std::vector<float> list(static_cast<std::size_t>(count));
  for (float& x : list) x = distribution(generator);
  return list;
}

}  // namespace ctxgen::test
