// Most schedules are one order whatever stages cost: the placed program is theirs already, but for buckets.
//
//   placed program -> (weighs costs: prices of its whole stages, times of its messages) -> compute program

#include "scenarios/prepare/compute_program.hpp"

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/placed_program.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/prepare/weighed_costs.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

GeneratedWithNotes compute_program(const StatedSchedule& schedule, Program placed, const StageCut& whole,
                                   const std::vector<std::int32_t>& buckets, const PriceTerms& terms) {
  if (!schedule.weighs_costs && buckets.empty())
    return ProgramWithNotes{.program = std::move(placed), .notes = {}};
  Shape shape = schedule.shape;
  shape.buckets = buckets;
  // By the whole stages of the placed program: which buckets a stage has changes nothing of its order.
  if (schedule.weighs_costs) {
    PENSTOCK_ASSIGN_OR_RETURN(ProgramPrices prices, program_prices(terms, whole, placed));
    PENSTOCK_ASSIGN_OR_RETURN(shape.transfer_ns, transfer_times(placed, prices));
    shape.costs = std::move(prices.costs);
    if (std::holds_alternative<UnitCosts>(terms.model)) {
      for (Bytes& limit : shape.memory_limit) limit = amount_of_activations(limit);
    }
  }
  return generate_with_notes(schedule.name, shape);
}

}  // namespace penstock
