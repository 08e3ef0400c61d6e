#pragma once
// What the reproductions of papers have in common: programs on free links, in units of time. Private to the
// reproduce_*.cpp files. What cannot be generated or run is a fault of theirs and throws.

#include <cstddef>
#include <string>
#include <vector>

#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// Of one stage, in units; fractions to the millionth.
struct UnitTimes {
  double forward = 1;
  double backward = 2;
  double recompute = 1;
};

/// What a unit of these papers lasts in a predicted run.
inline constexpr double kUnitNs = 1e6;

std::vector<UnitTimes> equal_stages(std::size_t count, const UnitTimes& times = {});

/// The program of a shape that its generator takes; each message takes `latency` units.
Result predicted_run(const std::string& schedule, const Shape& shape, const std::vector<UnitTimes>& stages,
                     double latency = 0);

/// Returns the milliseconds of a step of data parallelism over all devices of a cluster in which nothing but
/// the reduction of the gradients takes time.
double reduction_ms(Cluster cluster, Bytes gradients);

/// Units.
double makespan_units(const Result& result);
/// Units from one minibatch that leaves to the next; 0 where the program has no period.
double period_units(const Result& result);

}  // namespace penstock
