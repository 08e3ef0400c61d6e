#pragma once
// The reasons for which a scenario is no experiment: an invalid program, edges that the program contradicts,
// and times or bytes of a run that 64 bits cannot count.

#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// True where the model states edges of its own, which no schedule's rule knows of.
bool has_edges(const Model& model);

/// `compute`, which has compute actions alone, with the model's edges, valid and lowered. Errors, without a
/// place: edges that the program contradicts or has no stage for; an invalid program.
tl::expected<Program, UserError> lowered_program(Program compute, const Model& model);

// Checks that the times and bytes of a run fit in 64 bits.

// --- byte range ------------------------------------------------------------------------------------------

/// Returns an error message if the bytes that ranks hold and send may exceed 64 bits. The message names the
/// largest part. Returns nothing if they fit. `costs` must be the costs of the program.
std::optional<std::string> byte_fault(const Program& program, const CostTable& costs);

// --- time range ------------------------------------------------------------------------------------------

/// Returns an error message if the times of a run may exceed 64 bits. The message names the action or message
/// with the largest total. Returns nothing if they fit. The lists are not read, because each compute action
/// of a stage and microbatch occurs once. `costs` must be the costs of the program.
std::optional<std::string> time_fault(const Program& program, const CostTable& costs, const Cluster& cluster);

}  // namespace penstock
