#include <chrono>
#include <format>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/file.h"
#include "ctxgen/base/json.h"
#include "ctxgen/base/stopwatch.h"
#include "ctxgen/trust/file_digests.h"

#include "cli.h"
#include "term/console.h"
#include "term/interrupt.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen verify-signature out --key signer-public.pem\n"
    "      whether the holder of the key signed every file below out\n"
    "  ctxgen verify-signature out --key issuer-certificate.pem --ignore-unsigned\n"
    "      whether anyone with a certificate of the issuer did; further files may be there\n";

struct Flags {
  std::string path, key, signature;
  std::vector<std::string> ignored;
  bool ignore_unsigned = false, json = false;
  Verbosity verbosity;
};

std::string json_text(const SignedSet& set, double seconds) {
  JsonWriter json;
  json.begin_object().field("name", set.name).key("files").begin_array();
  for (const SignedFile& file : set.files) json.value(file.name);
  json.end_array().field("seconds", seconds).end_object();
  return json.finish();
}

Result<int> run(const Flags& flags) {
  apply(flags.verbosity);
  handle_interrupts(Interrupt::kCooperative);
  const auto start = std::chrono::steady_clock::now();
  const std::filesystem::path place = CTXGEN_TRY(signature_path(flags.path, flags.signature));
  const Blob key = CTXGEN_TRY(map_file(flags.key));
  const Blob signature = CTXGEN_TRY(map_file(place));
  const SignedSet set =
      CTXGEN_TRY_AT(verify_signature(signature.bytes, as_text(key.bytes)), "{}", place.string());
  CheckFilesOptions options{.digests = {.ignored = {flags.ignored.begin(), flags.ignored.end()},
                                        .cancelled = interrupted},
                            .ignore_unsigned = flags.ignore_unsigned};
  options.digests.ignored.push_back(place);
  CTXGEN_CHECK(check_files(flags.path, set, options));
  const double seconds = milliseconds_since(start) / 1000;
  if (flags.json) {
    CTXGEN_CHECK(print(json_text(set, seconds)));
  } else if (!flags.verbosity.quiet) {
    CTXGEN_CHECK(print(std::format("{} signed and unchanged, {:.2f} s\n",
                                   count_text(set.files.size(), "file"), seconds)));
  }
  return 0;
}

}  // namespace

void add_verify_signature(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App& verb = *cli.app.add_subcommand("verify-signature",
                                           "compare files with what was signed, without a network");
  verb.add_option("path", flags->path, "a folder or one file, as it was signed")
      ->type_name("PATH")
      ->required();
  verb.add_option("--key", flags->key, "whom to trust: a public key, or certificates (PEM)")
      ->type_name("FILE.pem")
      ->required();
  verb.add_option("--signature", flags->signature,
                  "the signature (default: model.sig in the folder)")
      ->type_name("FILE");
  verb.add_option("--ignore", flags->ignored, "a file or folder to leave out; may be repeated")
      ->type_name("PATH")
      ->allow_extra_args(false);
  verb.add_flag("--ignore-unsigned", flags->ignore_unsigned,
                "files may be there that were not signed");
  verb.add_flag("--json", flags->json, "print JSON");
  add_verbosity(verb, flags->verbosity);
  verb.footer(kExamples);
  verb.callback([&cli, flags] { cli.action = [flags] { return run(*flags); }; });
}

}  // namespace ctxgen::cli
