#pragma once
// From spans to a Result: busy and idle time, the three bubbles, exposed communication, live
// activations, weight versions, traffic and throughput. All results are filled here, predictions and
// measurements.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/result/result.hpp"
#include "report/timeline/arrivals.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// What is trained, and what rates of it are counted by.
struct ModelFacts {
  ModelReport report;
  double tokens_per_sample = 1;
  double peak_flops_per_second = 0;  ///< of a device
};

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
  bool has_digest = true;
  std::int32_t pipeline_size = 0;  ///< K that was asked for; 0: what the program's placement shows
  std::optional<ModelFacts> model{};
  std::int64_t updates = 0;  ///< STEPs of stage 0 in all iterations; 0: those of the program's lists
  std::optional<Ns> clock_error_ns{};
  Timeline timeline{};  ///< that the result keeps; empty: none
};

/// What the spans of one rank show.
struct RankFigures {
  RankReport report;  ///< but for its idle time and memory
  Ns first_ns = 0;    ///< start of the first compute action
  Ns last_ns = 0;     ///< end of the last one
};
/// `edges` are those of the program. Definitions: RankReport.
RankFigures figures_of(Spans spans, const RunFacts& facts, const EdgeNumbers& edges);

/// Its busy time alone, and from when to when.
RankFigures compute_times_of(Spans spans);

/// The whole result, of the figures of all ranks. Definitions: BubbleReport and ThroughputReport. Throws
/// std::logic_error where something in it cannot be (result_invariants.hpp), so that whatever has an
/// invariant comes in with the facts, and nothing is put in afterwards.
Result summarize(std::vector<RankFigures> ranks, Ns makespan_ns, RunFacts facts);
/// The same of the timeline's own figures; it is kept.
Result summarize(Timeline timeline, RunFacts facts);
/// What a million samples cost on that many devices at a price for a device's hour, at the steady rate where
/// there is one. Nothing without a price or a rate.
std::optional<double> cost_per_million_samples(const ThroughputReport& throughput, std::int32_t devices,
                                               std::optional<double> price_per_device_hour);

}  // namespace penstock
