// Improves complete lists by local search. It goes through all ranks and positions and takes the first
// improvement. A move helps only an action that waits for its rank and not for its input. Ws never wait for
// an input, so they do not move. retimed_lists.cpp computes the effect of a move. Tested by search_test.cpp.

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

/// The limit on moves multiplied by the number of actions. A move can touch every action, so this limits the
/// time for programs of any size.
constexpr std::int64_t kMostTrials = std::int64_t{1} << 23;
constexpr int kReach = 2;  // the number of positions that an action can move at a time

using Lists = std::vector<std::vector<Action>>;

/// The local search. It goes through all ranks until it finds no improvement.
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

  // No span is shorter than the work of the busiest rank, so the search ends at this length.
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

  /// Tries to move each action of the rank once. Returns true if any action has moved.
  bool pass(std::int32_t rank) {
    bool improved = false;
    for (Number place = lists_.first(rank); place != kNone; place = lists_.next(place)) {
      // A move by one position is tried before a move by two positions. The first move that helps is taken.
      for (int reach = 1; reach <= kReach && !finished(); ++reach) {
        const Number passed = lists_.previous(place);
        const Number target = reach == 1 || passed == kNone ? passed : lists_.previous(passed);
        if (target == kNone) break;
        if (!lists_.waits_for_rank(place) || !try_move(place, target)) continue;
        improved = true;
        // The passed action is now at the old position of the moved action, so the search continues after it.
        place = passed;
      }
    }
    return improved;
  }

  bool try_move(Number action, Number target) {
    if (follows_from(lists_.action(target), lists_.action(action))) return false;
    if (!lists_.fits(action, target)) return false;
    // A move that is tried may change times in all lists, so it counts as many actions as there are.
    trials_ += lists_.action_count();
    return lists_.move_if_shorter(action, target);
  }

  /// Returns true if the order of two actions must not change. They have the same stage, and also the same
  /// kind or microbatch.
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
