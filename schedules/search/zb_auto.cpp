// The automatic zero-bubble schedule (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR'24, section
// 3.1). B is split into I (gradient of the input) and W (gradient of the weights). Other stages wait only
// for F and I, so Ws can fill the gaps:
//
//   warm-up  Every stage runs F0. Then it runs more F, as long as they fit into memory and end before the
//            first I can start. Each stage runs at least one F more than the next stage.
//   rounds   There is one round for each microbatch, from the last stage to the first. A stage runs its
//            next F if due_forwards() chooses it. If memory is full, it first runs as many W as necessary.
//            Then it runs the I.
//   gaps     While a stage waits for the input of an F or I, it runs a W that fits into the gap. It also
//            runs a longer W if it would otherwise pause longer than any other stage.
//   end      Every stage runs its remaining Ws.
//
// The paper leaves four questions open (see Variant). All combinations of answers are tried. The span of a
// rank is the time from its first start to its last end. The combination in which the longest span is
// smallest is taken. A search may find a shorter order within the same memory limit (synthesis.hpp). Tested
// by search_test.cpp and weighed_costs_test.cpp.

#include "schedules/search/synthesis.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

/// The answers to the four questions that the zero-bubble paper leaves open in its heuristic.
struct Variant {
  /// True if the last warm-up F may end after the time at which the first I could start.
  bool overshoot = false;
  /// True if an F waits when it would delay the next I by more than the duration of a W.
  bool delay_forward = false;
  /// True if a W may run in a gap that is shorter than the W. Pauses are then spread evenly over the ranks.
  bool overrun = false;
  /// The number of forwards, 0 or 1, by which a stage stays ahead of the next one.
  std::int32_t lead = 1;
};

/// The decisions of a run. Two variants that make the same decisions give the same lists.
struct Decisions {
  Variant variant;
  /// The number of warm-up F actions of each stage.
  std::vector<std::int32_t> warm_up{};
  bool by_delay_forward = false;
  bool by_overrun = false;
  /// True if `lead` changed a decision after the warm-up.
  bool by_lead = false;

  bool would_be(const Variant& other, const std::vector<std::int32_t>& other_warm_up) const {
    return warm_up == other_warm_up && !(by_delay_forward && variant.delay_forward != other.delay_forward) &&
           !(by_overrun && variant.overrun != other.overrun) && !(by_lead && variant.lead != other.lead);
  }
};

std::vector<Variant> all_variants() {
  std::vector<Variant> variants;
  for (const std::int32_t lead : {1, 0}) {
    for (const bool overshoot : {false, true}) {
      for (const bool delay_forward : {false, true}) {
        for (const bool overrun : {false, true}) {
          variants.push_back({overshoot, delay_forward, overrun, lead});
        }
      }
    }
  }
  return variants;
}

/// Returns the end of microbatch m's F on each stage if only F actions run. `before` has the ends for m - 1.
std::vector<Ns> forward_ends(const OrderCosts& costs, const std::vector<Ns>& before) {
  std::vector<Ns> ends(costs.stages.size());
  for (std::int32_t stage = 0; stage < static_cast<std::int32_t>(costs.stages.size()); ++stage) {
    const Ns arrival = stage == 0 ? 0 : ends[index(stage - 1)] + costs.transfer_ns[index(stage - 1)];
    ends[index(stage)] = std::max(before[index(stage)], arrival) + costs.stages[index(stage)].forward_ns;
  }
  return ends;
}

/// Returns the earliest start of the first I on each stage. `forward_ends` has the ends of the first F.
std::vector<Ns> first_input_starts(const OrderCosts& costs, const std::vector<Ns>& forward_ends) {
  std::vector<Ns> starts(forward_ends);
  for (std::int32_t stage = static_cast<std::int32_t>(costs.stages.size()) - 2; stage >= 0; --stage) {
    starts[index(stage)] = starts[index(stage + 1)] + costs.stages[index(stage) + 1].backward_input_ns +
                           costs.transfer_ns[index(stage)];
  }
  return starts;
}

/// Returns true if `stage` has memory for n forwards, and each earlier stage for `lead` more forwards than
/// the stage after it. A stage that runs further ahead makes earlier stages store more forwards, but these
/// stages may have less memory.
bool fit(const OrderCosts& costs, const Variant& variant, std::int32_t stage, std::int32_t n) {
  for (std::int32_t before = 0; before <= stage; ++before) {
    // If a stage stores nothing, everything fits. The divisor is then 1 instead of 0.
    const std::int64_t count = std::min(costs.microbatches, n + (stage - before) * variant.lead);
    if (count > costs.memory_limit[index(before)] / std::max<Bytes>(1, costs.stages[index(before)].kept) &&
        costs.stages[index(before)].kept > 0) {
      return false;
    }
  }
  return true;
}

/// Returns the number of F actions that each stage runs before its first I.
std::vector<std::int32_t> warm_up_counts(const OrderCosts& costs, const Variant& variant) {
  std::vector<std::vector<Ns>> ends{forward_ends(costs, std::vector<Ns>(costs.stages.size(), 0))};
  const std::vector<Ns> input_starts = first_input_starts(costs, ends.front());
  std::vector<std::int32_t> counts(costs.stages.size(), 1);
  for (std::int32_t stage = static_cast<std::int32_t>(costs.stages.size()) - 2; stage >= 0; --stage) {
    std::int32_t& count = counts[index(stage)];
    // Another F is added if it ends before the first I can start. With `overshoot`, it is enough that the F
    // begins before that time.
    while (count < costs.microbatches && fit(costs, variant, stage, count + 1)) {
      // The ends of a microbatch are computed when a stage needs them, because only a few stages run many F
      // in advance.
      while (ends.size() <= index(count)) ends.push_back(forward_ends(costs, ends.back()));
      const Ns busy_until = ends[index(count - 1)][index(stage)];
      const bool in_time = ends[index(count)][index(stage)] <= input_starts[index(stage)];
      if (!in_time && !(variant.overshoot && busy_until < input_starts[index(stage)])) break;
      ++count;
    }
    // Each F of this stage needs the F of the previous stage. The previous stage stays `lead` forwards ahead.
    if (stage > 0 && count > 1) {
      counts[index(stage - 1)] =
          std::max(counts[index(stage - 1)], std::min(costs.microbatches, count + variant.lead));
    }
  }
  return counts;
}

/// A run of one variant, which places the actions round by round. `decisions_` records the decisions that
/// another variant would make differently.
class Heuristic {
 public:
  Heuristic(const OrderCosts& costs, const Variant& variant, std::vector<std::int32_t> warm_up)
      : variant_(variant),
        microbatches_(costs.microbatches),
        lists_(costs),
        decisions_{.variant = variant, .warm_up = std::move(warm_up)} {}

  /// Runs the variant to its end. Returns the longest span of a stage, or nothing if it is not below
  /// `limit`.
  std::optional<Ns> run(Ns limit) {
    warm_up();
    // Round 0 is the warm-up. It ends with the I of microbatch 0 on every stage.
    for (std::int32_t m = 1; m < microbatches_; ++m) {
      if (least_span() >= limit) return std::nullopt;
      run_round(m);
    }
    for (std::int32_t stage = 0; stage < stages(); ++stage) place_all_owed(stage);
    const Ns span = lists_.longest_span_ns();
    return span < limit ? std::optional(span) : std::nullopt;
  }
  const TimedLists& lists() const { return lists_; }
  const Decisions& decisions() const { return decisions_; }

 private:
  std::int32_t stages() const { return lists_.rank_count(); }
  const StageCost& cost(std::int32_t stage) const { return lists_.costs().stages[index(stage)]; }
  Action next_forward(std::int32_t stage) const { return forward(stage, lists_.forwards(stage)); }
  Action next_input(std::int32_t stage) const {
    return compute(ActionKind::backward_input, stage, lists_.backwards(stage));
  }

  /// Runs the warm-up F actions, from the first stage on, because each stage needs the outputs of the
  /// previous ones. Then it runs the first I of each stage.
  void warm_up() {
    for (std::int32_t stage = 0; stage < stages(); ++stage) {
      while (lists_.forwards(stage) < decisions_.warm_up[index(stage)]) lists_.place(next_forward(stage));
    }
    for (std::int32_t stage = stages() - 1; stage >= 0; --stage) lists_.place(next_input(stage));
  }

  /// Returns a lower bound on the longest span of the stages. A stage's bound is the sum of its pauses so
  /// far and all its work.
  Ns least_span() const {
    Ns least = 0;
    for (std::int32_t stage = 0; stage < stages(); ++stage) {
      const StageCost& each = cost(stage);
      const Ns busy = microbatches_ * (each.forward_ns + each.backward_input_ns + each.backward_weight_ns);
      least = std::max(least, busy + lists_.idle_ns(stage));
    }
    return least;
  }

  /// Returns true for each stage that runs an F in round m. A stage that has not yet run F of microbatch m
  /// always runs an F.
  std::vector<bool> due_forwards(std::int32_t m) {
    std::vector<bool> due(index(stages()), false);
    // `ahead` is the number of F actions of the previous stage after this round. It is M if this number does
    // not limit the stage: before the first stage, and after a stage that has run all its F.
    std::int32_t ahead = microbatches_;
    for (std::int32_t stage = 0; stage < stages(); ++stage) {
      const std::int32_t count = lists_.forwards(stage);
      const bool behind = count <= m;
      const bool may_follow = count < microbatches_ && count < ahead && !behind && has_room(stage);
      const bool apart = ahead == microbatches_ || count + 1 + variant_.lead <= ahead;
      // The two values of `lead` differ only here: with 1 the stage waits, and with 0 it runs.
      decisions_.by_lead |= may_follow && ahead != microbatches_ && count + 1 == ahead;
      due[index(stage)] = (count < microbatches_ && behind) || (may_follow && apart);
      ahead = count + (due[index(stage)] ? 1 : 0);
    }
    return due;
  }

  bool has_room(std::int32_t stage) const { return lists_.fits_without_owed(next_forward(stage)); }

  void run_round(std::int32_t m) {
    const std::vector<bool> due = due_forwards(m);
    std::vector<std::int32_t> goals(index(stages()));
    for (std::int32_t stage = 0; stage < stages(); ++stage) {
      // The goals are set before the round, because the round also runs F actions of earlier stages that
      // later stages need.
      goals[index(stage)] = lists_.forwards(stage) + (due[index(stage)] ? 1 : 0);
    }
    for (std::int32_t stage = stages() - 1; stage >= 0; --stage) {
      // An I needs the F of its microbatch. If this F has not run on this stage or on previous stages, it
      // runs now.
      run_forwards_through(stage, m);
      if (lists_.forwards(stage) < goals[index(stage)]) take_forward(stage);
      fill_gap(stage, *lists_.arrival_ns(next_input(stage)));
      lists_.place(next_input(stage));
      // No other rank waits for the I of the first stage. After the last F of this stage, Ws can therefore
      // run before the I without a loss.
      if (stage == 0 && lists_.forwards(0) == microbatches_) place_all_owed(0);
    }
  }

  /// Runs the F actions of `stage` up to microbatch m, as far as they have not run yet. Before that, it
  /// runs the F actions of previous stages whose outputs they need.
  void run_forwards_through(std::int32_t stage, std::int32_t m) {
    std::int32_t first = stage;
    while (first > 0 && lists_.forwards(first - 1) <= m) --first;
    for (std::int32_t s = first; s <= stage; ++s) {
      while (lists_.forwards(s) <= m) place_forward(s);
    }
  }

  /// Runs the next F of the stage, unless memory or the variant prevents it.
  void take_forward(std::int32_t stage) {
    if (stage > 0) run_forwards_through(stage - 1, lists_.forwards(stage));
    if (!has_room(stage)) return;
    if (holds_up_input(stage)) {
      decisions_.by_delay_forward = true;
      if (variant_.delay_forward) return;
    }
    place_forward(stage);
  }

  /// Returns true if the stage's next F would delay its next I by more than the duration of a W.
  bool holds_up_input(std::int32_t stage) const {
    Ns start = std::max(lists_.free_at_ns(stage), *lists_.arrival_ns(next_forward(stage)));
    // An owed W must first free memory.
    if (!lists_.fits(next_forward(stage))) {
      start = std::max(start, lists_.free_at_ns(stage) + cost(stage).backward_weight_ns);
    }
    return start + cost(stage).forward_ns >
           *lists_.arrival_ns(next_input(stage)) + cost(stage).backward_weight_ns;
  }

  void place_forward(std::int32_t stage) {
    // The F fits after all owed Ws have run, so the loop ends.
    while (!lists_.fits(next_forward(stage))) lists_.place_owed_weight(stage);
    fill_gap(stage, *lists_.arrival_ns(next_forward(stage)));
    lists_.place(next_forward(stage));
  }

  /// Runs owed Ws until `until_ns`, the time at which the stage's next F or I can start. A W is owed from the
  /// end of its I until the W runs.
  void fill_gap(std::int32_t stage, Ns until_ns) {
    while (lists_.owes_weight(stage)) {
      const Ns gap = until_ns - lists_.free_at_ns(stage);
      if (gap <= 0) return;
      if (gap < cost(stage).backward_weight_ns) {
        // The W is longer than the gap. If another stage has paused longer, a pause here does not make the
        // longest span longer.
        if (lists_.idle_ns(stage) + gap <= lists_.most_idle_ns()) return;
        decisions_.by_overrun = true;
        if (!variant_.overrun) return;
      }
      lists_.place_owed_weight(stage);
    }
  }

  void place_all_owed(std::int32_t stage) {
    while (lists_.owes_weight(stage)) lists_.place_owed_weight(stage);
  }

  Variant variant_;
  std::int32_t microbatches_;
  TimedLists lists_;
  Decisions decisions_;
};

}  // namespace

std::optional<std::vector<std::vector<Action>>> zero_bubble_order(const OrderCosts& costs, Ns longest) {
  std::vector<std::vector<Action>> lists(costs.stages.size());
  bool is_found = false;
  Ns best_ns = longest + 1;
  std::vector<Decisions> tried;
  for (const Variant& variant : all_variants()) {
    const std::vector<std::int32_t> warm_up = warm_up_counts(costs, variant);
    const auto is_the_same = [&](const Decisions& run) { return run.would_be(variant, warm_up); };
    // If a run was stopped because it was too long, variants with the same decisions would also be too long.
    if (std::ranges::any_of(tried, is_the_same)) continue;
    Heuristic heuristic(costs, variant, warm_up);
    const auto span_ns = heuristic.run(best_ns);
    tried.push_back(heuristic.decisions());
    if (!span_ns) continue;
    is_found = true;
    best_ns = *span_ns;
    for (std::size_t rank = 0; rank < lists.size(); ++rank)
      lists[rank] = heuristic.lists().list(static_cast<std::int32_t>(rank));
  }
  return is_found ? std::optional(std::move(lists)) : std::nullopt;
}

Generated automatic_zero_bubble(std::string schedule, const Shape& shape, std::int64_t activations) {
  Program program = looped_program(std::move(schedule), shape);
  const auto costs = order_costs(shape, program, activations);
  if (!costs) return tl::unexpected(costs.error());
  const auto known = [](const OrderCosts& within, Ns longest) {
    std::vector<std::vector<std::vector<Action>>> orders;
    if (auto order = zero_bubble_order(within, longest)) orders.push_back(*std::move(order));
    return orders;
  };
  return searched(std::move(program), *costs, shape, known);
}

}  // namespace penstock
