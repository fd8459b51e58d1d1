#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "ctxgen/ctxfile/executable.h"

#include "plan/aligned_bytes.h"
#include "plan/builder.h"
#include "run/team_threads.h"

namespace ctxgen::onednn {

/// The weights of one loaded program: stored forms in place, others made on demand and kept.
///
/// Threads   members may be called from several threads. Addresses stay valid while it lives.
class WeightBank {
 public:
  /// `team` packs what is not stored as a plan wants it.
  /// Errors  kCorruptContext when a blob is too small for its layout, or packed and not aligned.
  [[nodiscard]] static Result<std::unique_ptr<WeightBank>> create(const Program& program,
                                                                  const BlobSource& blobs,
                                                                  Team team);
  [[nodiscard]] const WeightForms& forms() const { return forms_; }
  /// Resolves everything that `plan` reads: fills packed_data and weight_data.
  [[nodiscard]] Status bind(Plan& plan);
  /// Forms that were made because no stored one fitted. Each is made once and serves every plan,
  /// so their number is bounded by the layouts that oneDNN has for a weight, whatever the shapes.
  [[nodiscard]] std::uint64_t repacked_weights() const;
  [[nodiscard]] std::uint64_t repacked_bytes() const;

 private:
  struct Repacked {
    std::uint32_t weight;
    bool plain, transposed;
    dnnl::memory::desc md;
    AlignedBytes bytes;
    [[nodiscard]] std::span<const std::byte> view() const { return {bytes.data(), bytes.size()}; }
  };
  explicit WeightBank(Team team) : team_(std::move(team)) {}
  [[nodiscard]] Result<AlignedBytes> reorder(const std::byte* source,
                                             const dnnl::memory::desc& from,
                                             const dnnl::memory::desc& to) const;
  /// Anywhere in memory: weights that stay in files of a source are where those put them.
  [[nodiscard]] Result<std::span<const std::byte>> plain(std::uint32_t weight);
  /// The same for kernels, which want constants aligned.
  [[nodiscard]] Result<const std::byte*> aligned_plain(std::uint32_t weight);
  [[nodiscard]] Result<const std::byte*> packed(const PackedUse& use);
  const Repacked& keep(Repacked repacked);

  const Team team_;
  std::vector<DataType> types_;
  std::vector<std::string> names_;
  WeightForms forms_;
  std::vector<std::vector<Blob>> blobs_;  // as forms_
  mutable std::mutex mutex_;              // guards what follows
  std::deque<Repacked> repacked_;
  std::uint64_t repacked_weights_ = 0;
  std::uint64_t repacked_bytes_ = 0;
};

}  // namespace ctxgen::onednn
