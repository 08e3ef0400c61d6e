#pragma once
// Compares the sizes that the two ends of a message state.

#include <optional>
#include <string>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/model_stages.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns an error message for the first message whose RECV expects another size than its SEND has, or
/// nothing if all agree. The message names both actions, their ranks and their sizes. `cut` is the cut of the
/// model for the program, `costs` are the program's costs, and `samples` scaled them. The program's lists may
/// be empty.
std::optional<std::string> message_size_fault(const Model& model, const StageCut& cut, Scaling samples,
                                              const Program& program, const CostTable& costs);

}  // namespace penstock
