// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR'24, section 3.1. B is split into I and W, and only F
// and I pass on anything, so W are what gaps are filled with:
//
//   warm-up  every stage runs F0; then, from the last stage up, as many further F as fit into its memory
//            before the first I can be there, each stage at least one F ahead of the next
//   rounds   one a microbatch, from the last stage up: an F if the stage is due one and has memory for it,
//            after as many W as that takes, then the I
//   gaps     wait for the input of an F or I; a W runs first if it fits into the gap, or if the stage would
//            otherwise have paused longer than any other
//   end      all W that are left
//
// The paper leaves open whether a warm-up F may end after the first I is there, whether an F may hold up an
// I, whether a W may overrun a gap, and how far stages keep apart. All combinations are tried; the one whose
// longest span (first start to last end of a rank) is shortest is taken, the first one on a tie.

#include "schedules/search/zb_auto.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
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

/// What the paper leaves open.
struct Variant {
  bool overshoot = false;      ///< the last warm-up F may end after the first I is there
  bool delay_forward = false;  ///< an F may hold the next I up by no more than a W takes
  bool overrun = false;        ///< a W may run in a gap that is too short, to even out the pauses
  std::int32_t lead = 1;       ///< forwards that a stage keeps ahead of the next one
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

class Heuristic {
 public:
  Heuristic(const OrderCosts& costs, Variant variant)
      : variant_(variant), microbatches_(costs.microbatches), lists_(costs) {}

  TimedLists run() {
    warm_up();
    for (std::int32_t m = 1; m < microbatches_; ++m) run_round(m);
    for (std::int32_t stage = 0; stage < stages(); ++stage) place_all_owed(stage);
    return std::move(lists_);
  }

 private:
  std::int32_t stages() const { return lists_.rank_count(); }
  const StageCost& cost(std::int32_t stage) const { return lists_.costs().stages[index(stage)]; }
  Action next_forward(std::int32_t stage) const { return forward(stage, lists_.forwards(stage)); }
  Action next_input(std::int32_t stage) const {
    return compute(ActionKind::backward_input, stage, lists_.backwards(stage));
  }

  void warm_up() {
    const std::vector<std::int32_t> counts = warm_up_counts();
    for (std::int32_t stage = 0; stage < stages(); ++stage) {
      while (lists_.forwards(stage) < counts[index(stage)]) lists_.place(next_forward(stage));
    }
    for (std::int32_t stage = stages() - 1; stage >= 0; --stage) lists_.place(next_input(stage));
  }

  /// Ends of microbatch m's F on all stages while nothing but F runs, from those of m - 1.
  std::vector<Ns> forward_ends(const std::vector<Ns>& before) const {
    std::vector<Ns> ends(index(stages()));
    for (std::int32_t stage = 0; stage < stages(); ++stage) {
      const Ns arrival =
          stage == 0 ? 0 : ends[index(stage - 1)] + lists_.costs().transfer_ns[index(stage - 1)];
      ends[index(stage)] = std::max(before[index(stage)], arrival) + cost(stage).forward_ns;
    }
    return ends;
  }

  /// When the first I can start on each stage, from the ends of the first F.
  std::vector<Ns> first_input_starts(const std::vector<Ns>& forward_ends) const {
    std::vector<Ns> starts(forward_ends);
    for (std::int32_t stage = stages() - 2; stage >= 0; --stage) {
      starts[index(stage)] = starts[index(stage + 1)] + cost(stage + 1).backward_input_ns +
                             lists_.costs().transfer_ns[index(stage)];
    }
    return starts;
  }

  /// Whether `stage` and those before it, each `lead` further, have memory for n forwards.
  bool fit(std::int32_t stage, std::int32_t n) const {
    for (std::int32_t before = 0; before <= stage; ++before) {
      const std::int64_t count = std::min(microbatches_, n + (stage - before) * variant_.lead);
      if (count > lists_.costs().memory_limit[index(before)] / std::max<Bytes>(1, cost(before).kept) &&
          cost(before).kept > 0) {
        return false;
      }
    }
    return true;
  }

  std::vector<std::int32_t> warm_up_counts() const {
    std::vector<std::vector<Ns>> ends{forward_ends(std::vector<Ns>(index(stages()), 0))};
    const std::vector<Ns> input_starts = first_input_starts(ends.front());
    std::vector<std::int32_t> counts(index(stages()), 1);
    for (std::int32_t stage = stages() - 2; stage >= 0; --stage) {
      std::int32_t& count = counts[index(stage)];
      while (count < microbatches_ && fit(stage, count + 1)) {
        while (ends.size() <= index(count)) ends.push_back(forward_ends(ends.back()));
        const Ns busy_until = ends[index(count - 1)][index(stage)];
        const bool in_time = ends[index(count)][index(stage)] <= input_starts[index(stage)];
        if (!in_time && !(variant_.overshoot && busy_until < input_starts[index(stage)])) break;
        ++count;
      }
      if (stage > 0 && count > 1) {
        counts[index(stage - 1)] =
            std::max(counts[index(stage - 1)], std::min(microbatches_, count + variant_.lead));
      }
    }
    return counts;
  }

  /// Which stages run an F in round m, from the first stage down; every stage must have run that of m itself.
  std::vector<bool> due_forwards(std::int32_t m) const {
    std::vector<bool> due(index(stages()), false);
    std::int32_t ahead = microbatches_;
    for (std::int32_t stage = 0; stage < stages(); ++stage) {
      const std::int32_t count = lists_.forwards(stage);
      const bool behind = count <= m;
      const bool apart = ahead == microbatches_ || count + 1 + variant_.lead <= ahead;
      due[index(stage)] = count < microbatches_ && (behind || (count < ahead && apart && has_room(stage)));
      ahead = count + (due[index(stage)] ? 1 : 0);
    }
    return due;
  }

  bool has_room(std::int32_t stage) const { return lists_.fits_without_owed(next_forward(stage)); }

  void run_round(std::int32_t m) {
    const std::vector<bool> due = due_forwards(m);
    std::vector<std::int32_t> goals(index(stages()));
    for (std::int32_t stage = 0; stage < stages(); ++stage) {
      goals[index(stage)] = lists_.forwards(stage) + (due[index(stage)] ? 1 : 0);
    }
    for (std::int32_t stage = stages() - 1; stage >= 0; --stage) {
      run_forwards_through(stage, m);
      if (lists_.forwards(stage) < goals[index(stage)]) take_forward(stage);
      fill_gap(stage, *lists_.arrival_ns(next_input(stage)));
      lists_.place(next_input(stage));
      if (stage == 0 && lists_.forwards(0) == microbatches_) place_all_owed(0);
    }
  }

  /// Runs what is missing of the F up to microbatch m, on the stages before first.
  void run_forwards_through(std::int32_t stage, std::int32_t m) {
    std::int32_t first = stage;
    while (first > 0 && lists_.forwards(first - 1) <= m) --first;
    for (std::int32_t s = first; s <= stage; ++s) {
      while (lists_.forwards(s) <= m) place_forward(s);
    }
  }

  void take_forward(std::int32_t stage) {
    if (stage > 0) run_forwards_through(stage - 1, lists_.forwards(stage));
    if (!has_room(stage) || (variant_.delay_forward && holds_up_input(stage))) return;
    place_forward(stage);
  }

  bool holds_up_input(std::int32_t stage) const {
    Ns start = std::max(lists_.free_at_ns(stage), *lists_.arrival_ns(next_forward(stage)));
    if (!lists_.fits(next_forward(stage))) {
      start = std::max(start, lists_.free_at_ns(stage) + cost(stage).backward_weight_ns);
    }
    return start + cost(stage).forward_ns >
           *lists_.arrival_ns(next_input(stage)) + cost(stage).backward_weight_ns;
  }

  void place_forward(std::int32_t stage) {
    while (!lists_.fits(next_forward(stage))) lists_.place_owed_weight(stage);
    fill_gap(stage, *lists_.arrival_ns(next_forward(stage)));
    lists_.place(next_forward(stage));
  }

  void fill_gap(std::int32_t stage, Ns until_ns) {
    while (!lists_.owed_weights(stage).empty()) {
      const Ns gap = until_ns - lists_.free_at_ns(stage);
      if (gap <= 0) return;
      const bool longest_pause = variant_.overrun && lists_.idle_ns(stage) + gap > lists_.most_idle_ns();
      if (gap < cost(stage).backward_weight_ns && !longest_pause) return;
      lists_.place_owed_weight(stage);
    }
  }

  void place_all_owed(std::int32_t stage) {
    while (!lists_.owed_weights(stage).empty()) lists_.place_owed_weight(stage);
  }

  Variant variant_;
  std::int32_t microbatches_;
  TimedLists lists_;
};

}  // namespace

Generated automatic_zero_bubble(std::string schedule, const Shape& shape, std::int64_t activations) {
  Program program = looped_program(std::move(schedule), shape);
  const auto costs = order_costs(shape, program, activations);
  if (!costs) return tl::unexpected(costs.error());
  Ns best_ns = std::numeric_limits<Ns>::max();
  for (const Variant& variant : all_variants()) {
    const TimedLists lists = Heuristic(*costs, variant).run();
    if (lists.longest_span_ns() >= best_ns) continue;
    best_ns = lists.longest_span_ns();
    for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
      program.ranks[static_cast<std::size_t>(rank)] = lists.list(rank);
    }
  }
  append_steps(program);
  return program;
}

}  // namespace penstock
