#pragma once
// The schedule IR: one ordered list of actions for each rank plus everything that is needed to run it
// without asking anybody. Made by generators.hpp, program_text.hpp or pytorch_csv.hpp, proven by
// validate.hpp and channel_check.hpp, completed by lower.hpp, read by sim/ and backend/.

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

/// Where one stage lives. Replica i of the stage is on ranks[i]; microbatch m is handled by replica
/// route[m mod route.size()].
struct StagePlacement {
  std::vector<std::int32_t> ranks;
  std::vector<std::int32_t> route{0};

  friend bool operator==(const StagePlacement&, const StagePlacement&) = default;
};

/// Which rank holds which stage for which microbatch. Several stages on one rank, replicas, both
/// directions of a bidirectional schedule and V shapes are ways to fill this one table.
struct Placement {
  std::vector<StagePlacement> stages;

  /// Index into stages[stage].ranks. Requires 0 <= stage < stages.size() and microbatch >= 0.
  std::int32_t replica_of(std::int32_t stage, std::int32_t microbatch) const {
    const std::vector<std::int32_t>& route = stages[index(stage)].route;
    return route.size() == 1 ? route.front() : route[index(microbatch) % route.size()];
  }
  std::int32_t rank_of(std::int32_t stage, std::int32_t microbatch) const {
    return stages[index(stage)].ranks[index(replica_of(stage, microbatch))];
  }
  /// By stage its rank. Requires stages of one rank each.
  std::vector<std::int32_t> ranks_of_stages() const;
  /// Index of `rank` among the stage's ranks; -1 when it does not hold the stage.
  std::int32_t replica_on(std::int32_t stage, std::int32_t rank) const;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Activations go from stage `from` to stage `to`, gradients the other way.
struct StageEdge {
  std::int32_t from = 0;
  std::int32_t to = 0;

  friend auto operator<=>(const StageEdge&, const StageEdge&) = default;
};

/// How often the optimizer updates a stage.
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

/// When a recomputation may start.
enum class RecomputeTiming : std::uint8_t {
  early,  // as soon as the compute queue reaches it
  late,   // not before the gradient of its microbatch has arrived
};
template <>
inline constexpr auto kEnumWords<RecomputeTiming> = std::to_array<EnumWord<RecomputeTiming>>(
    {{RecomputeTiming::early, "early"}, {RecomputeTiming::late, "late"}});

/// A pipeline-parallel training program. A plain value: it compares, copies and has a text form.
struct Program {
  std::string schedule{};         ///< the generator's name, or "custom"
  std::int32_t microbatches = 0;  ///< M of one pass, over all replicas; a stream is one pass (iterations.hpp)
  std::int32_t slices = 1;        ///< q; slice i of microbatch m is unit m*q + i
  std::int32_t iterations = 1;    ///< how often the lists are run; numbers and versions run on
  bool barrier = false;           ///< ranks wait for each other between iterations
  bool mixed_versions = false;  ///< a backward may use other weights than its F (PipeDream without stashing)
  UpdateRule update = UpdateRule::minibatch;
  RecomputeTiming recompute = RecomputeTiming::early;
  std::int32_t sharding = 0;  ///< ZeRO stage 0..3 over each stage's replica group
  ChannelModel channel = ChannelModel::directed;
  Placement placement{};
  std::vector<StageEdge> edges{};  ///< sorted; empty means the chain 0>1, 1>2, ...
  std::vector<std::vector<Action>> ranks{};

  std::int32_t stage_count() const { return static_cast<std::int32_t>(placement.stages.size()); }
  std::int32_t rank_count() const { return static_cast<std::int32_t>(ranks.size()); }
  /// microbatches * slices: how many different numbers the actions of one pass carry.
  std::int32_t unit_count() const { return microbatches * slices; }

  friend bool operator==(const Program&, const Program&) = default;
};

/// The edges that the program has, the chain spelled out; sorted.
std::vector<StageEdge> stage_edges(const Program& program);

/// For each stage the stages that feed it (`predecessors`) and that it feeds (`successors`), ascending.
struct StageNeighbours {
  std::vector<std::vector<std::int32_t>> predecessors;
  std::vector<std::vector<std::int32_t>> successors;
};
StageNeighbours stage_neighbours(const Program& program);

/// Whether several replicas hold `stage`.
inline bool is_shared(const Program& program, std::int32_t stage) {
  return program.placement.stages[index(stage)].ranks.size() > 1;
}

/// Whether any list holds a SEND or RECV.
bool has_transfers(const Program& program);

/// True when the lists hold SEND and RECV actions, or need none because every edge stays on one rank.
bool is_lowered(const Program& program);

}  // namespace penstock
