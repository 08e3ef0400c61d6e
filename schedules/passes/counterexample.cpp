// Makes a faulty program smaller while its fault remains, because a fault in a large program is hard to
// understand. It uses delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing
// input", TSE 2002) with the functions of counterexample.hpp. It tries to remove sequences of ranks, then of
// microbatches, of stages, and so on, until no part can be removed. Tested by counterexample_test.cpp.

#include "schedules/passes/counterexample.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/passes.hpp"

namespace penstock {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns the rule that a message states: its first line, in which `#` replaces each number or list of
/// numbers. For example, "rank 1, position 3: 1F0 is on ranks 0, 2" gives "rank #, position #: #F# is on
/// ranks #". Two messages with equal rules report the same fault, even at different positions. Later lines
/// only show the position, so they are ignored.
std::string rule_of(std::string_view message) {
  std::string rule;
  const std::string_view line = message.substr(0, message.find('\n'));
  for (std::size_t i = 0; i < line.size();) {
    if (!is_digit(line[i])) {
      rule += line[i++];
      continue;
    }
    while (i < line.size() && is_digit(line[i])) ++i;
    if (rule.ends_with("#, ")) {
      rule.resize(rule.size() - 2);
    } else {
      rule += '#';
    }
  }
  return rule;
}

/// Returns true if find_hang() would find a fault. This function is faster, because it does not search for
/// the cycle.
bool fails(const Program& lowered, const ChannelOptions& channels, const CostTable& costs) {
  const FlatProgram flat =
      flatten(lowered, costs, {.channels = channels, .iterations = std::min(lowered.iterations, 2)});
  // Crossed messages stall the walk, unless they are eager.
  return !walk(flat, {}, channels) || find_launch_hang(flat, channels) ||
         (channels.eager_bytes > 0 && !crossed_messages(lowered, channels.model).empty());
}

/// Returns a text that names the less strict transports under which `lowered` does not hang, such as
/// "direction channels; unlimited capacity". Hangs with different causes usually give different texts.
std::string relief_of(const Program& lowered, const ChannelOptions& channels, const CostTable& costs) {
  std::vector<std::string> relief;
  const auto helps = [&](ChannelOptions milder) { return !fails(lowered, milder, costs); };
  for (const ChannelModel model : kChannelModels) {
    ChannelOptions milder = channels;
    milder.model = model;
    if (model > channels.model && helps(milder)) {
      relief.push_back(fmt::format("{} channels", to_text(model)));
      break;
    }
  }
  ChannelOptions ahead = channels;
  ahead.blocking = Blocking::none;
  if (channels.waits() && helps(ahead)) relief.emplace_back("no blocking");
  ChannelOptions roomy = channels;
  roomy.capacity = 0;
  if (channels.capacity > 0 && helps(roomy)) relief.emplace_back("unlimited capacity");
  ChannelOptions unordered = channels;
  unordered.launch_order = false;
  if (channels.launch_order && helps(unordered)) relief.emplace_back("no launch order");
  return fmt::format("{}", fmt::join(relief, "; "));
}

/// Returns true for kinds that no F, B, I or W needs as input.
bool is_extra(ActionKind kind) {
  return kind == ActionKind::recompute || is_wait(kind) || !has_microbatch(kind);
}

bool is_reduction(ActionKind kind) {
  return kind == ActionKind::reduce_grad || kind == ActionKind::wait_reduce_grad;
}
bool is_of_sharing(ActionKind kind) { return gathers_or_drops(kind) || is_reduction(kind); }

/// Returns the excerpt without the actions of all kinds for which `goes` returns true. They are removed
/// together, because validate.hpp requires that all stages gather and reduce in the same way.
Excerpt without_all(Excerpt whole, bool (*goes)(ActionKind)) {
  for (std::vector<Action>& actions : whole.program.ranks) {
    std::erase_if(actions, [&](const Action& action) { return goes(action.kind); });
  }
  return whole;
}

/// A program with a fault. run() makes it smaller while the fault remains.
class Shrinking {
 public:
  Shrinking(Excerpt whole, const ChannelOptions& channels, ProgramFault fault)
      : best_(std::move(whole)), channels_(channels), fault_(std::move(fault)) {}

  Excerpt run() {
    bool smaller = true;
    while (smaller) {
      // The largest parts of the program (its ranks) are tried first, because each removed rank makes all
      // later trials faster.
      smaller = shrink_ranks();
      smaller |= shrink_microbatches();
      smaller |= shrink_stages();
      smaller |= shrink_slices();
      smaller |= shrink_repetition();
      smaller |= shrink_collectives();
      smaller |= shrink_actions();
    }
    // The smaller program no longer follows the original schedule.
    best_.program.schedule = "custom";
    return std::move(best_);
  }

 private:
  /// Adopts the smaller program if it has the same fault, and then returns true. A program with another
  /// fault is rejected.
  bool take(Excerpt excerpt) {
    if (fault_of(excerpt.program, channels_, excerpt.costs) != fault_) return false;
    best_ = std::move(excerpt);
    return true;
  }

  bool shrink_ranks();
  bool shrink_microbatches();
  bool shrink_stages();
  bool shrink_slices();
  bool shrink_repetition();
  bool shrink_collectives();
  bool shrink_actions();

  std::int32_t ranks() const { return best_.program.rank_count(); }

  Excerpt best_;
  ChannelOptions channels_;
  ProgramFault fault_;
};

/// Tries to remove parts of the program, such as its stages or its microbatches. First it tries to remove
/// half of all parts at once, then quarters, and at the end single parts. `drop(first, count)` tries to
/// remove `count` parts, beginning with part `first`.
template <class Size, class Drop>
bool drop_halves(Size size, Drop drop) {
  bool smaller = false;
  for (std::int32_t count = std::max(1, size() / 2); count >= 1; count /= 2) {
    for (std::int32_t first = 0; first < size();) {
      const std::int32_t some = std::min(count, size() - first);
      const bool dropped = some < size() && drop(first, some);
      smaller |= dropped;
      // If parts were removed, the next parts have moved to `first`.
      if (!dropped) first += some;
    }
  }
  return smaller;
}

using WithoutRank = Excerpt (*)(const Excerpt&, std::int32_t);

/// Returns the excerpt without `count` ranks, beginning with rank `first`. It removes the last rank first,
/// so that the numbers of the other ranks do not change. If a stage is removed, further ranks may
/// disappear.
Excerpt without_ranks(Excerpt rest, std::int32_t first, std::int32_t count, WithoutRank without_rank) {
  for (std::int32_t rank = first + count; rank-- > first;) {
    if (rank < rest.program.rank_count()) rest = without_rank(rest, rank);
  }
  return rest;
}

bool Shrinking::shrink_ranks() {
  const auto drop = [&](std::int32_t first, std::int32_t count) {
    const std::int32_t before = ranks();
    // The trials are ordered by the size of their results, the smallest first. The first removes the stages
    // of these ranks from all ranks. The second removes only the replicas on these ranks. The third also
    // removes all gathers and reductions, because they cannot be removed on one rank alone. A trial that
    // removes no rank does not count.
    return (take(without_ranks(best_, first, count, without_stages_of)) ||
            take(without_ranks(best_, first, count, without_replicas_of)) ||
            take(without_all(without_ranks(best_, first, count, without_replicas_of), is_of_sharing))) &&
           ranks() < before;
  };
  return drop_halves([&] { return ranks(); }, drop);
}

bool Shrinking::shrink_microbatches() {
  return drop_halves([&] { return best_.program.microbatches; },
                     [&](std::int32_t first, std::int32_t count) {
                       return take(without_microbatches(best_, first, count));
                     });
}

bool Shrinking::shrink_stages() {
  return drop_halves([&] { return best_.program.stage_count(); },
                     [&](std::int32_t first, std::int32_t count) {
                       Excerpt rest = best_;
                       for (std::int32_t stage = first + count; stage-- > first;) {
                         rest = without_stage(rest, stage);
                       }
                       return take(std::move(rest));
                     });
}

/// Tries to remove slices one by one, because there are few. A valid program has at least one slice.
bool Shrinking::shrink_slices() {
  bool smaller = false;
  for (std::int32_t slice = best_.program.slices; slice-- > 0;) {
    if (best_.program.slices > 1) smaller |= take(without_slice(best_, slice));
  }
  return smaller;
}

/// Tries to run only one iteration, without a barrier.
bool Shrinking::shrink_repetition() {
  bool smaller = false;
  if (best_.program.iterations > 1) {
    Excerpt once = best_;
    once.program.iterations = 1;
    smaller |= take(std::move(once));
  }
  if (best_.program.barrier) {
    Excerpt free = best_;
    free.program.barrier = false;
    smaller |= take(std::move(free));
  }
  return smaller;
}

/// Tries to remove all gathers, then all reductions, and then all copies to and from hosts.
bool Shrinking::shrink_collectives() {
  bool smaller = false;
  for (bool (*goes)(ActionKind) : {gathers_or_drops, is_reduction, is_host_copy}) {
    Excerpt rest = without_all(best_, goes);
    if (rest.program != best_.program) smaller |= take(std::move(rest));
  }
  return smaller;
}

bool Shrinking::shrink_actions() {
  bool smaller = false;
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    const auto list = [&]() -> const std::vector<Action>& {
      return best_.program.ranks[static_cast<std::size_t>(rank)];
    };
    for (std::size_t position = list().size(); position-- > 0;) {
      // Actions are tried from the last position to the first, so that a removal does not change the
      // positions of those that follow in the loop.
      if (is_extra(list()[position].kind)) smaller |= take(without_action(best_, rank, position));
    }
  }
  return smaller;
}

}  // namespace

std::optional<ProgramFault> fault_of(const Program& program, const ChannelOptions& channels,
                                     const CostTable& costs) {
  if (const auto valid = validate(program); !valid) {
    return ProgramFault{.kind = FaultKind::invalid, .rule = rule_of(valid.error())};
  }
  const auto lowered = lower(program);
  if (!lowered) return ProgramFault{.kind = FaultKind::unexecutable, .rule = rule_of(lowered.error())};
  if (!fails(*lowered, channels, costs)) return std::nullopt;
  const bool crosses = !crossed_messages(*lowered, channels.model).empty();
  return ProgramFault{.kind = crosses ? FaultKind::crossed : FaultKind::hang,
                      .rule = relief_of(*lowered, channels, costs)};
}

std::optional<Counterexample> smallest_counterexample(const Program& program, const ChannelOptions& channels,
                                                      const CostTable& costs) {
  auto fault = fault_of(program, channels, costs);
  if (!fault) return std::nullopt;
  Excerpt smallest = Shrinking({.program = program, .costs = costs}, channels, *fault).run();
  return Counterexample{
      .program = std::move(smallest.program), .costs = std::move(smallest.costs), .fault = *std::move(fault)};
}

}  // namespace penstock
