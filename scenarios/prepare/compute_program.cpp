// Where stages are depends neither on costs nor on buckets: the program that is generated without them says
// how many stages the model is cut into and which links lie between them.

#include "scenarios/prepare/compute_program.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

bool weighs_costs(const StatedSchedule& schedule) {
  const ScheduleInfo* info = find_schedule(schedule.name);
  return info != nullptr && info->weighs_costs;
}

/// How long an activation takes from each stage to the next one.
std::vector<Ns> transfer_times(const Program& program, const CostTable& costs, const Cluster& cluster) {
  const EdgeNumbers edges(program);
  std::vector<Ns> times;
  for (std::int32_t stage = 0; stage + 1 < program.stage_count(); ++stage) {
    const std::int32_t from = program.placement.rank_of(stage, 0);
    const std::int32_t to = program.placement.rank_of(stage + 1, 0);
    const Route& route = cluster.route(from, to);
    const Action send{.kind = ActionKind::send_forward, .stage = stage, .microbatch = 0, .peer = stage + 1};
    times.push_back(serialization_ns(transfer_bytes(costs, edges, send), route.bytes_per_second) +
                    route.latency_ns);
  }
  return times;
}

/// Searches keep a moment and a rank in 64 bits (schedules/search/wake_times.hpp). Nothing where a run of a
/// few times the longest step for each unit and stage fits beside the ranks.
std::optional<std::string> search_fault(const Program& placed, const CostTable& costs,
                                        const std::vector<Ns>& transfer_ns) {
  constexpr double kMost = 4.6e18;  // 2^62
  Ns longest = transfer_ns.empty() ? 0 : std::ranges::max(transfer_ns);
  for (const StageCost& cost : costs.stages)
    longest = std::max({longest, cost.forward_ns, cost.backward_input_ns, cost.backward_weight_ns});
  const double steps = 4.0 * (placed.unit_count() + static_cast<double>(costs.stages.size()));
  const auto ranks = static_cast<double>(std::bit_ceil(static_cast<std::uint32_t>(placed.rank_count())));
  if (static_cast<double>(longest) * steps * ranks < kMost) return std::nullopt;
  return fmt::format(
      "the schedule searches its order by the model's times, of which the longest, {:.3g} s, is too long for "
      "{} ranks and {} microbatches; take shorter times, or a schedule of one order",
      static_cast<double>(longest) * 1e-9, placed.rank_count(), placed.unit_count());
}

tl::expected<Shape, std::string> with_costs(Shape shape, const Program& placed, const StageCut& cut,
                                            const PriceTerms& terms) {
  auto prices = program_prices(terms, without_buckets(cut), placed);
  if (!prices) return tl::unexpected(prices.error());
  shape.transfer_ns = transfer_times(placed, prices->costs, prices->cluster);
  if (auto fault = search_fault(placed, prices->costs, shape.transfer_ns))
    return tl::unexpected(*std::move(fault));
  shape.costs = std::move(prices->costs);
  return shape;
}

}  // namespace

tl::expected<Program, std::string> placed_program(const StatedSchedule& schedule) {
  Shape shape = schedule.shape;
  if (schedule.program != nullptr) {
    if (shape.buckets.empty()) return *schedule.program;
    return tl::unexpected(std::string("schedule.buckets: a program has its own stages; leave it out"));
  }
  if (schedule.name.empty()) {
    return tl::unexpected(
        std::string("schedule.name is missing: expected the name of a schedule such as gpipe"));
  }
  shape.buckets.clear();
  if (weighs_costs(schedule)) shape.memory_limit.clear();
  return generate(schedule.name, shape);
}

GeneratedWithNotes compute_program(const StatedSchedule& schedule, Program placed, const StageCut& cut,
                                   const PriceTerms& terms) {
  const bool weighs = schedule.program == nullptr && weighs_costs(schedule);
  if (!weighs && cut.buckets.empty()) return ProgramWithNotes{.program = std::move(placed), .notes = {}};
  Shape shape = schedule.shape;
  shape.buckets = cut.buckets;
  if (!weighs) return generate_with_notes(schedule.name, shape);
  return with_costs(std::move(shape), placed, cut, terms).and_then([&](const Shape& complete) {
    return generate_with_notes(schedule.name, complete);
  });
}

}  // namespace penstock
