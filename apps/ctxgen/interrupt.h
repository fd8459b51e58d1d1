#pragma once

namespace ctxgen::cli {

/// What SIGINT does. Temporaries of files being written are removed either way.
enum class Interrupt {
  kImmediate,    // ends the process with status 130
  kCooperative,  // sets interrupted(); a second one ends the process
};

/// Installs the handlers for SIGINT, SIGTERM and SIGHUP (the latter two end the process as always,
/// after the temporaries are gone).
void handle_interrupts(Interrupt how);
[[nodiscard]] bool interrupted();

}  // namespace ctxgen::cli
