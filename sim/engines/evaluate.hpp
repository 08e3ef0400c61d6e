#pragma once
// What a tape takes under one table of costs.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Two registers of queues and two times, as an instruction needs them together.
struct PricedLink {
  Register c = 0;
  Register e = 0;
  Ns hold_ns = 0;
  Ns latency_ns = 0;
};

/// The durations of a tape's classes.
struct TapeCosts {
  std::vector<Ns> durations;      ///< by duration class
  std::vector<PricedLink> links;  ///< by link class
};

struct PricedTape {
  Tape tape;
  TapeCosts costs;  ///< for it
};

/// How a tape has to be compiled for these costs: by groups of microbatches that cost the same.
MicrobatchGroups microbatch_groups(const CostTable& costs);

/// What the experiment's costs are on its cluster, every message with its route to itself. Requires a tape of
/// a program with the experiment's stages and edges.
TapeCosts tape_costs(const Tape& tape, const Experiment& experiment);

/// When everything has ended. O(instructions), no memory but the registers.
Ns makespan_ns(const Tape& tape, const TapeCosts& costs);
/// The same with a duration of its own for every instruction; those of `costs` are not read.
Ns makespan_ns(const Tape& tape, const TapeCosts& costs, std::span<const Ns> durations);

/// When an instruction's action and its message start and end.
struct InstructionTimes {
  Ns start_ns = 0;
  Ns end_ns = 0;
  Ns message_start_ns = 0;
  Ns arrival_ns = 0;
};
/// Tells `see` of every instruction of a pass, by number and in order. No memory but the registers.
void for_each_instruction(const Tape& tape, const TapeCosts& costs,
                          const std::function<void(std::size_t, const InstructionTimes&)>& see);
/// One an instruction.
std::vector<InstructionTimes> instruction_times(const Tape& tape, const TapeCosts& costs);

/// When each action and message starts and ends, as walk() has it. Requires the tape of `flat` and
/// `channels`.
ProgramTimes times_of(const Tape& tape, const TapeCosts& costs, const FlatProgram& flat,
                      const ChannelOptions& channels);

/// When a rank computes in a pass.
struct ComputeTimes {
  Ns first_ns = 0;  ///< start of its first action
  Ns last_ns = 0;   ///< end of its last one
  Ns busy_ns = 0;
};

/// A tape of one pass through a program's lists, run again and again for as long as somebody asks.
class RepeatedTape {
 public:
  /// Both must outlive it. Requires that nothing but clocks and queues of channels lasts from one pass
  /// to the next: neither collectives nor a capacity nor an eager size nor hosts that launch. With the
  /// program's barrier all ranks wait for each other between passes.
  RepeatedTape(const Tape& tape, const TapeCosts& costs, const Program& program);

  bool has_run() const { return has_run_; }
  /// Runs the next pass.
  void pass();
  /// The same; by rank when it computes. Requires that nothing but compute actions takes time on the tape.
  std::vector<ComputeTimes> pass_with_compute();
  /// All that a further pass starts from: the clocks of ranks, and when queues are free that messages wait
  /// for.
  std::vector<Ns> left() const;
  /// When all passes so far have ended.
  Ns latest_ns() const;

 private:
  void begin();

  const Tape& tape_;
  const TapeCosts& costs_;
  bool barrier_;
  bool has_run_ = false;
  std::vector<Ns> registers_;
  std::vector<Register> lasting_;  // what left() has
};

}  // namespace penstock
