#include <cstring>

#include <gmock/gmock.h>

#include "ctxgen/onnx_lite/read_model.h"

#include "code_of.h"
#include "proto_builder.h"
#include "tensors/tensor_reader.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::Proto;
using testing::ElementsAre;
using testing::ElementsAreArray;

template <class T>
std::vector<T> values(const Tensor& tensor) {
  std::vector<T> out(tensor.bytes().size() / sizeof(T));
  std::memcpy(out.data(), tensor.bytes().data(), tensor.bytes().size());
  return out;
}

bool inside(const Blob& blob, const Tensor& tensor) {
  return tensor.bytes().data() >= blob.bytes.data() &&
         tensor.bytes().data() + tensor.bytes().size() <= blob.bytes.data() + blob.bytes.size();
}

TEST(ReadTensor, RawDataStaysInPlace) {
  const Blob blob = test::floats("w", {2, 2}, {1, 2, 3, 4}).blob();
  const auto tensor = read_tensor(blob);
  ASSERT_EQ(code_of(tensor), test::kOk);
  EXPECT_EQ(tensor->dims(), (Dims{2, 2}));
  EXPECT_THAT(values<float>(*tensor), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(inside(blob, *tensor));
}

TEST(ReadTensor, PackedFloatsAndDoublesStayInPlace) {
  const Blob f = test::tensor("w", 1, {3}).raw<float>(4, {1, 2, 3}).blob();
  const Blob d = test::tensor("w", 11, {2}).raw<double>(10, {0.5, -1}).blob();
  const Blob c = test::tensor("w", 14, {1}).raw<float>(4, {1, -2}).blob();  // complex64
  for (const Blob& blob : {f, d, c}) EXPECT_TRUE(inside(blob, read_tensor(blob).value()));
  EXPECT_THAT(values<float>(*read_tensor(f)), ElementsAre(1, 2, 3));
  EXPECT_THAT(values<double>(*read_tensor(d)), ElementsAre(0.5, -1));
  EXPECT_THAT(values<float>(*read_tensor(c)), ElementsAre(1, -2));
}

TEST(ReadTensor, SplitAndUnpackedFieldsAreJoined) {
  Proto proto = test::tensor("w", 1, {4});
  proto.real(4, 1).raw<float>(4, {2, 3}).real(4, 4);
  EXPECT_THAT(values<float>(read_tensor(proto.blob()).value()), ElementsAre(1, 2, 3, 4));
  Proto ints = test::tensor("w", 7, {4});
  ints.varint(7, -1).packed(7, {2, 300000000000}).varint(7, 4);
  EXPECT_THAT(values<std::int64_t>(read_tensor(ints.blob()).value()),
              ElementsAre(-1, 2, 300000000000, 4));
}

TEST(ReadTensor, Int32DataHoldsNarrowTypes) {
  const auto narrow = [](int type, std::vector<std::int64_t> dims,
                         const std::vector<std::int64_t>& data) {
    return read_tensor(test::tensor("w", type, dims).packed(5, data).blob()).value();
  };
  EXPECT_THAT(values<std::int8_t>(narrow(3, {2}, {-1, 127})), ElementsAre(-1, 127));
  EXPECT_THAT(values<std::uint8_t>(narrow(2, {2}, {255, 3})), ElementsAre(255, 3));
  EXPECT_THAT(values<std::int16_t>(narrow(5, {2}, {-2, 300})), ElementsAre(-2, 300));
  EXPECT_THAT(values<std::int32_t>(narrow(6, {2}, {-70000, 5})), ElementsAre(-70000, 5));
  EXPECT_THAT(values<std::uint8_t>(narrow(9, {3}, {0, 1, 7})), ElementsAre(0, 1, 1)) << "bool";
  EXPECT_THAT(values<std::uint16_t>(narrow(10, {1}, {15872})), ElementsAre(15872)) << "1.5 in f16";
  EXPECT_THAT(values<std::uint8_t>(narrow(22, {3}, {0xe1, 0x03})), ElementsAre(0xe1, 0x03))
      << "int4: packed bytes";
  EXPECT_THAT(values<std::uint8_t>(narrow(25, {3}, {0x39})), ElementsAre(0x39)) << "uint2";
}

TEST(ReadTensor, Uint64DataHoldsUnsignedTypes) {
  const auto wide = test::tensor("w", 13, {2}).packed(11, {-1, 1});
  EXPECT_THAT(values<std::uint64_t>(read_tensor(wide.blob()).value()), ElementsAre(UINT64_MAX, 1u));
  const auto narrow = test::tensor("w", 12, {2}).packed(11, {4294967295, 1});
  EXPECT_THAT(values<std::uint32_t>(read_tensor(narrow.blob()).value()),
              ElementsAre(UINT32_MAX, 1u));
}

TEST(ReadTensor, Strings) {
  const auto proto = test::tensor("w", 8, {2}).text(6, "a").text(6, std::string_view("\xff\0b", 3));
  EXPECT_THAT(read_tensor(proto.blob())->strings(), ElementsAre("a", std::string("\xff\0b", 3)));
}

TEST(ReadTensor, EmptyTensorsNeedNoData) {
  for (const int type : {1, 7, 8, 10, 22}) {
    const auto tensor = read_tensor(test::tensor("w", type, {0, 1000000000}).blob());
    ASSERT_EQ(code_of(tensor), test::kOk) << type;
    EXPECT_EQ(tensor->element_count(), 0);
    // Nothing would bound what is computed from such dims.
    EXPECT_EQ(code_of(read_tensor(test::tensor("w", type, {0, 1000000000000}).blob())),
              ErrorCode::kResourceLimit);
  }
}

TEST(ReadTensor, TheLastRawDataWins) {
  const auto proto = test::floats("w", {1}, {1}).raw<float>(9, {2});
  EXPECT_THAT(values<float>(read_tensor(proto.blob()).value()), ElementsAre(2));
}

TEST(ReadTensor, RefusesDataThatDoesNotFit) {
  const auto code = [](const Proto& proto) { return code_of(read_tensor(proto.blob())); };
  EXPECT_EQ(code(test::floats("w", {3}, {1, 2})), ErrorCode::kInvalidGraph) << "short";
  EXPECT_EQ(code(test::floats("w", {1}, {1, 2})), ErrorCode::kInvalidGraph) << "long";
  EXPECT_EQ(code(test::tensor("w", 1, {1})), ErrorCode::kInvalidGraph) << "none";
  EXPECT_EQ(code(test::tensor("w", 1, {1}).packed(5, {1})), ErrorCode::kInvalidGraph) << "field";
  EXPECT_EQ(code(test::tensor("w", 7, {3}).packed(7, {1, 2})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(test::tensor("w", 8, {3}).text(6, "a")), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(test::tensor("w", 8, {1}).text(9, "a")), ErrorCode::kInvalidGraph) << "raw text";
  EXPECT_EQ(code(test::tensor("w", 1, {1}).text(4, "abc")), ErrorCode::kInvalidGraph) << "packed";
  EXPECT_EQ(code(test::tensor("w", 7, {1}).text(7, "\xff")), ErrorCode::kInvalidGraph) << "varint";
}

TEST(ReadTensor, RefusesTypesAndDims) {
  const auto code = [](const Proto& proto) { return code_of(read_tensor(proto.blob())); };
  EXPECT_EQ(code(test::tensor("w", 0, {})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(test::tensor("w", 27, {})), ErrorCode::kUnsupported);
  EXPECT_EQ(code(test::tensor("w", 1, {-1})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(test::tensor("w", 1, std::vector<std::int64_t>(13, 1))), ErrorCode::kUnsupported);
  EXPECT_EQ(code(test::tensor("w", 1, {INT64_MAX, INT64_MAX})), ErrorCode::kResourceLimit);
  EXPECT_EQ(code(test::tensor("w", 1, {std::int64_t{1} << 62})), ErrorCode::kResourceLimit);
  EXPECT_EQ(code(test::floats("w", {1}, {1}).message(3, Proto().varint(1, 0))),
            ErrorCode::kUnsupported)
      << "segment";
  EXPECT_EQ(code(test::tensor("w", 1, {1}).varint(14, 1)), ErrorCode::kInvalidGraph) << "external";
}

TEST(TensorReader, DenseFormsAreLimitedTogether) {
  const Blob blob = Proto()
                        .message(1, test::floats("w", {1}, {7}))
                        .message(2, test::int64s("", {1}, {2}))
                        .varint(3, 8)
                        .blob();
  TensorReader reader(blob, nullptr, /*spill=*/nullptr, /*max_densified_bytes=*/64);
  EXPECT_EQ(code_of(reader.read_sparse(blob.bytes)), test::kOk);
  EXPECT_EQ(code_of(reader.read_sparse(blob.bytes)), test::kOk);
  EXPECT_EQ(code_of(reader.read_sparse(blob.bytes)), ErrorCode::kResourceLimit) << "32 bytes each";
}

TEST(WriteTensor, ReadsBackEqual) {
  Tensor numbers = Tensor::allocate(DataType::kInt16, {3}).value();
  const std::vector<std::int16_t> wanted{1, -2, 300};
  std::memcpy(numbers.mutable_bytes().data(), wanted.data(), 6);
  const auto bytes = write_tensor(numbers, "x");
  const auto back = read_tensor(Blob::own(bytes));
  ASSERT_EQ(code_of(back), test::kOk);
  EXPECT_EQ(back->type(), DataType::kInt16);
  EXPECT_THAT(values<std::int16_t>(*back), ElementsAreArray(wanted));

  const Tensor strings = Tensor::of_strings({2}, {"", "text"});
  EXPECT_THAT(read_tensor(Blob::own(write_tensor(strings, "s")))->strings(),
              ElementsAre("", "text"));
  const Tensor scalar = Tensor::allocate(DataType::kBool, {}).value();
  EXPECT_EQ(read_tensor(Blob::own(write_tensor(scalar, "")))->rank(), 0u);
}

}  // namespace
}  // namespace ctxgen
