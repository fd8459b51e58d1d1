// Runs a fuzz target over the files of its committed corpus: seeds and every input that once was a finding.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "fuzz_input.h"

namespace {

TEST(FuzzCorpus, Replays) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(CTXGEN_FUZZ_CORPUS))
    files.push_back(entry.path());
  std::ranges::sort(files);
  ASSERT_FALSE(files.empty()) << CTXGEN_FUZZ_CORPUS;
  for (const auto& file : files) {
    std::cerr << file.filename().string()
              << std::endl;  // the last one is the culprit if it crashes
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(in), {}};
    // Exactly as large, so that the address sanitizer sees a read past the end.
    const std::unique_ptr<std::uint8_t[]> bytes(new std::uint8_t[content.size()]);
    std::ranges::copy(content, bytes.get());
    EXPECT_EQ(LLVMFuzzerTestOneInput(bytes.get(), content.size()), 0) << file;
  }
}

}  // namespace
