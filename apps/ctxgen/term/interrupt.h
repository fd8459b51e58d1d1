#pragma once

namespace ctxgen::cli {

/// What SIGINT does. Temporaries of files being written are removed either way.
enum class Interrupt {
  kImmediate,    // ends the process with status 130
  kCooperative,  // sets interrupted(); a second one ends the process
};

/// Installs the handlers for SIGINT and for the signals that end a process (SIGTERM, SIGHUP, SIGPIPE,
/// SIGXCPU, ...: they do so as always, after the temporaries are gone), and has SIGXFSZ ignored, so that a
/// file that grows beyond `ulimit -f` is an IO_ERROR. Of these, what the caller ignores stays ignored.
void handle_interrupts(Interrupt how);
[[nodiscard]] bool interrupted();

}  // namespace ctxgen::cli
