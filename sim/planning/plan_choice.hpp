#pragma once
// A plan in the form that plan_search.hpp changes: the cuts of the layers, the replicas of each stage, and
// the devices. Used only in sim/planning.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/partition/plan_options.hpp"

namespace penstock {

/// The placement of a plan's replicas on the devices. The devices are counted component by component.
enum class PlanPlacement : std::uint8_t {
  in_order,  // one stage after another
  spread,    // each stage over as many servers as possible
  stated,    // on the devices in PlanChoice::devices
};

struct PlanChoice {
  std::size_t order = 0;               ///< number of the order of the layers in PlanTrials::orders_
  std::vector<std::int32_t> cuts;      ///< for each cut the number of layers before it, ascending
  std::vector<std::int32_t> replicas;  ///< one a stage
  PlanPlacement placement = PlanPlacement::in_order;
  std::vector<std::int32_t> devices{};  ///< devices of a `stated` placement, in the order of the ranks
  std::int32_t deeper = 0;              ///< additional forwards before each stage's first backward
  std::int32_t buckets = 0;  ///< buckets of gradients for each stage; 0: the buckets of the scenario

  std::size_t stages() const { return replicas.size(); }
  std::int32_t device_count() const;

  friend auto operator<=>(const PlanChoice&, const PlanChoice&) = default;
};

/// Returns the number of forwards of a stage before its first backward: that of 1F1B-RR
/// (round_robin_warmup.hpp) plus the choice's additional ones. `later` is the number of replicas of all later
/// stages.
std::int32_t warmup_of(const PlanChoice& choice, std::size_t stage, std::int32_t later);

/// Returns whether any stage has gradients to reduce. If none has, buckets have no effect.
bool reduces(const PlanChoice& choice);

/// Returns the number of replicas of each stage as text, for example "12-3-1".
std::string configuration_of(const PlanChoice& choice);

/// The limits of the choices.
struct PlanSpace {
  std::int32_t layers = 1;
  std::int32_t devices = 1;
  PlanForm form = PlanForm::replicated;
};

/// Returns the number of choices with the devices in order, limited to `most`.
std::int64_t count_choices(const PlanSpace& space, std::int64_t most);
/// Returns all choices: every set of cuts, with every replication on up to all devices.
std::vector<PlanChoice> all_choices(const PlanSpace& space);

/// Returns the choices that are one move away. There are four kinds of moves:
///
///     put a cut anywhere between its neighbours;
///     move a replica to another stage, out of the plan or into the plan;
///     split a stage with any share of its replicas;
///     merge two stages, and give up to two replicas to any stage.
///
/// Stated devices become devices in order, because they belong to the old stages.
std::vector<PlanChoice> neighbours(const PlanChoice& choice, const PlanSpace& space);

}  // namespace penstock
