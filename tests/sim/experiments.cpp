// Builds small experiments.

#include "tests/sim/experiments.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

/// Returns a pseudo-random number from 1 to `most`, which depends only on the other arguments.
std::int64_t figure(std::int64_t most, std::uint64_t stage, std::uint64_t microbatch, std::uint64_t which) {
  return 1 + static_cast<std::int64_t>(mixed(mixed(stage * 64 + which) + microbatch) %
                                       static_cast<std::uint64_t>(most));
}

template <class Value>
Value value_of(tl::expected<Value, std::string> outcome) {
  if (!outcome) throw std::runtime_error(outcome.error());
  return std::move(*outcome);
}

}  // namespace

Cluster uniform_links(std::int32_t devices, double bytes_per_second, Ns latency_ns) {
  return value_of(uniform_cluster({.devices = devices,
                                   .bytes_per_second = bytes_per_second,
                                   .latency_ns = latency_ns,
                                   .memory_bytes = {}}));
}

Experiment experiment_of(const Program& compute_program, const CostTable& costs, const Cluster& cluster) {
  return {.name = compute_program.schedule,
          .program = value_of(lower(compute_program)),
          .costs = costs,
          .cluster = cluster,
          .channels = {},
          .notes = {}};
}

Experiment uniform_experiment(const std::string& schedule, const Shape& shape, const UniformTimes& times) {
  const Program program = value_of(generate(schedule, shape));
  const StageCost cost{.forward_ns = times.forward_ns,
                       .backward_ns = times.backward_ns,
                       .backward_input_ns = times.backward_ns / 2,
                       .backward_weight_ns = times.backward_ns - times.backward_ns / 2,
                       .recompute_ns = times.forward_ns,
                       .kept = 1};
  return experiment_of(program, uniform_costs(program, cost),
                       uniform_links(program.rank_count(), kUnlimitedBandwidth, times.latency_ns));
}

Ns makespan_ns(const Experiment& experiment) {
  const auto timeline = critical_path(experiment);
  if (!timeline) throw std::runtime_error(timeline.error().message);
  return timeline->makespan_ns;
}

CostTable uneven_costs(const Program& program, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  CostTable costs = unit_costs(program);
  for (StageCost& stage : costs.stages) {
    stage.forward_ns = pick(20);
    stage.backward_ns = pick(40);
    stage.backward_input_ns = pick(20);
    stage.backward_weight_ns = pick(20);
    stage.recompute_ns = pick(20);
    stage.step_ns = pick(5);
    stage.weights = stage.gradients = pick(50);
  }
  for (EdgeCost& edge : costs.edges) edge = {.activation = pick(10), .gradient = pick(10)};
  return costs;
}

CostTable differing_costs(const Program& program, std::size_t distinct) {
  const std::size_t edges = stage_edges(program).size();
  CostTable costs = uniform_costs(program, {.step_ns = 2, .weights = 8, .gradients = 30});
  costs.slices = program.slices;
  for (std::size_t m = 0; m < distinct; ++m) {
    MicrobatchCost& one = costs.microbatches.emplace_back();
    for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
      one.stages.push_back(costs.stages[stage]);
      one.stages.back().forward_ns = figure(20, stage, m, 0);
      one.stages.back().backward_ns = figure(40, stage, m, 1);
      one.stages.back().backward_input_ns = figure(20, stage, m, 2);
      one.stages.back().backward_weight_ns = figure(20, stage, m, 3);
      one.stages.back().recompute_ns = figure(20, stage, m, 4);
    }
    for (std::size_t edge = 0; edge < edges; ++edge)
      one.edges.push_back({.activation = figure(9, edge, m, 5), .gradient = figure(9, edge, m, 6)});
  }
  return costs;
}

FlatProgram flat_of(const Experiment& experiment) {
  return flatten(experiment.program, experiment.costs,
                 {.channels = experiment.channels, .iterations = experiment.program.iterations});
}

// A random program is made from a random linear order of all compute actions that respects their
// dependencies. The order is divided into the lists of the ranks. Such lists can be executed, unless the
// second action of an overlapped pair needs the first one.

namespace {

class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed, const RandomSizes& most = {})
      : waiting_(seed % 2 == 0 ? Blocking::batched : Blocking::each), random_(seed), most_(most) {}

  Experiment experiment() {
    for (;;) {
      auto lowered = lower(program());
      if (!lowered) continue;
      if (chance(60)) delay_sends(*lowered);
      Experiment made = experiment_of(*lowered, costs(*lowered),
                                      uniform_links(lowered->rank_count(), 1e9 * pick(1, 4), pick(0, 30)));
      made.channels = channels();
      if (!find_hang(made.program, made.channels, made.costs)) return made;
    }
  }

  Program program() {
    Program program{.schedule = "random", .microbatches = pick(1, most_.microbatches)};
    program.iterations = chance(30) ? pick(2, 3) : 1;
    program.barrier = program.iterations > 1 && chance(30);
    program.recompute = chance(50) ? RecomputeTiming::late : RecomputeTiming::early;
    program.ranks.resize(static_cast<std::size_t>(pick(1, most_.ranks)));
    const std::int32_t stages = pick(1, most_.stages);
    for (std::int32_t stage = 0; stage < stages; ++stage)
      program.placement.stages.push_back(placement(program));
    if (most_.one_way || chance(30)) add_edges(program, stages);
    if (most_.one_way) leave_flows_out(program);
    emit_in_random_order(program);
    overlap_some(program);
    append_collectives_and_steps(program);
    return program;
  }

 private:
  std::int32_t pick(std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random_);
  }
  bool chance(std::int32_t percent) { return pick(1, 100) <= percent; }

  StagePlacement placement(const Program& program) {
    std::vector<std::int32_t> ranks;
    for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) ranks.push_back(rank);
    std::ranges::shuffle(ranks, random_);
    ranks.resize(chance(30) ? static_cast<std::size_t>(pick(1, program.rank_count())) : 1);
    StagePlacement placed{.ranks = ranks, .route = {}};
    const auto replicas = static_cast<std::int32_t>(ranks.size());
    for (std::int32_t i = 0; i < pick(1, 4); ++i) placed.route.push_back(pick(0, replicas - 1));
    return placed;
  }

  void add_edges(Program& program, std::int32_t stages) {
    for (std::int32_t from = 0; from < stages; ++from) {
      for (std::int32_t to = from + 1; to < stages; ++to) {
        if (to == from + 1 || chance(30)) program.edges.push_back({from, to});
      }
    }
  }

  /// Makes some stages run only forwards, and leaves a flow of some edges out.
  void leave_flows_out(Program& program) {
    const bool whole = chance(25);
    for (StagePlacement& stage : program.placement.stages) {
      if (whole || chance(30)) stage.passes = chance(30) ? Passes::forward_kv : Passes::forward;
    }
    for (StageEdge& edge : program.edges) {
      const bool is_trained = carries(program.placement, edge, Flow::gradient);
      if (chance(20)) edge.flows = EdgeFlows::activation;
      if (is_trained && chance(20)) edge.flows = EdgeFlows::gradient;
    }
  }

  /// Adds all compute actions to the lists, one random ready action after the other.
  void emit_in_random_order(Program& program) {
    const StageNeighbours neighbours = stage_neighbours(program);
    const auto stages = static_cast<std::size_t>(program.stage_count());
    const auto units = static_cast<std::size_t>(program.microbatches);
    std::vector<std::vector<bool>> f(stages, std::vector<bool>(units)), b = f, done = f;
    std::vector<std::vector<bool>> split = f, recompute = f, recomputed = f;
    for (std::size_t s = 0; s < stages; ++s) {
      for (std::size_t m = 0; m < units; ++m) {
        split[s][m] = chance(50);
        recompute[s][m] = chance(20);
      }
    }
    for (;;) {
      std::vector<Action> ready;
      for (std::size_t s = 0; s < stages; ++s) {
        for (std::size_t m = 0; m < units; ++m) {
          const auto all = [&](const std::vector<std::int32_t>& others, const auto& there) {
            return std::ranges::all_of(
                others, [&](std::int32_t o) { return bool(there[static_cast<std::size_t>(o)][m]); });
          };
          const auto stage = static_cast<std::int32_t>(s);
          const auto unit = static_cast<std::int32_t>(m);
          const bool trains = !program.placement.stages[s].is_forward_only();
          const bool gradient_there = f[s][m] && all(neighbours.gradient_givers[s], b);
          if (!f[s][m]) {
            if (all(neighbours.predecessors[s], f))
              ready.push_back({.kind = ActionKind::forward, .stage = stage, .microbatch = unit});
          } else if (!trains) {
            continue;
          } else if (recompute[s][m] && !recomputed[s][m]) {
            if (program.recompute == RecomputeTiming::early || gradient_there)
              ready.push_back({.kind = ActionKind::recompute, .stage = stage, .microbatch = unit});
          } else if (!b[s][m]) {
            if (gradient_there)
              ready.push_back({.kind = split[s][m] ? ActionKind::backward_input : ActionKind::backward,
                               .stage = stage,
                               .microbatch = unit});
          } else if (split[s][m] && !done[s][m]) {
            ready.push_back({.kind = ActionKind::backward_weight, .stage = stage, .microbatch = unit});
          }
        }
      }
      if (ready.empty()) return;
      const Action action =
          ready[static_cast<std::size_t>(pick(0, static_cast<std::int32_t>(ready.size()) - 1))];
      const auto s = static_cast<std::size_t>(action.stage);
      const auto m = static_cast<std::size_t>(action.microbatch);
      if (action.kind == ActionKind::forward) f[s][m] = true;
      if (action.kind == ActionKind::recompute) recomputed[s][m] = true;
      if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_input) b[s][m] = true;
      if (action.kind == ActionKind::backward_weight) done[s][m] = true;
      program.ranks[static_cast<std::size_t>(program.placement.rank_of(action.stage, action.microbatch))]
          .push_back(action);
    }
  }

  void overlap_some(Program& program) {
    for (auto& list : program.ranks) {
      for (std::size_t i = 0; i + 1 < list.size(); ++i) {
        const bool pair = list[i].kind == ActionKind::forward && list[i + 1].kind == ActionKind::backward &&
                          list[i].microbatch != list[i + 1].microbatch;
        if (pair && chance(30)) list[i].overlaps_next = true;
      }
    }
  }

  void append_collectives_and_steps(Program& program) {
    for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
      const bool reduce = chance(60);
      const bool unshard = chance(20);
      const bool trains = !program.placement.stages[static_cast<std::size_t>(stage)].is_forward_only();
      for (const std::int32_t rank : program.placement.stages[static_cast<std::size_t>(stage)].ranks) {
        auto& list = program.ranks[static_cast<std::size_t>(rank)];
        if (unshard) list.insert(list.begin(), {.kind = ActionKind::unshard, .stage = stage});
        if (reduce && trains) list.push_back({.kind = ActionKind::reduce_grad, .stage = stage});
        if (trains) list.push_back({.kind = ActionKind::step, .stage = stage});
        if (unshard) list.push_back({.kind = ActionKind::reshard, .stage = stage});
      }
    }
  }

  /// Moves some SENDs behind later actions of their rank. This must not change when their messages leave,
  /// because a message only waits for its producer and its queues.
  void delay_sends(Program& program) {
    for (auto& list : program.ranks) {
      for (std::size_t i = list.size(); i-- > 0;) {
        if (!is_send(list[i].kind) || !chance(40)) continue;
        const std::size_t last = std::min(i + static_cast<std::size_t>(pick(1, 4)), list.size() - 1);
        const auto from = list.begin() + static_cast<std::ptrdiff_t>(i);
        std::rotate(from, from + 1, list.begin() + static_cast<std::ptrdiff_t>(group_end(list, last)));
      }
    }
  }

  CostTable costs(const Program& program) {
    CostTable costs;
    for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
      costs.stages.push_back({.forward_ns = pick(0, 20),
                              .backward_ns = pick(0, 40),
                              .backward_input_ns = pick(0, 20),
                              .backward_weight_ns = pick(0, 20),
                              .recompute_ns = pick(0, 20),
                              .step_ns = pick(0, 5),
                              .overlapped_pair_ns = chance(50) ? pick(0, 50) : -1,
                              .weights = pick(0, 100),
                              .gradients = pick(0, 100)});
    }
    for (std::size_t edge = 0; edge < stage_edges(program).size(); ++edge)
      costs.edges.push_back({pick(0, 60), pick(0, 60)});
    return costs;
  }

  ChannelOptions channels() {
    return {.model = kChannelModels[static_cast<std::size_t>(pick(0, 4))],
            .blocking = chance(20) ? waiting_ : Blocking::none,
            .capacity = chance(30) ? pick(1, 3) : 0,
            .eager_bytes = chance(30) ? pick(1, 50) : 0};
  }

  Blocking waiting_;  // the way in which ranks wait for transfers, if they do
  std::mt19937 random_;
  RandomSizes most_;
};

}  // namespace

Experiment random_experiment(std::uint32_t seed) { return RandomProgram(seed).experiment(); }

Experiment random_one_way_experiment(std::uint32_t seed) {
  return RandomProgram(seed, {.one_way = true}).experiment();
}

namespace {

/// Returns the next number of a sequence that `seed` begins.
std::uint32_t next_number(std::uint32_t& seed) {
  seed = seed * 1664525 + 1013904223;
  return seed >> 16;
}

}  // namespace

void add_waits(Program& program, std::uint32_t seed) {
  for (std::vector<Action>& list : program.ranks) {
    for (std::size_t i = list.size(); i-- > 0;) {
      const Action action = list[i];
      const bool reduces = action.kind == ActionKind::reduce_grad;
      if ((!is_send(action.kind) && !reduces) || next_number(seed) % 3 != 0) continue;
      const auto same = [&](const Action& other) {
        return other.kind == action.kind && other.stage == action.stage &&
               other.microbatch == action.microbatch;
      };
      // A WAIT waits for all SENDs of a microbatch, so the last of them gets it.
      if (std::any_of(list.begin() + static_cast<std::ptrdiff_t>(i) + 1, list.end(), same)) continue;
      std::size_t behind = std::min(i + 1 + next_number(seed) % 6, list.size());
      while (behind < list.size() && !opens_group(list, behind)) ++behind;
      const ActionKind kind = reduces                                   ? ActionKind::wait_reduce_grad
                              : action.kind == ActionKind::send_forward ? ActionKind::wait_send_forward
                                                                        : ActionKind::wait_send_backward;
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(behind),
                  {.kind = kind, .stage = action.stage, .microbatch = action.microbatch});
    }
  }
}

void offload_some(Experiment& experiment, std::uint32_t seed) {
  for (StageCost& cost : experiment.costs.stages) cost.kept = next_number(seed) % 60;
  experiment.costs.host = {.bytes_per_second = next_number(seed) % 4 == 0 ? kUnlimitedBandwidth : 1e9,
                           .latency_ns = next_number(seed) % 5,
                           .duplex = next_number(seed) % 2 == 0};
  for (std::vector<Action>& list : experiment.program.ranks) {
    // Returns a random position after which no group is cut, in [first, last].
    const auto between = [&](std::size_t first, std::size_t last) {
      std::size_t at = first + next_number(seed) % (last - first + 1);
      while (!opens_group(list, at)) --at;
      return list.begin() + static_cast<std::ptrdiff_t>(std::max(at, first));
    };
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Action forward = list[i];
      if (forward.kind != ActionKind::forward || next_number(seed) % 2 == 0) continue;
      const auto is_of_unit = [&](const Action& action) {
        return action.stage == forward.stage && action.microbatch == forward.microbatch;
      };
      const auto user = std::ranges::find_if(list, [&](const Action& action) {
        const bool uses = makes_input_gradient(action.kind) || action.kind == ActionKind::recompute;
        return uses && is_of_unit(action);
      });
      if (user == list.end() || user->kind == ActionKind::recompute) continue;
      std::size_t last = static_cast<std::size_t>(user - list.begin());
      while (!opens_group(list, last)) --last;
      const std::size_t first = group_end(list, i);
      if (first > last) continue;
      Action copy{.kind = ActionKind::offload, .stage = forward.stage, .microbatch = forward.microbatch};
      const auto offload = list.insert(between(first, last), copy);
      const auto behind = static_cast<std::size_t>(offload - list.begin()) + 1;
      copy.kind = ActionKind::reload;
      list.insert(between(behind, last + 1), copy);
    }
  }
}

void group_some(Program& program, std::uint32_t seed) {
  for (std::vector<Action>& list : program.ranks) {
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      seed = seed * 1664525 + 1013904223;
      list[i].overlaps_next |=
          is_transfer(list[i].kind) && is_transfer(list[i + 1].kind) && (seed >> 16) % 2 == 0;
    }
  }
}

void wait_at_no(Program& program, std::uint32_t seed) {
  for (std::vector<Action>& list : program.ranks) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!opens_group(list, i) || !list[i].overlaps_next || !is_transfer(list[i].kind)) continue;
      seed = seed * 1664525 + 1013904223;
      const bool no_wait = (seed >> 16) % 2 == 0;
      for (std::size_t member = i; member < group_end(list, i); ++member) list[member].no_wait = no_wait;
    }
  }
}

Program random_compute_program(std::uint32_t seed, const RandomSizes& most) {
  return RandomProgram(seed, most).program();
}

}  // namespace penstock
