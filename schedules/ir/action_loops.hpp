#pragma once
// A rank's list as loops over loops of short patterns, in a size that does not grow with M. It reads,
// compares and counts as the actions that it stands for. Made by rules (declared), or found in a list
// (loops_of); followed by cursors, which store nothing of it.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// An action of a pattern, and by how much its weight version moves: microbatches of a pattern move together,
/// versions each at their own pace.
struct PatternAction {
  Action action;
  std::int32_t version_step = 0;        ///< from one repetition of its run to the next
  std::int32_t outer_version_step = 0;  ///< from one repetition of the loop around the run to the next

  friend bool operator==(const PatternAction&, const PatternAction&) = default;
};

/// A pattern again and again. Actions that have a microbatch have one that is `step` later in each
/// repetition.
struct ActionRun {
  std::vector<PatternAction> pattern;
  std::int32_t count = 1;  ///< >= 1
  std::int32_t step = 0;

  friend bool operator==(const ActionRun&, const ActionRun&) = default;
};

/// Runs one after the other, all of them again and again.
struct RunLoop {
  std::vector<ActionRun> runs;
  std::int32_t count = 1;  ///< >= 1
  std::int32_t step = 0;

  friend bool operator==(const RunLoop&, const RunLoop&) = default;
};

/// A place in a list of loops.
class LoopCursor;

/// A list of actions, stored as loops.
class ActionLoops {
 public:
  ActionLoops() = default;

  /// `count` times the pattern, the microbatches of each time `step` later; nothing where count is 0.
  void repeat(std::vector<PatternAction> pattern, std::int32_t count, std::int32_t step = 1);
  /// The same for actions whose weight versions stay.
  void repeat(std::initializer_list<Action> pattern, std::int32_t count, std::int32_t step = 1);
  /// A loop with at least one run, none of them empty; overlapped groups end where patterns do.
  void append(RunLoop loop) { loops_.push_back(std::move(loop)); }
  /// One action.
  void append(const Action& action) { repeat(std::vector{PatternAction{.action = action}}, 1); }

  const std::vector<RunLoop>& loops() const { return loops_; }
  bool empty() const { return loops_.empty(); }
  /// How many actions the list has. O(stored actions), as the next one.
  std::int64_t size() const;
  /// How many actions are stored.
  std::int64_t stored() const;

  /// Begins and ends of what a range-for goes through: actions, by value.
  LoopCursor begin() const;
  static std::default_sentinel_t end() { return {}; }

  /// True where both stand for the same actions, whatever their loops. O(actions).
  friend bool operator==(const ActionLoops& a, const ActionLoops& b);

 private:
  std::vector<RunLoop> loops_;
};

/// Goes through a list of loops action by action. The list must outlive it.
class LoopCursor {
 public:
  using value_type = Action;
  using difference_type = std::ptrdiff_t;

  /// Where a cursor stands: two that stand at one place read the same but for repetitions.
  struct Place {
    std::int32_t loop = 0;
    std::int32_t run = 0;
    std::int32_t action = 0;

    friend bool operator==(const Place&, const Place&) = default;
  };

  LoopCursor() = default;
  explicit LoopCursor(const ActionLoops& list) : list_(&list.loops()) { enter(); }

  bool at_end() const { return run_ == nullptr; }
  Action operator*() const {
    const PatternAction& here = run_->pattern[index(place_.action)];
    Action action = here.action;
    if (action.microbatch != kNoMicrobatch) action.microbatch += inner_ * run_->step + moved_;
    action.weight_version += inner_ * here.version_step + outer_ * here.outer_version_step;
    return action;
  }
  LoopCursor& operator++() {
    if (index(++place_.action) < run_->pattern.size()) return *this;
    place_.action = 0;
    if (++inner_ < run_->count) return *this;
    inner_ = 0;
    leave_run();
    return *this;
  }
  LoopCursor operator++(int) {
    LoopCursor before = *this;
    ++*this;
    return before;
  }

  /// True where the other, in the same list, has more actions behind it.
  bool is_before(const LoopCursor& other) const {
    const auto key = [](const LoopCursor& cursor) {
      return std::tuple(cursor.place_.loop, cursor.outer_, cursor.place_.run, cursor.inner_,
                        cursor.place_.action);
    };
    return key(*this) < key(other);
  }
  /// How many actions it has behind it. O(stored actions).
  std::int64_t passed() const;

  const Place& place() const { return place_; }
  /// How many repetitions of its run, and of the loop around it, it has behind it.
  std::int32_t inner() const { return inner_; }
  std::int32_t outer() const { return outer_; }
  /// The run and the loop that it is in. Requires that it is not at the end.
  const RunLoop& loop() const { return (*list_)[index(place_.loop)]; }
  const ActionRun& run() const { return *run_; }
  /// Passes so many repetitions of the run and of the loop. Requires that some of each are left then.
  void skip(std::int32_t inner, std::int32_t outer) {
    inner_ += inner;
    outer_ += outer;
    enter();
  }

  friend bool operator==(const LoopCursor& cursor, std::default_sentinel_t) { return cursor.at_end(); }
  friend bool operator==(const LoopCursor&, const LoopCursor&) = default;

 private:
  /// Looks up what stays the same until the run ends, so that reading an action is two additions.
  void enter() {
    const bool ends = index(place_.loop) == list_->size();
    run_ = ends ? nullptr : &loop().runs[index(place_.run)];
    moved_ = ends ? 0 : outer_ * loop().step;
  }
  /// To the next run of the loop; behind its last one to the loop's next repetition, or to the next loop.
  void leave_run() {
    if (index(++place_.run) == loop().runs.size()) {
      place_.run = 0;
      if (++outer_ == loop().count) {
        outer_ = 0;
        ++place_.loop;
      }
    }
    enter();
  }

  const std::vector<RunLoop>* list_ = nullptr;
  const ActionRun* run_ = nullptr;  // that it is in; null at the end
  std::int32_t moved_ = 0;          // by the repetitions of the loop around the run
  Place place_;
  std::int32_t inner_ = 0;
  std::int32_t outer_ = 0;
};

inline LoopCursor ActionLoops::begin() const { return LoopCursor(*this); }

/// The loops that a list consists of, found from its front to its end: patterns of at most 16 actions, at
/// most 16 runs in a loop. Stands for exactly this list. O(16 actions).
ActionLoops loops_of(std::span<const Action> list);
/// The actions of a list of loops.
std::vector<Action> actions_of(const ActionLoops& list);

/// Runs as loops over runs, at most `longest_period` of them in a loop. O(longest_period runs).
ActionLoops folded(std::span<const ActionRun> runs, std::size_t longest_period);

/// A program whose lists are loops. `program` has all else, and as many empty lists.
struct RolledProgram {
  Program program;
  std::vector<ActionLoops> lists;  ///< by rank
};

/// The program with its lists spelled out.
Program unrolled(RolledProgram rolled);
/// The program with its lists as the loops that are found in them.
RolledProgram rolled(Program program);

}  // namespace penstock
