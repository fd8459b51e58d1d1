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
    "  ctxgen sign out --key signer.pem\n"
    "      writes out/model.sig, which vouches for every file below out\n"
    "  ctxgen sign out --key signer.pem --certificates signer-and-issuers.pem\n"
    "      to be verified by a certificate of the issuer\n"
    "  ctxgen sign model_ctx.onnx --key signer.pem -o model.sig\n";

struct Flags {
  std::string path, key, certificates, output;
  std::vector<std::string> ignored;
  bool json = false;
  Verbosity verbosity;
};

Result<std::string> text_of_file(const std::string& path) {
  const Blob file = CTXGEN_TRY(map_file(path));
  return std::string(as_text(file.bytes));
}

/// An earlier signature may be replaced, nothing else: the output is the one file of the folder that is not among those signed.
Status check_output(const std::filesystem::path& output) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(output, error))) return {};
  if (is_signature(CTXGEN_TRY(map_file(output)).bytes)) return {};
  return fail(ErrorCode::kInvalidArgument, "would replace \"{}\", which is not a signature",
              output.string());
}

std::string json_text(const SignedSet& set, const std::string& signature, double seconds) {
  JsonWriter json;
  json.begin_object().field("signature", signature).field("name", set.name);
  json.key("files").begin_array();
  for (const SignedFile& file : set.files)
    json.begin_object().field("name", file.name).field("sha256", file.digest.hex()).end_object();
  json.end_array().field("seconds", seconds).end_object();
  return json.finish();
}

Result<int> run(const Flags& flags) {
  apply(flags.verbosity);
  handle_interrupts(Interrupt::kCooperative);
  const auto start = std::chrono::steady_clock::now();
  const std::filesystem::path output = CTXGEN_TRY(signature_path(flags.path, flags.output));
  SigningKey key;
  key.private_key = CTXGEN_TRY(text_of_file(flags.key));
  if (!flags.certificates.empty()) key.certificates = CTXGEN_TRY(text_of_file(flags.certificates));
  CTXGEN_CHECK(check_output(output));
  DigestOptions options{.ignored = {flags.ignored.begin(), flags.ignored.end()},
                        .cancelled = interrupted};
  options.ignored.push_back(output);  // of an earlier run
  const SignedSet set = CTXGEN_TRY(digest_files(flags.path, options));
  const std::string signature = CTXGEN_TRY(sign_set(set, key));
  CTXGEN_CHECK(write_file(output, as_bytes(signature)));
  const double seconds = milliseconds_since(start) / 1000;
  if (flags.json) {
    CTXGEN_CHECK(print(json_text(set, output.string(), seconds)));
  } else if (!flags.verbosity.quiet) {
    CTXGEN_CHECK(print(std::format("{} vouches for {}, {:.2f} s\n", output.string(),
                                   count_text(set.files.size(), "file"), seconds)));
  }
  return 0;
}

}  // namespace

void add_sign(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App& verb = *cli.app.add_subcommand(
      "sign", "sign the files of a folder, in the form of OpenSSF Model Signing");
  verb.add_option("path", flags->path, "a folder, with all files below it, or one file")
      ->type_name("PATH")
      ->required();
  verb.add_option("--key", flags->key,
                  "the private key: PEM, on P-256, P-384 or P-521, not encrypted")
      ->type_name("FILE.pem")
      ->required();
  verb.add_option("--certificates", flags->certificates,
                  "the certificate of that key, then those of its issuers: PEM")
      ->type_name("FILE.pem");
  verb.add_option("-o,--output", flags->output, "the signature (default: model.sig in the folder)")
      ->type_name("FILE");
  verb.add_option("--ignore", flags->ignored, "a file or folder to leave out; may be repeated")
      ->type_name("PATH")
      ->allow_extra_args(false);
  verb.add_flag("--json", flags->json, "print JSON");
  add_verbosity(verb, flags->verbosity);
  verb.footer(kExamples);
  verb.callback([&cli, flags] { cli.action = [flags] { return run(*flags); }; });
}

}  // namespace ctxgen::cli
