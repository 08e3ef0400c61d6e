#pragma once
// The data that one stage stores on one rank: its weight versions (whole, or only this rank's shard), the
// optimizer that makes the next version, and the count of the bytes.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/torch/layers.hpp"
#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"

namespace penstock::nn {

enum class OptimizerKind : std::uint8_t { sgd, rmsprop, adam };

/// The options of an optimizer. The rules and the default values are those of torch.optim.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::sgd;
  double learning_rate = 0.01;
  double momentum = 0;   ///< momentum of sgd and rmsprop
  double decay = 0.99;   ///< decay of rmsprop's mean of squared gradients
  double beta1 = 0.9;    ///< decay of adam's mean of gradients
  double beta2 = 0.999;  ///< decay of adam's mean of squared gradients
  double epsilon = 1e-8;
};

/// The optimizer of one stage on one rank. It stores the moments of the weights.
class Optimizer {
 public:
  explicit Optimizer(const OptimizerOptions& options) : options_(options) {}

  /// Returns the next version of `weights`. All calls must pass the same number of tensors with the same
  /// shapes.
  Tensors step(const Tensors& weights, const Tensors& gradient);
  /// Returns the bytes of the optimizer's moments, such as the two moments of Adam.
  std::int64_t bytes() const;

 private:
  struct Moments {
    at::Tensor first;   // momentum, or Adam's mean of gradients
    at::Tensor second;  // mean of squared gradients
  };
  at::Tensor direction(Moments& moments, const at::Tensor& gradient) const;
  at::Tensor with_momentum(Moments& moments, const at::Tensor& direction) const;

  OptimizerOptions options_;
  std::int64_t steps_ = 0;
  std::vector<Moments> moments_;
};

// Stores the weight versions of one stage on one rank. The rank has the whole weights or only its shard.

/// The kinds of data that are sharded, so that each rank has only its part of them (ZeRO, SC'20, section
/// 5).
enum class Sharded : std::uint8_t {
  // Only the optimizer's state. Each rank has the whole weights, and gather() adds the parts that other ranks
  // updated.
  optimizer,
  gradients,  // optimizer's state and reduced gradients
  // The optimizer's state, gradients and weights. A rank has the whole weights only between gather() and
  // release().
  weights,
};

/// The part of a stage's weights that this rank has. All weights of the stage are concatenated, padded with
/// zeros, and cut into `count` equal parts. The rank has part `index`.
struct Shard {
  std::int32_t index = 0;
  std::int32_t count = 1;
  Sharded what = Sharded::weights;
};

class StageWeights {
 public:
  /// Stores `initial` as weight version 0. If `shard` is given, step() updates only this rank's part of the
  /// weights.
  StageWeights(const Tensors& initial, const OptimizerOptions& optimizer, const std::optional<Shard>& shard);

  /// Returns the weights of a version. Throws std::logic_error if the version is not stored, or if it is
  /// sharded and not gathered.
  Weights of(std::int32_t version) const;
  std::int32_t newest() const { return versions_.rbegin()->first; }
  /// Returns the part of the reduced gradients that step() needs. If gradients are sharded, it is this rank's
  /// part of them. Otherwise it is all gradients.
  Tensors needed_part(Tensors gradient) const;
  /// Computes and stores the next version. `gradient` is a result of needed_part(). An empty list means that
  /// all gradients are 0.
  void step(const Tensors& gradient);
  void drop(std::int32_t version);
  struct Held {
    std::int64_t newest = 0;  ///< bytes of the newest version, including gathered weights
    std::int64_t older = 0;
    std::int64_t optimizer_state = 0;
  };
  const Held& held_bytes() const { return held_; }
  /// Returns the number of stored versions.
  std::size_t version_count() const { return versions_.size(); }

  /// Returns this rank's part of the newest weight version. The next gather() combines it with the parts of
  /// the other ranks.
  Tensors part();
  /// Combines the parts of all members to whole weights. `parts` has one element for each shard, in ascending
  /// order of Shard::index.
  void gather(std::span<const at::Tensor> parts);
  void release();

 private:
  struct Gathered {
    std::int32_t version = 0;
    Tensors weights;
  };
  bool keeps_part_of(Sharded what) const { return shard_ && shard_->what >= what; }
  /// Returns true if this rank stores the whole weights but updates only a part of them.
  bool updates_part_of_whole() const { return shard_ && !keeps_part_of(Sharded::weights); }
  /// Returns this rank's part of the concatenated tensors, as a list with one flat tensor. The list is
  /// empty if `whole` is empty.
  Tensors own_part(const Tensors& whole) const;
  /// Returns the whole weights as views into the flat tensor `flat`, without its padding.
  Tensors whole_of(const at::Tensor& flat) const;
  Tensors with_own_part(const Tensors& whole, const at::Tensor& part) const;
  /// Updates `held_` (the bytes of weight versions and optimizer state) after the stored weights have
  /// changed.
  void count();

  Optimizer optimizer_;
  std::optional<Shard> shard_;
  Tensors like_;  // tensors with the shapes and types of the whole weights, without memory
  // The stored weights by version. Sharded weights are one flat tensor.
  std::map<std::int32_t, Tensors> versions_;
  std::int32_t parting_version_ = 0;  // version from which part() last returned a part
  std::optional<Gathered> gathered_;
  Held held_;
};

// Records the memory that the stages of one rank use after each action.

/// A recorder of the memory of one rank. Only the rank's worker thread may use it.
class MemoryMeter {
 public:
  /// Records that the stage uses `bytes` after `action`.
  void set(std::int32_t stage, const MemoryByCategory& bytes, const std::string& action);
  /// Returns the peak so far and the action that caused it. The result has no times and no samples.
  const RankMemory& memory() const { return memory_; }

 private:
  std::map<std::int32_t, MemoryByCategory> of_stage_;
  MemoryByCategory sum_{};
  RankMemory memory_;
};

}  // namespace penstock::nn
