#pragma once
// Makes tapes (tape.hpp). compile() makes a tape from a flat program, whose lists contain SENDs and RECVs.
// compile_turns() makes a tape from lists of compute actions only, and adds the messages itself. The second
// half of this file computes the times of a tape.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Compiles a flat program into a tape with the same actions and messages. flatten() must have made `flat`
/// for `channels`. Returns nothing if the program hangs; find_hang() then gives the reason. The tape
/// depends on costs only because they decide which messages are eager. Microbatches of different groups get
/// different duration classes. Takes O(positions).
std::optional<Tape> compile(const FlatProgram& flat, const ChannelOptions& channels,
                            const MicrobatchGroups& groups = {});

// Compiles the lists of a compute program directly into a tape. Placement rounds
// (schedules/passes/take_turns.hpp) determine the order of actions and messages. tests/sim/turn_run_test.cpp
// compares the result with that of compile().

/// The tape of a program of compute actions. The origins of its instructions number the actions of the
/// program's lists, rank by rank. Messages are numbered in the order in which they are placed.
struct TurnTape {
  Tape tape;
  std::vector<std::int32_t> units;  ///< microbatch (or slice) of each message
  /// True if some messages are collectives; their entries in `units` are kNoMicrobatch.
  bool has_collectives = false;
};

/// Returns the tape that lower(), flatten() and compile() would make, without storing lists. Returns nothing
/// if channels block, have a capacity or have an eager size. Also returns nothing if passes repeat, if
/// members must join a collective early, or if the program deadlocks. The caller must then use compile().
/// Requires a program that is valid (validate()) and not lowered. Takes O(actions).
std::optional<TurnTape> compile_turns(const Program& program, const ChannelOptions& channels,
                                      const MicrobatchGroups& groups = {});

// Computes the times of a tape: with one table of costs, with eight tables at once (lanes.cpp), or as the
// spans of a timeline.

/// The two queue registers and the two times of a link class: how long a message occupies its queues, and how
/// long it travels after that. They are stored together, because an instruction needs all four.
struct PricedLink {
  Register c = 0;
  Register e = 0;
  Ns hold_ns = 0;
  Ns latency_ns = 0;
};

/// The costs with which a tape runs: the durations of its duration classes, and the link times of its link
/// classes.
struct TapeCosts {
  std::vector<Ns> durations;      ///< by number of the duration class
  std::vector<PricedLink> links;  ///< by number of the link class
};

struct PricedTape {
  Tape tape;
  TapeCosts costs;  ///< the costs of the tape's duration classes and link classes
};

/// Returns the groups of microbatches with equal costs. A tape that runs with these costs must be compiled
/// with these groups.
MicrobatchGroups microbatch_groups(const CostTable& costs);

/// Returns the costs of the tape's classes on the experiment's cluster, as if no two messages shared a link.
/// Requires the tape of a program with the experiment's stages and edges.
TapeCosts tape_costs(const Tape& tape, const Experiment& experiment);

/// Returns the end of the last action or message. Takes O(instructions), and no memory except the registers.
Ns makespan_ns(const Tape& tape, const TapeCosts& costs);
/// Returns the makespan, like the other makespan_ns(), if each instruction has its own duration. Does not
/// use the durations in `costs`.
Ns makespan_ns(const Tape& tape, const TapeCosts& costs, std::span<const Ns> durations);

/// The times of one instruction of a tape: those of its compute action, and those of the message that it
/// sends.
struct InstructionTimes {
  Ns start_ns = 0;
  Ns end_ns = 0;
  Ns message_start_ns = 0;
  Ns arrival_ns = 0;
};
/// Returns the times of all instructions, one element each.
std::vector<InstructionTimes> instruction_times(const Tape& tape, const TapeCosts& costs);

/// Returns the start and the end of each action and message. They equal the times that walk() finds. `tape`
/// must have been compiled from `flat`.
ProgramTimes times_of(const Tape& tape, const TapeCosts& costs, const FlatProgram& flat);

/// The compute times of one rank in one pass through the program's lists.
struct ComputeTimes {
  Ns first_ns = 0;  ///< start of the rank's first compute action
  Ns last_ns = 0;   ///< end of the rank's last compute action
  Ns busy_ns = 0;
};

/// A runner that repeats a tape. One pass runs all lists of the program once. Each pass starts from the
/// clocks and queues at the end of the pass before.
class RepeatedTape {
 public:
  /// Stores references to the tape and the costs, which must outlive this object. A pass may depend only on
  /// the clocks and queues at the end of the pass before. The program must therefore have no collectives,
  /// capacity, eager messages or hosts that launch. If it has a barrier, all ranks wait for each other
  /// between passes.
  RepeatedTape(const Tape& tape, const TapeCosts& costs, const Program& program);

  bool has_run() const { return has_run_; }
  /// Runs the next pass.
  void pass();
  /// Runs the next pass and returns the compute times of each rank. Requires a tape on which only compute
  /// actions take time.
  std::vector<ComputeTimes> pass_with_compute();
  /// Returns all times on which later passes depend: the ranks' clocks, and the times at which queues become
  /// free if messages may wait for them.
  std::vector<Ns> left() const;
  /// Returns the time at which the latest pass ends.
  Ns latest_ns() const;

 private:
  void begin();

  const Tape& tape_;
  const TapeCosts& costs_;
  bool barrier_;
  bool has_run_ = false;
  std::vector<Ns> registers_;
  std::vector<Register> lasting_;  // registers that left() returns
};

// Runs one tape with several tables of costs at once, one table in each lane. Sweeps of costs, noise and
// searches use it.

using LaneTimes = std::array<Ns, kLanes>;

/// A time in each lane. A lane is one of several runs of the tape, each with its own costs, and vector
/// instructions compute all lanes at once.
struct alignas(kLaneBytes) LaneLine {
  LaneTimes of{};
};

/// A function that fills in the durations of consecutive instructions. Each element of `durations` holds
/// the durations of one instruction in all lanes. `first` is the number of the first instruction.
using FillDurations = std::function<void(std::size_t first, std::span<LaneLine> durations)>;

/// Returns the makespans for 1 to kLanes tables of costs, one in each lane. They equal those of
/// makespan_ns(). tape_costs() must have made the tables for `tape`. A lane without a table gets 0.
LaneTimes makespans_ns(const Tape& tape, std::span<const TapeCosts> tables);

/// Returns the makespans if every instruction has its own duration in every lane. All lanes use the links of
/// `costs`, but not its durations. The function calls `fill` for one block of instructions after the other.
LaneTimes makespans_ns(const Tape& tape, const TapeCosts& costs, const FillDurations& fill);

/// Returns the name of the vector code that runs on this processor: "avx512", "avx2" or "portable".
std::string_view lane_code();

/// Returns the timeline of the lowered program. It is computed directly from the program's tape, without
/// storing the times of all instructions. `turns` must be the tape of `program`, and `costs` the costs of
/// this tape. The program must have neither collectives nor RESHARDs.
Timeline timeline_of_turns(const Program& program, const TurnTape& turns, const TapeCosts& costs);

}  // namespace penstock
