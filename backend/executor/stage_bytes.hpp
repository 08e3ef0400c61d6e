#pragma once
// The bytes that stages really hold and send, as their modules report them (ModuleFamily::bytes_of_stages).

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The bytes that one stage holds and sends for one microbatch.
struct StageBytes {
  Bytes input = 0;              ///< input of the model, if the stage reads it
  Bytes activation = 0;         ///< bytes of the activation that it sends forward
  Bytes gradient = 0;           ///< bytes of the gradient that it sends back
  Bytes kept = 0;               ///< held from F to B
  Bytes released_by_input = 0;  ///< part of `kept` that I releases
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;

  friend bool operator==(const StageBytes&, const StageBytes&) = default;
};

/// Returns `costs` with these bytes. Requires one element for each stage of the program.
CostTable with_stage_bytes(CostTable costs, const Program& program, const std::vector<StageBytes>& bytes);

}  // namespace penstock
