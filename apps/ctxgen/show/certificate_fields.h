#pragma once

#include "ctxgen/base/json.h"
#include "ctxgen/ctxfile/certificate.h"

namespace ctxgen::cli {

/// The fields of a certificate, in an object that is open.
void write_certificate_fields(JsonWriter& json, const Certificate& certificate);

}  // namespace ctxgen::cli
