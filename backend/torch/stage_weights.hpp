#pragma once
// The weight versions of one stage on one rank, whole or as this rank's shard.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backend/torch/layer.hpp"
#include "backend/torch/optimizer.hpp"

namespace penstock::nn {

/// The data of which a rank holds only its part (ZeRO, SC'20, section 5).
enum class Sharded : std::uint8_t {
  // The optimizer's state; the weights are whole, and gather() brings the parts that other ranks have updated
  optimizer,
  gradients,  // also the reduced gradients
  weights,    // also the weights, which are whole only between gather() and release()
};

/// This rank's position among those that share a stage. All weights are concatenated and cut into `count`
/// equal parts, the last one padded with zeros. The rank has part `index`.
struct Shard {
  std::int32_t index = 0;
  std::int32_t count = 1;
  Sharded what = Sharded::weights;
};

class StageWeights {
 public:
  /// Holds version 0. With a shard, only this rank's part is optimized.
  StageWeights(const Tensors& initial, const OptimizerOptions& optimizer, const std::optional<Shard>& shard);

  /// Returns a version. Throws std::logic_error if it is not held or not gathered.
  Weights of(std::int32_t version) const;
  std::int32_t newest() const { return versions_.rbegin()->first; }
  /// Returns the part of reduced gradients that this rank needs: its own part, or all.
  Tensors needed_part(Tensors gradient) const;
  /// Makes the next version from the result of needed_part(). An empty gradient counts as 0.
  void step(const Tensors& gradient);
  void drop(std::int32_t version);
  struct Held {
    std::int64_t newest = 0;  ///< bytes of the newest version, including what is gathered of it
    std::int64_t older = 0;
    std::int64_t optimizer_state = 0;
  };
  const Held& held_bytes() const { return held_; }
  /// Returns how many versions are held.
  std::size_t version_count() const { return versions_.size(); }

  /// Returns this rank's part of the newest version, which the next gather() completes.
  Tensors part();
  /// Combines the parts of all members, in the order of their shards.
  void gather(std::span<const at::Tensor> parts);
  void release();

 private:
  struct Gathered {
    std::int32_t version = 0;
    Tensors weights;
  };
  bool keeps_part_of(Sharded what) const { return shard_ && shard_->what >= what; }
  /// Returns whether the weights are whole and this rank updates a part of them.
  bool updates_part_of_whole() const { return shard_ && !keeps_part_of(Sharded::weights); }
  /// Returns this rank's part of the concatenated tensors as one flat tensor; an empty list for an empty
  /// list.
  Tensors own_part(const Tensors& whole) const;
  /// Returns views into `flat` with the shapes of the whole, without the padding.
  Tensors whole_of(const at::Tensor& flat) const;
  Tensors with_own_part(const Tensors& whole, const at::Tensor& part) const;
  /// Updates held_.
  void count();

  Optimizer optimizer_;
  std::optional<Shard> shard_;
  Tensors like_;                              // shapes and types of the whole, without storage
  std::map<std::int32_t, Tensors> versions_;  // by version; sharded weights are one flat tensor
  std::int32_t parting_version_ = 0;          // version of which part() returned the part
  std::optional<Gathered> gathered_;
  Held held_;
};

}  // namespace penstock::nn
