#pragma once
// Numbers the buckets of each stage as new stages. buckets.cpp uses this file.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// The new stage numbers of the first and last bucket of each stage.
class BucketPlaces {
 public:
  explicit BucketPlaces(const std::vector<std::int32_t>& counts) {
    for (const std::int32_t count : counts) begin_.push_back(begin_.back() + count);
  }

  std::int32_t first(std::int32_t stage) const { return begin_[static_cast<std::size_t>(stage)]; }
  std::int32_t last(std::int32_t stage) const { return first(stage + 1) - 1; }
  std::int32_t total() const { return begin_.back(); }

 private:
  std::vector<std::int32_t> begin_{0};
};

/// Returns a rank's list in which each action is replaced by the actions of all buckets of its stage.
std::vector<Action> split_list(const std::vector<Action>& list, const BucketPlaces& buckets, Reduction when);

/// Returns the edges between buckets if the program states its edges. Returns none for a chain, because the
/// result is also a chain.
std::vector<StageEdge> split_edges(const Program& program, const BucketPlaces& buckets);

}  // namespace penstock
