#pragma once
// The document that `simulate` and `run` produce: one prediction or one measurement. Exporters
// (result_json.hpp, result_table.hpp, ...) print it; metrics.hpp computes its figures from a Timeline.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/timeline/timeline.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// What is held from `time_ns` until the next sample.
struct MemorySample {
  Ns time_ns = 0;
  MemoryByCategory bytes{};

  friend bool operator==(const MemorySample&, const MemorySample&) = default;
};

/// One rank's memory over time. Several samples may have the same time; peaks count each of them.
struct RankMemory {
  std::vector<MemorySample> samples;
  Bytes peak_bytes = 0;
  Ns peak_time_ns = 0;
  std::string peak_action;     ///< the text of the action that caused the peak; empty: there from the start
  MemoryByCategory at_peak{};  ///< what was held at the peak of the sum
  MemoryByCategory peaks{};    ///< each category's own peak
  std::optional<Bytes> capacity;        ///< of the rank's device; absent: unlimited
  Bytes reserved = 0;                   ///< of the capacity, what a plan may not use
  MemoryUnit unit = MemoryUnit::bytes;  ///< of all amounts

  /// Returns what a plan may use of the capacity; nothing where that is unlimited.
  std::optional<Bytes> usable() const {
    return capacity ? std::optional(std::max<Bytes>(0, *capacity - reserved)) : std::nullopt;
  }
  /// Returns the bytes of the peak for which there is no room; 0 where it fits.
  Bytes lacking() const { return std::max<Bytes>(0, peak_bytes - usable().value_or(peak_bytes)); }
  bool out_of_memory() const { return lacking() > 0; }

  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

/// One rank's figures.
struct RankReport {
  std::int32_t rank = 0;
  std::string device;
  Ns busy_ns = 0;  ///< compute actions; an overlapped pair counts once
  Ns idle_ns = 0;  ///< makespan - busy
  Ns exposed_communication_ns =
      0;  ///< idle while a transfer or collective that the next compute action waits for runs
  std::int64_t peak_live_activations =
      0;  ///< microbatch activations alive at once, from F's start to the end of B (or W)
  std::int32_t weight_versions = 1;  ///< most versions of one stage alive at once
  Bytes sent_bytes = 0;              ///< its SENDs, and its part of collectives in a ring
  Bytes received_bytes = 0;
  RankMemory memory;

  friend bool operator==(const RankReport&, const RankReport&) = default;
};

/// Bytes that crossed one directed link of the cluster.
struct LinkTraffic {
  std::string link;
  Bytes bytes = 0;

  friend bool operator==(const LinkTraffic&, const LinkTraffic&) = default;
};

/// The three figures that papers call "bubble".
struct BubbleReport {
  double idle_over_total = 0;    ///< sum of idle / (ranks * makespan)
  double idle_over_ideal = 0;    ///< sum of idle / sum of busy; 0 when nothing is busy
  double longest_span_rate = 0;  ///< (S - busy) / S on the rank with the longest first-to-last compute span S

  friend bool operator==(const BubbleReport&, const BubbleReport&) = default;
};

/// What was trained, where a model is priced on named devices.
struct ModelReport {
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;  ///< that one token passes through
  double flops_per_sample = 0;         ///< forward and backward, nothing computed twice
  std::int64_t devices = 0;            ///< of all copies of the pipeline

  friend bool operator==(const ModelReport&, const ModelReport&) = default;
};

/// Rates over the run that follow from the model's size.
struct ModelRates {
  double tokens_per_second = 0;
  double tokens_per_second_per_device = 0;
  double model_flops_per_second_per_device = 0;
  double mfu = 0;  ///< model_flops_per_second_per_device over a device's peak at the training's precision

  friend bool operator==(const ModelRates&, const ModelRates&) = default;
};

/// Samples and their rate.
struct ThroughputReport {
  double samples = 0;                               ///< M * micro_batch_size * iterations
  double samples_per_update = 0;                    ///< samples that one STEP of the input stage covers
  double samples_per_second = 0;                    ///< over the whole run; 0 when the makespan is 0
  std::optional<double> steady_samples_per_second;  ///< per period of the endlessly repeated program
  /// At the steady rate, or else that of the run; absent where devices have no price.
  std::optional<double> cost_per_million_samples{};
  std::optional<ModelRates> model{};  ///< where the model's size is known

  friend bool operator==(const ThroughputReport&, const ThroughputReport&) = default;
};

/// Which program was run.
struct ProgramReport {
  std::string schedule;
  std::int32_t ranks = 0;
  std::int32_t stages = 0;
  /// K that the schedule was asked for; of a program file the ranks that hold some stage's first replica, so
  /// that copies and replicas do not count, and all stages of data parallelism. 0: not known.
  std::int32_t pipeline_size = 0;
  std::int32_t microbatches = 0;
  std::int32_t iterations = 1;
  std::string digest;  ///< of the lowered program (schedules/ir/digest.hpp)

  friend bool operator==(const ProgramReport&, const ProgramReport&) = default;
};

/// Where the times of a result come from.
enum class ResultKind : std::uint8_t { predicted, measured };
template <>
inline constexpr auto kEnumWords<ResultKind> = std::to_array<EnumWord<ResultKind>>(
    {{ResultKind::predicted, "predicted"}, {ResultKind::measured, "measured"}});

/// What the times of a result make of links that several messages cross at once.
enum class LinkSharing : std::uint8_t {
  none,      // there are no such links
  counted,   // they share the bandwidth
  left_out,  // each message has it to itself
};
template <>
inline constexpr auto kEnumWords<LinkSharing> = std::to_array<EnumWord<LinkSharing>>(
    {{LinkSharing::none, "none"}, {LinkSharing::counted, "counted"}, {LinkSharing::left_out, "left out"}});

/// What moves messages beside the channel model, as far as times depend on it.
struct TransferReport {
  bool blocking = false;         ///< program order waits for each transfer
  std::int64_t capacity = 0;     ///< messages of a channel that may wait for their consumers; 0: unlimited
  std::int64_t eager_bytes = 0;  ///< messages below this size need only their sender

  friend bool operator==(const TransferReport&, const TransferReport&) = default;
};

/// One prediction or measurement.
struct Result {
  ResultKind kind = ResultKind::predicted;
  std::string scenario;  ///< the file or command that it answers; may be empty
  std::string engine;    ///< "critical_path", "event", "cpu-thread", ...
  std::string channel;   ///< the channel model's name
  TransferReport transfers;
  LinkSharing link_sharing = LinkSharing::none;
  Ns makespan_ns = 0;
  /// Measured on several hosts: how far apart the clocks of two ranks may have been, at most.
  std::optional<Ns> clock_error_ns{};
  ProgramReport program;
  std::optional<ModelReport> model{};
  BubbleReport bubble;
  ThroughputReport throughput;
  std::vector<RankReport> ranks;
  std::vector<LinkTraffic> links;  ///< only links that carried something
  std::vector<std::string> notes;  ///< assumptions that a reader must know
  Timeline timeline;

  friend bool operator==(const Result&, const Result&) = default;
};

/// That of the fullest rank; 0 where no memory is known.
Bytes highest_peak_bytes(const Result& result);
/// Whether any rank needs more than its device has.
bool any_out_of_memory(const Result& result);

}  // namespace penstock
