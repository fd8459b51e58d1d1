#include "show/certificate_fields.h"

namespace ctxgen::cli {

void write_certificate_fields(JsonWriter& json, const Certificate& certificate) {
  json.field("bound", certificate.bound)
      .field("norm", certificate.norm)
      .field("samples", certificate.samples.hex())
      .field("searched", certificate.searched)
      .field("held_out", certificate.held_out)
      .field("searched_error", certificate.searched_error)
      .field("held_out_error", certificate.held_out_error)
      .field("producer", certificate.producer)
      .field("fingerprint", certificate.fingerprint)
      .key("choices")
      .begin_object();
  for (const auto& [op, choice] : certificate.choices) json.field(op, choice);
  json.end_object().key("programs").begin_array();
  for (const Hash128& program : certificate.programs) json.value(program.hex());
  json.end_array();
}

}  // namespace ctxgen::cli
