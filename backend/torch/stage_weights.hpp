#pragma once
// The weight versions of one stage on one rank, whole or as this rank's shard of them.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backend/torch/layer.hpp"
#include "backend/torch/optimizer.hpp"

namespace penstock::nn {

/// What a rank keeps only its part of (ZeRO, SC'20, section 5).
enum class Sharded : std::uint8_t {
  optimizer,  // its state; the weights are whole, and gather() brings what the other ranks have updated
  gradients,  // and what is reduced of them
  weights,    // and the weights, which are whole between gather() and release()
};

/// This rank's place among those that share a stage: it has part `index` of `count` equal parts of all
/// weights laid end to end, the last one filled up with zeros.
struct Shard {
  std::int32_t index = 0;
  std::int32_t count = 1;
  Sharded what = Sharded::weights;
};

class StageWeights {
 public:
  /// With a shard only that part is optimized.
  StageWeights(const Tensors& initial, const OptimizerOptions& optimizer, const std::optional<Shard>& shard);

  /// Throws std::logic_error where the version is not held, or not gathered.
  Weights of(std::int32_t version) const;
  std::int32_t newest() const { return kept_.rbegin()->first; }
  /// What is kept of reduced gradients: this rank's part, or all.
  Tensors kept_of(Tensors gradient) const;
  /// Makes the next version from what kept_of() left. An empty gradient counts as 0.
  void step(const Tensors& gradient);
  void drop(std::int32_t version);
  struct Held {
    std::int64_t newest = 0;  ///< and what is gathered of it
    std::int64_t older = 0;
    std::int64_t optimizer_state = 0;
  };
  const Held& held_bytes() const { return held_; }
  /// How many versions are held now.
  std::size_t version_count() const { return kept_.size(); }

  /// What this rank keeps of the newest version, which the next gather() completes.
  Tensors part();
  /// The parts of all members, in the order of their shards.
  void gather(std::span<const at::Tensor> parts);
  void release();

 private:
  struct Gathered {
    std::int32_t version = 0;
    Tensors weights;
  };
  bool keeps_part_of(Sharded what) const { return shard_ && shard_->what >= what; }
  /// Whole weights of which this rank updates a part.
  bool updates_part_of_whole() const { return shard_ && !keeps_part_of(Sharded::weights); }
  /// One flat tensor, part `index` of them laid end to end; nothing of nothing.
  Tensors own_part(const Tensors& whole) const;
  /// Views into `flat`, in the shapes of the whole; what is filled up is left out.
  Tensors whole_of(const at::Tensor& flat) const;
  Tensors with_own_part(const Tensors& whole, const at::Tensor& part) const;
  /// Brings held_ up to date.
  void count();

  Optimizer optimizer_;
  std::optional<Shard> shard_;
  Tensors like_;                          // shapes and types of the whole, without storage of its own
  std::map<std::int32_t, Tensors> kept_;  // by version; of sharded weights one flat tensor
  std::int32_t parting_version_ = 0;      // that part() gave of
  std::optional<Gathered> gathered_;
  Held held_;
};

}  // namespace penstock::nn
