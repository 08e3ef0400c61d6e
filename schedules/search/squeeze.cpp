// First improvement, rank by rank and position by position. Only an action that waits for its rank, and not
// for its input, can gain by moving; W never wait for anything and stay where they are.

#include "schedules/search/squeeze.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/retimed_lists.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

/// Moves that the search may try, times actions.
/// A trial may touch every action, so that this bounds the time whatever the size of the program.
constexpr std::int64_t kMostTrials = std::int64_t{1} << 23;
constexpr int kReach = 2;  // places

using Lists = std::vector<std::vector<Action>>;

/// Passes over all ranks until one finds nothing.
class Squeezer {
 public:
  Squeezer(const Lists& lists, const OrderCosts& costs)
      : lists_(lists, costs), least_ns_(busiest_rank_ns(lists, costs)) {}

  Lists run() {
    bool improved = true;
    while (improved && !finished()) {
      improved = false;
      for (std::int32_t rank = 0; rank < lists_.rank_count() && !finished(); ++rank) improved |= pass(rank);
    }
    return lists_.lists();
  }

 private:
  using Number = RetimedLists::Number;

  // No span is shorter than the work of the rank that has most.
  bool finished() const { return trials_ >= kMostTrials || lists_.length().longest_span_ns == least_ns_; }

  static Ns busiest_rank_ns(const Lists& lists, const OrderCosts& costs) {
    Ns busiest = 0;
    for (const std::vector<Action>& list : lists) {
      Ns busy = 0;
      for (const Action& action : list) busy += duration_ns(costs.stages[index(action.stage)], action.kind);
      busiest = std::max(busiest, busy);
    }
    return busiest;
  }

  /// Tries to move each action of the rank once; true when one has moved.
  bool pass(std::int32_t rank) {
    bool improved = false;
    for (Number place = lists_.first(rank); place != kNone; place = lists_.next(place)) {
      // One place at a time first: the nearer move is tried before the farther one, and the first that
      // helps is kept.
      for (int reach = 1; reach <= kReach && !finished(); ++reach) {
        const Number passed = lists_.previous(place);
        const Number target = reach == 1 || passed == kNone ? passed : lists_.previous(passed);
        if (target == kNone) break;
        if (!lists_.waits_for_rank(place) || !try_move(place, target)) continue;
        improved = true;
        // It stands where the moved action stood: what has come to stand behind it is looked at next.
        place = passed;
      }
    }
    return improved;
  }

  bool try_move(Number action, Number target) {
    if (follows_from(lists_.action(target), lists_.action(action))) return false;
    if (!lists_.fits(action, target)) return false;
    // What could not be tried costs nothing; what is tried may have to follow changes through all lists.
    trials_ += lists_.action_count();
    return lists_.move_if_shorter(action, target);
  }

  /// Actions of one kind and stage keep their order, and a backward stays behind its forward.
  static bool follows_from(const Action& earlier, const Action& later) {
    if (earlier.stage != later.stage) return false;
    return earlier.kind == later.kind || earlier.microbatch == later.microbatch;
  }

  static constexpr Number kNone = RetimedLists::kNone;

  RetimedLists lists_;
  Ns least_ns_ = 0;
  std::int64_t trials_ = 0;
};

}  // namespace

std::vector<std::vector<Action>> squeeze(const std::vector<std::vector<Action>>& lists,
                                         const OrderCosts& costs) {
  return Squeezer(lists, costs).run();
}

}  // namespace penstock
