#pragma once
// Small experiments for tests: equal stages over uniform links, and seeded random programs on random
// machines.

#include <cstddef>
#include <cstdint>
#include <string>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// Times of one stage, and one-way latency of free links between ranks.
struct UniformTimes {
  Ns forward_ns = 1;
  Ns backward_ns = 2;
  Ns latency_ns = 0;
};

/// Generates, lowers and prices. Test-fatal (aborts with the message) when the shape is refused.
Experiment uniform_experiment(const std::string& schedule, const Shape& shape, const UniformTimes& times);

/// The same with costs and a cluster of one's own; ranks of the cluster must suffice.
Experiment experiment_of(const Program& compute_program, const CostTable& costs, const Cluster& cluster);

/// Random costs that differ from stage to stage and from edge to edge; some messages are eager below 5 bytes.
CostTable uneven_costs(const Program& program, std::uint32_t seed);

/// Costs of `distinct` microbatches in which nothing of one is like that of another.
CostTable differing_costs(const Program& program, std::size_t distinct);

/// Free or uniform links among `devices` devices.
Cluster uniform_links(std::int32_t devices, double bytes_per_second, Ns latency_ns);

/// Its messages over its channels, with what they wait for.
FlatProgram flat_of(const Experiment& experiment);

/// The makespan by the critical-path engine.
Ns makespan_ns(const Experiment& experiment);

// Seeded random programs on random machines, for comparing engines.

/// A valid, lowered program that does not hang: random stage graph, placement (several stages a rank,
/// replicas), order, split backwards, recomputation, overlapped pairs, collectives, iterations, SENDs that
/// stand behind later actions than their producers, channel options; random costs on a uniform cluster. Equal
/// seeds give equal experiments.
Experiment random_experiment(std::uint32_t seed);

/// Of how many at most a random program has between one and that many.
struct RandomSizes {
  std::int32_t ranks = 4;
  std::int32_t stages = 5;
  std::int32_t microbatches = 4;
};

/// The compute program of such an experiment. Some cannot be executed.
Program random_compute_program(std::uint32_t seed, const RandomSizes& most);

}  // namespace penstock
