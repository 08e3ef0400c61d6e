#pragma once
// From a Timeline to a Result: busy and idle time, the three bubbles, exposed communication, live
// activations, weight versions, traffic and throughput. All results are filled here, predictions and
// measurements.

#include <optional>
#include <string>
#include <vector>

#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// What a result says beside what its timeline shows.
struct RunFacts {
  const Program& program;  ///< lowered: the one that ran
  const CostTable& costs;  ///< for the bytes of messages
  double samples_per_microbatch = 1;
  ResultKind kind = ResultKind::predicted;
  std::string scenario{};
  std::string engine{};
  ChannelOptions channels{};  ///< of the run
  LinkSharing link_sharing = LinkSharing::none;
  std::optional<double> steady_samples_per_second{};
  std::optional<double> price_per_device_hour{};
  std::vector<std::string> devices{};  ///< by rank; empty: without names
  std::vector<RankMemory> memories{};  ///< by rank; empty: unknown
  std::vector<LinkTraffic> links{};
  std::vector<std::string> notes{};
};

/// A rank's compute actions: how long they take, and from when to when they run. All 0 where there is none.
struct Activity {
  Ns busy_ns = 0;
  Ns first_ns = 0;
  Ns last_ns = 0;
};

/// The whole result. Definitions: BubbleReport, RankReport and ThroughputReport.
Result summarize(Timeline timeline, RunFacts facts);
/// The same of a run without a timeline, from its ranks. The program's lists are not read, so that the result
/// has no digest, and one update covers all microbatches.
Result summarize(std::vector<RankReport> ranks, const std::vector<Activity>& activities, Ns makespan_ns,
                 RunFacts facts);

/// What a million samples cost on that many devices at a price for a device's hour, at the steady rate where
/// there is one. Nothing without a price or a rate.
std::optional<double> cost_per_million_samples(const ThroughputReport& throughput, std::int32_t devices,
                                               std::optional<double> price_per_device_hour);

}  // namespace penstock
