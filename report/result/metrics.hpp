#pragma once
// Computes a Result from spans: busy and idle time, the three bubbles, exposed communication, live
// activations, weight versions, traffic and throughput. Predictions and measurements both use it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/result/result.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The trained model and the figures that its rates need.
struct ModelFacts {
  ModelReport report;
  double tokens_per_sample = 1;
  /// The peak rate of one device.
  double peak_flops_per_second = 0;
};

/// The parts of a result that its timeline does not show.
struct RunFacts {
  /// The lowered program that ran.
  const Program& program;
  /// The costs, which give the bytes of messages.
  const CostTable& costs;
  double samples_per_microbatch = 1;
  ResultKind kind = ResultKind::predicted;
  std::string scenario{};
  std::string engine{};
  /// The channel model of the run.
  ChannelOptions channels{};
  LinkSharing link_sharing = LinkSharing::none;
  std::optional<double> steady_samples_per_second{};
  std::optional<double> price_per_device_hour{};
  /// The names of the devices by rank; empty if they have none.
  std::vector<std::string> devices{};
  /// The memory of each rank; empty if it is not known.
  std::vector<RankMemory> memories{};
  std::vector<LinkTraffic> links{};
  std::vector<std::string> notes{};
  bool has_digest = true;
  /// The K that was asked for; 0 derives it from the program's placement.
  std::int32_t pipeline_size = 0;
  std::optional<ModelFacts> model{};
  /// STEPs of stage 0 in all iterations; 0 counts those of the program's lists
  std::int64_t updates = 0;
  std::optional<Ns> clock_error_ns{};
  /// The timeline that the result stores; empty for none.
  Timeline timeline{};
};

/// The figures that the spans of one rank show.
struct RankFigures {
  /// All figures except idle time and memory.
  RankReport report;
  /// The start of the first compute action.
  Ns first_ns = 0;
  /// The end of the last compute action.
  Ns last_ns = 0;
};
/// Returns the figures of one rank as RankReport defines them. `edges` are those of the program.
RankFigures figures_of(Spans spans, const RunFacts& facts, const EdgeNumbers& edges);

/// Returns the figures of a meter and its times, without those that a meter does not compute.
RankFigures figures_of(const RankMeter& meter);

/// Returns only the busy time of one rank, and the first start and last end of its compute actions.
RankFigures compute_times_of(Spans spans);

/// Returns the whole result from the figures of all ranks, as BubbleReport and ThroughputReport define them.
/// Throws std::logic_error if an invariant does not hold (result.hpp). Therefore `facts` must be
/// complete; nothing may be added to the result later.
Result summarize(std::vector<RankFigures> ranks, Ns makespan_ns, RunFacts facts);
/// Returns the result from a timeline's own figures, and stores the timeline in it.
Result summarize(Timeline timeline, RunFacts facts);
/// Returns the cost of a million samples on `devices` devices at a price for an hour of a device. It uses the
/// steady rate if there is one. Without a price or a rate it returns nothing.
std::optional<double> cost_per_million_samples(const ThroughputReport& throughput, std::int32_t devices,
                                               std::optional<double> price_per_device_hour);

}  // namespace penstock
