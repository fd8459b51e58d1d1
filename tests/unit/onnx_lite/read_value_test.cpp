#include <gtest/gtest.h>

#include "ctxgen/onnx_lite/read_model.h"

#include "code_of.h"
#include "proto_builder.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::Proto;
using Kind = RuntimeValue::Kind;

ValueType type_of(ValueType::Kind kind) {
  ValueType type;
  type.kind = kind;
  return type;
}
const ValueType kSequence = type_of(ValueType::Kind::kSequence);
const ValueType kOptional = type_of(ValueType::Kind::kOptional);
const ValueType kMap = type_of(ValueType::Kind::kMap);

Proto floats(const std::vector<float>& values) {
  return test::tensor("", 1, {static_cast<std::int64_t>(values.size())}).raw(9, values);
}
Proto scalar(float value) { return test::tensor("", 1, {}).raw(9, std::vector{value}); }

TEST(ReadValue, ReadsSequences) {
  const Proto proto = Proto().varint(2, 1).message(3, floats({1, 2})).message(3, floats({3}));
  const auto value = read_value(proto.blob(), kSequence);
  ASSERT_EQ(code_of(value), test::kOk);
  ASSERT_EQ(value->kind(), Kind::kSequence);
  EXPECT_EQ(value->sequence().items.size(), 2U);
  EXPECT_EQ(value->sequence().element, DataType::kFloat);
  EXPECT_EQ(value->sequence().items[1].tensor().dims(), (Dims{1}));
  EXPECT_EQ(read_value(Proto().blob(), kSequence)->sequence().items.size(), 0U);
}

TEST(ReadValue, ReadsOptionals) {
  EXPECT_EQ(read_value(Proto().varint(2, 1).blob(), kOptional)->kind(), Kind::kEmptyOptional);
  EXPECT_TRUE(read_value(Proto().message(3, floats({1})).blob(), kOptional)->is_tensor());
  const Proto sequence = Proto().message(3, floats({1}));
  EXPECT_EQ(read_value(Proto().message(5, sequence).blob(), kOptional)->kind(), Kind::kSequence);
}

TEST(ReadValue, ReadsMaps) {
  const Proto values = Proto().message(3, scalar(1.5F)).message(3, scalar(2.5F));
  const Proto proto = Proto().varint(2, 7).packed(3, {4, 9}).message(5, values);
  const auto value = read_value(proto.blob(), kMap);
  ASSERT_EQ(code_of(value), test::kOk);
  EXPECT_EQ(value->map().keys.elements<std::int64_t>()[1], 9);
  EXPECT_EQ(value->map().values.elements<float>()[1], 2.5F);
  const auto sequence = read_value(Proto().message(6, proto).blob(), kSequence);
  ASSERT_EQ(code_of(sequence), test::kOk);
  EXPECT_EQ(sequence->sequence().items.front().kind(), Kind::kMap);
}

TEST(ReadValue, RefusesWhatDoesNotFit) {
  const auto code = [](const Proto& proto, const ValueType& type) {
    return code_of(read_value(proto.blob(), type));
  };
  const Proto other = Proto().message(3, floats({1})).message(3, test::tensor("", 7, {0}));
  EXPECT_EQ(code(other, kSequence), ErrorCode::kInvalidGraph) << "two element types";
  const Proto nested = Proto().message(5, Proto().message(3, floats({1})));
  EXPECT_EQ(code(nested, kSequence), ErrorCode::kUnsupported) << "a sequence of sequences";
  EXPECT_EQ(code(Proto().message(7, Proto()), kOptional), ErrorCode::kUnsupported);
  const Proto values = Proto().message(3, scalar(1));
  EXPECT_EQ(code(Proto().packed(3, {4, 9}).message(5, values), kMap), ErrorCode::kInvalidGraph);
  const Proto wide = Proto().message(3, floats({1, 2}));
  EXPECT_EQ(code(Proto().packed(3, {4}).message(5, wide), kMap), ErrorCode::kUnsupported);
}

TEST(ReadValue, SurvivesEveryTruncation) {
  const Proto proto = Proto().varint(2, 1).message(3, floats({1, 2})).message(3, floats({3}));
  for (std::size_t size = 0; size < proto.str().size(); ++size) {
    const auto bytes = as_bytes(std::string_view(proto.str()).substr(0, size));
    const auto value = read_value(Blob::own({bytes.begin(), bytes.end()}), kSequence);
    if (!value) {
      EXPECT_EQ(code_of(value), ErrorCode::kInvalidGraph) << size;
    }
  }
}

}  // namespace
}  // namespace ctxgen
