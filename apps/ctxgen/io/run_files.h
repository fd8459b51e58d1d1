#pragma once

#include <string>
#include <vector>

#include "ctxgen/base/file_roles.h"

namespace ctxgen::cli {

/// What a verb that runs a model was told about files; "" where nothing was given.
struct RunFiles {
  std::string model;
  std::string external_data_folder;
  std::string options_file;
  std::vector<std::string> inputs;  // --input
  std::string test_data;
  std::string profile, report, output_file;  // written, and those below
  std::string csv = {}, plot = {};
  std::string output_folder;
  std::string dump_folder = {};
};

/// Whether all that is written may be, before the model is opened: against the model, its external data,
/// the context binaries that it names and the files that their weights stayed in, inputs, test data and
/// the file of options. Where nothing is written, nothing is read either.
/// Errors  INVALID_ARGUMENT as check_file_uses; IO_ERROR as check_writable; those of reading the model.
[[nodiscard]] Status check_run_files(const RunFiles& files);

}  // namespace ctxgen::cli
