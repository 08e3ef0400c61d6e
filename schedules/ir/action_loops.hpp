#pragma once
// Stores a rank's list of actions as nested loops over short patterns. The stored size does not grow with the
// number of microbatches. The loops can be iterated, compared and counted like a plain list of actions.
// Schedule rules write such loops directly. loops_of() finds the loops in a plain list.

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

/// An action of a pattern, and the change of its weight version in each repetition. Microbatch numbers of all
/// actions of a pattern change by the same step. Each weight version has its own step.
struct PatternAction {
  Action action;
  /// The amount that each repetition of the run adds to the weight version.
  std::int32_t version_step = 0;
  /// The amount that each repetition of the loop around the run adds to the weight version.
  std::int32_t outer_version_step = 0;

  friend bool operator==(const PatternAction&, const PatternAction&) = default;
};

/// A pattern that is repeated `count` times. Each repetition adds `step` to the microbatch numbers. Actions
/// without a microbatch do not change.
struct ActionRun {
  std::vector<PatternAction> pattern;
  /// The number of repetitions, at least 1.
  std::int32_t count = 1;
  std::int32_t step = 0;

  friend bool operator==(const ActionRun&, const ActionRun&) = default;
};

/// A sequence of runs that is repeated `count` times. Each repetition adds `step` to the microbatch numbers.
struct RunLoop {
  std::vector<ActionRun> runs;
  /// The number of repetitions, at least 1.
  std::int32_t count = 1;
  std::int32_t step = 0;

  friend bool operator==(const RunLoop&, const RunLoop&) = default;
};

/// A position in a list of loops.
class LoopCursor;

/// A list of actions, stored as loops.
class ActionLoops {
 public:
  ActionLoops() = default;

  /// Appends `count` repetitions of the pattern. Each repetition adds `step` to the microbatch numbers.
  /// Appends nothing if `count` is 0.
  void repeat(std::vector<PatternAction> pattern, std::int32_t count, std::int32_t step = 1);
  /// Appends `count` repetitions of a pattern whose weight versions do not change.
  void repeat(std::initializer_list<Action> pattern, std::int32_t count, std::int32_t step = 1);
  /// Appends a loop. Requires at least one run and no empty pattern. An overlapped group must not cross the
  /// end of a pattern.
  void append(RunLoop loop) { loops_.push_back(std::move(loop)); }
  /// Appends one action.
  void append(const Action& action) { repeat(std::vector{PatternAction{.action = action}}, 1); }

  const std::vector<RunLoop>& loops() const { return loops_; }
  bool empty() const { return loops_.empty(); }
  /// Returns the number of actions in the list, with all repetitions. The time is proportional to stored().
  std::int64_t size() const;
  /// Returns the number of stored actions. Each action of a pattern counts once, however often the pattern
  /// is repeated.
  std::int64_t stored() const;

  /// Returns an iterator to the first action, so that a range-for loop visits all actions. Actions are
  /// returned by value.
  LoopCursor begin() const;
  static std::default_sentinel_t end() { return {}; }

  /// Returns true if both lists yield the same actions, even if their loops differ. The time is proportional
  /// to size().
  friend bool operator==(const ActionLoops& a, const ActionLoops& b);

 private:
  std::vector<RunLoop> loops_;
};

/// An iterator over the actions of a list of loops. The list must outlive it.
class LoopCursor {
 public:
  using value_type = Action;
  using difference_type = std::ptrdiff_t;

  /// The stored action at which a cursor stands, without the current repetition. Two cursors at one place
  /// yield the same action, except for its microbatch and weight version.
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

  /// Returns true if this cursor is before the other one. Both must be in the same list.
  bool is_before(const LoopCursor& other) const {
    const auto key = [](const LoopCursor& cursor) {
      return std::tuple(cursor.place_.loop, cursor.outer_, cursor.place_.run, cursor.inner_,
                        cursor.place_.action);
    };
    return key(*this) < key(other);
  }
  /// Returns how many actions the cursor has passed. The time is proportional to the number of stored
  /// actions.
  std::int64_t passed() const;

  const Place& place() const { return place_; }
  /// Returns the number of complete repetitions of the current run (`inner`) and of the loop that contains
  /// the run (`outer`).
  std::int32_t inner() const { return inner_; }
  std::int32_t outer() const { return outer_; }
  /// Returns the current loop and the current run. Requires that the cursor is not at the end.
  const RunLoop& loop() const { return (*list_)[index(place_.loop)]; }
  const ActionRun& run() const { return *run_; }
  /// Skips `inner` repetitions of the current run and `outer` repetitions of the loop around it. Requires
  /// that at least one repetition of each remains after that.
  void skip(std::int32_t inner, std::int32_t outer) {
    inner_ += inner;
    outer_ += outer;
    enter();
  }

  friend bool operator==(const LoopCursor& cursor, std::default_sentinel_t) { return cursor.at_end(); }
  friend bool operator==(const LoopCursor&, const LoopCursor&) = default;

 private:
  /// Stores the values that stay constant until the cursor leaves the current run of the loop. Reading an
  /// action then needs only two additions.
  void enter() {
    const bool ends = index(place_.loop) == list_->size();
    run_ = ends ? nullptr : &loop().runs[index(place_.run)];
    moved_ = ends ? 0 : outer_ * loop().step;
  }
  /// Moves to the next run of the loop. After the last run it moves to the loop's next repetition, or to the
  /// next loop.
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
  const ActionRun* run_ = nullptr;  // the current run, or null at the end of the list
  std::int32_t moved_ = 0;          // the increase of microbatch numbers by the outer loop so far
  Place place_;
  std::int32_t inner_ = 0;
  std::int32_t outer_ = 0;
};

inline LoopCursor ActionLoops::begin() const { return LoopCursor(*this); }

/// Returns a list of actions in the form of loops. Patterns have at most 16 actions, and loops at most 16
/// runs. The result yields exactly the actions of `list`. Takes time in proportion to 16 times the number
/// of actions.
ActionLoops loops_of(std::span<const Action> list);
/// Returns all actions of a list of loops, with all repetitions.
std::vector<Action> actions_of(const ActionLoops& list);

/// Returns a list in which repeated runs are combined into loops of at most `longest_period` runs. Takes
/// time in proportion to `longest_period` times the number of runs.
ActionLoops folded(std::span<const ActionRun> runs, std::size_t longest_period);

/// A program whose lists are stored as loops in `lists`. `program` holds all other fields, and its own lists
/// are empty.
struct RolledProgram {
  Program program;
  /// The list of actions of each rank, as loops.
  std::vector<ActionLoops> lists;
};

/// Returns the program with plain lists of actions.
Program unrolled(RolledProgram rolled);
/// Returns the program with loops in place of plain lists. loops_of() finds the loops.
RolledProgram rolled(Program program);

}  // namespace penstock
