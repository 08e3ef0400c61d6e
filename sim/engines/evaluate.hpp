#pragma once
// The times of a tape: under one table of costs, under eight tables side by side (lanes.cpp), and as the
// spans of a timeline. compile.hpp makes tapes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "sim/engines/compile.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// The two queue registers and the two times of a link class, together because an instruction needs all four.
struct PricedLink {
  Register c = 0;
  Register e = 0;
  Ns hold_ns = 0;
  Ns latency_ns = 0;
};

/// The durations of a tape's classes.
struct TapeCosts {
  std::vector<Ns> durations;      ///< one duration for each duration class
  std::vector<PricedLink> links;  ///< one entry for each link class
};

struct PricedTape {
  Tape tape;
  TapeCosts costs;  ///< costs of the tape's classes
};

/// Returns the groups of microbatches with equal costs. A tape that is timed with these costs must be
/// compiled with these groups.
MicrobatchGroups microbatch_groups(const CostTable& costs);

/// Returns the experiment's costs on its cluster. Every message has its route to itself. Requires the tape of
/// a program with the experiment's stages and edges.
TapeCosts tape_costs(const Tape& tape, const Experiment& experiment);

/// Returns the time at which everything has ended. Takes O(instructions), and no memory except the registers.
Ns makespan_ns(const Tape& tape, const TapeCosts& costs);
/// Like the other makespan_ns(), but each instruction has its own duration. The durations of `costs` are not
/// read.
Ns makespan_ns(const Tape& tape, const TapeCosts& costs, std::span<const Ns> durations);

/// The start and the end of an instruction's action and of its message.
struct InstructionTimes {
  Ns start_ns = 0;
  Ns end_ns = 0;
  Ns message_start_ns = 0;
  Ns arrival_ns = 0;
};
/// Calls `see` for every instruction of a pass, with its number, in order. Takes no memory except the
/// registers.
void for_each_instruction(const Tape& tape, const TapeCosts& costs,
                          const std::function<void(std::size_t, const InstructionTimes&)>& see);
/// Returns the times of all instructions, one element each.
std::vector<InstructionTimes> instruction_times(const Tape& tape, const TapeCosts& costs);

/// Returns the start and the end of each action and message. They equal the times of walk(). Requires the
/// tape of `flat` and `channels`.
ProgramTimes times_of(const Tape& tape, const TapeCosts& costs, const FlatProgram& flat,
                      const ChannelOptions& channels);

/// The times at which a rank computes in a pass.
struct ComputeTimes {
  Ns first_ns = 0;  ///< start of the rank's first compute action
  Ns last_ns = 0;   ///< end of the rank's last compute action
  Ns busy_ns = 0;
};

/// The tape of one pass through a program's lists. The caller runs it as often as needed, each pass from the
/// state that the pass before has left.
class RepeatedTape {
 public:
  /// Keeps references to the tape and the costs, which must outlive this object. Requires that only clocks
  /// and queues of channels last from one pass to the next. So there must be no collectives, capacity, eager
  /// messages or hosts that launch. If the program has a barrier, all ranks wait for each other between
  /// passes.
  RepeatedTape(const Tape& tape, const TapeCosts& costs, const Program& program);

  bool has_run() const { return has_run_; }
  /// Runs the next pass.
  void pass();
  /// Like pass(), and also returns when each rank computes. Requires a tape on which only compute actions
  /// take time.
  std::vector<ComputeTimes> pass_with_compute();
  /// Returns all times that affect further passes: the ranks' clocks, and the times at which queues become
  /// free if messages wait for them.
  std::vector<Ns> left() const;
  /// Returns the time at which all passes so far have ended.
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

// Times one tape under several tables of costs at once. Sweeps of costs, noise and searches use it.

using LaneTimes = std::array<Ns, kLanes>;

/// One time for each lane.
struct alignas(kLaneBytes) LaneLine {
  LaneTimes of{};
};

/// A function that writes the durations of the instructions from number `first` on, one line each.
using FillDurations = std::function<void(std::size_t first, std::span<LaneLine> durations)>;

/// Returns the makespan for each of 1 to kLanes tables, as makespan_ns() computes it. Requires that
/// tape_costs() has made the tables for `tape`. Lanes without a table return 0.
LaneTimes makespans_ns(const Tape& tape, std::span<const TapeCosts> tables);

/// Returns the makespans if every instruction has its own duration in every lane. All lanes use the links of
/// `costs`; its durations are not read. `fill` is called for one block of instructions after another.
LaneTimes makespans_ns(const Tape& tape, const TapeCosts& costs, const FillDurations& fill);

/// Returns the name of the vector code that this processor runs: "avx512", "avx2" or "portable".
std::string_view lane_code();

// Makes the timeline of a tape from placement rounds (compile.hpp) without storing the times of
// instructions.

/// Returns the spans of the lowered program. Requires the tape of `program` and its costs. The program must
/// have neither collectives nor RESHARDs.
Timeline timeline_of_turns(const Program& program, const TurnTape& turns, const TapeCosts& costs);

}  // namespace penstock
