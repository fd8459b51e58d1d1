#include "compile/provenance.h"

#include <algorithm>

#include "ctxgen/base/file.h"
#include "ctxgen/base/json.h"
#include "ctxgen/base/version.h"
#include "ctxgen/trust/sha256.h"

namespace ctxgen::cli {
namespace {

/// A resource descriptor of in-toto.
Status write_file_entry(JsonWriter& json, const std::filesystem::path& path) {
  json.begin_object().field("name", path.generic_string());
  if (path != "-") {  // a model from stdin is gone
    const Blob file = CTXGEN_TRY(map_file(path));
    json.key("digest").begin_object().field("sha256", sha256_of(file.bytes).hex()).end_object();
  }
  json.end_object();
  return {};
}

}  // namespace

Result<std::string> provenance_text(const CompileReport& report, const std::string& builder,
                                    std::span<const std::string> arguments) {
  JsonWriter json;
  json.begin_object().field("_type", "https://in-toto.io/Statement/v1");
  json.key("subject").begin_array();
  for (const FileReport& file : report.files) CTXGEN_CHECK(write_file_entry(json, file.path));
  json.end_array().field("predicateType", "https://slsa.dev/provenance/v1");
  json.key("predicate").begin_object().key("buildDefinition").begin_object();
  json.field("buildType", "urn:ctxgen:compile:v1");
  json.key("externalParameters").begin_object();
  json.list("arguments", arguments.subspan(std::min<std::size_t>(1, arguments.size())));
  json.end_object().key("resolvedDependencies").begin_array();
  for (const auto& path : report.files_read) CTXGEN_CHECK(write_file_entry(json, path));
  json.end_array().end_object().key("runDetails").begin_object();
  json.key("builder").begin_object().field("id", builder.empty() ? "urn:ctxgen" : builder);
  json.key("version").begin_object().field("ctxgen", CTXGEN_VERSION_STRING).end_object();
  json.end_object().key("metadata").begin_object();
  json.field("invocationId", report.key.hex()).end_object();
  json.end_object().end_object().end_object();
  return json.finish();
}

}  // namespace ctxgen::cli
