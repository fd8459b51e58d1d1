#include "proto_convert.h"

namespace ctxgen {
namespace {

// Every value that inference finds holds the names of its dims; longer ones are left out.
constexpr std::size_t kMostSymbolBytes = 256;

using Kind = ValueType::Kind;

template <class TensorType>  // TypeProto::Tensor or TypeProto::SparseTensor
void fill_tensor_type(const ValueType& type, const Model& model, const SymbolValues& values,
                      TensorType& out) {
  out.set_elem_type(static_cast<int>(type.element));
  if (!type.shape) return;
  auto* shape = out.mutable_shape();
  for (const Dim& dim : *type.shape) {
    auto* encoded = shape->add_dim();
    if (dim.is_fixed()) encoded->set_dim_value(dim.value());
    if (!dim.is_symbol()) continue;
    const auto value = values ? values(dim.symbol()) : std::nullopt;
    if (value)
      encoded->set_dim_value(*value);
    else if (model.symbol_name(dim.symbol()).size() <= kMostSymbolBytes)
      encoded->set_dim_param(model.symbol_name(dim.symbol()));
  }
}

template <class TensorType>
void read_tensor_type(const TensorType& tensor, const SymbolOf& symbol_of, ValueType& type) {
  if (is_known_data_type(tensor.elem_type()))
    type.element = static_cast<DataType>(tensor.elem_type());
  if (!tensor.has_shape() || tensor.shape().dim_size() > static_cast<int>(kMaxRank)) return;
  auto& dims = type.shape.emplace();
  for (const auto& dim : tensor.shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0)
      dims.push_back(Dim::fixed(dim.dim_value()));
    else if (!dim.dim_param().empty())
      dims.push_back(Dim::symbol(symbol_of(dim.dim_param())));
    else
      dims.push_back(Dim());
  }
}

}  // namespace

onnx::TypeProto to_proto(const ValueType& type, const Model& model, const SymbolValues& values) {
  onnx::TypeProto out;
  switch (type.kind) {
    case Kind::kTensor: fill_tensor_type(type, model, values, *out.mutable_tensor_type()); break;
    case Kind::kSparseTensor:
      fill_tensor_type(type, model, values, *out.mutable_sparse_tensor_type());
      break;
    case Kind::kSequence:
      fill_tensor_type(type, model, values,
                       *out.mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type());
      break;
    case Kind::kOptional:
      fill_tensor_type(type, model, values,
                       *out.mutable_optional_type()->mutable_elem_type()->mutable_tensor_type());
      break;
    case Kind::kUnknown:
    case Kind::kMap:
    case Kind::kOpaque: break;
  }
  return out;
}

ValueType from_proto(const onnx::TypeProto& proto, const SymbolOf& symbol_of) {
  ValueType type;
  switch (proto.value_case()) {
    case onnx::TypeProto::kTensorType:
      type.kind = Kind::kTensor;
      read_tensor_type(proto.tensor_type(), symbol_of, type);
      break;
    case onnx::TypeProto::kSparseTensorType:
      type.kind = Kind::kSparseTensor;
      read_tensor_type(proto.sparse_tensor_type(), symbol_of, type);
      break;
    case onnx::TypeProto::kSequenceType:
    case onnx::TypeProto::kOptionalType: {
      const bool sequence = proto.value_case() == onnx::TypeProto::kSequenceType;
      const ValueType element = from_proto(
          sequence ? proto.sequence_type().elem_type() : proto.optional_type().elem_type(),
          symbol_of);
      type.kind = sequence ? Kind::kSequence : Kind::kOptional;
      type.element = element.element;
      type.shape = element.shape;
      break;
    }
    case onnx::TypeProto::kMapType: type.kind = Kind::kMap; break;
    default: break;
  }
  return type;
}

bool is_small(const Tensor& tensor) {
  if (!tensor.is_string()) return tensor.bytes().size() < kInlineBytes;
  std::uint64_t size = 0;
  for (const std::string& text : tensor.strings()) size += text.size() + 1;
  return size < kInlineBytes;
}

onnx::TensorProto to_proto(const Tensor& tensor) {
  onnx::TensorProto out;
  for (const std::int64_t dim : tensor.dims()) out.add_dims(dim);
  out.set_data_type(static_cast<int>(tensor.type()));
  if (!is_small(tensor)) return out;
  if (tensor.is_string())
    for (const std::string& text : tensor.strings()) out.add_string_data(text);
  else
    out.set_raw_data(tensor.bytes().data(), tensor.bytes().size());
  return out;
}

ValueType exact_type(const Tensor& tensor) {
  ValueType type{.kind = Kind::kTensor, .element = tensor.type(), .shape = std::vector<Dim>()};
  for (const std::int64_t dim : tensor.dims()) type.shape->push_back(Dim::fixed(dim));
  return type;
}

}  // namespace ctxgen
