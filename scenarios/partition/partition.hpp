#pragma once
// The rule that cuts a graph of layers into pipeline stages, which are contiguous runs of layers. It is read
// from `partition:` and used by stage_costs.hpp.

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The rule as a scenario states it.
struct Partition {
  enum class Rule : std::uint8_t {
    unset,
    balanced,   // balanced_cuts.hpp
    block,      // block_cuts() of block_partition.hpp
    pipedream,  // the plan of planned_partition.hpp, which leaves cuts behind
    cuts,
  };
  Rule rule = Rule::unset;
  /// The number of layers before each cut, ascending, for Rule::cuts.
  std::vector<std::int32_t> cuts{};
  /// The options for Rule::pipedream.
  PlanOptions plan{};
  /// True if the scenario states the objective, so that commands do not choose one.
  bool states_objective = false;

  friend bool operator==(const Partition&, const Partition&) = default;
};
/// The rules that a scenario may name. It states cuts as a list.
template <>
inline constexpr auto kEnumWords<Partition::Rule> =
    std::to_array<EnumWord<Partition::Rule>>({{Partition::Rule::balanced, "balanced"},
                                              {Partition::Rule::block, "block"},
                                              {Partition::Rule::pipedream, "pipedream"}});

/// Returns the cuts into `stages` stages. Errors: no stage, or more stages than layers; no rule for more than
/// one stage, or a rule that needs a plan; cuts that are not stages - 1 ascending numbers between 1 and the
/// number of layers - 1.
tl::expected<std::vector<std::int32_t>, std::string> cut_layers(const LayerGraph& graph,
                                                                const Partition& partition,
                                                                std::int32_t stages);

/// Returns the bytes that cross the cut before layer `cut`: the outputs of all earlier layers that some later
/// layer reads, each counted once. Error: a sum of more than 2^63. Requires 0 <= cut <= layers.
tl::expected<Bytes, std::string> cut_bytes(const LayerGraph& graph, std::int32_t cut);

}  // namespace penstock
