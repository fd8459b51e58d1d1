#pragma once

namespace ctxgen::cli {

// Ends of the process where memory is used up and nothing can catch that: each prints the error's line (and its JSON
// where that is asked for) without allocating, removes temporaries and ends with the status of RESOURCE_LIMIT. A
// handler of std::terminate is there before any library is initialised, as those throw there, too; so is one of exit(),
// which libgomp calls where it gets no memory or no thread.

/// To be called first in main(). From then on an access to address 0, under a limit of the address space (ulimit
/// -v, -d) of which half is used, is reported as want of memory, too: oneDNN does not look at every allocation of its own.
/// Without such a limit nothing changes there.
void main_begins(int count, char** arguments);
/// main() is about to return: exit() is what comes next.
void main_ends();

}  // namespace ctxgen::cli
