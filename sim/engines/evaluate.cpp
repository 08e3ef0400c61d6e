// Computes the times of a program by passes over its tape. tape_writer.hpp loops over the instructions.

#include "sim/engines/evaluate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/tape_writer.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {

namespace {

/// Returns the duration of a class that is not a launch: the time of a collective's ring, of a copy to or
/// from the host, or of a group of compute actions. An overlapped pair has its own cost.
Ns class_duration_ns(std::span<const Action> actions, const Experiment& experiment, CollectiveRings& rings) {
  if (actions.empty()) return 0;
  if (is_collective(actions.front().kind)) return rings.of(actions.front()).cost.duration_ns;
  if (is_host_copy(actions.front().kind)) return host_copy_ns(experiment.costs, actions.front());
  return group_duration_ns(experiment.costs, actions);
}

/// Returns the end of a pass over the tape. It is the latest of the ranks' clocks and of the ends of messages
/// for which no rank waits.
Ns latest(const Tape& tape, const std::vector<Ns>& registers) {
  const auto clocks = std::span(registers).first(index(tape.rank_count));
  return clocks.empty() ? 0 : std::max(std::ranges::max(clocks), registers[tape.last]);
}

/// Stores the times of all actions and messages that have an instruction of the tape in `times`.
void note_instructions(const Tape& tape, const TapeCosts& costs, const FlatProgram& flat,
                       ProgramTimes& times) {
  run_timed(tape, costs, [&](std::size_t number, const InstructionTimes& at) {
    const Origin& origin = tape.origins[number];
    if (origin.position != kNone) {
      times.start[index(origin.position)] = at.start_ns;
      times.end[index(origin.position)] = at.end_ns;
    }
    if (origin.message == kNone) return;
    const auto message = index(origin.message);
    // A collective takes the duration of its instruction, and a transfer takes the time of its link.
    const bool is_transfer = flat.messages[message].recv != kNone;
    times.message_start[message] = is_transfer ? at.message_start_ns : at.start_ns;
    times.message_end[message] = at.arrival_ns;
  });
}

/// Stores in `times` the times of those positions of a rank that have no instruction. A leaf (a later
/// action of a group) gets the times of its group. A RESHARD takes no time and happens at the rank's
/// current time. A WAIT happens when it ends.
void note_passed(const FlatProgram& flat, std::int32_t rank, ProgramTimes& times) {
  Ns clock = 0;
  Ns end_of_group = 0;  // the latest end of the transfers in the current group
  const std::size_t end = index(flat.rank_begin[index(rank) + 1]);
  for (std::size_t p = index(flat.rank_begin[index(rank)]); p < end; ++p) {
    switch (flat.ops[p]) {
      case FlatOp::compute:
        clock = times.end[p];
        break;
      case FlatOp::leaf:
        // The first action of an overlapped group has the times of the instruction. The later ones (leaves)
        // copy the times of the action before them.
        times.start[p] = times.start[p - 1];
        times.end[p] = times.end[p - 1];
        break;
      case FlatOp::reshard:
        times.start[p] = times.end[p] = clock;
        break;
      case FlatOp::send:
      case FlatOp::recv:
        // The rank waits for a group at its end, so a RESHARD after the group comes after all its messages.
        if (!flat.waits_in_group(static_cast<std::int32_t>(p))) break;
        end_of_group = std::max(end_of_group, times.message_end[index(flat.message[p])]);
        if (p + 1 == end || flat.transfer_group[p + 1] != flat.transfer_group[p])
          clock = std::max(clock, end_of_group);
        break;
      case FlatOp::barrier:
        clock = std::max(clock, times.message_end[index(flat.message[p])]);
        break;
      case FlatOp::wait:
        for (std::int32_t w = flat.next_wait[p]; w != kNone; w = flat.next_wait[index(w)])
          clock = std::max(clock, times.message_end[index(flat.message[index(w)])]);
        times.start[p] = times.end[p] = clock;
        break;
      case FlatOp::collective:
        break;
    }
  }
}

constexpr auto kUnseen = [](std::size_t, Ns, Ns, const PricedLink&) {};

}  // namespace

MicrobatchGroups microbatch_groups(const CostTable& costs) {
  if (!costs.microbatches_differ()) return {};
  return {.count = static_cast<std::int32_t>(costs.microbatches.size()), .slices = costs.slices};
}

TapeCosts tape_costs(const Tape& tape, const Experiment& experiment) {
  const MicrobatchGroups groups = microbatch_groups(experiment.costs);
  if (groups.count > 1 && groups != tape.groups) {
    throw std::logic_error(
        "a tape without classes for microbatches that cost different amounts was priced with such");
  }
  TapeCosts costs;
  CollectiveRings rings(experiment);
  costs.durations.reserve(tape.durations.size());
  for (const DurationClass& of : tape.durations) {
    costs.durations.push_back(of.launches ? experiment.costs.launch.overhead_ns
                                          : class_duration_ns(tape.actions_of(of), experiment, rings));
  }
  const EdgeNumbers edges(experiment.program);
  TransferPrices prices(experiment);
  std::vector<TransferPrices::Price> transfers;
  transfers.reserve(tape.transfers.size());
  for (const TransferClass& of : tape.transfers) {
    const Bytes bytes = transfer_bytes(experiment.costs, edges, of.send);
    transfers.push_back(prices.of(of.from_rank, of.to_rank, bytes));
  }
  costs.links.reserve(tape.links.size());
  for (const LinkClass& link : tape.links) {
    const TransferPrices::Price price =
        link.transfer == LinkClass::kNoTransfer ? TransferPrices::Price{} : transfers[index(link.transfer)];
    costs.links.push_back(
        {.c = link.c, .e = link.e, .hold_ns = price.hold_ns, .latency_ns = price.latency_ns});
  }
  return costs;
}

Ns makespan_ns(const Tape& tape, const TapeCosts& costs) {
  return latest(tape, run_tape(tape, costs, FromClasses{costs.durations}, kUnseen));
}

Ns makespan_ns(const Tape& tape, const TapeCosts& costs, std::span<const Ns> durations) {
  return latest(tape, run_tape(tape, costs, FromStream{durations.data()}, kUnseen));
}

std::vector<InstructionTimes> instruction_times(const Tape& tape, const TapeCosts& costs) {
  std::vector<InstructionTimes> times;
  times.reserve(tape.size());
  run_timed(tape, costs, [&](std::size_t, const InstructionTimes& of_one) { times.push_back(of_one); });
  return times;
}

ProgramTimes times_of(const Tape& tape, const TapeCosts& costs, const FlatProgram& flat) {
  ProgramTimes times = empty_times(flat);
  note_instructions(tape, costs, flat, times);
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) note_passed(flat, rank, times);
  return times;
}

RepeatedTape::RepeatedTape(const Tape& tape, const TapeCosts& costs, const Program& program)
    : tape_(tape), costs_(costs), barrier_(program.barrier), registers_(fresh_registers(tape)) {
  lasting_.reserve(program.ranks.size() + 2 * tape.transfers.size());
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    // The clock of a rank without actions stays at 0 while all other clocks increase. If it were compared, no
    // two passes would ever be equal, so it is omitted.
    if (!program.ranks[rank].empty()) lasting_.push_back(static_cast<Register>(rank));
  }
  // If the pass does not follow queues, their registers have no meaning.
  if (queues_followed(tape, costs.links, costs.durations) == QueuesFollowed::none) return;
  for (const LinkClass& link : tape.links) {
    if (link.transfer != LinkClass::kNoTransfer) lasting_.insert(lasting_.end(), {link.c, link.e});
  }
}

std::vector<Ns> RepeatedTape::left() const {
  std::vector<Ns> times;
  times.reserve(lasting_.size());
  for (const Register lasting : lasting_) times.push_back(registers_[lasting]);
  return times;
}

Ns RepeatedTape::latest_ns() const { return latest(tape_, registers_); }

void RepeatedTape::begin() {
  const auto clocks = std::span(registers_).first(index(tape_.rank_count));
  if (barrier_ && !clocks.empty()) std::ranges::fill(clocks, std::ranges::max(clocks));
  has_run_ = true;
}

void RepeatedTape::pass() {
  begin();
  registers_ = run_tape(tape_, costs_, FromClasses{costs_.durations}, kUnseen, std::move(registers_));
}

std::vector<ComputeTimes> RepeatedTape::pass_with_compute() {
  begin();
  std::vector<ComputeTimes> ranks(index(tape_.rank_count));
  std::visit(
      [&](const auto& code) {
        // The busy time of a rank is the sum of its durations, so it can be computed before the pass.
        for (const auto& step : code) {
          if (step.duration != kNoTime) ranks[step.a].busy_ns += costs_.durations[step.duration];
        }
        std::vector<bool> started(ranks.size(), false);
        // All ranks have computed after a small part of the instructions. `missing` is then 0, and the search
        // for first actions costs nothing more.
        std::size_t missing = ranks.size();
        const auto note_start = [&](std::size_t number, Ns x, Ns /*y*/, const PricedLink& /*link*/) {
          if (missing == 0) return;
          const auto& step = code[number];
          if (step.duration == kNoTime || started[step.a]) return;
          started[step.a] = true;
          --missing;
          ranks[step.a].first_ns = x - costs_.durations[step.duration];
        };
        registers_ =
            run_tape(tape_, costs_, FromClasses{costs_.durations}, note_start, std::move(registers_));
      },
      tape_.code);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].last_ns = registers_[rank];
  return ranks;
}

// Placement rounds place the actions and messages of each rank in the order of its lowered list, and the tape
// has the same order. So one pass over the tape finds the spans of every rank in order. It stores each span
// in the rank's part of the timeline:
//
//   tape     0F0 with its message   1F0
//   rank 0   0F0 0SEND_F0           .
//   rank 1   1RECV_F0               1F0
//
// The k-th compute instruction of a rank is the k-th group of the rank's list. Messages are numbered in their
// order on the tape.

namespace {

/// The spans (start and end of each action) of a timeline, which are stored while the tape runs.
class TurnSpans {
 public:
  TurnSpans(const Program& program, const TurnTape& turns) : program_(program), turns_(turns) {
    timeline_.rank_count = program.rank_count();
    // The spans of each rank are contiguous, so the ranks' numbers of spans must be known first.
    std::vector<std::size_t> spans = messages_by_rank();
    std::size_t all = 0;
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      end_.push_back(all);
      all += spans[rank] + program.ranks[rank].size();
    }
    timeline_.spans.resize(all);
    next_.resize(program.ranks.size(), 0);
  }

  void add_group(std::int32_t rank, const InstructionTimes& at) {
    const std::vector<Action>& list = program_.ranks[index(rank)];
    std::size_t& next = next_[index(rank)];
    for (const std::size_t end = group_end(list, next); next < end; ++next)
      add(rank, list[next], at.start_ns, at.end_ns);
  }

  void add_message(const LinkClass& link, const InstructionTimes& at) {
    const TransferClass& transfer = turns_.tape.transfers[index(link.transfer)];
    Action send = transfer.send;
    send.microbatch = turns_.units[message_++];
    add(transfer.from_rank, send, at.message_start_ns, at.arrival_ns);
    add(transfer.to_rank, recv_of(message_of(send)), at.message_start_ns, at.arrival_ns);
  }

  Timeline timeline() && { return std::move(timeline_); }

 private:
  /// Returns the number of SENDs and RECVs of each rank.
  std::vector<std::size_t> messages_by_rank() const {
    std::vector<std::size_t> messages(program_.ranks.size(), 0);
    const auto count = [&](const auto& code) {
      for (const auto& step : code) {
        const std::int32_t number = turns_.tape.links[step.link].transfer;
        if (number == LinkClass::kNoTransfer) continue;
        const TransferClass& transfer = turns_.tape.transfers[index(number)];
        ++messages[index(transfer.from_rank)];
        ++messages[index(transfer.to_rank)];
      }
    };
    std::visit(count, turns_.tape.code);
    return messages;
  }

  void add(std::int32_t rank, const Action& action, Ns start_ns, Ns end_ns) {
    timeline_.spans[end_[index(rank)]++] = {.rank = rank,
                                            .action = action,
                                            .replica = program_.placement.replica_on(action.stage, rank),
                                            .start_ns = start_ns,
                                            .end_ns = end_ns};
    timeline_.makespan_ns = std::max(timeline_.makespan_ns, end_ns);
  }

  const Program& program_;
  const TurnTape& turns_;
  Timeline timeline_;
  std::vector<std::size_t> end_;   // for each rank, the index after its last stored span
  std::vector<std::size_t> next_;  // for each rank, the index of the next action in its compute list
  std::size_t message_ = 0;
};

}  // namespace

Timeline timeline_of_turns(const Program& program, const TurnTape& turns, const TapeCosts& costs) {
  TurnSpans spans(program, turns);
  std::visit(
      [&](const auto& code) {
        run_timed(turns.tape, costs, [&](std::size_t number, const InstructionTimes& at) {
          const auto& step = code[number];
          // A compute action never has the duration class kNoTime, even if it takes 0 ns, so this test skips
          // no action.
          if (step.duration != kNoTime) spans.add_group(static_cast<std::int32_t>(step.a), at);
          const LinkClass& link = turns.tape.links[step.link];
          if (link.transfer != LinkClass::kNoTransfer) spans.add_message(link, at);
        });
      },
      turns.tape.code);
  return std::move(spans).timeline();
}

}  // namespace penstock
