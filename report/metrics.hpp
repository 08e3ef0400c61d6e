#pragma once
// From a Timeline to the figures of a Result: busy and idle time, the three bubbles, exposed communication,
// live activations, weight versions, traffic and throughput.

#include "report/result.hpp"
#include "report/timeline.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/program.hpp"

namespace penstock {

/// What metrics need beside the timeline.
struct MetricsInput {
  const Program& program;  ///< lowered: the one that ran
  const CostTable& costs;  ///< for the bytes of messages
  double samples_per_microbatch = 1;
};

/// Fills kind, makespan, program (digest too), bubble, throughput (without the steady figure), ranks
/// (without memory) and the timeline. Definitions: BubbleReport, RankReport and ThroughputReport.
Result summarize(Timeline timeline, const MetricsInput& input);

/// What a million samples cost on that many devices at a price for a device's hour, at the steady rate where
/// there is one. Nothing without a price or a rate.
std::optional<double> cost_per_million_samples(const ThroughputReport& throughput, std::int32_t devices,
                                               std::optional<double> price_per_device_hour);

}  // namespace penstock
