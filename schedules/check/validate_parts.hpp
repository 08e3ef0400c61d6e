#pragma once
// The checks of validate(), in the order in which it runs them. Only validate*.cpp include this header.

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

/// The result of a check: success, or the message for the first fault.
using Checked = tl::expected<void, std::string>;

/// An action and its position in its rank's list.
struct Placed {
  Action action;
  std::int32_t position = kNoPosition;
};

/// The positions of the compute actions of each stage and unit (microbatch or slice), in the list of the rank
/// that runs them. kAbsent means that there is no such action. All actions of an overlapped group have the
/// position of the first one.
struct UnitTable {
  static constexpr std::int32_t kAbsent = kNoPosition;
  struct Positions {
    std::int32_t forward = kAbsent;
    std::int32_t backward = kAbsent;
    std::int32_t backward_input = kAbsent;
    std::int32_t backward_weight = kAbsent;
    std::int32_t recompute = kAbsent;

    /// Returns the position of the action that computes the gradient of the stage's input. This is B, or I
    /// if the backward pass is split.
    std::int32_t gradient() const { return backward == kAbsent ? backward_input : backward; }
  };

  std::int32_t units = 0;
  /// The positions of the actions, by stage and then by unit.
  std::vector<Positions> cells;

  const Positions& at(std::int32_t stage, std::int32_t unit) const {
    return cells[index(stage) * index(units) + index(unit)];
  }
  /// Returns the action that produces the data of `flow` for a unit on a stage. It is F for activations,
  /// and B or I for gradients.
  Placed worker(std::int32_t stage, std::int32_t unit, Flow flow) const;
  Positions& at(std::int32_t stage, std::int32_t unit) {
    return cells[index(stage) * index(units) + index(unit)];
  }
};

/// Checks the program's numbers, its placement and its stage edges.
Checked check_shape(const Program& program);
/// Checks each action alone: its numbers are in range, its rank is right, and its overlapped group is legal.
Checked check_actions(const Program& program);
/// Checks the STEPs and the weight versions in each rank's list. Also checks that all ranks of a stage have
/// equally many collectives.
Checked check_stage_actions(const Program& program);
/// Checks that each unit has each of its compute actions exactly once on every stage. Returns the positions
/// of these actions.
tl::expected<UnitTable, std::string> tabulate_units(const Program& program);
/// Checks that the actions of a unit on a stage have the order F, R, B or I, W. Also checks the order of
/// actions of connected stages on the same rank.
Checked check_order(const Program& program, const UnitTable& table);
/// Checks that a backward and a recomputation use the weight version of their F, unless the program allows
/// mixed versions.
Checked check_versions(const Program& program);
/// Checks that each stage gathers its weights and reduces its gradients if it must. Requires that
/// check_stage_actions() has succeeded.
Checked check_stage_lives(const Program& program);
/// Checks all SEND and RECV actions, if the program has any.
Checked check_transfers(const Program& program, const UnitTable& table);

/// Checks that each WAIT comes after the SENDs or the REDUCE_GRAD that it waits for. Also checks that no
/// two WAITs wait for the same action. If the lists contain no messages, a WAIT for SENDs must come after
/// the producer of their data.
Checked check_waits(const Program& program, const UnitTable& table);

/// Checks that each OFFLOAD comes after its F and each RELOAD after its OFFLOAD, both before the B or I of
/// their microbatch, and each once. A microbatch that is recomputed must have none.
Checked check_host_copies(const Program& program, const UnitTable& table);

/// Returns the error message "rank R, position P: ACTION RULE", followed by the grid of steps around the
/// position.
tl::unexpected<std::string> broken_at(const Program& program, std::int32_t rank, std::size_t position,
                                      const Action& action, std::string_view rule);
/// Returns the error message "rank R: RULE", followed by the grid of steps around the end of the rank's
/// list.
tl::unexpected<std::string> missing_at(const Program& program, std::int32_t rank, std::string_view rule);

}  // namespace penstock
