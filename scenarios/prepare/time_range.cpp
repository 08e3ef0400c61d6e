// Whatever waits for whatever, nothing in a run ends later than all that it does, one after the other:
//
//   end <= iterations x sum over stages of (units x (F + B + I + W + R + pairs) + updates x STEP + gathers)
//          + iterations x sum over edges of units x both transfers
//          + launches by hosts of all these
//
// with transfers at the rate of the slowest link, and no more collectives than compute actions and updates. A
// pair takes what is stated for the stage of one of its leaves, which may be more than the leaves take: each
// of them may be in one. While that stays below 2^62 ns (146 years), no time wraps.

#include "scenarios/prepare/time_range.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/pricing/part_sum.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

constexpr double kMostNanoseconds = 4.6e18;  // 2^62
/// Of one stage, at most: F, I, W and R.
constexpr double kActionsOfAUnit = 4;

void add_stage(PartSum& sum, const StageCost& cost, std::size_t stage, double units) {
  const auto add = [&](const char* form, Ns each_ns) {
    sum.add(form, stage, static_cast<double>(each_ns), units);
  };
  add("{}F", cost.forward_ns);
  add("{}B", cost.backward_ns);
  add("{}I", cost.backward_input_ns);
  add("{}W", cost.backward_weight_ns);
  add("{}R", cost.recompute_ns);
  // Below 0: not stated, and the leaves above are all that it takes.
  if (cost.overlapped_pair_ns < 0) return;
  sum.add("an overlapped pair of stage {}", stage, static_cast<double>(cost.overlapped_pair_ns),
          kActionsOfAUnit * units);
}

/// Seconds of bytes at the slowest rate, in nanoseconds.
double transfer_ns(Bytes bytes, const Cluster& cluster) {
  const double rate = cluster.least_bytes_per_second();
  return rate == kUnlimitedBandwidth ? 0 : static_cast<double>(bytes) / rate / kSecondsPerNanosecond;
}

struct Collectives {
  const Cluster& cluster;
  double replicas = 1;
  double count = 0;  ///< of one replica
};

/// In a ring, which sends at most twice what it reduces or gathers, in 2 (n - 1) steps; at worst all of its
/// routes share one link.
void add_collectives(PartSum& sum, const StageCost& cost, std::size_t stage, const Collectives& ring) {
  const double bytes_ns =
      2 * ring.replicas *
      (transfer_ns(cost.gradients, ring.cluster) + transfer_ns(cost.weights, ring.cluster));
  const double steps_ns =
      2 * (ring.replicas - 1) * static_cast<double>(ring.cluster.latency_of_all_links_ns());
  sum.add("a collective of stage {}", stage, bytes_ns + steps_ns, ring.count);
}

/// Replicas count one by one.
std::size_t placed_stages(const Program& program) {
  std::size_t count = 0;
  for (const auto& stage : program.placement.stages) count += stage.ranks.size();
  return count;
}

PartSum sum_of_times(const Program& program, const CostTable& costs, const Cluster& cluster) {
  PartSum sum;
  const double units = static_cast<double>(program.unit_count()) * program.iterations;
  const double updates = program.update == UpdateRule::microbatch ? units : program.iterations;
  // All replicas take part in each. Weights are gathered for an update, or before each use of them.
  const double collectives = updates + kActionsOfAUnit * units;
  // Of microbatches that differ each may be the longest.
  const auto for_all_tables = [&](const auto& use) {
    use(costs.stages, costs.edges);
    for (const MicrobatchCost& one : costs.microbatches) use(one.stages, one.edges);
  };
  for_all_tables([&](const std::vector<StageCost>& stages, const std::vector<EdgeCost>& edges) {
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      add_stage(sum, stages[stage], stage, units);
      sum.add("{}STEP", stage, static_cast<double>(stages[stage].step_ns), updates);
      const double replicas = static_cast<double>(program.placement.stages[stage].ranks.size());
      if (replicas > 1) {
        add_collectives(sum, stages[stage], stage,
                        {.cluster = cluster, .replicas = replicas, .count = collectives});
      }
    }
    for (std::size_t edge = 0; edge < edges.size(); ++edge) {
      const double both =
          transfer_ns(edges[edge].activation, cluster) + transfer_ns(edges[edge].gradient, cluster);
      sum.add("a message there and back", edge,
              both + 2 * static_cast<double>(cluster.latency_of_all_links_ns()), units);
    }
  });
  // F, B, I, W and R of a stage and both ends of two messages of an edge for each unit; STEP of a replica for
  // each update, and its collectives.
  const double launches = units * (static_cast<double>(5 * costs.stages.size() + 4 * costs.edges.size())) +
                          (updates + collectives) * static_cast<double>(placed_stages(program));
  sum.add("a launch", 0, static_cast<double>(costs.launch.overhead_ns), launches);
  return sum;
}

}  // namespace

std::optional<std::string> time_fault(const Program& program, const CostTable& costs,
                                      const Cluster& cluster) {
  const PartSum sum = sum_of_times(program, costs, cluster);
  if (sum.sum() < kMostNanoseconds) return std::nullopt;
  return fmt::format(
      "one thing after the other, the run would take {:.3g} s, and 64 bits of nanoseconds end at 146 years: "
      "{}; take shorter times, fewer microbatches or iterations, or faster links",
      sum.sum() * kSecondsPerNanosecond, sum.longest());
}

}  // namespace penstock
