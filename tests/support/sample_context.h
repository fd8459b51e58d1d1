#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "ctxgen/ctxfile/context_file.h"

namespace ctxgen::test {

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

template <class T>
Blob blob_of(const std::vector<T>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return Blob::own({bytes.begin(), bytes.end()});
}

/// relu(x * w + b) with every kind of operand, dim and parameter that a program can have.
inline Program sample_dense() {
  Program program;
  program.name = "dnnl_sample_0";
  program.source = "CtxgenDnnlExecutionProvider";
  program.symbols = {"batch", "steps"};
  program.values = {
      {"x", DataType::kFloat, {{-1, 0}, {4, -1}}, true},
      {"hidden", DataType::kFloat, {{-1, 0}, {2, -1}}, true},
      {"y", DataType::kFloat, {{-1, -1}, {2, -1}}, true},
      {"extra", DataType::kInt64, {}, false},
  };
  program.inputs = {0};
  program.outputs = {2, 3};
  program.weights = {{"w",
                      DataType::kFloat,
                      Dims{4, 2},
                      {{bytes_of("packed ab"), BlobIndex{0}}, {{}, BlobIndex{1}}}},
                     {"b", DataType::kFloat, Dims{2}, {{{}, BlobIndex{2}}}}};
  program.ops = {
      {"matmul",
       "dense_1",
       {Operand::value(0), Operand::weight(0), Operand{}, Operand::weight(1)},
       {1},
       {{"trans_b", std::int64_t{-1}},
        {"scale", 0.5},
        {"mode", std::string("plain")},
        {"axes", std::vector<std::int64_t>{0, -2, 300}},
        {"factors", std::vector<double>{1.5, -0.0}},
        {"none", std::vector<std::int64_t>{}}},
       {{"relu", 0.25F, -0.0F, Operand{}}, {"add", 0.0F, 0.0F, Operand::value(0)}}},
      {"copy", "out", {Operand::value(1)}, {2, 3}, {}, {}},
  };
  program.plans = {{{Dims{1, 4}}, 4096, 128, bytes_of("plan one")},
                   {{Dims{8, 4}}, 8192, 0, bytes_of("plan eight")}};
  return program;
}

/// y = -x + b over a scalar; shares its weight with sample_dense().
inline Program sample_scalar() {
  Program program;
  program.name = "dnnl_sample_1";
  program.source = "CtxgenDnnlExecutionProvider";
  program.values = {{"s", DataType::kFloat, {}, true}, {"t", DataType::kFloat, {{2, -1}}, true}};
  program.inputs = {0};
  program.outputs = {1};
  program.weights = {{"bias", DataType::kFloat, Dims{2}, {{{}, BlobIndex{2}}}}};
  program.ops = {{"binary",
                  "",
                  {Operand::value(0), Operand::weight(0)},
                  {1},
                  {{"alg", std::string("add")}},
                  {}}};
  return program;
}

/// Two programs over three blobs. tests/format/golden/v1_two_partitions.ctx is this content: what
/// changes here is a new golden file.
inline ContextContent sample_content() {
  ContextContent content;
  content.source = "CtxgenDnnlExecutionProvider";
  content.fingerprint = "format=1;onednn=3.12.0;isa=avx512_core;threads=1";
  content.producer = "ctxgen golden";
  content.programs = {sample_dense(), sample_scalar()};
  content.blobs = {blob_of(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}),
                   blob_of(std::vector<float>{1, 3, 5, 7, 2, 4, 6, 8}),
                   blob_of(std::vector<float>{0.5F, -0.5F})};
  for (const Blob& blob : content.blobs) content.blob_hashes.push_back(hash_bytes(blob.bytes));
  return content;
}

/// What came with 1.1: a program for a second instruction set, and a blob that shrinks.
/// tests/format/golden/v1_1_variant_zstd.ctx was made of this content.
inline ContextContent sample_content_1_1() {
  ContextContent content = sample_content();
  content.fingerprint = "format=1;onednn=3.12.0;isa=avx2,avx512_core;threads=1";
  Program variant = content.programs[0];
  content.programs[0].isa = "avx2";
  variant.variant_of = variant.name;
  variant.name += "@avx512_core";
  variant.isa = "avx512_core";
  variant.plans.pop_back();
  variant.weights[0].packed[0].blob = BlobIndex{3};
  content.programs.push_back(std::move(variant));
  content.blobs.push_back(Blob::own(std::vector<std::byte>(300, std::byte{7})));
  content.blob_hashes.push_back(hash_bytes(content.blobs.back().bytes));
  return content;
}

/// What came with 1.2: the header says what a reader must know, here more than there is.
/// tests/format/golden/v1_2_needs.ctx is this content.
inline ContextContent sample_content_1_2() {
  ContextContent content = sample_content();
  content.needs = {
      {Need::kOpKind, 2}, {Need::kOpKind, 999}, {Need::kPacking, 1}, {Need::kPacking, 0xf000}};
  return content;
}

/// What came with 1.3: certificates. tests/format/golden/v1_3_certificate.ctx is this content.
inline ContextContent sample_content_1_3() {
  ContextContent content = sample_content();
  Certificate certificate{.bound = 0.01,
                          .norm = "max",
                          .samples = {.high = 1, .low = 2},
                          .searched = 3,
                          .held_out = 1,
                          .searched_error = 0.0075,
                          .held_out_error = 0.0078125,
                          .producer = content.producer,
                          .fingerprint = content.fingerprint,
                          .choices = {{"copy", "weights=f16"}, {"matmul", "weights=s4:32"}}};
  for (const Program& program : content.programs)
    certificate.programs.push_back(hash_program(
        program, [&](BlobRef blob) { return content.blob_hashes[blob.bin_index().value]; }));
  std::ranges::sort(certificate.programs);
  content.programs[0].certificate = certificate;
  certificate.choices.clear();
  content.programs[1].certificate = certificate;
  return content;
}

inline std::vector<std::byte> file_of(const ContextContent& content) {
  std::vector<std::byte> file;
  const Status status = write_context(content, [&](std::span<const std::byte> bytes) -> Status {
    file.insert(file.end(), bytes.begin(), bytes.end());
    return {};
  });
  if (!status) assertion_failed(status.error().message.c_str(), __FILE__, __LINE__);
  return file;
}

}  // namespace ctxgen::test
