// Generates the compute program. For most schedules the placed program is already final, except for buckets,
// because their order does not depend on costs.
//
//   placed program -> (if the order depends on costs: prices of whole stages, times of messages) -> program

#include "scenarios/prepare/compute_program.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"

namespace penstock {

// --- weighed costs ---------------------------------------------------------------------------------------
//
// A search packs a moment and a rank into 64 bits (schedules/search/wake_times.hpp), so times must be small
// enough:
//
//   longest time * (4 * steps of a rank) * ranks < 2^62

tl::expected<std::vector<Ns>, std::string> transfer_times(const Program& placed,
                                                          const ProgramPrices& prices) {
  constexpr double kMost = 4.6e18;  // 2^62
  Ns longest = 0;
  for (const StageCost& cost : prices.costs.stages)
    longest = std::max({longest, cost.forward_ns, cost.backward_input_ns, cost.backward_weight_ns});
  const EdgeNumbers edges(placed);
  std::vector<Ns> times;
  for (std::int32_t stage = 0; stage + 1 < placed.stage_count(); ++stage) {
    const std::int32_t from = placed.placement.rank_of(stage, 0);
    const std::int32_t to = placed.placement.rank_of(stage + 1, 0);
    const Route& route = prices.cluster.route(from, to);
    const Action send{.kind = ActionKind::send_forward, .stage = stage, .microbatch = 0, .peer = stage + 1};
    times.push_back(serialization_ns(transfer_bytes(prices.costs, edges, send), route.bytes_per_second) +
                    route.latency_ns);
    longest = std::max(longest, times.back());
  }
  const double steps = 4.0 * (placed.unit_count() + static_cast<double>(prices.costs.stages.size()));
  // The rank count is rounded up to a power of two, because searches shift the moment by whole bits.
  const auto ranks = static_cast<double>(std::bit_ceil(static_cast<std::uint32_t>(placed.rank_count())));
  if (static_cast<double>(longest) * steps * ranks < kMost) return times;
  return tl::unexpected(fmt::format(
      "the schedule searches its order by the model's times, of which the longest, {:.3g} s, is too long for "
      "{} ranks and {} microbatches; take shorter times, or a schedule of one order",
      static_cast<double>(longest) * 1e-9, placed.rank_count(), placed.unit_count()));
}

// --- compute program -------------------------------------------------------------------------------------

GeneratedWithNotes compute_program(const StatedSchedule& schedule, Program placed, const StageCut& whole,
                                   const std::vector<std::int32_t>& buckets, const PriceTerms& terms) {
  if (!schedule.weighs_costs && buckets.empty())
    return ProgramWithNotes{.program = std::move(placed), .notes = {}};
  Shape shape = schedule.shape;
  shape.buckets = buckets;
  // The search uses the whole stages of the placed program, because buckets do not change the order.
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
