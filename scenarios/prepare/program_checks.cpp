// Checks a program before an engine runs it. The rule of a schedule assumes a chain of stages, so the
// edges of the model are added first. Then the program is validated and receives its SEND and RECV
// actions. Finally, upper bounds of the run's times and bytes are checked, so that an engine can add them
// without overflow.

#include "scenarios/prepare/prepared_program.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/passes.hpp"
#include "topology/cluster.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

/// Returns the program with the edges that the model states. Returns an error if an edge contradicts the
/// program or leads to a stage that does not exist.
tl::expected<Program, std::string> with_model_edges(Program program, const Model& model) {
  const auto* figures = std::get_if<StageFigures>(&model);
  if (figures == nullptr || figures->edges.empty()) return program;
  std::vector<StageEdge> edges = figures->edges;
  // The edges of a program are always sorted, so that equal sets of edges compare equal.
  std::ranges::sort(edges);
  if (!program.edges.empty() && program.edges != edges) {
    return tl::unexpected(std::string(
        "model.stages.edges: the schedule's program has stage edges of its own; leave the key out"));
  }
  for (const StageEdge& edge : edges) {
    if (edge.to >= program.stage_count()) {
      return tl::unexpected(
          fmt::format("model.stages.edges: the edge [{}, {}] names a stage beyond the last, {}", edge.from,
                      edge.to, program.stage_count() - 1));
    }
  }
  program.edges = std::move(edges);
  return program;
}

}  // namespace

bool has_edges(const Model& model) {
  const auto* figures = std::get_if<StageFigures>(&model);
  return figures != nullptr && !figures->edges.empty();
}

tl::expected<Program, UserError> lowered_program(Program compute, const Model& model,
                                                 const ChannelOptions& channels) {
  const auto program = with_model_edges(std::move(compute), model);
  if (!program) return bad_input(program.error());
  // An invalid program is a failed check (exit code 1), unlike wrong edges, which are bad input (above).
  const auto invalid = [](const std::string& reason) {
    return UserError{.kind = ErrorKind::check_failed, .message = reason};
  };
  if (auto valid = validate(*program); !valid) return tl::unexpected(invalid(valid.error()));
  return lower(*program, channels).map_error(invalid);
}

// --- byte range ------------------------------------------------------------------------------------------
//
// The bytes that the whole run produces are an upper bound for the bytes on any rank or link:
//
//   bytes <= units x sum over stages of (kept + recomputed + input + transient)
//            + versions x sum over stages of weights + sum of their clones, gradients, optimizer state
//            + iterations x units x sum over edges of (activation + gradient)
//            + updates x replicas x sum over stages of 2 (weights + gradients)
//
// The number of versions is at most one more than the smaller of microbatches and stages. If this bound is
// below 2^62 bytes (4 EiB), no sum can overflow.

namespace {

constexpr double kMostBytes = 4.6e18;  // 2^62

struct Times {
  double units = 0;     // the number of units in one iteration; a unit is a slice of a microbatch
  double passes = 0;    // the number of units in all iterations
  double versions = 0;  // the largest number of weight versions of a stage at one moment
  double updates = 0;
};

void add_stage(PartSum& sum, const StageCost& cost, std::size_t stage, double replicas, const Times& times) {
  sum.add("kept of stage {}", stage, static_cast<double>(cost.kept), times.units);
  sum.add("recomputed of stage {}", stage, static_cast<double>(cost.recomputed), times.units);
  sum.add("input of stage {}", stage, static_cast<double>(cost.input), times.units);
  sum.add("transient of stage {}", stage, static_cast<double>(cost.transient), 1);
  sum.add("weights of stage {}", stage, static_cast<double>(cost.weights), times.versions);
  sum.add("clones of the weights of stage {}", stage, static_cast<double>(cost.cloned_weights), 1);
  sum.add("gradients of stage {}", stage, static_cast<double>(cost.gradients), 1);
  sum.add("optimizer state of stage {}", stage, static_cast<double>(cost.optimizer_state), 1);
  // A ring all-reduce sends at most twice the reduced bytes.
  if (replicas <= 1) return;
  sum.add("reduced weights of stage {}", stage, static_cast<double>(cost.weights), 2 * times.updates);
  sum.add("reduced gradients of stage {}", stage, static_cast<double>(cost.gradients), 2 * times.updates);
}

/// Returns costs in which each figure is the largest of all microbatches.
CostTable largest_of(const CostTable& costs) {
  CostTable largest;
  largest.stages = costs.stages;
  largest.edges = costs.edges;
  for (const MicrobatchCost& one : costs.microbatches) {
    for (std::size_t stage = 0; stage < one.stages.size(); ++stage) {
      StageCost& most = largest.stages[stage];
      most.kept = std::max(most.kept, one.stages[stage].kept);
      most.recomputed = std::max(most.recomputed, one.stages[stage].recomputed);
      most.input = std::max(most.input, one.stages[stage].input);
      most.transient = std::max(most.transient, one.stages[stage].transient);
    }
    for (std::size_t edge = 0; edge < one.edges.size(); ++edge) {
      EdgeCost& most = largest.edges[edge];
      most.activation = std::max(most.activation, one.edges[edge].activation);
      most.gradient = std::max(most.gradient, one.edges[edge].gradient);
    }
  }
  return largest;
}

}  // namespace

std::optional<std::string> byte_fault(const Program& program, const CostTable& costs) {
  const double units = static_cast<double>(program.unit_count());
  const double passes = units * program.iterations;
  const Times times = {.units = units,
                       .passes = passes,
                       .versions = std::min(passes, static_cast<double>(program.placement.stages.size())) + 1,
                       .updates = program.update == UpdateRule::microbatch ? passes : program.iterations};
  const CostTable largest = largest_of(costs);
  PartSum sum;
  for (std::size_t stage = 0; stage < largest.stages.size(); ++stage) {
    const auto replicas = static_cast<double>(program.placement.stages[stage].ranks.size());
    add_stage(sum, largest.stages[stage], stage, replicas, times);
  }
  for (std::size_t edge = 0; edge < largest.edges.size(); ++edge) {
    sum.add("activation of edge {}", edge, static_cast<double>(largest.edges[edge].activation), times.passes);
    sum.add("gradient of edge {}", edge, static_cast<double>(largest.edges[edge].gradient), times.passes);
  }
  if (sum.sum() < kMostBytes) return std::nullopt;
  return fmt::format(
      "all in all the run would make {:.3g} bytes, and 64 bits count no more than 4.6e18 safely: {}; take "
      "smaller sizes, or fewer microbatches or iterations",
      sum.sum(), sum.largest());
}

// --- time range ------------------------------------------------------------------------------------------
//
// The end of a run is at most the sum of the times of all its work:
//
//   end <= iterations x sum over stages of (units x (F + B + I + W + R + pairs) + updates x STEP + gathers)
//          + iterations x sum over edges of units x both transfers
//          + launches by hosts of all these + units x both copies of each stage to and from hosts
//
// Transfers use the rate of the slowest link. The number of collectives is at most the number of compute
// actions and updates. The stated time of an overlapped pair may exceed the sum of its two actions, and each
// action may belong to a pair. If this bound is below 2^62 ns (146 years), no time can overflow.

namespace {

constexpr double kMostNanoseconds = 4.6e18;  // 2^62
/// The largest number of actions that one microbatch needs on one stage: F, I, W and R.
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
  // A negative value means that the time is not stated. The pair then takes the time of its two actions,
  // which are already counted.
  if (cost.overlapped_pair_ns < 0) return;
  sum.add("an overlapped pair of stage {}", stage, static_cast<double>(cost.overlapped_pair_ns),
          kActionsOfAUnit * units);
}

/// Returns the time of a message of `bytes` on the slowest link, in nanoseconds.
double transfer_ns(Bytes bytes, const Cluster& cluster) {
  const double rate = cluster.least_bytes_per_second();
  return rate == kUnlimitedBandwidth ? 0 : static_cast<double>(bytes) / rate / kSecondsPerNanosecond;
}

struct Collectives {
  const Cluster& cluster;
  double replicas = 1;
  double count = 0;  ///< the number of collectives of one replica
};

/// Adds the time of a stage's collectives over a ring of n ranks. A ring sends at most twice the bytes that
/// it reduces or gathers, in 2 (n - 1) steps. In the worst case, all routes of the ring share one link.
void add_collectives(PartSum& sum, const StageCost& cost, std::size_t stage, const Collectives& ring) {
  const double bytes_ns =
      2 * ring.replicas *
      (transfer_ns(cost.gradients, ring.cluster) + transfer_ns(cost.weights, ring.cluster));
  const double steps_ns =
      2 * (ring.replicas - 1) * static_cast<double>(ring.cluster.latency_of_all_links_ns());
  sum.add("a collective of stage {}", stage, bytes_ns + steps_ns, ring.count);
}

/// Returns the number of stages. A stage with n replicas counts n times.
std::size_t placed_stages(const Program& program) {
  std::size_t count = 0;
  for (const auto& stage : program.placement.stages) count += stage.ranks.size();
  return count;
}

PartSum sum_of_times(const Program& program, const CostTable& costs, const Cluster& cluster) {
  PartSum sum;
  const double units = static_cast<double>(program.unit_count()) * program.iterations;
  const double updates = program.update == UpdateRule::microbatch ? units : program.iterations;
  // All replicas take part in each collective. Weights are gathered for an update or before each use.
  const double collectives = updates + kActionsOfAUnit * units;
  // If microbatches have different costs, any microbatch may be the longest one, so the costs of all are
  // added.
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
  // For each unit, hosts launch at most F, B, I, W and R of each stage, and a SEND and a RECV for both
  // messages of each edge. For each update, they launch STEP and the collectives of each replica.
  const double launches = units * (static_cast<double>(5 * costs.stages.size() + 4 * costs.edges.size())) +
                          (updates + collectives) * static_cast<double>(placed_stages(program));
  sum.add("a launch", 0, static_cast<double>(costs.launch.overhead_ns), launches);
  if (costs.host == HostLink{}) return sum;  // copies to and from hosts take no time
  const CostTable largest = largest_of(costs);
  for (std::size_t stage = 0; stage < largest.stages.size(); ++stage) {
    const double bytes = static_cast<double>(largest.stages[stage].kept);
    const double bytes_ns = bytes / costs.host.bytes_per_second / kSecondsPerNanosecond;
    sum.add("an OFFLOAD or RELOAD of stage {}", stage, bytes_ns + static_cast<double>(costs.host.latency_ns),
            2 * units);
  }
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
