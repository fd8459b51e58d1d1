#include "layout/weight_layout.h"

#include <gtest/gtest.h>

#include "ctxgen/ctxfile/needs.h"
#include "ctxgen/ctxfile/weight_reference.h"
#include "ctxgen/onednn/exec.h"

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
  return {cpu_engine(),
          dnnl::prop_kind::forward_inference,
          dnnl::algorithm::convolution_direct,
          image,
          weights,
          image,
          {1, 1},
          pads,
          pads};
}

TEST(ExecWeightLayout, StoredLayoutBringsBackTheKernel) {
  for (const Case& c : {Case{32, 1, 1, 7}, Case{96, 1, 1, 14}, Case{64, 1, 3, 14},
                        Case{32, 32, 3, 7}, Case{48, 48, 1, 9}, Case{64, 4, 3, 9}}) {
    SCOPED_TRACE(c.channels * 1000 + c.group * 10 + c.kernel);
    const auto chosen =
        describe(c, memory::desc(weight_dims(c), memory::data_type::f32, memory::format_tag::any));
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

TEST(ExecWeightLayout, HasTheNumberOfItsPacking) {
  const memory::desc md({70, 200}, memory::data_type::f32, memory::format_tag::BA16a64b);
  EXPECT_EQ(packing_of(encode_layout(md, true).value()), dnnl_BA16a64b);
  EXPECT_EQ(packing_of({}), kPlainPacking);
  EXPECT_EQ(packing_of(reference_layout()), kPlainPacking);
  EXPECT_EQ(packing_of(std::vector<std::byte>(3)), 0);
  for (const std::uint16_t packing :
       {std::uint16_t{0}, std::uint16_t{dnnl_format_tag_last}, kOwnPackings})
    EXPECT_FALSE(knows_packing(packing)) << packing;
  EXPECT_TRUE(knows_packing(kPlainPacking) && knows_packing(dnnl_BA16a64b));
}

TEST(ExecWeightLayout, OfAnotherReleasesKernelsIsRefusedByItsNumber) {
  const memory::desc md({70, 200}, memory::data_type::f32, memory::format_tag::ab);
  std::vector<std::byte> layout = encode_layout(md, false).value();
  layout[3] = std::byte{0x80};  // the high byte of the packing
  const auto form = decode_layout(layout, {"w", DataType::kFloat, Dims{70, 200}, {}});
  ASSERT_FALSE(form);
  EXPECT_EQ(form.error().code, ErrorCode::kVersionMismatch);
  layout[3] = std::byte{0x7f};  // a tag of a later oneDNN
  EXPECT_EQ(decode_layout(layout, {"w", DataType::kFloat, Dims{70, 200}, {}}).error().code,
            ErrorCode::kVersionMismatch);
  layout[3] = layout[2] = std::byte{0};  // no tag
  EXPECT_EQ(decode_layout(layout, {"w", DataType::kFloat, Dims{70, 200}, {}}).error().code,
            ErrorCode::kCorruptContext);
  layout = encode_layout(md, false).value();

  // Stored in a program, it is what the header of the file lists.
  Program program;
  program.weights = {
      {"w", DataType::kFloat, Dims{2}, {{encode_layout(md, false).value(), BlobIndex{0}}}}};
  EXPECT_TRUE(needs_of(loader(), std::span(&program, 1)).empty());
  layout[3] = std::byte{0x80};
  program.weights[0].packed[0].layout = layout;
  const auto number = static_cast<std::uint16_t>(kOwnPackings + dnnl_ab);
  EXPECT_EQ(needs_of(loader(), std::span(&program, 1)),
            (std::vector<Need>{{Need::kPacking, number}}));
}

}  // namespace
}  // namespace ctxgen::onednn::test
