#pragma once

#include <cstdint>

/// Field numbers of onnx.proto, by message.
namespace ctxgen::field {

namespace model {
inline constexpr std::uint32_t kIrVersion = 1, kProducerName = 2, kProducerVersion = 3, kGraph = 7,
                               kOpsetImport = 8, kMetadata = 14, kTraining = 20, kFunctions = 25;
}
namespace opset {
inline constexpr std::uint32_t kDomain = 1, kVersion = 2;
}
namespace entry {  // StringStringEntryProto
inline constexpr std::uint32_t kKey = 1, kValue = 2;
}
namespace graph {
inline constexpr std::uint32_t kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12,
                               kValueInfo = 13, kSparseInitializer = 15;
}
namespace training {
inline constexpr std::uint32_t kInitialization = 1, kAlgorithm = 2;
}
namespace function {
inline constexpr std::uint32_t kName = 1, kInput = 4, kOutput = 5, kAttribute = 6, kNode = 7,
                               kOpsetImport = 9, kDomain = 10, kAttributeProto = 11, kOverload = 13;
}
namespace node {
inline constexpr std::uint32_t kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5,
                               kDomain = 7, kOverload = 8;
}
namespace attribute {
inline constexpr std::uint32_t kName = 1, kFloat = 2, kInt = 3, kString = 4, kTensor = 5,
                               kGraph = 6, kFloats = 7, kInts = 8, kStrings = 9, kTensors = 10,
                               kGraphs = 11, kTypeProto = 14, kTypeProtos = 15, kType = 20,
                               kRefName = 21, kSparseTensor = 22, kSparseTensors = 23;
}
namespace tensor {
inline constexpr std::uint32_t kDims = 1, kDataType = 2, kSegment = 3, kFloatData = 4,
                               kInt32Data = 5, kStringData = 6, kInt64Data = 7, kName = 8,
                               kRawData = 9, kDoubleData = 10, kUint64Data = 11, kExternalData = 13,
                               kDataLocation = 14;
}
namespace sparse {
inline constexpr std::uint32_t kValues = 1, kIndices = 2, kDims = 3;
}
namespace value {  // SequenceProto and OptionalProto: one field per kind of content
inline constexpr std::uint32_t kTensor = 3, kSequence = 5, kMap = 6, kLast = 7;
}
namespace map {
inline constexpr std::uint32_t kKeys = 3, kStringKeys = 4, kValues = 5;
}
namespace value_info {
inline constexpr std::uint32_t kName = 1, kType = 2;
}
namespace type {
inline constexpr std::uint32_t kTensor = 1, kSequence = 4, kMap = 5, kOpaque = 7, kSparseTensor = 8,
                               kOptional = 9;
inline constexpr std::uint32_t kElement = 1, kShape = 2;  // in the type messages themselves
inline constexpr std::uint32_t kKey = 1, kMapValue = 2, kOpaqueDomain = 1, kOpaqueName = 2;
}  // namespace type
namespace shape {
inline constexpr std::uint32_t kDim = 1;
inline constexpr std::uint32_t kDimValue = 1, kDimParam = 2;  // in Dimension
}  // namespace shape

}  // namespace ctxgen::field
