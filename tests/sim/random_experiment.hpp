#pragma once
// Seeded random programs on random machines, for comparing engines.

#include <cstdint>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

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
