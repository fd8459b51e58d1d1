#include "layout/weight_layout.h"

#include <gtest/gtest.h>

// Private header of the library: what no interface shows is that a stored layout brings back the
// very kernel that asked for it.
namespace ctxgen::onednn::test {
namespace {

using dnnl::memory;

struct Case {
  std::int64_t channels, group, kernel, size;
};

memory::dims weight_dims(const Case& c) {
  const std::int64_t per_group = c.channels / c.group;
  if (c.group == 1) return {c.channels, c.channels, c.kernel, c.kernel};
  return {c.group, per_group, per_group, c.kernel, c.kernel};
}

dnnl::convolution_forward::primitive_desc describe(const Case& c, const memory::desc& weights) {
  const memory::desc image({1, c.channels, c.size, c.size}, memory::data_type::f32,
                           memory::format_tag::acdb);
  const memory::dims pads(2, c.kernel / 2);
  return {cpu_engine(), dnnl::prop_kind::forward_inference,
          dnnl::algorithm::convolution_direct, image, weights, image, {1, 1}, pads, pads};
}

TEST(ExecWeightLayout, StoredLayoutBringsBackTheKernel) {
  for (const Case& c : {Case{32, 1, 1, 7}, Case{96, 1, 1, 14}, Case{64, 1, 3, 14},
                        Case{32, 32, 3, 7}, Case{48, 48, 1, 9}, Case{64, 4, 3, 9}}) {
    SCOPED_TRACE(c.channels * 1000 + c.group * 10 + c.kernel);
    const auto chosen = describe(
        c, memory::desc(weight_dims(c), memory::data_type::f32, memory::format_tag::any));
    const auto layout = encode_layout(chosen.weights_desc(), false);
    ASSERT_TRUE(layout);
    const std::int64_t per_group = c.channels / c.group;
    const ProgramWeight weight{
        "w", DataType::kFloat, Dims{c.channels, per_group, c.kernel, c.kernel}, {}};
    const auto form = decode_layout(*layout, weight);
    ASSERT_TRUE(form) << form.error().message;
    EXPECT_EQ(std::string(describe(c, form->md).impl_info_str()), chosen.impl_info_str());
  }
}

TEST(ExecWeightLayout, TransposedFlagSurvives) {
  const memory::desc md({70, 200}, memory::data_type::f32, memory::format_tag::BA16a64b);
  const ProgramWeight weight{"w", DataType::kFloat, Dims{200, 70}, {}};
  const auto form = decode_layout(encode_layout(md, true).value(), weight);
  ASSERT_TRUE(form) << form.error().message;
  EXPECT_TRUE(form->transposed);
  EXPECT_EQ(form->md, md);
}

}  // namespace
}  // namespace ctxgen::onednn::test
