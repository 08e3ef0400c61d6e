#pragma once
// The schedule IR: one ordered list of actions for each rank plus everything else that is needed to run it.
// Programs are made by generators.hpp, program_text.hpp or pytorch_csv.hpp, checked by validate.hpp and
// channel_check.hpp, and completed by lower.hpp. sim/ and backend/ read them.

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The ranks that hold one stage. Replica i of the stage is on ranks[i]. Replica route[m mod route.size()]
/// runs microbatch m.
struct StagePlacement {
  std::vector<std::int32_t> ranks;
  std::vector<std::int32_t> route{0};

  friend bool operator==(const StagePlacement&, const StagePlacement&) = default;
};

/// The table of which rank holds which stage for which microbatch. It expresses several stages on one rank,
/// replicas, both directions of a bidirectional schedule, and V shapes.
struct Placement {
  std::vector<StagePlacement> stages;

  /// Returns the replica that runs the microbatch, as an index into stages[stage].ranks. Requires 0 <= stage
  /// < stages.size() and microbatch >= 0.
  std::int32_t replica_of(std::int32_t stage, std::int32_t microbatch) const {
    const std::vector<std::int32_t>& route = stages[index(stage)].route;
    return route.size() == 1 ? route.front() : route[index(microbatch) % route.size()];
  }
  /// Returns the rank that runs the microbatch on the stage, with the requirements of replica_of().
  std::int32_t rank_of(std::int32_t stage, std::int32_t microbatch) const {
    return stages[index(stage)].ranks[index(replica_of(stage, microbatch))];
  }
  /// Returns the rank of each stage. Requires that no stage has replicas.
  std::vector<std::int32_t> ranks_of_stages() const;
  /// Returns the index of `rank` among the stage's ranks, or -1 if the rank does not hold the stage.
  std::int32_t replica_on(std::int32_t stage, std::int32_t rank) const;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// An edge between two stages. Activations go from stage `from` to stage `to`, gradients back.
struct StageEdge {
  std::int32_t from = 0;
  std::int32_t to = 0;

  friend auto operator<=>(const StageEdge&, const StageEdge&) = default;
};

/// The frequency with which the optimizer updates a stage.
enum class UpdateRule : std::uint8_t {
  minibatch,        // one STEP an iteration, after all microbatches
  microbatch,       // one STEP a microbatch (naive per minibatch, PipeDream)
  double_buffered,  // one STEP an iteration beside a second version (PipeDream-2BW)
};
template <>
inline constexpr auto kEnumWords<UpdateRule> =
    std::to_array<EnumWord<UpdateRule>>({{UpdateRule::minibatch, "minibatch"},
                                         {UpdateRule::microbatch, "microbatch"},
                                         {UpdateRule::double_buffered, "double_buffered"}});

/// The earliest time at which a recomputation may start.
enum class RecomputeTiming : std::uint8_t {
  early,  // as soon as the compute queue reaches it
  late,   // not before the gradient of its microbatch has arrived
};
template <>
inline constexpr auto kEnumWords<RecomputeTiming> = std::to_array<EnumWord<RecomputeTiming>>(
    {{RecomputeTiming::early, "early"}, {RecomputeTiming::late, "late"}});

/// A pipeline-parallel training program. It is a plain value that can be compared and copied and has a text
/// form.
struct Program {
  /// The generator's name, or "custom".
  std::string schedule{};
  /// M of one pass, over all replicas. A stream of asynchronous updates is one pass (iterations.hpp).
  std::int32_t microbatches = 0;
  /// The slices q of a microbatch. Slice i of microbatch m is unit m*q + i.
  std::int32_t slices = 1;
  /// The number of times that the lists run. Microbatch numbers and weight versions run on over iterations.
  std::int32_t iterations = 1;
  /// True if ranks wait for each other between iterations.
  bool barrier = false;
  /// True if a backward may use other weights than its forward (PipeDream without weight stashing).
  bool mixed_versions = false;
  UpdateRule update = UpdateRule::minibatch;
  RecomputeTiming recompute = RecomputeTiming::early;
  /// The ZeRO stage, 0 to 3, over each stage's replica group.
  std::int32_t sharding = 0;
  ChannelModel channel = ChannelModel::directed;
  Placement placement{};
  /// The sorted edges between stages; empty means the chain 0>1, 1>2, ...
  std::vector<StageEdge> edges{};
  std::vector<std::vector<Action>> ranks{};

  std::int32_t stage_count() const { return static_cast<std::int32_t>(placement.stages.size()); }
  std::int32_t rank_count() const { return static_cast<std::int32_t>(ranks.size()); }
  /// Returns microbatches * slices, the number of units in one pass.
  std::int32_t unit_count() const { return microbatches * slices; }

  friend bool operator==(const Program&, const Program&) = default;
};

/// Returns the sorted stage edges of the program. Unlike the field `edges`, the result is complete for a
/// chain, too.
std::vector<StageEdge> stage_edges(const Program& program);

/// The stages that feed each stage (`predecessors`) and the stages that it feeds (`successors`), ascending.
struct StageNeighbours {
  std::vector<std::vector<std::int32_t>> predecessors;
  std::vector<std::vector<std::int32_t>> successors;
};
/// Returns the neighbours of each stage.
StageNeighbours stage_neighbours(const Program& program);

/// Returns true if several replicas hold `stage`.
inline bool is_shared(const Program& program, std::int32_t stage) {
  return program.placement.stages[index(stage)].ranks.size() > 1;
}

/// Returns true if any list holds a SEND or RECV.
bool has_transfers(const Program& program);

/// Returns true if the lists hold SEND and RECV actions, or need none because every edge stays on one rank.
bool is_lowered(const Program& program);

}  // namespace penstock
