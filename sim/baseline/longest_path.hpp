#pragma once
// Why a run takes as long as it does: the chain of compute actions of which each began when the one before
// it, or what that one sent, had come. Together with the waits between them they are the whole makespan.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

struct PathStep {
  std::int32_t rank = 0;
  std::string action;  ///< "1F3", of an overlapped group its first leaf
  Ns start_ns = 0;
  Ns end_ns = 0;

  friend bool operator==(const PathStep&, const PathStep&) = default;
};

/// In order of time; the last step is the compute action that ends last. `program` ran so.
std::vector<PathStep> longest_path(const Timeline& timeline, const Program& program);

/// "0 1F3 1000000 2000000": rank, action, start and end in nanoseconds.
std::string to_text(const PathStep& step);
/// Error: that is no such line.
tl::expected<PathStep, std::string> path_step_of_text(const std::string& text);

/// A part of two runs' makespans: the compute actions of one kind on one rank, or what lay between actions.
struct PathShare {
  std::string what;  ///< "rank 1 B", "from rank 0 to rank 1", "waits on rank 2"
  Ns before_ns = 0;
  Ns after_ns = 0;

  friend bool operator==(const PathShare&, const PathShare&) = default;
};

/// What differs between two paths: parts whose changes add up to that of the makespan, the largest first.
struct PathChange {
  std::int32_t step = 0;  ///< the first at which they go different ways; the length of both: nowhere
  std::vector<PathShare> shares;
};
PathChange change_of(const std::vector<PathStep>& before, const std::vector<PathStep>& after);

}  // namespace penstock
