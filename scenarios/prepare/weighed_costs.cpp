// Searches keep a moment and a rank together in 64 bits (schedules/search/wake_times.hpp), so that times must
// leave room for both:
//
//   longest time * (4 * steps of a rank) * ranks < 2^62

#include "scenarios/prepare/weighed_costs.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/prepare/program_prices.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {

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
  // To the next power of two: searches shift the moment by the bits that a rank takes.
  const auto ranks = static_cast<double>(std::bit_ceil(static_cast<std::uint32_t>(placed.rank_count())));
  if (static_cast<double>(longest) * steps * ranks < kMost) return times;
  return tl::unexpected(fmt::format(
      "the schedule searches its order by the model's times, of which the longest, {:.3g} s, is too long for "
      "{} ranks and {} microbatches; take shorter times, or a schedule of one order",
      static_cast<double>(longest) * 1e-9, placed.rank_count(), placed.unit_count()));
}

}  // namespace penstock
