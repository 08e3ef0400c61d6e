#pragma once
// How a graph of layers becomes pipeline stages: contiguous runs of its layers. Read from `partition:` and
// used by stage_costs.hpp.

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The rule, as a scenario states it.
struct Partition {
  enum class Rule : std::uint8_t {
    unset,
    balanced,   // balanced_cuts.hpp
    block,      // block_cuts() of block_partition.hpp
    pipedream,  // the plan of planned_partition.hpp, which leaves cuts behind
    cuts,
  };
  Rule rule = Rule::unset;
  std::vector<std::int32_t> cuts{};  ///< for Rule::cuts: number of layers before each cut, ascending
  PlanOptions plan{};                ///< for Rule::pipedream
  bool states_objective = false;     ///< rather than leaving it to whoever asks

  friend bool operator==(const Partition&, const Partition&) = default;
};
/// The rules that a scenario may name. It states cuts as a list.
template <>
inline constexpr auto kEnumWords<Partition::Rule> =
    std::to_array<EnumWord<Partition::Rule>>({{Partition::Rule::balanced, "balanced"},
                                              {Partition::Rule::block, "block"},
                                              {Partition::Rule::pipedream, "pipedream"}});

/// The cuts into `stages` stages. Errors: no stage or more stages than layers, no rule for more than one
/// stage or one that is a plan, cuts that are not stages - 1 ascending numbers between 1 and the number of
/// layers - 1.
tl::expected<std::vector<std::int32_t>, std::string> cut_layers(const LayerGraph& graph,
                                                                const Partition& partition,
                                                                std::int32_t stages);

/// Bytes alive across the cut before layer `cut`: the outputs of all earlier layers that some later layer
/// reads, each counted once. Requires 0 <= cut <= layers.
tl::expected<Bytes, std::string> cut_bytes(const LayerGraph& graph, std::int32_t cut);

}  // namespace penstock
