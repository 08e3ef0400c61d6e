// Finds the weight versions that a program uses, and their age. It reads each rank's list once. F, B, I
// and W name their version. The first STEP after a B or W applies its gradient. A rank stores an older
// version from the STEP that replaces it to its last use. validate_units.cpp checks that F and B use the
// same version. Tested by weight_versions_test.cpp.

#include "schedules/check/weight_versions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// The weight versions and updates of one stage in one rank's list.
struct StageOnRank {
  std::int32_t updates = 0;
  /// The units (microbatches or slices) whose gradients no STEP has applied yet.
  std::vector<std::int32_t> unapplied;
  VersionLives versions;
};

void note_version(UnitVersions& unit, const Action& action) {
  if (action.kind == ActionKind::forward) unit.forward = action.weight_version;
  if (makes_input_gradient(action.kind)) unit.backward = action.weight_version;
  if (makes_weight_gradient(action.kind)) unit.weight = action.weight_version;
}

/// Returns the largest number of weight versions that a rank stores at the same time. The newest version
/// always exists. An older version also exists from the STEP that replaces it to its last use.
std::int32_t most_retained(const VersionLives& versions, std::size_t list_size) {
  if (versions.all().size() == 1) return 1;
  std::vector<std::int32_t> change(list_size + 1, 0);
  for (const VersionLife& version : versions.all()) {
    if (!version.is_used_after_its_replacement()) continue;
    // The number of stored versions increases at the STEP that replaces this version. It decreases after the
    // last use of this version.
    ++change[index(version.replaced_by)];
    --change[index(version.last_used_by) + 1];
  }
  std::int32_t retained = 1;
  std::int32_t most = 1;
  for (const std::int32_t difference : change) {
    retained += difference;
    most = std::max(most, retained);
  }
  return most;
}

/// A reader of all lists, which stores the weight versions by stage and unit. If several ranks hold a
/// stage, each unit runs on only one of them.
class Reading {
 public:
  explicit Reading(const Program& program) : program_(program) {
    found_.units = program.unit_count();
    found_.cells.resize(program.placement.stages.size() * index(found_.units));
    found_.stages.resize(program.placement.stages.size());
  }

  WeightVersions run() {
    for (const std::vector<Action>& actions : program_.ranks) read(actions);
    for (std::int32_t stage = 0; stage < program_.stage_count(); ++stage) measure(stage);
    return std::move(found_);
  }

 private:
  UnitVersions& at(std::int32_t stage, std::int32_t unit) {
    return found_.cells[index(stage) * index(found_.units) + index(unit)];
  }

  /// Reads the list of one rank. If several ranks hold a stage, the result has the largest numbers of
  /// versions and updates among these ranks.
  void read(const std::vector<Action>& actions) {
    std::vector<StageOnRank> stages(found_.stages.size());
    for (std::size_t position = 0; position < actions.size(); ++position) {
      const Action& action = actions[position];
      StageOnRank& stage = stages[index(action.stage)];
      if (action.kind == ActionKind::step) {
        // This update applies all gradients since the previous STEP.
        for (const std::int32_t unit : stage.unapplied) at(action.stage, unit).update = stage.updates;
        stage.unapplied.clear();
        ++stage.updates;
      }
      stage.versions.note(action, static_cast<std::int32_t>(position));
      if (!has_weight_version(action.kind)) continue;
      note_version(at(action.stage, action.microbatch), action);
      if (makes_weight_gradient(action.kind)) stage.unapplied.push_back(action.microbatch);
    }
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      const StageOnRank& here = stages[stage];
      // If no STEP follows in the list, the first STEP of the next iteration applies the gradients.
      for (const std::int32_t unit : here.unapplied) {
        at(static_cast<std::int32_t>(stage), unit).update = here.updates;
      }
      found_.stages[stage].updates = std::max(found_.stages[stage].updates, here.updates);
      found_.stages[stage].kept =
          std::max(found_.stages[stage].kept, most_retained(here.versions, actions.size()));
    }
  }

  /// Computes the staleness of the stage's weights over all units. The staleness of a unit is `update -
  /// version`, the number of STEPs between the two.
  void measure(std::int32_t stage) {
    std::vector<std::int32_t> forward;
    std::vector<std::int32_t> backward;
    for (std::int32_t unit = 0; unit < found_.units; ++unit) {
      const UnitVersions& versions = at(stage, unit);
      forward.push_back(versions.update - versions.forward);
      // Both halves of a backward count, because I and W may use different versions.
      backward.push_back(versions.update - versions.backward);
      backward.push_back(versions.update - versions.weight);
    }
    const auto range = [](const std::vector<std::int32_t>& ages) {
      const auto [least, most] = std::ranges::minmax(ages);
      return Staleness{.least = least, .most = most};
    };
    found_.stages[index(stage)].forward = range(forward);
    found_.stages[index(stage)].backward = range(backward);
  }

  const Program& program_;
  WeightVersions found_;
};

}  // namespace

WeightVersions weight_versions(const Program& program) { return Reading(program).run(); }

}  // namespace penstock
