// Moves of the search. A plan is a list of cuts and a list of replicas. A move copies both and changes an
// entry or two:
//
//     layers  0 1 2 | 3 4 | 5        cuts 3 5        a cut moves, a stage splits:   0 1 | 2 | 3 4 | 5
//     replicas  4      1    2        replicas 4 1 2                                   3   1    1    2
//
// Tests: tests/sim/plan_search_test.cpp.

#include "sim/planning/plan_choice.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/partition/plan_options.hpp"
#include "schedules/rules/round_robin_warmup.hpp"

namespace penstock {
namespace {

/// Lists all neighbours of one choice, move by move.
class Moves {
 public:
  Moves(const PlanChoice& from, const PlanSpace& space) : from_(from), space_(space) {
    if (from_.placement != PlanPlacement::stated) return;
    // Stated devices fit only the old replicas. So moves start from the plan with its devices in order, which
    // is itself a move.
    from_.placement = PlanPlacement::in_order;
    from_.devices.clear();
    found_.push_back(from_);
  }

  std::vector<PlanChoice> all() {
    move_cuts();
    move_replicas();
    for (std::size_t stage = 0; stage < from_.stages(); ++stage) split(stage);
    for (std::size_t stage = 0; stage + 1 < from_.stages(); ++stage) merge(stage);
    // Without a reduction, buckets have no effect, so they are set to 0. Otherwise two choices would mean the
    // same plan.
    for (PlanChoice& choice : found_)
      if (!reduces(choice)) choice.buckets = 0;
    return std::move(found_);
  }

 private:
  /// begin_of() returns the number of layers before the stage, and end_of() the number of layers up to its
  /// end.
  std::int32_t begin_of(std::size_t stage) const { return stage == 0 ? 0 : from_.cuts[stage - 1]; }
  std::int32_t end_of(std::size_t stage) const {
    return stage == from_.cuts.size() ? space_.layers : from_.cuts[stage];
  }
  std::int32_t idle() const { return space_.devices - from_.device_count(); }
  bool is_straight() const { return space_.form == PlanForm::straight; }

  void move_cuts() {
    for (std::size_t cut = 0; cut < from_.cuts.size(); ++cut) {
      // A cut may be anywhere between its neighbouring cuts, so that both stages have at least one layer.
      for (std::int32_t place = begin_of(cut) + 1; place < end_of(cut + 1); ++place) {
        if (place == from_.cuts[cut]) continue;
        found_.push_back(from_);
        found_.back().cuts[cut] = place;
      }
    }
  }

  /// Adds the choice with one replica moved from `giver` to `taker`. The index after the last stage
  /// represents the idle devices.
  void add_with(std::size_t giver, std::size_t taker) {
    found_.push_back(from_);
    if (giver < from_.stages()) --found_.back().replicas[giver];
    if (taker < from_.stages()) ++found_.back().replicas[taker];
  }

  void move_replicas() {
    if (is_straight()) return;
    const std::size_t idle_devices = from_.stages();
    for (std::size_t stage = 0; stage < from_.stages(); ++stage) {
      if (idle() > 0) add_with(idle_devices, stage);
      // The last replica of a stage stays. merge() removes stages.
      if (from_.replicas[stage] == 1) continue;
      add_with(stage, idle_devices);
      for (std::size_t taker = 0; taker < from_.stages(); ++taker)
        if (taker != stage) add_with(stage, taker);
    }
  }

  /// Splits the stage at every layer, with every share of its replicas. For example, 4 replicas on three
  /// layers become 1-3, 2-2 and 3-1 at two places.
  void split(std::size_t stage) {
    // A stage with one replica can split only if an idle device becomes the second replica.
    const bool takes_idle = idle() > 0 && (is_straight() || from_.replicas[stage] == 1);
    const std::int32_t shared = from_.replicas[stage] + (takes_idle ? 1 : 0);
    for (std::int32_t share = 1; share < shared; ++share) {
      for (std::int32_t place = begin_of(stage) + 1; place < end_of(stage); ++place) {
        PlanChoice& choice = found_.emplace_back(from_);
        const auto at = static_cast<std::ptrdiff_t>(stage);
        choice.cuts.insert(choice.cuts.begin() + at, place);
        choice.replicas[stage] = share;
        choice.replicas.insert(choice.replicas.begin() + at + 1, shared - share);
      }
    }
  }

  /// Merges the stage with the next one.
  void merge(std::size_t stage) {
    PlanChoice merged = from_;
    const auto at = static_cast<std::ptrdiff_t>(stage);
    merged.cuts.erase(merged.cuts.begin() + at);
    merged.replicas[stage] = is_straight() ? 1 : from_.replicas[stage] + from_.replicas[stage + 1];
    merged.replicas.erase(merged.replicas.begin() + at + 1);
    found_.push_back(merged);
    if (is_straight()) return;
    // The merged stage may have more replicas than it needs, so the move also gives some of them to another
    // stage.
    for (std::int32_t handed = 1; handed <= 2 && handed < merged.replicas[stage]; ++handed) {
      for (std::size_t taker = 0; taker < merged.stages(); ++taker) {
        if (taker == stage) continue;
        PlanChoice& choice = found_.emplace_back(merged);
        choice.replicas[stage] -= handed;
        choice.replicas[taker] += handed;
      }
    }
  }

  PlanChoice from_;
  const PlanSpace& space_;
  std::vector<PlanChoice> found_;
};

/// Adds all choices that begin like `begun`, which has a cut after each of its stages. The next stage takes
/// any number of the free devices, and any number of the remaining layers.
void add_choices(PlanChoice begun, const PlanSpace& space, std::vector<PlanChoice>& found) {
  const std::int32_t from = begun.cuts.empty() ? 0 : begun.cuts.back();
  const std::int32_t left = space.devices - begun.device_count();
  const std::int32_t most = space.form == PlanForm::straight ? std::min(left, 1) : left;
  for (std::int32_t replicas = 1; replicas <= most; ++replicas) {
    PlanChoice next = begun;
    next.replicas.push_back(replicas);
    found.push_back(next);
    if (left == replicas) continue;
    for (std::int32_t cut = from + 1; cut < space.layers; ++cut) {
      next.cuts.push_back(cut);
      add_choices(next, space, found);
      next.cuts.pop_back();
    }
  }
}

}  // namespace

std::int32_t PlanChoice::device_count() const { return std::accumulate(replicas.begin(), replicas.end(), 0); }

std::int32_t warmup_of(const PlanChoice& choice, std::size_t stage, std::int32_t later) {
  const std::int32_t replicas = choice.replicas[stage];
  return round_robin_warmup(later + replicas, replicas) + choice.deeper;
}

bool reduces(const PlanChoice& choice) {
  return std::ranges::any_of(choice.replicas, [](std::int32_t replicas) { return replicas > 1; });
}

std::string configuration_of(const PlanChoice& choice) {
  return fmt::format("{}", fmt::join(choice.replicas, "-"));
}

// For k stages there are C(layers - 1, k - 1) sets of cuts, and C(devices, k) replications on up to all
// devices. A straight plan has one replication.
std::int64_t count_choices(const PlanSpace& space, std::int64_t most) {
  double total = 0;
  double cuts = 1;
  double replications = space.devices;
  for (std::int32_t stages = 1; stages <= std::min(space.layers, space.devices); ++stages) {
    total += cuts * (space.form == PlanForm::straight ? 1 : replications);
    cuts *= static_cast<double>(space.layers - stages) / stages;
    replications *= static_cast<double>(space.devices - stages) / (stages + 1);
    // The number would overflow any integer, so the loop ends at `most`.
    if (total > static_cast<double>(most)) return most;
  }
  return std::llround(total);
}

std::vector<PlanChoice> all_choices(const PlanSpace& space) {
  std::vector<PlanChoice> found;
  add_choices({}, space, found);
  return found;
}

std::vector<PlanChoice> neighbours(const PlanChoice& choice, const PlanSpace& space) {
  return Moves(choice, space).all();
}

}  // namespace penstock
