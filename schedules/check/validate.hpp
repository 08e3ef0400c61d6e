#pragma once
// Checks whether a program is valid. passes.hpp, channel_check.hpp, sim/ and backend/ require valid programs.
// channel_check.hpp checks whether a valid program can hang.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Checks a compute program or a lowered one. These are the rules:
///  - Each stage has at least one rank and a route among its ranks. The stage edges are sorted and acyclic.
///  - Each action is on the rank that holds its stage and microbatch. Overlapped groups hold only compute
///    actions.
///  - Each stage runs every microbatch's F once, then its R if any, then its B once, or its I and then its W.
///  - If a stage reads from another stage on the same rank, the action that writes comes first.
///  - A weight version exists when an action uses it: version v needs v earlier STEPs of the stage in the
///    list.
///  - With `update minibatch`, a stage has one STEP, after all its other actions.
///  - All replicas of a stage have equally many UNSHARDs and REDUCE_GRADs.
///  - Between two STEPs a stage reduces once, after its last B or W and before its RESHARD. With sharding
///    2 and 3 it may also reduce earlier, because partial sums add up.
///  - Either all stages with a single rank reduce, or none of them. The same holds for stages with several
///    ranks. If the program is sharded, all stages with several ranks must reduce.
///  - A stage runs only with gathered weights: after its UNSHARD, and not after its RESHARD. It must not run
///    after a STEP that updated a part of the weights. If one stage gathers, all stages of its kind (with one
///    or with several ranks) must gather.
///  - If there are messages at all, each microbatch has a SEND and a RECV of its activation and of its
///    gradient on every stage edge between two ranks. They come after the producer and before the consumer.
/// On failure, returns a sentence with the rank, the position in its list, the action and the rule. If the
/// fault has a position, the text also shows the steps around this position (program_text.hpp).
tl::expected<void, std::string> validate(const Program& program);

// Finds the weight version that each F, B, I and W of a program uses, and how many updates later its gradient
// is applied. check_versions() checks that a backward uses the version of its F.

/// The weight versions that one unit (a microbatch or slice) uses on one stage. A version is the number of
/// STEPs of the stage since the program's start.
struct UnitVersions {
  std::int32_t forward = 0;
  /// The version that the backward pass B uses, or I if it is split.
  std::int32_t backward = 0;
  /// The version that the action computing the weight gradient uses: B, or W if the backward pass is split.
  std::int32_t weight = 0;
  /// The number of STEPs before the STEP that applies the unit's gradient. That is the first STEP after the B
  /// or W. If no STEP follows in the list, it is the first STEP of the next iteration.
  std::int32_t update = 0;

  friend bool operator==(const UnitVersions&, const UnitVersions&) = default;
};

/// The smallest and the largest staleness over all units. Staleness is the number of updates between the
/// weights that a unit uses and the update that applies its gradient. It is 0 in plain gradient descent and
/// 1 in 2BW. On stage s of K in PipeDream, it is K-1-s (SOSP'19, section 3.3).
struct Staleness {
  std::int32_t least = 0;
  std::int32_t most = 0;

  friend bool operator==(const Staleness&, const Staleness&) = default;
};

/// The weight versions of one stage.
struct StageVersions {
  /// The number of STEPs of one replica in one iteration.
  std::int32_t updates = 0;
  /// The largest number of versions that a rank must hold at the same time: the newest one, and all older
  /// ones that some action still needs.
  std::int32_t kept = 1;
  /// The staleness of the weights that forward passes use.
  Staleness forward;
  /// The staleness of the weights that backward passes (B, I and W) use. It differs from `forward` only in
  /// programs with `versions mixed`.
  Staleness backward;

  friend bool operator==(const StageVersions&, const StageVersions&) = default;
};

/// The weight versions of all stages, and those that each unit uses.
struct WeightVersions {
  std::int32_t units = 0;
  /// The versions that each unit (microbatch or slice) uses, by stage and then by unit.
  std::vector<UnitVersions> cells;
  std::vector<StageVersions> stages;

  const UnitVersions& at(std::int32_t stage, std::int32_t unit) const {
    return cells[index(stage) * index(units) + index(unit)];
  }
};

/// Returns the weight versions that one iteration uses. In later iterations, all version numbers are higher
/// by the same amount. Requires that validate(program) succeeds.
WeightVersions weight_versions(const Program& program);

}  // namespace penstock
