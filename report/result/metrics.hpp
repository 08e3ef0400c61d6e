#pragma once
// Computes a Result from spans: busy and idle time, bubbles, exposed communication, live activations, weight
// versions, traffic and throughput. Predictions and measurements use the same functions. Also has the bill
// that a sweep or a baseline stores for a run.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/result/result.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The model that is trained, and the values from which its rates are computed.
struct ModelFacts {
  ModelReport report;
  double tokens_per_sample = 1;
  /// The peak rate of one device, in floating-point operations per second.
  double peak_flops_per_second = 0;
};

/// Returns K of a program: the number of ranks that hold the first replica of some stage. In data parallelism
/// all ranks hold all stages, so K is the number of stages. If these stages are gradient buckets, K is too
/// large, because a program does not show which stages are buckets.
std::int32_t pipeline_size_of(const Program& program);
/// Returns true if a run of the program is prefill. In prefill, all stages hold keys and values. In addition,
/// prompts are cut into slices, or `prompt_tokens` is above 0.
bool is_prefill(const Program& program, double prompt_tokens);

/// A collector of the times at which the microbatches leave the last stage, for a program without backward
/// passes. The caller passes the spans of all ranks to add().
class FirstTokens {
 public:
  explicit FirstTokens(const Program& program);

  void add(Spans spans);
  /// Returns the time of the first microbatch and the mean over all microbatches. The rate
  /// `tokens_per_second` is absent.
  PrefillRates rates() const;

 private:
  std::int32_t last_stage_;
  std::int32_t slices_;
  std::vector<Ns> ends_;  // end of each microbatch
};

/// The parts of a result that cannot be computed from its timeline.
struct RunFacts {
  /// The lowered program that ran.
  const Program& program;
  /// The cost table, which gives the size of each message.
  const CostTable& costs;
  double samples_per_microbatch = 1;
  /// The number of copies of the pipeline, of which the program is one.
  std::int32_t copies = 1;
  ResultKind kind = ResultKind::predicted;
  std::string scenario{};
  std::string engine{};
  /// The channel model of the run.
  ChannelOptions channels{};
  LinkSharing link_sharing = LinkSharing::none;
  std::optional<double> steady_samples_per_second{};
  std::optional<double> price_per_device_hour{};
  /// The name of the device of each rank. The list is empty if devices have no names.
  std::vector<std::string> devices{};
  /// The memory of each rank. The list is empty if the memory is unknown.
  std::vector<RankMemory> memories{};
  std::vector<LinkTraffic> links{};
  std::vector<std::string> notes{};
  bool has_digest = true;
  /// The number K of ranks in one pipeline, as the user gave it. 0 means that K is derived from the
  /// placement of the program.
  std::int32_t pipeline_size = 0;
  std::optional<ModelFacts> model{};
  /// The times of prefill, if the run is prefill. Its rate is computed from `tokens_per_sample`.
  std::optional<PrefillRates> prefill{};
  /// The tokens of a sample, or 0 if they are unknown.
  double tokens_per_sample = 0;
  /// The number of STEPs of stage 0 in all iterations. 0 means that the STEPs in the program's lists are
  /// counted.
  std::int64_t updates = 0;
  std::optional<Ns> clock_error_ns{};
  /// The timeline that the result stores. It is empty if the result stores none.
  Timeline timeline{};
};

/// The figures of one rank that follow from its spans (the start and end of each action).
struct RankFigures {
  /// The figures of the rank, without idle time and memory.
  RankReport report;
  /// The start of the rank's first compute action; 0 if the rank computes nothing.
  Ns first_ns = 0;
  /// The end of the rank's last compute action; 0 if the rank computes nothing.
  Ns last_ns = 0;
};
/// Returns the figures of one rank with these spans, as RankReport defines them. `edges` are the edges of
/// the program.
RankFigures figures_of(Spans spans, const RunFacts& facts, const EdgeNumbers& edges);

/// Returns the figures and times that `meter` has computed. All other figures have their default values.
RankFigures figures_of(const RankMeter& meter);

/// Returns only three times of one rank: its busy time, its first start and its last end of a compute
/// action.
RankFigures compute_times_of(Spans spans);

/// Returns the whole result, computed from the figures of all ranks. `facts` must have all other parts of the
/// result, because the caller must not change the result later. Throws std::logic_error if an invariant of
/// result.hpp does not hold.
Result summarize(std::vector<RankFigures> ranks, Ns makespan_ns, RunFacts facts);
/// Returns the result that is computed from `timeline`, and stores the timeline in it.
Result summarize(Timeline timeline, RunFacts facts);
/// Returns the price of a million samples on `devices` devices. The price follows from the steady rate, or
/// from the rate of the run if there is no steady rate. Returns nothing if the devices have no price or if
/// the rate is not positive.
std::optional<double> cost_per_million_samples(const ThroughputReport& throughput, std::int32_t devices,
                                               std::optional<double> price_per_device_hour);

/// A line of a bill, as the mean over the ranks. The line "work" is the time in which a rank computes.
struct MeanLine {
  std::string cause;
  Ns mean_ns = 0;

  friend bool operator==(const MeanLine&, const MeanLine&) = default;
};

/// A bill with the mean of each line over the ranks. Its lines include the time in which a rank computes, so
/// they add up to the makespan.
struct MeanBill {
  Ns makespan_ns = 0;
  std::vector<MeanLine> lines{};

  friend bool operator==(const MeanBill&, const MeanBill&) = default;
};

}  // namespace penstock
