#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/program.h"

namespace ctxgen {

/// Somebody who uses a program: a program of a context binary, or a model that refers to one.
struct ProgramUser {
  std::string name;
  const Program* program = nullptr;  // not owned
};

/// Blobs with the same users.
struct SharedBlobs {
  std::vector<std::string> users;  // in the order given, each once
  std::uint64_t blobs = 0;
  std::uint64_t bytes = 0;        // stored
  std::uint64_t saved_bytes = 0;  // what storing them for every use would take in addition
};

/// Who shares which blobs: one entry per set of users, the largest saving first. Blobs that are used
/// once are in none. `blob_bytes`: sizes, by blob index.
[[nodiscard]] std::vector<SharedBlobs> find_shared_blobs(std::span<const ProgramUser> users,
                                                         std::span<const std::uint64_t> blob_bytes);

}  // namespace ctxgen
