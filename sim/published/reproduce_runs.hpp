#pragma once
// Shared parts of the reproductions of papers: programs in units of time, on links that take no time. Used
// only by the reproduce_*.cpp files. A program that cannot be generated or run is an error of the
// reproduction and throws.

#include <cstddef>
#include <string>
#include <vector>

#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// The times of one stage, in units. They are rounded to a millionth of a unit.
struct UnitTimes {
  double forward = 1;
  double backward = 2;
  double recompute = 1;
};

/// The nanoseconds of one unit of time in a predicted run.
inline constexpr double kUnitNs = 1e6;

std::vector<UnitTimes> equal_stages(std::size_t count, const UnitTimes& times = {});

/// Predicts the program of a shape that the schedule's generator accepts. Each message takes `latency` units.
Result predicted_run(const std::string& schedule, const Shape& shape, const std::vector<UnitTimes>& stages,
                     double latency = 0);

/// Returns the milliseconds of a data-parallel step over all devices of a cluster. Only the reduction of the
/// gradients takes time.
double reduction_ms(Cluster cluster, Bytes gradients);

double makespan_units(const Result& result);
/// Returns the units from the end of one minibatch to the end of the next. Returns 0 if the program has no
/// period.
double period_units(const Result& result);

}  // namespace penstock
