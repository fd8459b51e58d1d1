#pragma once

#include <cstdint>

#include <gtest/gtest.h>

#include "code_of.h"
#include "program_maker.h"

// What kinds have in common that are convolutions with a packed matrix: 3x3 windows of 3 channels, 5 results.
namespace ctxgen::onednn::test {

/// `code_of_conv(Conv)`: what compiling and running such a convolution ends with.
template <class Conv, class CodeOf>
void expect_refused_windows(const CodeOf& code_of_conv) {
  EXPECT_EQ(code_of_conv(Conv{}), ctxgen::test::kOk);
  EXPECT_EQ(code_of_conv(Conv{.strides = {2, 2}, .pads = {1, 1, 1, 1}}), ctxgen::test::kOk);
  for (const std::int64_t k : {-1, 0, 26, 28, 1 << 30})
    EXPECT_EQ(code_of_conv(Conv{.k = k}), ErrorCode::kInvalidGraph) << k;
  for (const std::int64_t n : {-1, 0, 33, 1 << 30})
    EXPECT_EQ(code_of_conv(Conv{.n = n}), ErrorCode::kInvalidGraph) << n;
  for (const IntList& kernel : {IntList{}, IntList{3}, IntList{3, 3, 3}, IntList{9, 1},
                                IntList{0, 3}, IntList{-3, -3}, IntList{1 << 30, 3}})
    EXPECT_EQ(code_of_conv(Conv{.kernel = kernel}), ErrorCode::kInvalidGraph) << kernel.size();
  for (const IntList& strides : {IntList{0, 1}, IntList{1}, IntList{-1, 1}})
    EXPECT_EQ(code_of_conv(Conv{.strides = strides}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_conv(Conv{.dilations = {9, 9}}), ErrorCode::kInvalidGraph);
  for (const Dims& src : {Dims{1, 27}, Dims{27}})
    EXPECT_EQ(code_of_conv(Conv{.src = src}), ErrorCode::kUnsupported) << src.size();
  for (const Dims& src : {Dims{1, 4, 8, 8}, Dims{1, 3, 64}, Dims{1, 3, 2, 8}, Dims{1, 3, 4, 4, 4}})
    EXPECT_EQ(code_of_conv(Conv{.src = src}), ErrorCode::kInvalidGraph) << src.size();
  EXPECT_EQ(code_of_conv(Conv{.bias = {6}}), ErrorCode::kInvalidGraph);
}

/// `maker`: of no images of 8 x 8.
inline void expect_empty_result(Maker maker) {
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->front().dims(), (Dims{0, 5, 6, 6}));
}

inline void expect_same_on_two_threads(Maker maker) {
  const Outputs one = compile_and_run(maker).value();
  const Packed packed = pack(maker, {maker.input_dims()}).value();
  const auto executable =
      loader().load(packed.shared(), packed.blobs(), LoadOptions{2}, nullptr).value();
  EXPECT_EQ(run(*executable, maker.inputs()).value(), one);
}

}  // namespace ctxgen::onednn::test
