#pragma once
// What stages really hold and send, as their modules find it (ModuleFamily::bytes_of_stages), and its way
// into a cost table.

#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// What one stage holds and sends for one microbatch, as its modules find it.
struct StageBytes {
  Bytes input = 0;              ///< of the model, where the stage reads it
  Bytes activation = 0;         ///< sent forward
  Bytes gradient = 0;           ///< sent back
  Bytes kept = 0;               ///< from F to B
  Bytes released_by_input = 0;  ///< of it, what I lets go of
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;

  friend bool operator==(const StageBytes&, const StageBytes&) = default;
};

/// `costs` with those bytes in place. Requires one entry a stage of the program.
CostTable with_stage_bytes(CostTable costs, const Program& program, const std::vector<StageBytes>& bytes);

}  // namespace penstock
