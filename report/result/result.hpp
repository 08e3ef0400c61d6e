#pragma once
// Defines a Result, and a meter that computes the figures of one rank while its actions arrive in list order.
// All code that times a program uses the meter, so that each figure is computed in one place:
//
//   spans of a run or a measurement      figures_of() (metrics.cpp)
//   actions of a walk as it places them  sim/engines/streamed_walk.cpp
//
// If a walk skips repetitions, it advances the meter with show(), which says how each field changes in a
// repetition. tests/sim/streamed_run_test.cpp compares both methods. To add a figure, add a field to
// MeteredFigures, compute it in RankMeter, add it to show(), and add a row to figure_rows.cpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The figures of a rank that RankMeter computes. They are a part of RankReport.
struct MeteredFigures {
  /// The time of all compute actions. An overlapped pair counts once.
  Ns busy_ns = 0;
  /// The idle time of the rank while its next compute action waits for a transfer or collective that is under
  /// way.
  Ns exposed_communication_ns = 0;
  /// The largest number of activations that are alive at once. An activation lives from the start of F to
  /// the end of B, or of W if the backward pass is split. In a stage that runs only forward passes, it
  /// lives to the end of F.
  std::int64_t peak_live_activations = 0;
  /// The bytes of the rank's SENDs, plus the bytes that it sends in each collective. A collective is
  /// assumed to run as a ring.
  Bytes sent_bytes = 0;
  Bytes received_bytes = 0;

  friend bool operator==(const MeteredFigures&, const MeteredFigures&) = default;
};

/// The number of microbatches that are open over time, and its peak. A microbatch is open if it has begun and
/// not ended. Compute actions begin and end microbatches in list order. If several changes have one time, the
/// ends of microbatches that began earlier are counted first. All other changes are counted in list order, as
/// in report/timeline/spans.hpp.
class OpenMicrobatches {
 public:
  void begin(const Action& action, Ns now_ns) {
    enter(now_ns);
    begun_now_.push_back(unit_of(action));
    most_now_ = std::max(most_now_, ++change_now_);
  }
  /// Ends a microbatch. Ignores a microbatch that has not begun, because a timeline may be incomplete.
  void end(const Action& action, Ns now_ns) {
    enter(now_ns);
    if (began_now(unit_of(action))) {
      --change_now_;
    } else if (open_before_ > 0) {
      --open_before_;
    }
  }
  std::int64_t peak() const { return std::max(peak_, open_before_ + most_now_); }

  /// Passes the fields to a visitor that records or compares states (sim/engines/repeat.hpp). `latest_ns` is
  /// the end of the rank's latest action. All changes of the number of open microbatches before `latest_ns`
  /// are counted already, so the visitor does not get them.
  template <class State>
  void show(State& state, Ns latest_ns) {
    if (instant_ns_ < latest_ns) enter(latest_ns);
    state.held(open_before_);
    if (!state.flag(instant_ns_ == latest_ns && !begun_now_.empty())) return;
    state.time(instant_ns_);
    state.same(change_now_);
    state.same(most_now_);
    state.same(static_cast<std::int64_t>(begun_now_.size()));
    for (Unit& unit : begun_now_) {
      state.same(unit.stage);
      state.unit(unit.microbatch);
    }
  }

 private:
  struct Unit {
    std::int32_t stage = 0;
    std::int32_t microbatch = 0;

    friend bool operator==(const Unit&, const Unit&) = default;
  };
  static Unit unit_of(const Action& action) { return {action.stage, action.microbatch}; }

  void enter(Ns now_ns) {
    if (now_ns == instant_ns_) return;
    peak_ = peak();
    open_before_ += change_now_;
    change_now_ = most_now_ = 0;
    begun_now_.clear();
    instant_ns_ = now_ns;
  }
  bool began_now(const Unit& unit) const { return std::ranges::find(begun_now_, unit) != begun_now_.end(); }

  std::int64_t open_before_ = 0;  // Microbatches that began before now, minus those of them that have ended.
  std::int64_t peak_ = 0;         // The peak before now.
  Ns instant_ns_ = 0;             // The time of the latest begin or end, called "now" in this class.
  std::vector<Unit> begun_now_;
  std::int64_t change_now_ = 0;  // Microbatches that began now, minus those of them that have ended.
  std::int64_t most_now_ = 0;    // The peak of change_now_.
};

class RankMeter {
 public:
  /// Makes a meter for a rank of `program`, which must outlive the meter. In a stage that runs only forward
  /// passes, an activation lives until the end of its F, unless the program says otherwise.
  explicit RankMeter(const Program& program)
      : forward_only_(has_forward_only_stage(program) ? &program.placement : nullptr) {}
  /// Makes a meter that only measures times.
  RankMeter() = default;

  /// Adds a compute action, or an overlapped group as one action. If the rank was idle before, it calls
  /// `covered_ns(from, to)`. This function returns the part of the idle time in which a message or
  /// collective that the action needs was under way.
  template <class Covered>
  void compute(std::span<const Action> group, Ns start_ns, Ns end_ns, const Covered& covered_ns) {
    // Only idle time counts as exposed. During compute, transfers are hidden, and idle time without a message
    // has other causes.
    if (start_ns > last_ns_) figures_.exposed_communication_ns += covered_ns(last_ns_, start_ns);
    time(start_ns, end_ns);
    // The actions of a group start together. If they take no time, each one ends before the next one starts,
    // so they do not count as open at once.
    const bool at_once = start_ns == end_ns;
    for (const Action& action : group) {
      begin(action, start_ns);
      if (at_once) end(action, end_ns);
    }
    for (std::size_t i = 0; i < group.size() && !at_once; ++i) end(group[i], end_ns);
  }
  /// Adds only the times of a compute action or overlapped group.
  void time(Ns start_ns, Ns end_ns) {
    figures_.busy_ns += end_ns - start_ns;
    first_ns_ = has_computed_ ? std::min(first_ns_, start_ns) : start_ns;
    last_ns_ = std::max(last_ns_, end_ns);
    has_computed_ = true;
  }
  void send(Bytes bytes) { figures_.sent_bytes += bytes; }
  void receive(Bytes bytes) { figures_.received_bytes += bytes; }
  /// Adds a collective in which the rank sends `bytes` bytes and receives as many, as in a ring.
  void exchange(Bytes bytes) {
    send(bytes);
    receive(bytes);
  }

  /// Returns the figures of the actions that have been added up to now.
  MeteredFigures figures() const {
    MeteredFigures figures = figures_;
    figures.peak_live_activations = live_.peak();
    return figures;
  }
  /// Returns the start of the first compute action, or 0 if there is none yet.
  Ns first_ns() const { return first_ns_; }
  /// Returns the end of the last compute action, or 0 if there is none yet.
  Ns last_ns() const { return last_ns_; }

  /// Passes the fields to a visitor that records or compares states (sim/engines/repeat.hpp). It passes
  /// times, numbers that grow equally in each repetition, and the number of open microbatches over time with
  /// its peak. It does not pass the first start, because this never changes.
  template <class State>
  void show(State& state) {
    live_.show(state, last_ns_);
    state.time(last_ns_);
    state.count(figures_.busy_ns);
    state.count(figures_.exposed_communication_ns);
    state.count(figures_.sent_bytes);
    state.count(figures_.received_bytes);
  }

 private:
  void begin(const Action& action, Ns now_ns) {
    if (action.kind == ActionKind::forward) live_.begin(action, now_ns);
  }
  void end(const Action& action, Ns now_ns) {
    if (makes_weight_gradient(action.kind) || ends_with_forward(action)) live_.end(action, now_ns);
  }

  bool ends_with_forward(const Action& action) const {
    return forward_only_ != nullptr && action.kind == ActionKind::forward &&
           forward_only_->stages[static_cast<std::size_t>(action.stage)].passes == Passes::forward;
  }

  const Placement* forward_only_ = nullptr;  // null if all stages run backwards
  MeteredFigures figures_;
  OpenMicrobatches live_;  // The activations that are alive.
  bool has_computed_ = false;
  Ns first_ns_ = 0;
  Ns last_ns_ = 0;  // The rank is idle from this time on.
};

/// The bytes that a rank holds from `time_ns` until the next sample.
struct MemorySample {
  Ns time_ns = 0;
  MemoryByCategory bytes{};

  friend bool operator==(const MemorySample&, const MemorySample&) = default;
};

/// The memory of one rank over time. Several samples may have the same time, and each counts for peaks.
struct RankMemory {
  std::vector<MemorySample> samples;
  Bytes peak_bytes = 0;
  Ns peak_time_ns = 0;
  /// The action that causes the peak, as text. It is empty if the rank holds its peak from the start of the
  /// run.
  std::string peak_action;
  /// The bytes of each category at the time at which the rank has its peak.
  MemoryByCategory at_peak{};
  /// The peak of each category, which may be at another time than the rank's peak.
  MemoryByCategory peaks{};
  /// The memory of the rank's device. It is absent if the memory is unlimited.
  std::optional<Bytes> capacity;
  /// The part of the capacity that is reserved, so that a plan must not use it.
  Bytes reserved = 0;
  /// The unit of all amounts in this struct.
  MemoryUnit unit = MemoryUnit::bytes;

  /// Returns the part of the capacity that a plan may use, or nothing if the capacity is unlimited.
  std::optional<Bytes> usable() const {
    return capacity ? std::optional(std::max<Bytes>(0, *capacity - reserved)) : std::nullopt;
  }
  /// Returns the bytes by which the peak exceeds the usable memory, or 0 if it fits.
  Bytes lacking() const { return std::max<Bytes>(0, peak_bytes - usable().value_or(peak_bytes)); }
  bool out_of_memory() const { return lacking() > 0; }

  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

/// The figures of one rank.
struct RankReport : MeteredFigures {
  std::int32_t rank = 0;
  std::string device;
  /// The makespan minus the busy time, in ns.
  Ns idle_ns = 0;
  /// The largest number of weight versions of the same stage that are alive at the same time.
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
  /// The sum of the ranks' idle times, divided by (number of ranks * makespan).
  double idle_over_total = 0;
  /// The sum of the ranks' idle times, divided by the sum of their busy times. It is 0 if no rank is busy.
  double idle_over_ideal = 0;
  /// The value (S - busy) / S of the rank with the longest span S. The span of a rank lasts from its first
  /// start to its last end of a compute action.
  double longest_span_rate = 0;

  friend bool operator==(const BubbleReport&, const BubbleReport&) = default;
};

/// The trained model. It is present if the scenario names a model and devices.
struct ModelReport {
  std::int64_t parameters = 0;
  /// The parameters that the model uses for one token.
  std::int64_t active_parameters = 0;
  /// The floating-point operations of the forward and backward passes for one sample, without
  /// recomputation.
  double flops_per_sample = 0;
  /// The number of devices in all copies of the pipeline together.
  std::int64_t devices = 0;

  friend bool operator==(const ModelReport&, const ModelReport&) = default;
};

/// The rates of the run that depend on the model's number of operations.
struct ModelRates {
  double tokens_per_second = 0;
  double tokens_per_second_per_device = 0;
  double model_flops_per_second_per_device = 0;
  /// Model FLOPs utilization: model_flops_per_second_per_device, divided by the peak rate of a device at the
  /// training precision.
  double mfu = 0;

  friend bool operator==(const ModelRates&, const ModelRates&) = default;
};

/// The figures of prefill: forward passes that hold keys and values. Each microbatch is one prompt.
struct PrefillRates {
  /// The time in ns at which the first prompt has left the last stage.
  double first_token_ns = 0;
  /// The mean over all prompts of the time at which a prompt has left the last stage, in ns. All prompts are
  /// available at time 0.
  double mean_first_token_ns = 0;
  /// The number of tokens of all prompts, divided by the makespan. It is absent if the number of tokens of a
  /// prompt is unknown.
  std::optional<double> tokens_per_second{};

  friend bool operator==(const PrefillRates&, const PrefillRates&) = default;
};

/// The number of samples and their rates.
struct ThroughputReport {
  /// The number of samples: M * micro_batch_size * iterations * copies.
  double samples = 0;
  /// The number of samples between two STEPs of the input stage.
  double samples_per_update = 0;
  /// The rate of the whole run in samples per second. It is 0 if the makespan is 0.
  double samples_per_second = 0;
  /// The rate in samples per second if the program is repeated without end. It is absent if it was not
  /// computed.
  std::optional<double> steady_samples_per_second;
  /// The price of a million samples at the steady rate, or at the rate of the run if there is no steady rate.
  /// It is absent if devices have no price.
  std::optional<double> cost_per_million_samples{};
  /// The rates that depend on the model. They are absent if the size of the model is unknown.
  std::optional<ModelRates> model{};
  /// The figures of prefill. They are absent in all other runs.
  std::optional<PrefillRates> prefill{};

  friend bool operator==(const ThroughputReport&, const ThroughputReport&) = default;
};

/// The figures of a whole run. Each figure has an entry in the table of result_figures.hpp.
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
  /// The pipeline size K; 0 means unknown. For a program file, K is the number of ranks that hold the first
  /// replica of at least one stage. In data parallelism, K is the number of stages.
  std::int32_t pipeline_size = 0;
  std::int32_t microbatches = 0;
  std::int32_t iterations = 1;
  /// The number of copies of the pipeline that share a batch. The ranks, microbatches and links of a result
  /// are those of one copy. 1 if the program has all copies.
  std::int32_t copies = 1;
  /// The digest of the lowered program (schedules/ir/digest.hpp).
  std::string digest;

  friend bool operator==(const ProgramReport&, const ProgramReport&) = default;
};

/// Says whether the times of a result were predicted or measured.
enum class ResultKind : std::uint8_t { predicted, measured };
template <>
inline constexpr auto kEnumWords<ResultKind> = std::to_array<EnumWord<ResultKind>>(
    {{ResultKind::predicted, "predicted"}, {ResultKind::measured, "measured"}});

/// The method by which a run treats links that several messages use at the same time.
enum class LinkSharing : std::uint8_t {
  // no link is used by several messages
  none,
  // messages on the same link share its bandwidth
  counted,
  // each message has the full bandwidth of the link
  left_out,
};
template <>
inline constexpr auto kEnumWords<LinkSharing> = std::to_array<EnumWord<LinkSharing>>(
    {{LinkSharing::none, "none"}, {LinkSharing::counted, "counted"}, {LinkSharing::left_out, "left out"}});

/// The properties of transfers that affect times, in addition to the channel model.
struct TransferReport {
  /// The transfers for which a rank waits before it continues in its list.
  Blocking blocking = Blocking::none;
  /// True if the transfers of a rank start in the order in which the rank launched them.
  bool launch_order = false;
  /// The number of messages that may wait in a channel. 0 means unlimited.
  std::int64_t capacity = 0;
  /// The eager size in bytes. The transfer of a smaller message may start before the receiver has posted its
  /// RECV.
  std::int64_t eager_bytes = 0;

  friend bool operator==(const TransferReport&, const TransferReport&) = default;
};

/// One prediction or measurement.
struct Result : RunFigures {
  ResultKind kind = ResultKind::predicted;
  /// The scenario file or the command from which the result comes. It may be empty.
  std::string scenario;
  /// The name of the engine, such as "critical-path", "event" or "cpu-thread".
  std::string engine;
  /// The name of the channel model.
  std::string channel;
  TransferReport transfers;
  LinkSharing link_sharing = LinkSharing::none;
  Ns makespan_ns = 0;
  /// The largest difference between the clocks of two ranks. It is present only for measurements on several
  /// hosts.
  std::optional<Ns> clock_error_ns{};
  ProgramReport program;
  std::optional<ModelReport> model{};
  std::vector<RankReport> ranks;
  /// The links that messages used, with the bytes that crossed each of them.
  std::vector<LinkTraffic> links;
  /// The notes about assumptions that readers of the result must know.
  std::vector<std::string> notes;
  Timeline timeline;

  friend bool operator==(const Result&, const Result&) = default;
};

/// Returns the number of samples of one copy of the pipeline, whose messages `links` counts.
double samples_of_copy(const Result& result);
/// Returns the largest peak memory of all ranks, or 0 if no memory is known.
Bytes highest_peak_bytes(const Result& result);
/// Returns true if a rank needs more memory than its device has.
bool any_out_of_memory(const Result& result);

/// Returns the first broken invariant as "KEY: expected WHAT, got WHAT", or nothing if all invariants hold.
/// KEY is a key of the JSON document. Invariants are, for example, that rates are not negative, that no
/// action ends after the makespan, and that bubbles are in [0, 1]. In a measurement, times may exceed the
/// makespan by a thousandth, because clocks differ.
std::optional<std::string> broken_invariant(const Result& result);

}  // namespace penstock
