#pragma once
// Where the buckets of each stage lie among the stages of a program that is cut into them. Used by
// buckets.cpp.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// Where the buckets of each stage begin among the new stages, and where the last one's end.
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

/// A rank's list with each action in all buckets of its stage.
std::vector<Action> split_list(const std::vector<Action>& list, const BucketPlaces& buckets, Reduction when);

/// The edges between the buckets of a program that states its edges; none of a chain, which stays one.
std::vector<StageEdge> split_edges(const Program& program, const BucketPlaces& buckets);

}  // namespace penstock
