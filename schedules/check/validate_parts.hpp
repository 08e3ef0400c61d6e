#pragma once
// The checks that validate() runs, in this order. Private to validate*.cpp.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

using Checked = tl::expected<void, std::string>;

/// An action and where it stands in its rank's list.
struct Placed {
  Action action;
  std::int32_t position = kNoPosition;
};

/// Where the compute actions of each stage and microbatch stand: positions in the list of the one rank that
/// runs them, kAbsent where there is none. All actions of an overlapped group have the position of its first.
struct UnitTable {
  static constexpr std::int32_t kAbsent = kNoPosition;
  struct Positions {
    std::int32_t forward = kAbsent;
    std::int32_t backward = kAbsent;
    std::int32_t backward_input = kAbsent;
    std::int32_t backward_weight = kAbsent;
    std::int32_t recompute = kAbsent;

    /// Of what makes the gradient for the stages before: B or I.
    std::int32_t gradient() const { return backward == kAbsent ? backward_input : backward; }
  };

  std::int32_t units = 0;
  std::vector<Positions> cells;  ///< by stage, then unit

  const Positions& at(std::int32_t stage, std::int32_t unit) const {
    return cells[index(stage) * index(units) + index(unit)];
  }
  /// Who takes in and hands on activations (F) and gradients (B or I) for a unit on a stage.
  Placed worker(std::int32_t stage, std::int32_t unit, Flow flow) const;
  Positions& at(std::int32_t stage, std::int32_t unit) {
    return cells[index(stage) * index(units) + index(unit)];
  }
};

/// Numbers, placement and edges.
Checked check_shape(const Program& program);
/// Each action on its own: numbers in range, on the right rank, groups well formed.
Checked check_actions(const Program& program);
/// STEPs and versions in each rank's list, and as many collectives of a stage on all that hold it.
Checked check_stage_actions(const Program& program);
/// Everything that each microbatch needs is there once.
tl::expected<UnitTable, std::string> tabulate_units(const Program& program);
/// F, R, B or I, W in order, also between stages of one rank.
Checked check_order(const Program& program, const UnitTable& table);
/// A backward and a recomputation use the weights that their F used, unless the program says otherwise.
Checked check_versions(const Program& program);
/// Weights are gathered and gradients reduced where a stage needs it. Requires check_stage_actions().
Checked check_stage_lives(const Program& program);
/// SEND and RECV, where the program has any.
Checked check_transfers(const Program& program, const UnitTable& table);

/// "rank R, position P: ACTION RULE", and the grid around it.
tl::unexpected<std::string> broken_at(const Program& program, std::int32_t rank, std::size_t position,
                                      const Action& action, std::string_view rule);
/// "rank R: RULE", and the grid around the end of its list.
tl::unexpected<std::string> missing_at(const Program& program, std::int32_t rank, std::string_view rule);

}  // namespace penstock
