#pragma once
// The rule that cuts a graph of layers into pipeline stages. Each stage is a contiguous run of layers. The
// rule is read from `partition:` and used by stage_costs.hpp.

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
    balanced,   // balanced_cuts() of balanced_cuts.hpp
    block,      // block_cuts() of block_partition.hpp
    pipedream,  // the plan of planned_partition.hpp, which is replaced by cuts
    cuts,
  };
  Rule rule = Rule::unset;
  /// The number of layers before each cut, in ascending order, for Rule::cuts.
  std::vector<std::int32_t> cuts{};
  /// The options for Rule::pipedream.
  PlanOptions plan{};
  /// True if the scenario states the objective. Commands then do not choose one.
  bool states_objective = false;

  friend bool operator==(const Partition&, const Partition&) = default;
};
/// The rules that a scenario can state by name. Cuts are stated as a list.
template <>
inline constexpr auto kEnumWords<Partition::Rule> =
    std::to_array<EnumWord<Partition::Rule>>({{Partition::Rule::balanced, "balanced"},
                                              {Partition::Rule::block, "block"},
                                              {Partition::Rule::pipedream, "pipedream"}});

/// Returns the cuts into `stages` stages. Errors: no stage, or more stages than layers; several stages
/// without a rule; a rule that needs a plan; cuts that are not stages - 1 ascending numbers between 1 and
/// layers - 1.
tl::expected<std::vector<std::int32_t>, std::string> cut_layers(const LayerGraph& graph,
                                                                const Partition& partition,
                                                                std::int32_t stages);

/// Returns the bytes that cross the cut before layer `cut`. These are the outputs of earlier layers that a
/// later layer reads, and each output counts once. Error: a sum of more than 2^63. Requires 0 <= cut <=
/// layers.
tl::expected<Bytes, std::string> cut_bytes(const LayerGraph& graph, std::int32_t cut);

}  // namespace penstock
