#pragma once
// Checks a program before a run. The checks refuse invalid programs, edges of the model that contradict the
// program, and runs whose times or bytes exceed 64 bits.

#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// Returns true if the model states edges between its stages. The rules of schedules assume a chain of
/// stages.
bool has_edges(const Model& model);

/// Returns the program `compute` with the model's edges, validated, and lowered for the channels. Requires
/// a program of compute actions. Errors: edges that contradict the program or name a missing stage; an
/// invalid program. The error messages do not name a file.
tl::expected<Program, UserError> lowered_program(Program compute, const Model& model,
                                                 const ChannelOptions& channels);

// --- byte range ------------------------------------------------------------------------------------------

/// Returns an error message if the bytes that ranks hold and send may exceed 64 bits. The message names the
/// largest term of the sum. Returns nothing if 64 bits are enough. `costs` must be the costs of the program.
std::optional<std::string> byte_fault(const Program& program, const CostTable& costs);

// --- time range ------------------------------------------------------------------------------------------

/// Returns an error message if the times of a run may exceed 64 bits. The message names the action or message
/// with the largest total. Returns nothing if 64 bits are enough. The program's lists may be empty, because
/// each compute action of a stage and microbatch occurs once. `costs` must be the costs of the program.
std::optional<std::string> time_fault(const Program& program, const CostTable& costs, const Cluster& cluster);

}  // namespace penstock
