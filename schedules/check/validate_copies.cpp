// Checks the OFFLOADs and RELOADs of each rank's list. Between the two, the activation of the microbatch is
// in the memory of the host, so no action may use it there:
//
//   0F0 0OFFLOAD0 0F1 ... 0RELOAD0 0F4 0B0          F, OFFLOAD, RELOAD, B or I: in this order, each once
//
// A rank reaches a RELOAD before the B that waits for it, and copies wait only for earlier copies of their
// rank. So no program hangs because of its copies. Tested by offload_test.cpp of tests/sim/.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/check/validate.hpp"
#include "schedules/check/validate_parts.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// The positions of the OFFLOAD and the RELOAD of one activation in a rank's list.
struct Copies {
  std::optional<std::size_t> offload;
  std::optional<std::size_t> reload;
};

/// A check of the OFFLOADs and RELOADs in the list of one rank.
class CopyCheck {
 public:
  CopyCheck(const Program& program, const UnitTable& table, std::int32_t rank)
      : program_(program), table_(table), rank_(rank) {}

  Checked run() {
    const std::vector<Action>& actions = program_.ranks[index(rank_)];
    for (std::size_t position = 0; position < actions.size(); ++position) {
      const Action& action = actions[position];
      if (!is_host_copy(action.kind)) continue;
      Copies& copies = copies_[{action.stage, action.microbatch}];
      const std::string broken = action.kind == ActionKind::offload ? broken_offload(action, position, copies)
                                                                    : broken_reload(action, position, copies);
      if (!broken.empty()) return broken_at(program_, rank_, position, action, broken);
    }
    for (const auto& [unit, copies] : copies_) {
      if (copies.reload) continue;
      const Placed user = table_.worker(unit.first, unit.second, Flow::gradient);
      return broken_at(
          program_, rank_, *copies.offload, actions[*copies.offload],
          fmt::format("is not followed by {}RELOAD{}, but {} (position {}) needs the activation; "
                      "put {}RELOAD{} between the two",
                      unit.first, unit.second, to_text(user.action), user.position, unit.first, unit.second));
    }
    return {};
  }

 private:
  static std::string twice(std::size_t first) {
    return fmt::format("comes a second time, must come once (before at position {}); delete one", first);
  }

  std::string broken_offload(const Action& action, std::size_t position, Copies& copies) const {
    if (copies.offload) return twice(*copies.offload);
    copies.offload = position;
    const std::int32_t recompute = table_.at(action.stage, action.microbatch).recompute;
    if (recompute != UnitTable::kAbsent) {
      return fmt::format(
          "moves what F keeps, but {}R{} (position {}) computes it again; delete the OFFLOAD and its RELOAD, "
          "or the R",
          action.stage, action.microbatch, recompute);
    }
    const Placed made = table_.worker(action.stage, action.microbatch, Flow::activation);
    if (std::cmp_greater_equal(made.position, position)) {
      return fmt::format("must come after {} (position {}), which makes the activation; move it behind it",
                         to_text(made.action), made.position);
    }
    return broken_by_use(action, position);
  }

  std::string broken_reload(const Action& action, std::size_t position, Copies& copies) const {
    if (copies.reload) return twice(*copies.reload);
    if (!copies.offload) {
      return fmt::format(
          "must come after {0}OFFLOAD{1}, but there is none before it; add {0}OFFLOAD{1}, or delete the "
          "RELOAD",
          action.stage, action.microbatch);
    }
    copies.reload = position;
    return broken_by_use(action, position);
  }

  /// Returns the fault if the B or I of the microbatch comes before the copy, or an empty text.
  std::string broken_by_use(const Action& copy, std::size_t position) const {
    const Placed user = table_.worker(copy.stage, copy.microbatch, Flow::gradient);
    if (std::cmp_greater(user.position, position)) return "";
    if (copy.kind == ActionKind::reload) {
      return fmt::format(
          "must come before {} (position {}), which needs the activation from the host; move it there",
          to_text(user.action), user.position);
    }
    return fmt::format("must come before {} (position {}), which uses the activation; move it there",
                       to_text(user.action), user.position);
  }

  const Program& program_;
  const UnitTable& table_;
  std::int32_t rank_;
  std::map<std::pair<std::int32_t, std::int32_t>, Copies> copies_;  // copies of each stage and unit
};

}  // namespace

Checked check_host_copies(const Program& program, const UnitTable& table) {
  const auto is_copy = [](const Action& action) { return is_host_copy(action.kind); };
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    if (std::ranges::none_of(program.ranks[index(rank)], is_copy)) continue;
    if (Checked checked = CopyCheck(program, table, rank).run(); !checked) return checked;
  }
  return {};
}

// Finds the weight versions that a program uses, and their age. It reads each rank's list once. F, B, I
// and W name their version. The first STEP after a B or W applies its gradient. A rank stores an older
// version from the STEP that replaces it to its last use. validate_units.cpp checks that F and B use the
// same version. Tested by weight_versions_test.cpp.

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

/// Reads the action lists of all ranks and stores the weight version that each microbatch (or slice) uses in
/// each stage. One entry for each stage and microbatch is enough, because only one rank runs a microbatch in
/// a stage.
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
