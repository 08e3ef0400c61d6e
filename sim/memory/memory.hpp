#pragma once
// Computes the bytes that every rank holds over time, by category, from the spans of a run.

#include <cstdint>
#include <span>
#include <vector>

#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"

namespace penstock {

struct MemoryOptions {
  bool samples = true;  ///< true: memory over time as well as peaks; false: only peaks
};

/// Sets in `memory` the capacity and the reserve of the rank's device, and the unit of the amounts.
void set_device(RankMemory& memory, const Experiment& experiment, std::int32_t rank);

/// Computes the memory of one rank at a time. Bytes are charged (added) at the start of actions, and released
/// at the end:
///
///     weights            from the start to the end; sharding 3: 1/n of a group of n, and also the whole
///                        from UNSHARD to RESHARD
///     weight_versions    an older version from the STEP that replaced it to the end of its last use
///     gradients          from the first B, W or REDUCE_GRAD after a STEP to the end of the next STEP;
///                        sharding >= 2: from the REDUCE_GRAD on 1/n, and also the whole from the
///                        next B or W to the next REDUCE_GRAD
///     optimizer_state    from the start to the end; sharding >= 1: 1/n
///     activations        `kept` from F to B, or `released_by_input` to I and the rest to W; a recomputed
///                        microbatch has its stage's input from F to B (or I), and `kept` from R on;
///                        `recomputed` from I to W; without backwards, `kept` to the end of the run, and
///                        an output for a stage on the same rank from the end of F to the end of that F;
///                        not from the end of OFFLOAD and of the SEND_Fs to the start of RELOAD
///     send_buffers       from the producer's end to the arrival
///     receive_buffers    from the transfer's start to the consumer's end
///     transient          while F, B, I, W or R runs
///
/// At one instant, releases come before charges. Otherwise, changes at one instant are in program order
/// (spans.hpp).
class MemoryOfRanks {
 public:
  /// Keeps a reference to the experiment, which must outlive this object.
  MemoryOfRanks(const Experiment& experiment, const MemoryOptions& options);

  /// Returns the memory of one rank. `spans` are its actions and messages in program order.
  RankMemory of(std::int32_t rank, std::span<const Span> spans) const;

 private:
  const Experiment& experiment_;
  MemoryOptions options_;
  EdgeNumbers edges_;
  StageNeighbours neighbours_;
  std::vector<std::vector<std::int32_t>> stages_of_rank_;  // stages of each rank, ascending
};

/// Return the memory of all ranks, in the order of the ranks.
std::vector<RankMemory> memory_of(const EngineRun& run, const Experiment& experiment,
                                  const MemoryOptions& options);
std::vector<RankMemory> memory_of(const Timeline& timeline, const Experiment& experiment,
                                  const MemoryOptions& options);

}  // namespace penstock
