#pragma once
// A program: one ordered list of actions for each rank, and all other data that is needed to run it.
// generators.hpp and program_text.hpp make programs. validate.hpp and channel_check.hpp check them, and
// passes.hpp adds SEND and RECV. sim/ and backend/ read them.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The passes that a stage runs for each microbatch.
enum class Passes : std::uint8_t {
  both,        // forward and backward
  forward,     // only F; the rank stores nothing for a backward pass
  forward_kv,  // only F; the data that F stores, such as keys and values of attention, exist until the run
               // ends
};

/// The words of `schedule.forward_only` in scenarios.
template <>
inline constexpr auto kEnumWords<Passes> = std::to_array<EnumWord<Passes>>(
    {{Passes::both, "false"}, {Passes::forward, "true"}, {Passes::forward_kv, "kv"}});

/// The ranks that hold one stage. Replica i of the stage is on ranks[i]. Microbatch m runs on replica
/// route[m mod route.size()].
struct StagePlacement {
  std::vector<std::int32_t> ranks;
  std::vector<std::int32_t> route{0};
  Passes passes = Passes::both;

  bool is_forward_only() const { return passes != Passes::both; }

  friend bool operator==(const StagePlacement&, const StagePlacement&) = default;
};

/// The table that says which rank holds which stage for which microbatch. It can describe several stages on
/// one rank, replicas, bidirectional schedules and V shapes.
struct Placement {
  std::vector<StagePlacement> stages;

  /// Returns the replica that runs the microbatch, as an index into stages[stage].ranks. Requires 0 <= stage
  /// < stages.size() and microbatch >= 0.
  std::int32_t replica_of(std::int32_t stage, std::int32_t microbatch) const {
    const std::vector<std::int32_t>& route = stages[index(stage)].route;
    return route.size() == 1 ? route.front() : route[index(microbatch) % route.size()];
  }
  /// Returns the rank that runs the microbatch on the stage. The requirements are the same as for
  /// replica_of().
  std::int32_t rank_of(std::int32_t stage, std::int32_t microbatch) const {
    return stages[index(stage)].ranks[index(replica_of(stage, microbatch))];
  }
  /// Returns the rank of each stage. Requires that no stage has replicas.
  std::vector<std::int32_t> ranks_of_stages() const;
  /// Returns the index of `rank` among the ranks of the stage, which is the number of its replica. Returns
  /// -1 if the rank does not hold the stage.
  std::int32_t replica_on(std::int32_t stage, std::int32_t rank) const;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// The kinds of data that the program allows over an edge: activations, gradients or both. If a stage of
/// the edge runs only forward passes, the edge carries no gradients in any case (carries() in needs.hpp).
enum class EdgeFlows : std::uint8_t {
  both,        // activations and gradients; text: 0>1
  activation,  // only activations; text: 0>1!
  gradient,    // only gradients; text: 0<1!
};

/// An edge between two stages. Activations go from stage `from` to stage `to`. Gradients go in the opposite
/// direction.
struct StageEdge {
  std::int32_t from = 0;
  std::int32_t to = 0;
  EdgeFlows flows = EdgeFlows::both;

  /// Returns true if the other edge connects the same stages in the same direction.
  constexpr bool joins_same(const StageEdge& other) const { return from == other.from && to == other.to; }

  friend auto operator<=>(const StageEdge&, const StageEdge&) = default;
};

/// The frequency with which the optimizer updates a stage.
enum class UpdateRule : std::uint8_t {
  minibatch,        // one STEP in each iteration, after all microbatches
  microbatch,       // one STEP for each microbatch, as in PipeDream
  double_buffered,  // one STEP for each minibatch, with two weight versions (PipeDream-2BW)
};
template <>
inline constexpr auto kEnumWords<UpdateRule> =
    std::to_array<EnumWord<UpdateRule>>({{UpdateRule::minibatch, "minibatch"},
                                         {UpdateRule::microbatch, "microbatch"},
                                         {UpdateRule::double_buffered, "double_buffered"}});

/// The earliest time at which a recomputation can start.
enum class RecomputeTiming : std::uint8_t {
  early,  // it starts when the compute queue reaches it
  late,   // it also waits for the gradient of its microbatch
};
template <>
inline constexpr auto kEnumWords<RecomputeTiming> = std::to_array<EnumWord<RecomputeTiming>>(
    {{RecomputeTiming::early, "early"}, {RecomputeTiming::late, "late"}});

/// A pipeline-parallel training program. It can be compared, copied and written as text.
struct Program {
  /// The generator's name, or "custom".
  std::string schedule{};
  /// The number M of microbatches in the lists, over all replicas. With asynchronous updates, the program
  /// has a single iteration that contains all its microbatches (see microbatches_of_minibatch()).
  std::int32_t microbatches = 0;
  /// The number q of slices into which the sequence of a microbatch is cut. Slice i of microbatch m is unit
  /// m*q + i.
  std::int32_t slices = 1;
  /// The number of times that the lists run. Microbatch numbers and weight versions continue from one
  /// iteration to the next.
  std::int32_t iterations = 1;
  /// True if ranks wait for each other between iterations.
  bool barrier = false;
  /// True if a backward may use other weights than its forward (PipeDream without weight stashing).
  bool mixed_versions = false;
  UpdateRule update = UpdateRule::minibatch;
  RecomputeTiming recompute = RecomputeTiming::early;
  /// The ZeRO stage, 0 to 3, of the sharding among the ranks that hold the same pipeline stage.
  std::int32_t sharding = 0;
  ChannelModel channel = ChannelModel::directed;
  Placement placement{};
  /// The edges between stages, in ascending order. An empty list means the chain 0>1, 1>2, ...
  std::vector<StageEdge> edges{};
  std::vector<std::vector<Action>> ranks{};

  std::int32_t stage_count() const { return static_cast<std::int32_t>(placement.stages.size()); }
  std::int32_t rank_count() const { return static_cast<std::int32_t>(ranks.size()); }
  /// Returns microbatches * slices, the number of units in one iteration (a unit is a microbatch, or a slice
  /// of one).
  std::int32_t unit_count() const { return microbatches * slices; }

  friend bool operator==(const Program&, const Program&) = default;
};

/// Returns the edges between the stages of the program, in ascending order. For a chain, it returns 0>1,
/// 1>2, ..., although the field `edges` is empty.
std::vector<StageEdge> stage_edges(const Program& program);

/// The stages with which each stage exchanges data. All lists are in ascending order.
struct StageNeighbours {
  /// The stages that send activations to each stage, and the stages to which it sends them.
  std::vector<std::vector<std::int32_t>> predecessors;
  std::vector<std::vector<std::int32_t>> successors;
  /// The stages that send gradients to each stage, and the stages to which each stage sends gradients. They
  /// are the successors and the predecessors, unless an edge carries only activations or only gradients.
  std::vector<std::vector<std::int32_t>> gradient_givers;
  std::vector<std::vector<std::int32_t>> gradient_takers;
};
/// Returns, for each stage, the stages that it exchanges data with (StageNeighbours).
StageNeighbours stage_neighbours(const Program& program);

/// Returns true if several ranks hold `stage`.
inline bool is_shared(const Program& program, std::int32_t stage) {
  return program.placement.stages[index(stage)].ranks.size() > 1;
}

/// Returns true if some stage runs only forwards.
bool has_forward_only_stage(const Program& program);
/// Returns true if all stages run only forwards. Such a program has no gradients and no STEPs.
bool is_forward_only(const Program& program);
/// Sets `passes` as the passes that every stage runs.
void set_passes(Program& program, Passes passes);
/// Returns the lowest stage that also runs backwards, or nothing if there is none.
std::optional<std::int32_t> first_trained_stage(const Program& program);

/// Returns true if any list holds a SEND or RECV.
bool has_transfers(const Program& program);

/// Returns true if the lists contain SEND and RECV actions. Also returns true if every edge stays on one
/// rank, so that no message is necessary.
bool is_lowered(const Program& program);

// Numbers the stage edges of a program, so that the data of an edge is stored in a vector and found without a
// search. cost_table.hpp, the flat program and the walks use these numbers.

/// Returns the edge between the stages of a SEND or RECV. Activations go along the edge, and gradients go
/// in the opposite direction.
StageEdge edge_of(const Action& transfer);

/// The numbers of a program's edges. The number of an edge is its index in stage_edges(program). The
/// numbers can be looked up by the stage at which an edge starts or ends.
class EdgeNumbers {
 public:
  explicit EdgeNumbers(const Program& program);

  std::size_t size() const { return edges_.size(); }
  const std::vector<StageEdge>& edges() const { return edges_; }

  /// Returns the number of an edge. Throws std::logic_error, which names the edge, if the program does not
  /// have it.
  std::size_t of(const StageEdge& edge) const {
    for (const std::uint32_t number : leaving(edge.from)) {
      if (edges_[number].to == edge.to) return number;
    }
    throw_unknown(edge);
  }
  std::size_t of(const Action& transfer) const { return of(edge_of(transfer)); }

  /// Returns the numbers of the edges that start (`leaving`) or end (`entering`) at a stage, in ascending
  /// order.
  std::span<const std::uint32_t> leaving(std::int32_t stage) const { return leaving_.of(stage); }
  std::span<const std::uint32_t> entering(std::int32_t stage) const { return entering_.of(stage); }

 private:
  /// The numbers of all edges, grouped by the stage where they start, or by the stage where they end.
  struct ByStage {
    std::vector<std::uint32_t> numbers;
    /// The index in `numbers` of the first edge of each stage. One more entry at the end is the total
    /// number of edges.
    std::vector<std::uint32_t> first;

    std::span<const std::uint32_t> of(std::int32_t stage) const {
      const std::uint32_t begin = first[static_cast<std::size_t>(stage)];
      return std::span(numbers).subspan(begin, first[static_cast<std::size_t>(stage) + 1] - begin);
    }
  };
  ByStage sorted_by(std::int32_t StageEdge::* end, std::size_t stages) const;
  [[noreturn]] static void throw_unknown(const StageEdge& edge);

  std::vector<StageEdge> edges_;
  ByStage leaving_;
  ByStage entering_;
};

// Converts an action in a program's list to the same action in a later iteration. Iterations repeat the
// lists. Microbatch numbers and weight versions continue from one iteration to the next, so all actions of a
// run are different.

/// Returns for each stage the number of its STEPs in the rank's list. `rank` must be a rank of the program.
std::vector<std::int32_t> steps_per_pass(const Program& program, std::int32_t rank);

/// Returns the number of microbatches, over all replicas, in one update of the weights. Usually this is M.
/// With double-buffered updates (PipeDream-2BW), it is the number of microbatches between two STEPs. It is 1
/// if each microbatch has its own update.
std::int32_t microbatches_of_minibatch(const Program& program);

/// Returns an action of a rank's list as it is in iteration number `iteration`, counted from 0. The
/// microbatch increases by iteration x `units`. The weight version of a compute action increases by
/// iteration x `steps` of its stage. `units` is the program's unit_count(). `steps` is the result of
/// steps_per_pass() for the rank.
inline Action of_iteration(Action action, std::int32_t iteration, std::int32_t units,
                           const std::vector<std::int32_t>& steps) {
  if (iteration == 0 || action.microbatch == kNoMicrobatch) return action;
  action.microbatch += iteration * units;
  if (is_compute(action.kind)) {
    action.weight_version += iteration * steps[static_cast<std::size_t>(action.stage)];
  }
  return action;
}

}  // namespace penstock
