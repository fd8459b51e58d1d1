#include "cache/report_codec.h"

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

CompileReport sample() {
  CompileReport report;
  ModelReport model;
  model.input_name = "net.onnx";
  model.output_name = "net_ctx.onnx";
  model.nodes = 7;
  model.compiled_nodes = 6;
  model.model_bytes = std::uint64_t{1} << 40;
  model.partitions.push_back({"dnnl_1_0", "dnnl", 6, 1, 2, 1234});
  model.assignment.push_back(
      {"odd", "Frobnicate", "", "If_0/then_branch", -1, true, {"dnnl: no", "cpu: no"}});
  model.warnings = {"", "a warning"};
  report.models = {model, ModelReport()};
  report.bins.push_back({"net_dnnl.bin", 5000, 4000, 3});
  report.external = {"net.weights", 64, 2};
  report.bytes_added = 9;
  report.sharing.push_back({{"a", "b"}, 2, 20, 40});
  report.split.push_back({{"a"}, 1, 30, 15});
  return report;
}

TEST(ReportCodec, GivesBackTheReport) {
  const CompileReport report = decode_report(encode_report(sample())).value();
  ASSERT_EQ(report.models.size(), 2U);
  const ModelReport& model = report.models[0];
  EXPECT_EQ(model.output_name, "net_ctx.onnx");
  EXPECT_EQ(model.model_bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(model.partitions.at(0).outputs, 2U);
  EXPECT_EQ(model.assignment.at(0).partition, -1);
  EXPECT_TRUE(model.assignment.at(0).folded);
  EXPECT_EQ(model.assignment.at(0).reasons.at(1), "cpu: no");
  EXPECT_EQ(model.warnings, (std::vector<std::string>{"", "a warning"}));
  EXPECT_EQ(report.bins.at(0).blobs, 3U);
  EXPECT_EQ(report.external.value().tensors, 2U);
  EXPECT_EQ(report.sharing.at(0).users.at(1), "b");
  EXPECT_EQ(report.split.at(0).extra_bytes, 15U);
  EXPECT_FALSE(decode_report(encode_report(CompileReport())).value().external.has_value());
}

TEST(ReportCodec, RejectsEveryTruncation) {
  const auto whole = encode_report(sample());
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_EQ(test::code_of(decode_report(std::span(whole).first(n))), ErrorCode::kCorruptContext)
        << n << " bytes";
}

}  // namespace
}  // namespace ctxgen
