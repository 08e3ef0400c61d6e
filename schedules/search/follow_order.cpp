// Ranks are woken when they become free and when a message arrives; earlier times first, then lower ranks.

#include "schedules/search/follow_order.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/search/squeeze.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

class Follower {
 public:
  Follower(const OrderCosts& costs, const PreferredOrder& order, FollowOptions options)
      : options_(options), lists_(costs), order_(order), next_(order.size(), 0), warm_(order.size(), true) {
    for (std::int32_t rank = 0; rank < lists_.rank_count(); ++rank) wakings_.emplace(0, rank);
  }

  std::optional<TimedLists> run() {
    while (!wakings_.empty()) {
      const auto [now, rank] = wakings_.top();
      wakings_.pop();
      if (now >= lists_.free_at_ns(rank)) act(rank, now);
    }
    for (std::size_t rank = 0; rank < order_.size(); ++rank) {
      if (next_[rank] < order_[rank].size()) return std::nullopt;
      const auto number = static_cast<std::int32_t>(rank);
      while (!lists_.owed_weights(number).empty()) lists_.place_owed_weight(number);
    }
    return std::move(lists_);
  }

 private:
  using Waking = std::pair<Ns, std::int32_t>;
  /// What a rank sees when it looks for work.
  struct Sight {
    std::optional<std::size_t> ready;  ///< position in the order
    std::optional<Ns> next_arrival_ns;
    bool needs_memory = false;  ///< an F could run if the owed W had
  };

  Sight look(std::int32_t rank, Ns now) const {
    const std::vector<Action>& order = order_[index(rank)];
    const std::int32_t ahead =
        warm_[index(rank)] ? std::max(options_.look_ahead, options_.warm_up_look_ahead) : options_.look_ahead;
    const std::size_t end = std::min(order.size(), next_[index(rank)] + index(ahead) + 1);
    Sight sight;
    for (std::size_t at = next_[index(rank)]; at < end; ++at) {
      const auto arrival = lists_.arrival_ns(order[at]);
      if (!arrival) continue;
      if (order[at].kind == ActionKind::forward && !lists_.fits(order[at])) {
        if (*arrival > now || sight.next_arrival_ns || !lists_.fits_without_owed(order[at])) continue;
        sight.needs_memory = true;
        return sight;
      }
      if (*arrival <= now) {
        sight.ready = at;
        return sight;
      }
      sight.next_arrival_ns = std::min(*arrival, sight.next_arrival_ns.value_or(*arrival));
    }
    return sight;
  }

  void act(std::int32_t rank, Ns now) {
    const Sight sight = look(rank, now);
    if (sight.ready) {
      take(rank, *sight.ready, now);
    } else if (!lists_.owed_weights(rank).empty() && weight_suits(rank, sight, now)) {
      lists_.place_owed_weight(rank, now);
      wakings_.emplace(lists_.free_at_ns(rank), rank);
    }
  }

  bool weight_suits(std::int32_t rank, const Sight& sight, Ns now) const {
    if (sight.needs_memory || !sight.next_arrival_ns) return true;
    const Ns gap = *sight.next_arrival_ns - now;
    const Action& weight = lists_.owed_weights(rank).front();
    const Ns duration = duration_ns(lists_.costs().stages[index(weight.stage)], weight.kind);
    const Ns quarters = duration / 4 * options_.weight_quarters + duration % 4 * options_.weight_quarters / 4;
    if (gap >= quarters) return true;
    return options_.overrun && lists_.idle_ns(rank) + gap > lists_.most_idle_ns();
  }

  void take(std::int32_t rank, std::size_t at, Ns now) {
    const auto begin = order_[index(rank)].begin();
    const auto first = begin + static_cast<std::ptrdiff_t>(next_[index(rank)]);
    const auto taken = begin + static_cast<std::ptrdiff_t>(at);
    std::rotate(first, taken, taken + 1);
    const Action action = *first;
    ++next_[index(rank)];
    if (action.kind != ActionKind::forward) warm_[index(rank)] = false;
    lists_.place(action, now);
    wakings_.emplace(lists_.free_at_ns(rank), rank);
    wake_consumer(action);
  }

  void wake_consumer(const Action& producer) {
    const bool down = producer.kind == ActionKind::forward;
    const std::int32_t stage = producer.stage + (down ? 1 : -1);
    if (stage < 0 || stage >= static_cast<std::int32_t>(lists_.costs().stages.size())) return;
    const Action consumer{.kind = producer.kind, .stage = stage, .microbatch = producer.microbatch};
    if (const auto arrival = lists_.arrival_ns(consumer)) {
      wakings_.emplace(*arrival, lists_.costs().rank_of[index(stage)]);
    }
  }

  FollowOptions options_;
  TimedLists lists_;
  PreferredOrder order_;
  std::vector<std::size_t> next_;
  std::vector<bool> warm_;
  std::priority_queue<Waking, std::vector<Waking>, std::greater<>> wakings_;
};

}  // namespace

PreferredOrder repeated_block(const std::vector<BlockSlots>& slots, std::int32_t microbatches,
                              ActionKind backward) {
  constexpr std::int64_t kPeriod = 6;
  const auto ranks = static_cast<std::int32_t>(slots.size());
  PreferredOrder order;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const BlockSlots& block = slots[static_cast<std::size_t>(rank)];
    const std::int32_t down = rank;
    const std::int32_t up = 2 * ranks - 1 - rank;
    std::vector<std::pair<std::int64_t, Action>> slotted;
    for (std::int32_t m = 0; m < microbatches; ++m) {
      slotted.emplace_back(block.forward_down + kPeriod * m, forward(down, m));
      slotted.emplace_back(block.forward_up + kPeriod * m, forward(up, m));
      slotted.emplace_back(block.backward_up + kPeriod * m, compute(backward, up, m));
      slotted.emplace_back(block.backward_down + kPeriod * m, compute(backward, down, m));
    }
    std::ranges::sort(slotted, {}, &std::pair<std::int64_t, Action>::first);
    order.emplace_back();
    for (const auto& [slot, action] : slotted) order.back().push_back(action);
  }
  return order;
}

std::optional<TimedLists> follow_order(const OrderCosts& costs, const PreferredOrder& order,
                                       FollowOptions options) {
  return Follower(costs, order, options).run();
}

Program best_followed(Program program, const OrderCosts& costs, const std::vector<OrderChoice>& choices) {
  std::optional<TimedLists> best;
  for (const OrderChoice& choice : choices) {
    for (const FollowOptions& options : choice.options) {
      auto lists = follow_order(costs, choice.order, options);
      if (lists && (!best || lists->longest_span_ns() < best->longest_span_ns())) best = std::move(lists);
    }
  }
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    program.ranks[static_cast<std::size_t>(rank)] = best->list(rank);
  }
  program.ranks = squeeze(std::move(program.ranks), costs);
  append_steps(program);
  return program;
}

std::vector<FollowOptions> options_with_weights() {
  std::vector<FollowOptions> options;
  for (std::int32_t look_ahead = 0; look_ahead <= 3; ++look_ahead) {
    for (const std::int32_t quarters : {0, 2, 3, 4}) {
      for (const bool overrun : {false, true}) {
        options.push_back({.look_ahead = look_ahead,
                           .warm_up_look_ahead = look_ahead,
                           .weight_quarters = quarters,
                           .overrun = overrun});
      }
    }
  }
  return options;
}

}  // namespace penstock
