#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/workers.h"

#include "kernels/kernels.h"

namespace ctxgen::onednn {
namespace {

/// A tensor of small whole numbers, so that every order of operations gives the same bits.
struct Whole {
  Dims strides;
  std::vector<float> elements;

  Whole(Dims of, std::mt19937& random) : strides(std::move(of)), elements(60'000) {
    for (float& x : elements) x = static_cast<float>(random() % 15) - 7;
  }
  [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(elements.data()); }
};

using Index = std::array<std::int64_t, 4>;

std::size_t place(const Dims& strides, const Index& index) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < index.size(); ++i) at += strides[i] * index[i];
  return static_cast<std::size_t>(at);
}

template <class Visit>
void for_each_index(const Dims& dims, const Visit& visit) {
  Index i{};
  for (i[0] = 0; i[0] < dims[0]; ++i[0])
    for (i[1] = 0; i[1] < dims[1]; ++i[1])
      for (i[2] = 0; i[2] < dims[2]; ++i[2])
        for (i[3] = 0; i[3] < dims[3]; ++i[3]) visit(i);
}

float applied(PointOp op, float x, float y) {
  switch (op) {
    case PointOp::kMul: return x * y;
    case PointOp::kAdd: return x + y;
    case PointOp::kMax: return std::max(x, y);
    default: return std::max(x, 0.0F);  // kRelu
  }
}

/// Channels last, `pitch` elements from a pixel to the next one.
Dims channels_last(const Dims& dims, std::int64_t pitch) {
  return {dims[2] * dims[3] * pitch, 1, dims[3] * pitch, pitch};
}

/// Strides of an operand: of channels, of one for each image, of pixels, of one number, of everything.
Dims operand_strides(const Dims& dims, std::uint32_t form) {
  switch (form % 5) {
    case 0: return {0, 1, 0, 0};
    case 1: return {dims[1], 1, 0, 0};
    case 2: return {0, 0, dims[3], 1};
    case 3: return {0, 0, 0, 0};
    default: return channels_last(dims, dims[1]);
  }
}

void check(const Dims& dims, std::int64_t extra_pitch, const std::vector<PointOp>& ops,
           std::mt19937& random) {
  Whole src(channels_last(dims, dims[1] + extra_pitch), random);
  Whole dst(channels_last(dims, dims[1]), random);
  const std::vector<float> before = dst.elements;
  std::vector<Whole> operands;
  std::vector<PointStage> stages;
  for (const PointOp op : ops) {
    stages.push_back({op, 0, 0, {}});
    if (!takes_operand(op)) continue;
    operands.emplace_back(operand_strides(dims, static_cast<std::uint32_t>(random())), random);
    stages.back().strides = operands.back().strides;
  }
  std::vector<std::byte*> args{src.bytes(), dst.bytes()};
  for (Whole& operand : operands) args.push_back(operand.bytes());
  StartedThreads two(2);
  ASSERT_TRUE(make_point_kernel(dims, src.strides, dst.strides, stages)->run(args.data(), two));
  for_each_index(dims, [&](const Index& index) {
    float x = src.elements[place(src.strides, index)];
    std::size_t next = 0;
    for (const PointOp op : ops) {
      const bool with = takes_operand(op);
      x = applied(op, x, with ? operands[next].elements[place(operands[next].strides, index)] : 0);
      next += with ? 1 : 0;
    }
    ASSERT_EQ(dst.elements[place(dst.strides, index)], x) << to_string(dims);
  });
  const auto end = static_cast<std::size_t>(dims[0] * dims[1] * dims[2] * dims[3]);
  EXPECT_TRUE(std::equal(before.begin() + static_cast<std::ptrdiff_t>(end), before.end(),
                         dst.elements.begin() + static_cast<std::ptrdiff_t>(end)))
      << "wrote beyond " << to_string(dims);
}

TEST(PointKernel, TakesOperandsOfAnyBroadcast) {
  std::mt19937 random(5);
  using enum PointOp;
  const std::vector<std::vector<PointOp>> chains{
      {kMul}, {kMax}, {kMul, kAdd}, {kMul, kAdd, kRelu}, {kRelu}, {kAdd, kRelu, kMul, kMax}};
  for (const Dims& dims :
       {Dims{1, 1, 1, 1}, Dims{2, 3, 5, 7}, Dims{1, 32, 19, 23}, Dims{3, 33, 1, 5},
        Dims{1, 1024, 3, 3}, Dims{1, 1025, 3, 3}, Dims{2, 2050, 1, 2}, Dims{2, 16, 20, 40}})
    for (const std::int64_t extra_pitch : {0, 9})
      for (const auto& ops : chains)
        for (int again = 0; again < 2; ++again) {
          check(dims, extra_pitch, ops, random);
          if (HasFatalFailure()) return;
        }
}

}  // namespace
}  // namespace ctxgen::onednn
