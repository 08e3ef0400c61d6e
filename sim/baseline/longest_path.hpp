#pragma once
// The longest path of a run: a chain of compute actions. Each action began when the previous one had ended,
// or when a message of the previous one had arrived. The actions and the waits between them add up to the
// makespan.

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
  std::string action;  ///< for example "1F3"; the first action of an overlapped group
  Ns start_ns = 0;
  Ns end_ns = 0;

  friend bool operator==(const PathStep&, const PathStep&) = default;
};

/// Returns the steps in order of time. The last step is the compute action that ends last. `timeline` must be
/// a run of `program`.
std::vector<PathStep> longest_path(const Timeline& timeline, const Program& program);

/// Returns "0 1F3 1000000 2000000": rank, action, start and end in nanoseconds.
std::string to_text(const PathStep& step);
/// Reads the text that to_text() returns. Error: the text has another form.
tl::expected<PathStep, std::string> path_step_of_text(const std::string& text);

/// A part of two runs' makespans: the compute actions of one kind on one rank, or the time between actions.
struct PathShare {
  std::string what;  ///< for example "rank 1 B", "from rank 0 to rank 1" or "waits on rank 2"
  Ns before_ns = 0;
  Ns after_ns = 0;

  friend bool operator==(const PathShare&, const PathShare&) = default;
};

/// The difference between two paths. The changes of all parts add up to the change of the makespan. The
/// largest change comes first.
struct PathChange {
  std::int32_t step = 0;  ///< index of the first step that differs, or the length of both paths if none does
  std::vector<PathShare> shares;
};
PathChange change_of(const std::vector<PathStep>& before, const std::vector<PathStep>& after);

}  // namespace penstock
