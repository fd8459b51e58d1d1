#pragma once

#include "ctxgen/ctxfile/context_file.h"

namespace ctxgen::plugin {

/// Asks the kernel to lay weights of bytes and of fewer bits out in huge pages: a run reads all of them in so little time that with small pages it
/// waits for page tables. Others are read too slowly for what it costs, one copy and memory that is in one piece. Nothing happens where the kernel
/// has no huge pages, or is older than 6.1.
void use_huge_pages(const ContextContent& content);

}  // namespace ctxgen::plugin
