// First improvement, rank by rank and position by position. Only an action that waits for its rank, and not
// for its input, can gain by moving; W never wait for anything and stay where they are.

#include "schedules/search/squeeze.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

/// Visits of an action that the search may make: about a tenth of a second.
constexpr std::int64_t kMostVisits = std::int64_t{1} << 23;
constexpr std::size_t kReach = 2;

using Lists = std::vector<std::vector<Action>>;

/// How long lists take; less is better.
struct Length {
  Ns longest_span_ns = 0;
  Ns sum_of_ends_ns = 0;

  friend bool operator<(const Length& a, const Length& b) {
    return std::tie(a.longest_span_ns, a.sum_of_ends_ns) < std::tie(b.longest_span_ns, b.sum_of_ends_ns);
  }
};

/// Lists with the times of their actions, recomputed from the order alone.
class Clock {
 public:
  explicit Clock(const OrderCosts& costs)
      : costs_(costs),
        forward_end_(costs.stages.size() * static_cast<std::size_t>(costs.microbatches)),
        gradient_end_(forward_end_.size()) {}

  /// Nothing when ranks wait for each other. Fills gains().
  std::optional<Length> measure(const Lists& lists) {
    std::ranges::fill(forward_end_, kNotYet);
    std::ranges::fill(gradient_end_, kNotYet);
    gains_.resize(lists.size());
    std::vector<Progress> ranks(lists.size());
    Length length;
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < lists.size(); ++rank) {
        gains_[rank].resize(lists[rank].size());
        while (ranks[rank].next < lists[rank].size() && run_next(ranks[rank], lists[rank], gains_[rank])) {
          length.sum_of_ends_ns += ranks[rank].free_at;
          moved = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      if (ranks[rank].next < lists[rank].size()) return std::nullopt;
      length.longest_span_ns =
          std::max(length.longest_span_ns, ranks[rank].free_at - ranks[rank].first_start);
    }
    return length;
  }

  /// By rank and position: whether the action waited for its rank and not for its input.
  const std::vector<std::vector<char>>& gains() const { return gains_; }

 private:
  static constexpr Ns kNotYet = -1;

  struct Progress {
    std::size_t next = 0;
    Ns first_start = 0;
    Ns free_at = 0;
  };

  std::size_t at(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(costs_.microbatches) +
           static_cast<std::size_t>(microbatch);
  }

  Ns delay(std::int32_t lower_stage) const {
    const auto lower = static_cast<std::size_t>(lower_stage);
    return costs_.rank_of[lower] == costs_.rank_of[lower + 1] ? 0 : costs_.transfer_ns[lower];
  }

  /// kNotYet while the input is missing.
  Ns arrival(const Action& action) const {
    const std::size_t own = at(action.stage, action.microbatch);
    if (action.kind == ActionKind::backward_weight) return gradient_end_[own];
    if (action.kind == ActionKind::forward) {
      if (action.stage == 0) return 0;
      const Ns made = forward_end_[at(action.stage - 1, action.microbatch)];
      return made == kNotYet ? kNotYet : made + delay(action.stage - 1);
    }
    if (forward_end_[own] == kNotYet) return kNotYet;
    if (static_cast<std::size_t>(action.stage) + 1 == costs_.stages.size()) return forward_end_[own];
    const Ns made = gradient_end_[at(action.stage + 1, action.microbatch)];
    return made == kNotYet ? kNotYet : std::max(forward_end_[own], made + delay(action.stage));
  }

  bool run_next(Progress& rank, const std::vector<Action>& list, std::vector<char>& gains) {
    const Action& action = list[rank.next];
    const Ns input = arrival(action);
    if (input == kNotYet) return false;
    const Ns start = std::max(rank.free_at, input);
    if (rank.next == 0) rank.first_start = start;
    gains[rank.next] = input < start && action.kind != ActionKind::backward_weight ? 1 : 0;
    rank.free_at = start + duration_ns(costs_.stages[static_cast<std::size_t>(action.stage)], action.kind);
    const std::size_t own = at(action.stage, action.microbatch);
    if (action.kind == ActionKind::forward) forward_end_[own] = rank.free_at;
    if (makes_input_gradient(action.kind)) gradient_end_[own] = rank.free_at;
    ++rank.next;
    return true;
  }

  const OrderCosts& costs_;
  std::vector<Ns> forward_end_;  // by stage and microbatch
  std::vector<Ns> gradient_end_;
  std::vector<std::vector<char>> gains_;
};

class Squeezer {
 public:
  Squeezer(Lists lists, const OrderCosts& costs)
      : costs_(costs), clock_(costs), lists_(std::move(lists)), best_(*clock_.measure(lists_)) {
    gains_ = clock_.gains();
    for (const auto& list : lists_) actions_ += static_cast<std::int64_t>(list.size());
    least_ = busiest_rank();
  }

  Lists run() {
    bool improved = true;
    while (improved && !finished()) {
      improved = false;
      for (std::size_t rank = 0; rank < lists_.size() && !finished(); ++rank) improved |= pass(rank);
    }
    return std::move(lists_);
  }

 private:
  bool finished() const { return visits_ >= kMostVisits || best_.longest_span_ns == least_; }

  Ns busiest_rank() const {
    Ns busiest = 0;
    for (const auto& list : lists_) {
      Ns busy = 0;
      for (const Action& action : list) {
        busy += duration_ns(costs_.stages[static_cast<std::size_t>(action.stage)], action.kind);
      }
      busiest = std::max(busiest, busy);
    }
    return busiest;
  }

  bool pass(std::size_t rank) {
    bool improved = false;
    for (std::size_t at = 1; at < lists_[rank].size(); ++at) {
      for (std::size_t reach = 1; reach <= std::min(kReach, at) && !finished(); ++reach) {
        if (gains_[rank][at] != 0) improved |= try_move(rank, at, at - reach);
      }
    }
    return improved;
  }

  bool try_move(std::size_t rank, std::size_t from, std::size_t to) {
    const auto begin = lists_[rank].begin();
    const auto position = [&](std::size_t at) { return begin + static_cast<std::ptrdiff_t>(at); };
    if (follows_from(lists_[rank][to], lists_[rank][from])) return false;
    std::rotate(position(to), position(from), position(from) + 1);
    if (fits(rank)) {
      visits_ += actions_;
      const auto length = clock_.measure(lists_);
      if (length && *length < best_) {
        best_ = *length;
        gains_ = clock_.gains();
        return true;
      }
    }
    std::rotate(position(to), position(to) + 1, position(from) + 1);
    return false;
  }

  /// Actions of one kind and stage keep their order, and a backward stays behind its forward.
  static bool follows_from(const Action& earlier, const Action& later) {
    if (earlier.stage != later.stage) return false;
    return earlier.kind == later.kind || earlier.microbatch == later.microbatch;
  }

  bool fits(std::size_t rank) const {
    Bytes kept = 0;
    for (const Action& action : lists_[rank]) {
      const StageCost& cost = costs_.stages[static_cast<std::size_t>(action.stage)];
      if (action.kind == ActionKind::forward) kept += cost.kept;
      kept -= released_activations(cost, action.kind);
      if (kept > costs_.memory_limit[rank]) return false;
    }
    return true;
  }

  const OrderCosts& costs_;
  Clock clock_;
  Lists lists_;
  Length best_;
  Ns least_ = 0;
  std::vector<std::vector<char>> gains_;
  std::int64_t actions_ = 0;
  std::int64_t visits_ = 0;
};

}  // namespace

std::vector<std::vector<Action>> squeeze(std::vector<std::vector<Action>> lists, const OrderCosts& costs) {
  return Squeezer(std::move(lists), costs).run();
}

}  // namespace penstock
