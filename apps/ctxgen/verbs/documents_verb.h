#pragma once

namespace ctxgen::cli {

struct Cli;

/// `ctxgen documents DIR`: writes ctxgen.1, one ctxgen-VERB.1 per verb, and completions for bash, zsh
/// and fish. The build calls it; it is not in the help.
void add_documents(Cli& cli);

}  // namespace ctxgen::cli
