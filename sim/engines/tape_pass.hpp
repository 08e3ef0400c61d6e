#pragma once
// Runs the instructions of a tape on an array of registers. The instructions of one rank form a chain,
// because each needs the result of the previous one. A step of a chain costs a load, two maxima, an
// addition and a store. The tape interleaves the chains of several ranks, so that a processor works on
// several at once. If no message ever waits for a queue, the loop skips the queues, which halves the cost.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/tape_writer.hpp"

namespace penstock {

/// Returns the registers at the start of the first pass, which are all 0.
inline std::vector<Ns> fresh_registers(const Tape& tape) { return std::vector<Ns>(tape.register_count, 0); }

// The source of durations in a pass, which is chosen at compile time: one duration for each class, or one for
// each instruction. queues_followed() reads `by_class`. If `by_class` is empty, durations may have any value.
struct FromClasses {
  std::span<const Ns> by_class;
  Ns operator()(std::size_t /*number*/, std::uint32_t duration) const { return by_class[duration]; }
};
struct FromStream {
  const Ns* by_instruction;
  std::span<const Ns> by_class{};  // empty, because durations may have any value
  Ns operator()(std::size_t number, std::uint32_t /*duration*/) const { return by_instruction[number]; }
};

/// Runs the instructions of a tape. For each instruction, it calls `see` with its number, its x and y
/// (tape.hpp), and its link. `v` holds the registers.
template <QueuesFollowed kQueues, class Code, class Durations, class See>
void run_loop(const Code& code, const PricedLink* links, const Durations& duration, Ns* v, const See& see) {
  for (std::size_t i = 0; i < code.size(); ++i) {
    const auto& step = code[i];
    const Ns x = std::max(v[step.a], v[step.b]) + duration(i, step.duration);
    v[step.a] = x;
    const PricedLink& link = links[step.link];
    Ns start = x;
    if constexpr (kQueues != QueuesFollowed::none) start = std::max(start, v[link.c]);
    if constexpr (kQueues == QueuesFollowed::both_ends) start = std::max(start, v[link.e]);
    const Ns y = start + link.hold_ns;
    if constexpr (kQueues != QueuesFollowed::none) v[link.c] = y;
    if constexpr (kQueues == QueuesFollowed::both_ends) v[link.e] = y;
    v[step.d] = y + link.latency_ns;
    see(i, x, y, link);
  }
}

/// Runs a tape with the initial register values `v`, and returns their values at the end.
template <class Durations, class See>
std::vector<Ns> run_tape(const Tape& tape, const TapeCosts& costs, const Durations& durations, const See& see,
                         std::vector<Ns> v) {
  std::visit(
      [&](const auto& code) {
        switch (queues_followed(tape, costs.links, durations.by_class)) {
          case QueuesFollowed::none:
            return run_loop<QueuesFollowed::none>(code, costs.links.data(), durations, v.data(), see);
          case QueuesFollowed::one_end:
            return run_loop<QueuesFollowed::one_end>(code, costs.links.data(), durations, v.data(), see);
          case QueuesFollowed::both_ends:
            return run_loop<QueuesFollowed::both_ends>(code, costs.links.data(), durations, v.data(), see);
        }
      },
      tape.code);
  return v;
}

template <class Durations, class See>
std::vector<Ns> run_tape(const Tape& tape, const TapeCosts& costs, const Durations& durations,
                         const See& see) {
  return run_tape(tape, costs, durations, see, fresh_registers(tape));
}

/// Runs a tape, and calls `see` with the number and the times of each instruction.
template <class See>
void run_timed(const Tape& tape, const TapeCosts& costs, const See& see) {
  std::visit(
      [&](const auto& code) {
        run_tape(tape, costs, FromClasses{costs.durations},
                 [&](std::size_t number, Ns x, Ns y, const PricedLink& link) {
                   see(number, InstructionTimes{.start_ns = x - costs.durations[code[number].duration],
                                                .end_ns = x,
                                                .message_start_ns = y - link.hold_ns,
                                                .arrival_ns = y + link.latency_ns});
                 });
      },
      tape.code);
}

}  // namespace penstock
