#pragma once
// Finds the weight version that each F, B, I and W of a program uses, and how many updates later its gradient
// is applied. validate.hpp checks that a backward uses the version of its F.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

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
  /// The versions that each unit uses, by stage and then by unit.
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
