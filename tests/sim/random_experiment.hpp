#pragma once
// Seeded random programs on random machines, for comparing engines.

#include <cstdint>

#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// A valid, lowered program that does not hang: random stage graph, placement (several stages a rank,
/// replicas), order, split backwards, recomputation, overlapped pairs, collectives, iterations, channel
/// options; random costs on a uniform cluster. Equal seeds give equal experiments.
Experiment random_experiment(std::uint32_t seed);

}  // namespace penstock
