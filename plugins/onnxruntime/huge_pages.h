#pragma once

#include "ctxgen/ctxfile/context_file.h"

namespace ctxgen::plugin {

/// Asks the kernel to lay weights of few bits out in huge pages: a step of a decoder reads all of them, and with small pages it waits
/// for page tables. Others are read too seldom for what it costs, one copy and memory that is in one piece. Nothing happens where the kernel has no
/// huge pages, or is older than 6.1.
void use_huge_pages(const ContextContent& content);

}  // namespace ctxgen::plugin
