// Reads folders of backend-test cases from standard input, one a line, and answers each with one line on
// standard output: passed, failed or skipped; the number of partitions; the reason; separated by tabs.

#include <cstdio>
#include <iostream>
#include <string>

#include "case.h"

namespace {

using namespace ctxgen::conformance;

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed: return "passed";
    case Outcome::kSkipped: return "skipped";
    case Outcome::kFailed: break;
  }
  return "failed";
}

}  // namespace

int main(int count, char** arguments) {
  const std::string via = count == 2 ? arguments[1] : "";
  if (via != "cpu" && via != "compile") {
    std::fputs("usage: conformance_worker cpu|compile  (folders on standard input)\n", stderr);
    return 1;
  }
  for (std::string folder; std::getline(std::cin, folder);) {
    const CaseResult result = run_case(folder, via == "cpu" ? Via::kCpu : Via::kCompile);
    std::printf("%s\t%zu\t%s\n", name_of(result.outcome), result.partitions, result.reason.c_str());
    std::fflush(stdout);
  }
  return 0;
}
