#pragma once
// A meter that computes the figures of one rank while its actions come in list order. All code that times a
// program uses a meter, so that each figure of a rank is computed in one place:
//
//   spans of a run or a measurement      figures_of() (metrics.cpp)
//   actions of a walk as it places them  sim/engines/streamed_walk.cpp
//
// A walk that jumps over repetitions advances the meter with show(), which states how each member grows.
// tests/sim/streamed_run_test.cpp compares the two. To add a figure, add a member to MeteredFigures, compute
// it in RankMeter, show it, and add a row to figure_rows.cpp.

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
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The figures that a meter computes. RankReport has all of them.
struct MeteredFigures {
  /// The time of compute actions; an overlapped pair counts once.
  Ns busy_ns = 0;
  /// The idle time during which a transfer or collective is under way for which the next compute action
  /// waits.
  Ns exposed_communication_ns = 0;
  /// The largest number of live microbatch activations; one lives from F's start to the end of B (or W).
  std::int64_t peak_live_activations = 0;
  /// The bytes of its SENDs, and its part of collectives in a ring.
  Bytes sent_bytes = 0;
  Bytes received_bytes = 0;

  friend bool operator==(const MeteredFigures&, const MeteredFigures&) = default;
};

/// The number of microbatches that a rank has begun in some way and not ended, over time, and its peak. The
/// compute actions of the rank begin and end microbatches in list order. At one instant the ends of
/// microbatches that began earlier count first; then the order of the list decides (the rule of
/// report/timeline/spans.hpp).
class OpenMicrobatches {
 public:
  void begin(const Action& action, Ns now_ns) {
    enter(now_ns);
    begun_now_.push_back(unit_of(action));
    most_now_ = std::max(most_now_, ++change_now_);
  }
  /// Ignores a microbatch that ends and has not begun, as in a part of a timeline.
  void end(const Action& action, Ns now_ns) {
    enter(now_ns);
    if (began_now(unit_of(action))) {
      --change_now_;
    } else if (open_before_ > 0) {
      --open_before_;
    }
  }
  std::int64_t peak() const { return std::max(peak_, open_before_ + most_now_); }

  /// Shows the members to a visitor of states. `latest_ns` is the end of the rank's latest action. An instant
  /// before it is over, and does not count any more.
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

  std::int64_t open_before_ = 0;  // begun before this instant, less those of them that ended at it
  std::int64_t peak_ = 0;         // up to the instant before
  Ns instant_ns_ = 0;             // the latest begin or end
  std::vector<Unit> begun_now_;
  std::int64_t change_now_ = 0;  // begun at this instant, less those of them that ended at it
  std::int64_t most_now_ = 0;    // the peak of change_now_
};

class RankMeter {
 public:
  /// Adds a compute action, or an overlapped group, which is one action. `covered_ns(from, to)` returns how
  /// much of that time is covered by the messages and collectives for which the action has waited. It is
  /// called where the rank was idle before.
  template <class Covered>
  void compute(std::span<const Action> group, Ns start_ns, Ns end_ns, const Covered& covered_ns) {
    // Transfers beside compute do not count, and neither does idle time in which no message is under way.
    if (start_ns > last_ns_) figures_.exposed_communication_ns += covered_ns(last_ns_, start_ns);
    time(start_ns, end_ns);
    // Actions of a group start together. Those that take no time start and end one after the other.
    const bool at_once = start_ns == end_ns;
    for (const Action& action : group) {
      begin(action, start_ns);
      if (at_once) end(action, end_ns);
    }
    for (std::size_t i = 0; i < group.size() && !at_once; ++i) end(group[i], end_ns);
  }
  /// Adds the time of a compute action or group, and nothing else.
  void time(Ns start_ns, Ns end_ns) {
    figures_.busy_ns += end_ns - start_ns;
    first_ns_ = has_computed_ ? std::min(first_ns_, start_ns) : start_ns;
    last_ns_ = std::max(last_ns_, end_ns);
    has_computed_ = true;
  }
  void send(Bytes bytes) { figures_.sent_bytes += bytes; }
  void receive(Bytes bytes) { figures_.received_bytes += bytes; }
  /// Adds a collective, in whose ring each member sends as much as it receives.
  void exchange(Bytes bytes) {
    send(bytes);
    receive(bytes);
  }

  /// Returns the figures so far.
  MeteredFigures figures() const {
    MeteredFigures figures = figures_;
    figures.peak_live_activations = live_.peak();
    return figures;
  }
  /// Returns the start of the first compute action, or 0 before it.
  Ns first_ns() const { return first_ns_; }
  /// Returns the end of the last compute action, or 0 before it.
  Ns last_ns() const { return last_ns_; }

  /// Shows the members to a visitor of states (sim/engines/repeat.hpp): a time, a number that grows by
  /// the same amount in each repetition, or a number over time, whose peak does not grow if it does not. The
  /// first start does not change, so it is left out.
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
    if (makes_weight_gradient(action.kind)) live_.end(action, now_ns);
  }

  MeteredFigures figures_;
  OpenMicrobatches live_;  // activations
  bool has_computed_ = false;
  Ns first_ns_ = 0;
  Ns last_ns_ = 0;  // from then on the rank is idle
};

// The document that `simulate` and `run` produce: one prediction or one measurement. metrics.hpp computes its
// figures from a timeline; result_json.hpp, result_figures.hpp and other exporters print it.

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

// Checks invariants that every simulated and every measured result must satisfy.

/// Returns the first broken invariant as "KEY: expected WHAT, got WHAT", or nothing if all invariants hold.
/// The keys are those of the JSON document. For example, no time, amount or rate is negative, no action ends
/// after the makespan, and bubbles are in [0, 1]. Measured times may exceed the makespan by a thousandth,
/// because clocks differ.
std::optional<std::string> broken_invariant(const Result& result);

}  // namespace penstock
