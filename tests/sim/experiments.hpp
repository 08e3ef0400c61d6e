#pragma once
// Makes small experiments for tests: equal stages on uniform links, and random programs on random clusters.

#include <cstddef>
#include <cstdint>
#include <string>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// The times of each stage, and the latency of the links, which have unlimited bandwidth.
struct UniformTimes {
  Ns forward_ns = 1;
  Ns backward_ns = 2;
  Ns latency_ns = 0;
};

/// Generates a program, lowers it, and returns it with its costs. If the schedule refuses the shape, the test
/// aborts with the message.
Experiment uniform_experiment(const std::string& schedule, const Shape& shape, const UniformTimes& times);

/// Lowers a compute program and returns it with the given costs and cluster. The cluster must have a device
/// for each rank.
Experiment experiment_of(const Program& compute_program, const CostTable& costs, const Cluster& cluster);

/// Returns random costs, which differ between stages and between edges. Some messages are smaller than 5
/// bytes, for tests of eager messages.
CostTable uneven_costs(const Program& program, std::uint32_t seed);

/// Returns costs for `distinct` microbatches, in which all figures of two microbatches differ.
CostTable differing_costs(const Program& program, std::size_t distinct);

/// Returns a uniform cluster.
Cluster uniform_links(std::int32_t devices, double bytes_per_second, Ns latency_ns);

/// Returns the experiment's program in flat form, for the experiment's channels.
FlatProgram flat_of(const Experiment& experiment);

/// Returns the makespan by the critical-path engine.
Ns makespan_ns(const Experiment& experiment);

/// Returns a random experiment for comparisons of engines. Its program is valid, lowered, and does not hang.
/// Random are the stage graph, the placement (several stages on a rank, replicas), the order, split
/// backwards, recomputation, overlapped pairs, collectives, iterations, positions of SENDs, channel options
/// and costs. The cluster is uniform. Equal seeds give equal experiments.
Experiment random_experiment(std::uint32_t seed);
/// Returns a random experiment in which some stages run only forwards and some edges carry only one flow.
Experiment random_one_way_experiment(std::uint32_t seed);

/// Adds WAITs for some SENDs and REDUCE_GRADs of a lowered program, a few positions behind them. The program
/// may hang then.
void add_waits(Program& program, std::uint32_t seed);

/// Adds an OFFLOAD and a RELOAD for some activations of a lowered program, at random positions between the F
/// and the B or I. The costs get random bytes to copy, and a random connection to the hosts.
void offload_some(Experiment& experiment, std::uint32_t seed);

/// Joins some neighbouring transfers of a lowered program to groups. The program may hang then.
void group_some(Program& program, std::uint32_t seed);
/// Lets ranks not wait at some of the program's groups of transfers.
void wait_at_no(Program& program, std::uint32_t seed);

/// The largest sizes of a random program. Each size is random, from 1 to this number.
struct RandomSizes {
  std::int32_t ranks = 4;
  std::int32_t stages = 5;
  std::int32_t microbatches = 4;
  bool one_way = false;  ///< true: some stages run only forwards, and some edges carry only one flow
};

/// Returns a random compute program, as random_experiment() uses. Some of these programs cannot be executed.
Program random_compute_program(std::uint32_t seed, const RandomSizes& most);

}  // namespace penstock
