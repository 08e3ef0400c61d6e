#pragma once
// Defines a recording: what ran on each rank of a real run, and when. The readers of formats (such as
// trace_formats.hpp) make rows. recording_of() sorts the rows into steps, copies of the pipeline and lists.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"

namespace penstock {

/// One recorded action or overlapped group. Its numbers are those that the file states.
struct RecordedRow {
  /// Number of the step; if absent, a repeated action begins the next step of its rank.
  std::optional<std::int64_t> step{};
  /// Copy of the pipeline; if absent, it is found from the stages of the ranks.
  std::optional<std::int64_t> copy{};
  std::int64_t rank = 0;
  std::vector<Action> actions{};
  Ns start_ns = 0;
  Ns end_ns = 0;
};

/// An action of a list with its times. The actions of an overlapped group have equal times.
struct RecordedAction {
  Action action;
  Ns start_ns = 0;
  Ns end_ns = 0;

  friend bool operator==(const RecordedAction&, const RecordedAction&) = default;
};

/// One recorded step. It has a list of actions for each rank of the job, in the order of their starts. Time
/// 0 is the start of the step's first compute action.
struct RecordedStep {
  std::int64_t number = 0;
  std::vector<std::vector<RecordedAction>> lists;

  friend bool operator==(const RecordedStep&, const RecordedStep&) = default;
};

/// The name of a rank in the recorded files: its pipeline copy, and its rank in this copy.
struct RankName {
  std::int64_t copy = 0;
  std::int64_t rank = 0;

  friend bool operator==(const RankName&, const RankName&) = default;
};

/// A recorded run. All pipeline copies together are one job, with the numbers that a schedule with
/// data_parallel gives. Rank r of copy c is rank r * copies + c of the job. Microbatch m of copy c is
/// microbatch m * copies + c of the job.
struct Recording {
  std::int32_t copies = 1;
  std::int32_t stages = 0;
  std::int32_t microbatches = 0;  ///< number of microbatches of all copies together
  std::vector<RankName> names{};  ///< name of each rank of the job
  std::vector<RecordedStep> steps{};
  std::optional<Ns>
      clock_error_ns{};        ///< error of the ranks' clocks; present if they were converted to one clock
  bool has_transfers = false;  ///< true if SENDs or RECVs were recorded
  std::vector<std::string> notes{};

  std::int32_t rank_count() const { return static_cast<std::int32_t>(names.size()); }
  std::int32_t ranks_of_copy() const { return rank_count() / copies; }
};

/// The limits of a recording: the largest number of rows, and the largest stage or microbatch that a row
/// may name.
inline constexpr std::size_t kMostRecorded = std::size_t{1} << 23U;
inline constexpr std::int32_t kMostNumber = 1 << 20;

/// Sorts rows into steps and into the lists of ranks. Leaves out the first `skip` steps, and steps without
/// actions that other steps have; a note says so. Returns an error if no step has the forward and backward
/// pass of each microbatch on each stage. The error names the missing actions.
tl::expected<Recording, std::string> recording_of(std::vector<RecordedRow> rows, std::int64_t skip);

/// Returns the text of an action, such as "3F5". The microbatch's number is the one in its own pipeline
/// copy.
std::string text_in_copy(const Action& action, std::int32_t copies);

// Converts the times of ranks that were recorded on several hosts to one common clock.

/// The result of align_clocks(): the remaining error, and notes.
struct AlignedClocks {
  std::optional<Ns> error_ns{};      ///< largest error of a clock; absent if no clock was changed
  std::vector<std::string> notes{};  ///< one line for each clock that was changed
};

/// Computes the offsets between the ranks' clocks from the messages that they exchanged, and moves the
/// times of `rows` to one clock. Changes nothing if every message arrives after it was sent. Requires rows
/// that state their steps.
AlignedClocks align_clocks(std::vector<RecordedRow>& rows);

}  // namespace penstock
