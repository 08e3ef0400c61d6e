// Makes a recording from rows in any order. The ranks of a job are numbered without gaps. If no column
// states the copies, ranks with the same stages count as copies if each of them runs the whole pipeline:
//
//   rank 0: stage 0   rank 1: stage 0   rank 2: stage 1   rank 3: stage 1     ranks 0, 2 and ranks 1, 3
//
// Both ends of a bidirectional schedule hold the same stages, too. They are not copies, because no rank runs
// all microbatches of its stages. Tests: tests/sim/autopsy_test.cpp.

#include "sim/autopsy/recording.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

using StageUnit = std::pair<std::int32_t, std::int32_t>;

bool is_pass(const Action& action) { return has_weight_version(action.kind); }

/// Numbers the steps of rows that state no step. A new step begins when an action of a list occurs a second
/// time.
void number_steps(std::vector<RecordedRow>& rows) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<RecordedRow*>> of_rank;
  for (RecordedRow& row : rows) {
    if (!row.step) of_rank[{row.copy.value_or(0), row.rank}].push_back(&row);
  }
  for (auto& [rank, list] : of_rank) {
    std::ranges::stable_sort(list, {}, [](const RecordedRow* row) { return row->start_ns; });
    std::set<Action> seen;
    std::int64_t step = 0;
    for (RecordedRow* const row : list) {
      if (seen.contains(row->actions.front())) {
        ++step;
        seen.clear();
      }
      seen.insert(row->actions.begin(), row->actions.end());
      row->step = step;
    }
  }
}

/// The stages and microbatches of each rank in one step.
struct Holdings {
  std::map<std::int64_t, std::set<std::int32_t>> stages;        // stages of each rank
  std::map<std::int64_t, std::set<std::int32_t>> microbatches;  // microbatches of each rank
  std::map<std::int64_t, std::map<std::int32_t, std::set<std::int32_t>>> forwards;
};

/// Returns the stages and microbatches that each rank holds. Returns nothing if the rows state their copies,
/// because the copies are then known.
std::optional<Holdings> holdings_of(const std::vector<RecordedRow>& rows) {
  Holdings held;
  for (const RecordedRow& row : rows) {
    if (row.copy) return std::nullopt;
    for (const Action& action : row.actions) {
      if (!is_pass(action)) continue;
      held.stages[row.rank].insert(action.stage);
      held.microbatches[row.rank].insert(action.microbatch);
      if (action.kind == ActionKind::forward) held.forwards[row.rank][action.stage].insert(action.microbatch);
    }
  }
  return held;
}

/// Returns true if the stages of these ranks all run the forward passes of the same microbatches.
bool run_whole_pipeline(const Holdings& held, const std::vector<std::int64_t>& ranks) {
  std::optional<std::set<std::int32_t>> microbatches;
  for (const std::int64_t rank : ranks) {
    const auto found = held.forwards.find(rank);
    if (found == held.forwards.end()) return false;
    for (const auto& [stage, forwards] : found->second) {
      if (microbatches && *microbatches != forwards) return false;
      microbatches = forwards;
    }
  }
  return true;
}

/// Returns the ranks of each copy of the pipeline. Returns nothing if the ranks are not several copies.
std::vector<std::vector<std::int64_t>> copies_of(const Holdings& held) {
  std::map<std::set<std::int32_t>, std::vector<std::int64_t>> holders;
  for (const auto& [rank, stages] : held.stages) holders[stages].push_back(rank);
  if (holders.empty()) return {};
  std::vector<std::vector<std::int64_t>> copies(holders.begin()->second.size());
  for (const auto& [stages, ranks] : holders) {
    if (ranks.size() != copies.size()) return {};
    for (std::size_t copy = 0; copy < copies.size(); ++copy) copies[copy].push_back(ranks[copy]);
  }
  const bool are_whole = std::ranges::all_of(
      copies, [&](const std::vector<std::int64_t>& ranks) { return run_whole_pipeline(held, ranks); });
  return copies.size() > 1 && are_whole ? copies : std::vector<std::vector<std::int64_t>>{};
}

/// Finds the copies for rows that state none, if the ranks are copies of a pipeline. Each copy then numbers
/// its microbatches from 0.
void find_copies(std::vector<RecordedRow>& rows) {
  const auto held = holdings_of(rows);
  if (!held) return;
  const auto copies = copies_of(*held);
  std::map<std::int64_t, std::int64_t> copy_of;  // copy to which each rank belongs
  for (std::size_t copy = 0; copy < copies.size(); ++copy) {
    for (const std::int64_t rank : copies[copy]) copy_of[rank] = static_cast<std::int64_t>(copy);
  }
  for (RecordedRow& row : rows) {
    const auto copy = copy_of.find(row.rank);
    if (copy == copy_of.end()) continue;
    row.copy = copy->second;
    const std::set<std::int32_t>& numbers = held->microbatches.at(row.rank);
    for (Action& action : row.actions) {
      const auto number = numbers.find(action.microbatch);
      if (number != numbers.end())
        action.microbatch = static_cast<std::int32_t>(std::distance(numbers.begin(), number));
    }
  }
}

/// Returns the names of the job's ranks. Returns an error if the copies of the pipeline have different
/// numbers of ranks.
tl::expected<std::vector<RankName>, std::string> named_ranks(const std::vector<RecordedRow>& rows) {
  std::map<std::int64_t, std::vector<std::int64_t>> ranks_of;
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (const RecordedRow& row : rows) {
    const std::int64_t copy = row.copy.value_or(0);
    if (seen.emplace(copy, row.rank).second) ranks_of[copy].push_back(row.rank);
  }
  const std::size_t ranks = ranks_of.begin()->second.size();
  for (auto& [copy, list] : ranks_of) {
    std::ranges::sort(list);
    if (list.size() == ranks) continue;
    return tl::unexpected(
        fmt::format("expected equally many ranks in each copy, got {} in copy {} and {} in "
                    "copy {}: a rank's record is missing",
                    ranks, ranks_of.begin()->first, list.size(), copy));
  }
  std::vector<RankName> names;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const auto& [copy, list] : ranks_of) names.push_back({.copy = copy, .rank = list[rank]});
  }
  return names;
}

/// Returns the compute actions of a step. Each has the number of its rank in the job.
std::set<std::pair<std::size_t, Action>> recorded_passes_of(const RecordedStep& step) {
  std::set<std::pair<std::size_t, Action>> passes;
  for (std::size_t rank = 0; rank < step.lists.size(); ++rank) {
    for (RecordedAction recorded : step.lists[rank]) {
      recorded.action.overlaps_next = false;
      if (is_pass(recorded.action)) passes.emplace(rank, recorded.action);
    }
  }
  return passes;
}

/// Removes each step that lacks an action of another step, and adds a note about it. If no step has all
/// actions, all steps remain.
void leave_out_incomplete(Recording& recording) {
  std::set<std::pair<std::size_t, Action>> all;
  std::vector<std::size_t> sizes;
  for (const RecordedStep& step : recording.steps) {
    const auto own = recorded_passes_of(step);
    sizes.push_back(own.size());
    all.insert(own.begin(), own.end());
  }
  if (std::ranges::find(sizes, all.size()) == sizes.end()) return;
  std::vector<RecordedStep> whole;
  std::vector<std::int64_t> left_out;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == all.size()) {
      whole.push_back(std::move(recording.steps[i]));
    } else {
      left_out.push_back(recording.steps[i].number);
    }
  }
  recording.steps = std::move(whole);
  if (left_out.empty()) return;
  const std::size_t most = std::min<std::size_t>(left_out.size(), 8);
  recording.notes.push_back(fmt::format(
      "{} left out, because actions are missing there: {}{}", format_count(std::ssize(left_out), "step"),
      fmt::join(left_out.begin(), left_out.begin() + static_cast<std::ptrdiff_t>(most), ", "),
      most < left_out.size() ? ", .." : ""));
}

/// Returns the name of the first pass that is missing in the first step. Returns nothing if the step has all
/// passes of the pipeline.
std::optional<std::string> missing_pass(const Recording& recording) {
  std::set<StageUnit> forwards;
  std::set<StageUnit> backwards;
  for (const auto& [rank, action] : recorded_passes_of(recording.steps.front())) {
    if (action.kind == ActionKind::forward) forwards.emplace(action.stage, action.microbatch);
    if (makes_input_gradient(action.kind)) backwards.emplace(action.stage, action.microbatch);
  }
  for (std::int32_t stage = 0; stage < recording.stages; ++stage) {
    for (std::int32_t microbatch = 0; microbatch < recording.microbatches; ++microbatch) {
      Action action{.stage = stage, .microbatch = microbatch};
      const bool has_forward = forwards.contains({stage, microbatch});
      if (has_forward && backwards.contains({stage, microbatch})) continue;
      if (has_forward) action.kind = ActionKind::backward;
      return fmt::format("{} of copy {}", text_in_copy(action, recording.copies),
                         microbatch % recording.copies);
    }
  }
  return std::nullopt;
}

/// Shifts the times of a step so that its first compute action starts at 0. Messages that would start
/// earlier start at 0 as well.
void begin_at_zero(RecordedStep& step) {
  Ns first = std::numeric_limits<Ns>::max();
  for (const auto& list : step.lists) {
    for (const RecordedAction& recorded : list) {
      if (is_pass(recorded.action)) first = std::min(first, recorded.start_ns);
    }
  }
  for (auto& list : step.lists) {
    for (RecordedAction& recorded : list) {
      recorded.start_ns = std::max<Ns>(0, recorded.start_ns - first);
      recorded.end_ns = std::max<Ns>(0, recorded.end_ns - first);
    }
  }
}

}  // namespace

std::string text_in_copy(const Action& action, std::int32_t copies) {
  Action own = action;
  if (own.microbatch >= 0) own.microbatch /= copies;
  return to_text(own);
}

tl::expected<Recording, std::string> recording_of(std::vector<RecordedRow> rows, std::int64_t skip) {
  if (rows.empty()) return tl::unexpected(std::string("expected recorded actions, got none"));
  number_steps(rows);
  find_copies(rows);
  AlignedClocks clocks = align_clocks(rows);
  auto names = named_ranks(rows);
  if (!names) return tl::unexpected(names.error());
  Recording recording{
      .names = *std::move(names), .clock_error_ns = clocks.error_ns, .notes = std::move(clocks.notes)};
  std::set<std::int64_t> copy_numbers;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < recording.names.size(); ++rank) {
    const RankName& name = recording.names[rank];
    copy_numbers.insert(name.copy);
    rank_of[{name.copy, name.rank}] = rank;
  }
  recording.copies = static_cast<std::int32_t>(copy_numbers.size());
  std::ranges::stable_sort(rows, {},
                           [](const RecordedRow& row) { return std::pair(*row.step, row.start_ns); });
  for (const RecordedRow& row : rows) {
    if (recording.steps.empty() || recording.steps.back().number != *row.step) {
      recording.steps.emplace_back();
      recording.steps.back().number = *row.step;
      recording.steps.back().lists.resize(recording.names.size());
    }
    const std::size_t rank = rank_of[{row.copy.value_or(0), row.rank}];
    const auto copy = static_cast<std::int32_t>(rank) % recording.copies;
    for (Action action : row.actions) {
      recording.stages = std::max({recording.stages, action.stage + 1, action.peer + 1});
      if (action.microbatch >= 0) {
        action.microbatch = action.microbatch * recording.copies + copy;
        recording.microbatches = std::max(recording.microbatches, action.microbatch + 1);
      }
      recording.has_transfers = recording.has_transfers || is_transfer(action.kind);
      recording.steps.back().lists[rank].push_back({action, row.start_ns, row.end_ns});
    }
  }
  const auto steps = std::ssize(recording.steps);
  if (skip >= steps) {
    return tl::unexpected(
        fmt::format("expected more steps than are skipped, got {} and --skip {}", steps, skip));
  }
  recording.steps.erase(recording.steps.begin(), recording.steps.begin() + static_cast<std::ptrdiff_t>(skip));
  leave_out_incomplete(recording);
  // Wrong numbers in a file could make the table of all passes much larger than the file. Such a file is
  // refused.
  const auto passes = static_cast<std::int64_t>(recorded_passes_of(recording.steps.front()).size());
  if (std::int64_t{recording.stages} * recording.microbatches > 4 * passes + 64) {
    return tl::unexpected(fmt::format("expected each of {} microbatches on each of {} stages, got {} actions",
                                      recording.microbatches, recording.stages, passes));
  }
  if (const auto missing = missing_pass(recording)) {
    return tl::unexpected(
        fmt::format("expected a forward and a backward pass of each microbatch on each stage; "
                    "there is no {}: is the record of a rank missing?",
                    *missing));
  }
  for (RecordedStep& step : recording.steps) begin_at_zero(step);
  return recording;
}

}  // namespace penstock
