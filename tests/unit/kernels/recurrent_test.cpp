#include "ctxgen/kernels/recurrent.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "random_floats.h"

namespace ctxgen::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kUnit = std::numeric_limits<float>::epsilon();

using Floats = std::vector<float>;
using test::random_floats;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// `error` in units in the last place of numbers as large as `terms`.
double ulp_of(double error, double terms) { return std::fabs(error) / (kUnit * std::fabs(terms)); }

struct Matrices {
  Floats a, b, start, c;
  Product product;
};

Matrices matrices_of(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  constexpr std::int64_t kGap = 3, kSentinel = 1;
  Matrices m{.a = random_floats(rows * (depth + kGap), 0, 1, 1),
             .b = random_floats(depth * (columns + kGap), 0, 1, 2),
             .start = random_floats(rows * (columns + kGap), 0, 1, 3),
             .c = Floats(static_cast<std::size_t>(rows * (columns + kSentinel)), -77),
             .product = {}};
  m.product = {.rows = rows,
               .depth = depth,
               .columns = columns,
               .a = m.a.data(),
               .a_stride = depth + kGap,
               .b = m.b.data(),
               .b_stride = columns + kGap,
               .start = m.start.data(),
               .start_stride = columns + kGap,
               .c = m.c.data(),
               .c_stride = columns + kSentinel};
  return m;
}

TEST(Multiply, IsCloseToDoublePrecision) {
  double worst = 0;
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 20})
    for (const std::int64_t depth : {1, 2, 7, 8, 9, 64, 300})
      for (const std::int64_t columns : {1, 3, 8, 16, 17, 63, 64, 65, 130}) {
        Matrices m = matrices_of(rows, depth, columns);
        const Product& p = m.product;
        multiply(p);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t j = 0; j < columns; ++j) {
            double sum = double{p.start[r * p.start_stride + j]}, terms = std::fabs(sum);
            for (std::int64_t k = 0; k < depth; ++k) {
              const double term = double{p.a[r * p.a_stride + k]} * double{p.b[k * p.b_stride + j]};
              sum += term;
              terms += std::fabs(term);
            }
            const double ulp = ulp_of(double{p.c[r * p.c_stride + j]} - sum, terms);
            worst = std::max(worst, ulp);
            ASSERT_LE(ulp, 2) << rows << "x" << depth << "x" << columns;
          }
          EXPECT_EQ(p.c[r * p.c_stride + columns], -77) << "wrote beyond " << columns;
        }
      }
  RecordProperty("ulp_of_terms", std::to_string(worst));
}

/// As jobs cut it: columns apart, b in panels, the sums in the memory that they start from.
TEST(Multiply, DoesNotDependOnHowColumnsAreCut) {
  for (const std::int64_t rows : {1, 2, 3, 7, 12}) {
    Matrices whole = matrices_of(rows, 37, 100);
    multiply(whole.product);
    const std::int64_t width = panel_columns();
    Matrices cut = matrices_of(rows, 37, 100);
    for (std::int64_t j = 0; j < 100; j += width) {
      const std::int64_t columns = std::min<std::int64_t>(width, 100 - j);
      Floats panel(static_cast<std::size_t>(37 * width), -77);
      pack_panel(37, columns, cut.product.b + j, cut.product.b_stride, panel.data());
      for (std::int64_t k = 0; k < 37; ++k)
        for (std::int64_t i = 0; i < width; ++i)
          EXPECT_EQ(panel[static_cast<std::size_t>(k * width + i)],
                    i < columns ? cut.product.b[k * cut.product.b_stride + j + i] : 0);
      Product part = cut.product;
      part.columns = columns;
      part.b = panel.data();
      part.b_stride = width;
      for (std::int64_t r = 0; r < rows; ++r)
        std::copy_n(part.start + r * part.start_stride + j, columns,
                    part.c + r * part.c_stride + j);
      part.c += j;
      part.start = part.c;
      part.start_stride = part.c_stride;
      multiply(part);
    }
    EXPECT_EQ(cut.c, whole.c) << rows;
  }
}

TEST(Multiply, StartsAllRowsFromOne) {
  for (const std::int64_t rows : {1, 2, 5}) {
    Matrices m = matrices_of(rows, 9, 20);
    m.product.start_stride = 0;
    std::ranges::fill(m.a, 0.0F);
    multiply(m.product);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < 20; ++j)
        EXPECT_EQ(m.product.c[r * m.product.c_stride + j], m.start[static_cast<std::size_t>(j)]);
  }
}

constexpr std::int64_t kUnits[] = {1, 5, 8, 16, 17, 40, 1000};

TEST(LstmCell, IsCloseToDoublePrecision) {
  double worst = 0;
  for (const std::int64_t n : kUnits)
    for (const float size : {0.5F, 4.0F, 30.0F}) {
      const Floats i = random_floats(n, 0, size, 1), f = random_floats(n, 0, size, 2),
                   g = random_floats(n, 0, size, 3), o = random_floats(n, 0, size, 4),
                   last = random_floats(n, 0, 1, 5);
      Floats cell = last, out(static_cast<std::size_t>(n) + 1, -77);
      lstm_cell(n, {i.data(), f.data(), g.data(), o.data()}, cell.data(), cell.data(), out.data());
      for (std::size_t u = 0; u < cell.size(); ++u) {
        const double kept = logistic(double{f[u]}) * double{last[u]};
        const double added = logistic(double{i[u]}) * std::tanh(double{g[u]});
        const double c = kept + added;
        const double y = logistic(double{o[u]}) * std::tanh(c);
        const double terms = std::fabs(kept) + std::fabs(added);
        worst = std::max(worst, ulp_of(double{cell[u]} - c, terms));
        // tanh changes by no more than its argument.
        const double of_out = logistic(double{o[u]}) * std::min(1.0, terms);
        worst = std::max(worst, ulp_of(double{out[u]} - y, of_out + 1e-30));
      }
      EXPECT_EQ(out.back(), -77);
    }
  EXPECT_LE(worst, 8);
  RecordProperty("ulp_of_terms", std::to_string(worst));
}

TEST(GruCells, AreCloseToDoublePrecision) {
  double worst = 0;
  for (const std::int64_t n : kUnits)
    for (const float size : {0.5F, 4.0F, 30.0F}) {
      const Floats z = random_floats(n, 0, size, 1), r = random_floats(n, 0, size, 2),
                   h = random_floats(n, 0, size, 3), a = random_floats(n, 0, size, 4),
                   state = random_floats(n, 0, 1, 5);
      Floats update = z, kept(z.size()), out(z.size() + 1, -77), linear(z.size() + 1, -77);
      gru_gates(n, r.data(), state.data(), update.data(), kept.data());
      gru_cell(n, update.data(), h.data(), state.data(), out.data());
      linear_gru_cell(n, {z.data(), r.data(), h.data(), a.data()}, state.data(), linear.data());
      for (std::size_t u = 0; u < z.size(); ++u) {
        const double by = logistic(double{z[u]}), reset = logistic(double{r[u]});
        const double held = by * double{state[u]};
        worst = std::max(worst, ulp_of(double{kept[u]} - reset * double{state[u]},
                                       std::fabs(reset * double{state[u]}) + 1e-30));
        const double plain = (1 - by) * std::tanh(double{h[u]});
        const double apart = (1 - by) * std::tanh(double{h[u]} + reset * double{a[u]});
        // 1 - by has the rounding of by, and the candidate that of its terms.
        const double terms = 1 + std::fabs(held);
        worst = std::max(worst, ulp_of(double{out[u]} - (plain + held), terms));
        const double inner = 1 + std::fabs(double{h[u]}) + reset * std::fabs(double{a[u]});
        worst = std::max(worst, ulp_of(double{linear[u]} - (apart + held), terms + inner));
      }
      EXPECT_EQ(out.back(), -77);
      EXPECT_EQ(linear.back(), -77);
    }
  EXPECT_LE(worst, 4);
  RecordProperty("ulp_of_terms", std::to_string(worst));
}

TEST(Cells, OfNanAndInfinity) {
  const float one = 1, nan = kNan, low = -kInfinity, high = kInfinity;
  float cell = 0, out = 0;
  for (const LstmGates& gates :
       {LstmGates{&nan, &one, &one, &one}, LstmGates{&one, &nan, &one, &one},
        LstmGates{&one, &one, &nan, &one}}) {
    lstm_cell(1, gates, &one, &cell, &out);
    EXPECT_TRUE(std::isnan(cell) && std::isnan(out));
  }
  lstm_cell(1, {&one, &one, &one, &nan}, &one, &cell, &out);
  EXPECT_TRUE(std::isnan(out) && !std::isnan(cell));
  lstm_cell(1, {&low, &high, &high, &high}, &one, &cell, &out);  // keeps its state
  EXPECT_EQ(cell, 1);
  EXPECT_NEAR(out, std::tanh(1.0), 1e-6);
  float update = kNan, kept = 0;
  gru_gates(1, &nan, &one, &update, &kept);
  EXPECT_TRUE(std::isnan(update) && std::isnan(kept));
  for (const auto& [z, h] : {std::pair{nan, one}, {one, nan}}) {
    gru_cell(1, &z, &h, &one, &out);
    EXPECT_TRUE(std::isnan(out));
    linear_gru_cell(1, {&z, &one, &h, &one}, &one, &out);
    EXPECT_TRUE(std::isnan(out));
  }
  linear_gru_cell(1, {&one, &one, &one, &nan}, &one, &out);
  EXPECT_TRUE(std::isnan(out));
  linear_gru_cell(1, {&high, &one, &one, &one}, &one, &out);
  EXPECT_EQ(out, 1);
}

TEST(Cells, OfNothing) {
  lstm_cell(0, {}, nullptr, nullptr, nullptr);
  gru_gates(0, nullptr, nullptr, nullptr, nullptr);
  gru_cell(0, nullptr, nullptr, nullptr, nullptr);
  linear_gru_cell(0, {}, nullptr, nullptr);
}

}  // namespace
}  // namespace ctxgen::kernels
