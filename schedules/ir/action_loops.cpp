// Finds short patterns that a list of actions repeats. The list grows with the number M of microbatches,
// but the patterns do not. The same search runs twice: first over actions, then over the runs (repeated
// patterns) that it has found.
//
//   F0 F1 F2 B0 F3 B1 F4 B2 B3 B4      3 x {F0}, 2 x {B0 F3}, 3 x {B2}        1F1B on rank 0 of 3
//   F0 .. F23 f0 .. f23 F24 ..         n x {24 x {F0}, 24 x {f0}}             two chunks, 24 at a time
// From each position the search tries every period up to 16. A period continues while each item equals the
// item one period earlier; microbatches and weight versions may differ. The search takes the period that
// covers the most items. It takes a period p > 1 only if p covers at least 2 p + 1 more items than the best
// shorter period. Items that do not repeat form one run of count 1. Tested by action_loops_test.cpp.

#include "schedules/ir/action_loops.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

// The steady states of published schedules repeat few actions. ZB-V repeats six: F, I and W of two chunks.
// Trying a period takes time in proportion to the length of the list. The second search finds longer
// patterns.
constexpr std::size_t kLongestPeriod = 16;
// The usual number of loops in a list: warm-up, steady state, drain and STEP.
constexpr std::size_t kUsualLoops = 4;

/// Returns true if two actions differ at most in their weight versions and microbatch numbers. Either both
/// have a microbatch or neither has one.
bool same_but_for_numbers(const Action& a, const Action& b) {
  return a.kind == b.kind && a.overlaps_next == b.overlaps_next && a.stage == b.stage && a.peer == b.peer &&
         (a.microbatch == kNoMicrobatch) == (b.microbatch == kNoMicrobatch);
}

/// Returns true if `there` can be the action `here` one repetition later. The first action with a
/// microbatch sets `step`, the change of the microbatch number. The microbatches of all later actions must
/// change by this step.
bool follows(const Action& here, const Action& there, std::optional<std::int32_t>& step) {
  if (!same_but_for_numbers(here, there)) return false;
  if (here.microbatch == kNoMicrobatch) return true;
  const std::int32_t moved = there.microbatch - here.microbatch;
  if (!step) step = moved;
  return *step == moved;
}
/// Returns true if the run `there` can be the run `here` one repetition later. Their counts, steps,
/// patterns and version steps must be equal. keeps_pace() checks how weight versions change from run to
/// run.
bool follows(const ActionRun& here, const ActionRun& there, std::optional<std::int32_t>& step) {
  if (here.count != there.count || here.step != there.step || here.pattern.size() != there.pattern.size())
    return false;
  for (std::size_t i = 0; i < here.pattern.size(); ++i) {
    if (here.pattern[i].version_step != there.pattern[i].version_step) return false;
    if (!follows(here.pattern[i].action, there.pattern[i].action, step)) return false;
  }
  return true;
}

/// Returns true if the weight version changes by equal steps: from the first action to the second, and from
/// the second to the third.
bool keeps_pace(const Action& first, const Action& second, const Action& third) {
  return third.weight_version - second.weight_version == second.weight_version - first.weight_version;
}
bool keeps_pace(const ActionRun& first, const ActionRun& second, const ActionRun& third) {
  for (std::size_t i = 0; i < first.pattern.size(); ++i) {
    if (!keeps_pace(first.pattern[i].action, second.pattern[i].action, third.pattern[i].action)) return false;
  }
  return true;
}

/// A repetition: the first `period` items of a list, and how often they are repeated.
struct Repetition {
  std::size_t period = 1;
  std::size_t count = 1;
  std::int32_t step = 0;  // the increase of the microbatch numbers in each repetition
};

/// Returns how often the first `period` items are repeated without a gap, starting at the beginning of
/// `items`.
template <class Item>
Repetition repetition_of(std::span<const Item> items, std::size_t period) {
  std::optional<std::int32_t> step;
  std::size_t covered = period;
  while (covered < items.size()) {
    const Item& here = items[covered - period];
    if (!follows(here, items[covered], step)) break;
    // The version may change by any number from the first repetition to the second. It must change by the
    // same number from the second repetition to the third.
    if (covered >= 2 * period && !keeps_pace(items[covered - 2 * period], here, items[covered])) break;
    ++covered;
  }
  // An incomplete repetition at the end does not count. It begins the next run.
  return {.period = period, .count = covered / period, .step = step.value_or(0)};
}

/// Returns the repetition at the beginning of the items, or a single item if nothing repeats there.
template <class Item>
Repetition longest_repetition(std::span<const Item> items, std::size_t longest_period) {
  Repetition longest;
  std::size_t covered = 1;
  for (std::size_t period = 1; period <= longest_period && 2 * period <= items.size(); ++period) {
    const Repetition found = repetition_of(items, period);
    // A long pattern must cover clearly more items than a short one. One repetition of a long pattern is
    // often a coincidence. If a short pattern is taken, a better pattern may begin after it.
    const std::size_t handicap = period > 1 ? 2 * period : 0;
    if (found.count < 2 || found.count * period <= covered + handicap) continue;
    longest = found;
    covered = found.count * period;
    if (covered == items.size()) break;
  }
  return longest;
}

/// Returns the repeated items at the start of `list` as a run. The first two repetitions show by how much
/// each weight version changes. repetition_of() has checked that later repetitions change by the same
/// number.
ActionRun run_of(std::span<const Action> list, const Repetition& repeated) {
  ActionRun run{.pattern = {}, .count = static_cast<std::int32_t>(repeated.count), .step = repeated.step};
  for (std::size_t i = 0; i < repeated.period; ++i) {
    const bool moves = repeated.count > 1;
    run.pattern.push_back(
        {.action = list[i],
         .version_step = moves ? list[repeated.period + i].weight_version - list[i].weight_version : 0});
  }
  return run;
}

/// Returns true if the run ends inside an overlapped group. All actions of such a group must stay in one
/// pattern.
bool is_open(const ActionRun& run) { return run.pattern.back().action.overlaps_next; }

/// Returns the whole list as runs. Each run is the result of longest_repetition() for the part of the list
/// that is left.
std::vector<ActionRun> runs_of(std::span<const Action> list) {
  std::vector<ActionRun> runs;
  while (!list.empty()) {
    Repetition repeated = longest_repetition(list, kLongestPeriod);
    // A pattern must not end inside an overlapped group, so such a repetition is not used.
    if (list[repeated.period - 1].overlaps_next) repeated = {};
    // Single items are appended to a previous run of count 1. If the previous run ends inside an overlapped
    // group, the rest of the group is appended to it.
    const bool goes_on =
        !runs.empty() && (is_open(runs.back()) || (repeated.count == 1 && runs.back().count == 1));
    if (goes_on) {
      runs.back().pattern.push_back({.action = list.front()});
      list = list.subspan(1);
      continue;
    }
    runs.push_back(run_of(list, repeated));
    list = list.subspan(repeated.period * repeated.count);
  }
  return runs;
}

/// Returns the repeated runs at the start of `runs` as a loop. run_of() does the same for actions.
RunLoop loop_of(std::span<const ActionRun> runs, const Repetition& repeated) {
  RunLoop loop{.runs = {runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(repeated.period)},
               .count = static_cast<std::int32_t>(repeated.count),
               .step = repeated.step};
  if (repeated.count == 1) return loop;
  for (std::size_t run = 0; run < repeated.period; ++run) {
    const std::vector<PatternAction>& next = runs[repeated.period + run].pattern;
    std::vector<PatternAction>& pattern = loop.runs[run].pattern;
    // follows() has checked that both patterns have equal lengths.
    for (std::size_t i = 0; i < pattern.size(); ++i)
      pattern[i].outer_version_step = next[i].action.weight_version - pattern[i].action.weight_version;
  }
  return loop;
}

/// Returns the number of actions in one repetition of the loop.
std::int64_t actions_of_one(const RunLoop& loop) {
  std::int64_t actions = 0;
  for (const ActionRun& run : loop.runs) actions += std::int64_t{run.count} * std::ssize(run.pattern);
  return actions;
}

/// Adds `by` to the action's microbatch, if it has one.
void move(Action& action, std::int32_t by) {
  if (action.microbatch != kNoMicrobatch) action.microbatch += by;
}

/// Appends the actions of all repetitions of a run. From one repetition to the next, the microbatches
/// change by the run's step.
void append(std::vector<Action>& actions, const ActionRun& run, std::int32_t outer, std::int32_t moved) {
  for (const PatternAction& here : run.pattern) {
    Action& action = actions.emplace_back(here.action);
    move(action, moved);
    action.weight_version += outer * here.outer_version_step;
  }
  for (std::int32_t inner = 1; inner < run.count; ++inner) {
    for (const PatternAction& here : run.pattern) {
      Action action = *(actions.end() - std::ssize(run.pattern));
      move(action, run.step);
      action.weight_version += here.version_step;
      actions.push_back(action);
    }
  }
}

}  // namespace

void ActionLoops::repeat(std::vector<PatternAction> pattern, std::int32_t count, std::int32_t step) {
  if (count == 0 || pattern.empty()) return;
  std::vector<ActionRun> runs;
  runs.push_back({.pattern = std::move(pattern), .count = count, .step = step});
  if (loops_.empty()) loops_.reserve(kUsualLoops);
  loops_.push_back({.runs = std::move(runs)});
}

void ActionLoops::repeat(std::initializer_list<Action> pattern, std::int32_t count, std::int32_t step) {
  std::vector<PatternAction> staying;
  staying.reserve(pattern.size());
  for (const Action& action : pattern) staying.push_back({.action = action});
  repeat(std::move(staying), count, step);
}

std::int64_t ActionLoops::size() const {
  std::int64_t actions = 0;
  for (const RunLoop& loop : loops_) actions += loop.count * actions_of_one(loop);
  return actions;
}

std::int64_t ActionLoops::stored() const {
  std::int64_t actions = 0;
  for (const RunLoop& loop : loops_) {
    for (const ActionRun& run : loop.runs) actions += std::ssize(run.pattern);
  }
  return actions;
}

std::int64_t LoopCursor::passed() const {
  std::int64_t actions = 0;
  for (std::int32_t i = 0; i < place_.loop; ++i)
    actions += (*list_)[index(i)].count * actions_of_one((*list_)[index(i)]);
  if (at_end()) return actions;
  actions += outer_ * actions_of_one(loop());
  for (std::int32_t i = 0; i < place_.run; ++i)
    actions += loop().runs[index(i)].count * std::ssize(loop().runs[index(i)].pattern);
  return actions + inner_ * std::ssize(run().pattern) + place_.action;
}

bool operator==(const ActionLoops& a, const ActionLoops& b) {
  // Equal loops give equal lists. Different loops can also give equal lists, so the actions are then
  // compared.
  if (a.loops_ == b.loops_) return true;
  LoopCursor here = a.begin();
  LoopCursor there = b.begin();
  for (; !here.at_end() && !there.at_end(); ++here, ++there) {
    if (*here != *there) return false;
  }
  return here.at_end() && there.at_end();
}

ActionLoops folded(std::span<const ActionRun> runs, std::size_t longest_period) {
  ActionLoops loops;
  while (!runs.empty()) {
    const Repetition repeated = longest_repetition(runs, longest_period);
    loops.append(loop_of(runs, repeated));
    runs = runs.subspan(repeated.period * repeated.count);
  }
  return loops;
}

ActionLoops loops_of(std::span<const Action> list) { return folded(runs_of(list), kLongestPeriod); }

std::vector<Action> actions_of(const ActionLoops& list) {
  std::vector<Action> actions;
  actions.reserve(index(list.size()));
  for (const RunLoop& loop : list.loops()) {
    for (std::int32_t outer = 0; outer < loop.count; ++outer) {
      for (const ActionRun& run : loop.runs) append(actions, run, outer, outer * loop.step);
    }
  }
  return actions;
}

Program unrolled(RolledProgram rolled) {
  for (std::size_t rank = 0; rank < rolled.lists.size(); ++rank)
    rolled.program.ranks[rank] = actions_of(rolled.lists[rank]);
  return std::move(rolled.program);
}

RolledProgram rolled(Program program) {
  RolledProgram found;
  // Each list is freed as soon as its loops are found, so that memory never holds the whole program in both
  // forms.
  for (std::vector<Action>& list : program.ranks) found.lists.push_back(loops_of(std::exchange(list, {})));
  found.program = std::move(program);
  return found;
}

}  // namespace penstock
