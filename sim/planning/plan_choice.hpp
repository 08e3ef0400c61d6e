#pragma once
// A plan as the search of plan_search.hpp moves it: where the layers are cut, how often each stage is
// replicated, on which devices. Private to sim/planning.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/partition/plan_options.hpp"

namespace penstock {

/// How the replicas of a plan are laid on the devices, which are counted component by component.
enum class PlanPlacement : std::uint8_t {
  in_order,  // stage by stage
  spread,    // each stage over as many servers as possible
  stated,    // PlanChoice::devices
};

struct PlanChoice {
  std::size_t order = 0;               ///< of the layers: PlanTrials::orders
  std::vector<std::int32_t> cuts;      ///< layers before each, ascending
  std::vector<std::int32_t> replicas;  ///< one a stage
  PlanPlacement placement = PlanPlacement::in_order;
  std::vector<std::int32_t> devices{};  ///< stated ones, in the order of the ranks
  std::int32_t deeper = 0;              ///< forwards beyond the rule's before each stage's first backward
  std::int32_t buckets = 0;             ///< of gradients, a stage; 0: as the scenario has them

  std::size_t stages() const { return replicas.size(); }
  std::int32_t device_count() const;

  friend auto operator<=>(const PlanChoice&, const PlanChoice&) = default;
};

/// Forwards of a stage before its first backward: 1F1B-RR's own number (round_robin_warmup.hpp), and what the
/// choice goes beyond that. `later`: replicas of all stages behind it.
std::int32_t warmup_of(const PlanChoice& choice, std::size_t stage, std::int32_t later);

/// Whether any stage has gradients to reduce; where none has, buckets mean nothing.
bool reduces(const PlanChoice& choice);

/// "12-3-1".
std::string configuration_of(const PlanChoice& choice);

/// What a choice may be.
struct PlanSpace {
  std::int32_t layers = 1;
  std::int32_t devices = 1;
  PlanForm form = PlanForm::replicated;
};

/// How many choices there are with the devices in order, at most `most`.
std::int64_t count_choices(const PlanSpace& space, std::int64_t most);
/// All of them: every cut, every replication on up to all devices.
std::vector<PlanChoice> all_choices(const PlanSpace& space);

/// The choices that one move away: a cut to any place between its neighbours, a replica to any other stage,
/// out of the plan or into it, a stage split with any share of its replicas, two merged with up to two
/// replicas handed to any stage. Stated devices are taken in order, since they belong to other stages.
std::vector<PlanChoice> neighbours(const PlanChoice& choice, const PlanSpace& space);

}  // namespace penstock
