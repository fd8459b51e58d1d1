#include "ctxgen/onnx_lite/external_place.h"

#include "tensors/tensor_reader.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

Result<std::optional<ExternalDataRef>> external_place(const Model& model, const Value& value) {
  std::optional<ExternalDataRef> place;
  if (!value.initializer_is_external || value.is_sparse || value.initializer_source().empty())
    return place;
  place.emplace();
  MessageReader reader(model.bytes(value.initializer_source()), "tensor");
  while (const wire::Field* f = reader.next())
    if (f->tag == wire::bytes(field::tensor::kExternalData))
      CTXGEN_CHECK(read_external_entry(f->body, *place));
  CTXGEN_CHECK(reader.status());
  return place;
}

}  // namespace ctxgen
