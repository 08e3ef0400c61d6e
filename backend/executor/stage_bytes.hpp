#pragma once
// The measured bytes that stages store and send (ModuleFamily::bytes_of_stages).

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The bytes of one stage. The first five are bytes of one microbatch.
struct StageBytes {
  Bytes input = 0;              ///< bytes of the model's input that the stage reads; 0 if it reads none
  Bytes activation = 0;         ///< bytes of the activation that the stage sends forward
  Bytes gradient = 0;           ///< bytes of the gradient that the stage sends back
  Bytes kept = 0;               ///< bytes that the stage stores from F to B
  Bytes released_by_input = 0;  ///< part of `kept` that the stage frees after I, before W
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;

  friend bool operator==(const StageBytes&, const StageBytes&) = default;
};

/// Returns `costs` with its bytes replaced by `bytes`. Requires one element of `bytes` for each stage of the
/// program.
CostTable with_stage_bytes(CostTable costs, const Program& program, const std::vector<StageBytes>& bytes);

}  // namespace penstock
