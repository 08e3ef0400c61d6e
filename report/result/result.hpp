#pragma once
// The document that `simulate` and `run` produce: one prediction or one measurement. metrics.hpp computes its
// figures from a timeline; result_json.hpp, result_table.hpp and other exporters print it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/result/rank_meter.hpp"
#include "report/timeline/timeline.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The bytes held from `time_ns` until the next sample.
struct MemorySample {
  Ns time_ns = 0;
  MemoryByCategory bytes{};

  friend bool operator==(const MemorySample&, const MemorySample&) = default;
};

/// The memory of one rank over time. Several samples may have the same time; peaks count each of them.
struct RankMemory {
  std::vector<MemorySample> samples;
  Bytes peak_bytes = 0;
  Ns peak_time_ns = 0;
  /// The text of the action that caused the peak; empty if the peak exists from the start.
  std::string peak_action;
  /// The bytes by category when their sum is at its peak.
  MemoryByCategory at_peak{};
  /// The peak of each category alone.
  MemoryByCategory peaks{};
  /// The memory of the rank's device; absent if unlimited.
  std::optional<Bytes> capacity;
  /// The part of the capacity that a plan may not use.
  Bytes reserved = 0;
  /// The unit of all amounts.
  MemoryUnit unit = MemoryUnit::bytes;

  /// Returns the part of the capacity that a plan may use; nothing if the capacity is unlimited.
  std::optional<Bytes> usable() const {
    return capacity ? std::optional(std::max<Bytes>(0, *capacity - reserved)) : std::nullopt;
  }
  /// Returns the bytes of the peak for which there is no room; 0 if it fits.
  Bytes lacking() const { return std::max<Bytes>(0, peak_bytes - usable().value_or(peak_bytes)); }
  bool out_of_memory() const { return lacking() > 0; }

  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

/// The figures of one rank.
struct RankReport : MeteredFigures {
  std::int32_t rank = 0;
  std::string device;
  /// The makespan minus the busy time.
  Ns idle_ns = 0;
  /// The largest number of versions of one stage that are alive at once.
  std::int32_t weight_versions = 1;
  RankMemory memory;

  friend bool operator==(const RankReport&, const RankReport&) = default;
};

/// The bytes that crossed one directed link of the cluster.
struct LinkTraffic {
  std::string link;
  Bytes bytes = 0;

  friend bool operator==(const LinkTraffic&, const LinkTraffic&) = default;
};

/// The three figures that papers call "bubble".
struct BubbleReport {
  /// The sum of idle time / (ranks * makespan).
  double idle_over_total = 0;
  /// The sum of idle time / the sum of busy time; 0 if nothing is busy.
  double idle_over_ideal = 0;
  /// The ratio (S - busy) / S on the rank with the longest span S from its first to its last compute action
  double longest_span_rate = 0;

  friend bool operator==(const BubbleReport&, const BubbleReport&) = default;
};

/// The trained model. It is present if a model is priced on named devices.
struct ModelReport {
  std::int64_t parameters = 0;
  /// The parameters that one token uses.
  std::int64_t active_parameters = 0;
  /// The work of forward and backward, without recomputation.
  double flops_per_sample = 0;
  /// The devices of all copies of the pipeline.
  std::int64_t devices = 0;

  friend bool operator==(const ModelReport&, const ModelReport&) = default;
};

/// Rates of the run that depend on the model's size.
struct ModelRates {
  double tokens_per_second = 0;
  double tokens_per_second_per_device = 0;
  double model_flops_per_second_per_device = 0;
  /// Model FLOPs utilization: model_flops_per_second_per_device over a device's peak at the precision of
  /// training.
  double mfu = 0;

  friend bool operator==(const ModelRates&, const ModelRates&) = default;
};

/// The samples and their rate.
struct ThroughputReport {
  /// The number of samples: M * micro_batch_size * iterations.
  double samples = 0;
  /// The samples that one STEP of the input stage covers.
  double samples_per_update = 0;
  /// The rate of the whole run; 0 if the makespan is 0.
  double samples_per_second = 0;
  /// The rate in one period of the program, repeated without end.
  std::optional<double> steady_samples_per_second;
  /// The cost at the steady rate, or at the rate of the run if there is none. It is absent if devices have no
  /// price.
  std::optional<double> cost_per_million_samples{};
  /// The rates of the model; absent if its size is not known.
  std::optional<ModelRates> model{};

  friend bool operator==(const ThroughputReport&, const ThroughputReport&) = default;
};

/// The figures of a whole run. figure_rows.hpp has a row for each of them.
struct RunFigures {
  BubbleReport bubble;
  ThroughputReport throughput;

  friend bool operator==(const RunFigures&, const RunFigures&) = default;
};

/// The program that ran.
struct ProgramReport {
  std::string schedule;
  std::int32_t ranks = 0;
  std::int32_t stages = 0;
  /// The K of the schedule. For a program file it is the number of ranks that hold the first replica of some
  /// stage, so that copies and replicas do not count, or the number of stages in data parallelism. 0 means
  /// that it is not known.
  std::int32_t pipeline_size = 0;
  std::int32_t microbatches = 0;
  std::int32_t iterations = 1;
  /// The digest of the lowered program (schedules/ir/digest.hpp).
  std::string digest;

  friend bool operator==(const ProgramReport&, const ProgramReport&) = default;
};

/// The origin of the times of a result.
enum class ResultKind : std::uint8_t { predicted, measured };
template <>
inline constexpr auto kEnumWords<ResultKind> = std::to_array<EnumWord<ResultKind>>(
    {{ResultKind::predicted, "predicted"}, {ResultKind::measured, "measured"}});

/// The treatment of links that several messages use at once.
enum class LinkSharing : std::uint8_t {
  // no such links exist
  none,
  // messages on a link share its bandwidth
  counted,
  // each message gets the whole bandwidth
  left_out,
};
template <>
inline constexpr auto kEnumWords<LinkSharing> = std::to_array<EnumWord<LinkSharing>>(
    {{LinkSharing::none, "none"}, {LinkSharing::counted, "counted"}, {LinkSharing::left_out, "left out"}});

/// The properties of transfers besides the channel model on which times depend.
struct TransferReport {
  /// True if program order waits for each transfer to end.
  bool blocking = false;
  /// The messages of a channel that may wait for their consumers; 0 means unlimited.
  std::int64_t capacity = 0;
  /// The eager size. Messages below it start without the receiver.
  std::int64_t eager_bytes = 0;

  friend bool operator==(const TransferReport&, const TransferReport&) = default;
};

/// One prediction or measurement.
struct Result : RunFigures {
  ResultKind kind = ResultKind::predicted;
  /// The file or command that it answers; may be empty.
  std::string scenario;
  /// The name of the engine, such as "critical-path", "event" or "cpu-thread".
  std::string engine;
  /// The name of the channel model.
  std::string channel;
  TransferReport transfers;
  LinkSharing link_sharing = LinkSharing::none;
  Ns makespan_ns = 0;
  /// The largest difference between the clocks of two ranks. It is present for measurements on several hosts.
  std::optional<Ns> clock_error_ns{};
  ProgramReport program;
  std::optional<ModelReport> model{};
  std::vector<RankReport> ranks;
  /// The links that messages used.
  std::vector<LinkTraffic> links;
  /// Assumptions that a reader must know.
  std::vector<std::string> notes;
  Timeline timeline;

  friend bool operator==(const Result&, const Result&) = default;
};

/// Returns the peak of the rank with the highest peak; 0 if no memory is known.
Bytes highest_peak_bytes(const Result& result);
/// Returns true if any rank needs more memory than its device has.
bool any_out_of_memory(const Result& result);

}  // namespace penstock
