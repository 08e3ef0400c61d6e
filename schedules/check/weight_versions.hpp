#pragma once
// Which weights every F, B, I and W of a program runs with, and how old they are when its gradient is
// applied. That a backward uses the version of its F, unless the program says otherwise, is validate.hpp's
// part.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The weights that one unit meets on one stage. Versions count the stage's STEPs since the program's start.
struct UnitVersions {
  std::int32_t forward = 0;
  std::int32_t backward = 0;  ///< of B or I
  std::int32_t weight = 0;    ///< of B or W
  /// The update that applies its gradient: as many come before it. The STEP behind its B or W, or where the
  /// list has none there, the first one of the next pass.
  std::int32_t update = 0;

  friend bool operator==(const UnitVersions&, const UnitVersions&) = default;
};

/// How many updates lie between the weights that something used and the update that applies its gradient,
/// over all units: 0 is gradient descent, PipeDream's stage s of K has K-1-s (SOSP'19, section 3.3), 2BW
/// has 1.
struct Staleness {
  std::int32_t least = 0;
  std::int32_t most = 0;

  friend bool operator==(const Staleness&, const Staleness&) = default;
};

struct StageVersions {
  std::int32_t updates = 0;  ///< STEPs of one replica in one pass through its list
  std::int32_t kept =
      1;               ///< most versions that a rank must have at once: the newest and those still to be used
  Staleness forward;   ///< of the weights of F
  Staleness backward;  ///< of those of B, I and W; other ones only with `versions mixed`

  friend bool operator==(const StageVersions&, const StageVersions&) = default;
};

struct WeightVersions {
  std::int32_t units = 0;
  std::vector<UnitVersions> cells;  ///< by stage, then unit
  std::vector<StageVersions> stages;

  const UnitVersions& at(std::int32_t stage, std::int32_t unit) const {
    return cells[index(stage) * index(units) + index(unit)];
  }
};

/// Reads one pass; later iterations repeat it with numbers that run on. Requires validate(program).
WeightVersions weight_versions(const Program& program);

}  // namespace penstock
