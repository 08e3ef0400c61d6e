#pragma once
// Defines the explanation of a run: why each rank is idle, how the idle time divides into causes, and what
// would shorten the run. sim/why computes it; explanation_text.cpp writes it as text, and
// explanation_json.cpp as JSON and CSV.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/metrics.hpp"
#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// A cause that makes a run longer than its ideal run. In the ideal run, all stages take equally long.
/// Messages, collectives, optimizer steps and launches take no time.
enum class IdleCause : std::uint8_t {
  imbalance,    // some stages take longer than others
  slow_rank,    // a copy of a stage takes longer than the other copies
  variation,    // an action takes longer than the other microbatches of its stage on its rank
  bandwidth,    // a message needs time for its bytes
  shared_link,  // other messages use the message's links at the same time
  latency,      // a message needs time after its last byte has been sent
  queue,        // a message waits until an earlier message of its channel has been sent
  collective,   // weights are gathered or gradients are reduced
  step,         // the optimizer updates the weights
  launch,       // a host launches an action, or a measured action started later than it could
  offload,      // activations are copied to the memory of the host and back
};
template <>
inline constexpr auto kEnumWords<IdleCause> =
    std::to_array<EnumWord<IdleCause>>({{IdleCause::imbalance, "imbalance"},
                                        {IdleCause::slow_rank, "slow rank"},
                                        {IdleCause::variation, "variation"},
                                        {IdleCause::bandwidth, "bandwidth"},
                                        {IdleCause::shared_link, "shared link"},
                                        {IdleCause::latency, "latency"},
                                        {IdleCause::queue, "queue"},
                                        {IdleCause::collective, "collective"},
                                        {IdleCause::step, "step"},
                                        {IdleCause::launch, "launch"},
                                        {IdleCause::offload, "offload"}});
inline constexpr std::size_t kIdleCauses = kEnumWords<IdleCause>.size();
/// The time of each cause. A time is negative if the cause shortens a wait.
using CauseTimes = std::array<Ns, kIdleCauses>;

/// The phase of a rank's run in which it is idle.
enum class IdlePhase : std::uint8_t {
  fill,   // idle time before the rank's first backward pass
  order,  // idle time between `fill` and `drain`
  drain,  // idle time after the rank's last forward pass
};
template <>
inline constexpr auto kEnumWords<IdlePhase> = std::to_array<EnumWord<IdlePhase>>(
    {{IdlePhase::fill, "fill"}, {IdlePhase::order, "order"}, {IdlePhase::drain, "drain"}});
inline constexpr std::size_t kIdlePhases = kEnumWords<IdlePhase>.size();

/// The kind of event for which a rank waited during one link of a chain (ChainLink).
enum class ChainKind : std::uint8_t {
  compute,     // a rank computed
  transfer,    // a message occupied its channel
  queue,       // an earlier message occupied the channel
  latency,     // a message had left its channel and not arrived
  collective,  // a collective ran
  launch,      // a host launched an action, or an action could start and had not started
  offload,     // an activation was copied to the memory of the host or back
};
template <>
inline constexpr auto kEnumWords<ChainKind> =
    std::to_array<EnumWord<ChainKind>>({{ChainKind::compute, "compute"},
                                        {ChainKind::transfer, "transfer"},
                                        {ChainKind::queue, "queue"},
                                        {ChainKind::latency, "latency"},
                                        {ChainKind::collective, "collective"},
                                        {ChainKind::launch, "launch"},
                                        {ChainKind::offload, "offload"}});

/// One link of a chain of causes: an event in the run. Everything later in the chain waited for the end of
/// this event.
struct ChainLink {
  Ns from_ns = 0;
  Ns to_ns = 0;
  ChainKind what = ChainKind::compute;
  std::int32_t rank = 0;  ///< the rank that computes, launches or sends
  std::string name;       ///< the action, such as "1B0" or "1SEND_B0"

  friend bool operator==(const ChainLink&, const ChainLink&) = default;
};

/// An action that was ready to run while its rank was idle.
struct ReadyAction {
  std::string action;
  Ns since_ns = 0;  ///< the time at which its last input arrived, in ns

  friend bool operator==(const ReadyAction&, const ReadyAction&) = default;
};

/// The idle time of a rank before one of its actions, or after its last action. `ideal_ns` and the times of
/// all causes add up to its length.
struct IdleInterval {
  std::int32_t rank = 0;
  std::string before;  ///< the action that ends the interval; empty if the run ends
  IdlePhase phase = IdlePhase::order;
  Ns start_ns = 0;
  Ns end_ns = 0;
  Ns ideal_ns = 0;  ///< the rank's idle time at this place in the ideal run
  CauseTimes causes{};
  /// The events for which the action waited, one after the other, from the start of the interval to its
  /// end.
  std::vector<ChainLink> chain{};
  /// The first of the later actions in the rank's list that had all its inputs at the start of the
  /// interval. It is absent if there is none.
  std::optional<ReadyAction> ready{};

  friend bool operator==(const IdleInterval&, const IdleInterval&) = default;
};

/// A part of a cause: a stage, a rank or a pair of ranks, with the time that this part adds to the
/// makespan.
struct CauseItem {
  std::string item;  ///< the stage, rank or pair of ranks, such as "stage 2", "rank 1" or "3>2"
  Ns makespan_ns = 0;

  friend bool operator==(const CauseItem&, const CauseItem&) = default;
};

/// One line of the bill, which divides the idle time by causes. All lines together add up to the idle time
/// of all ranks.
struct BillLine {
  std::string cause;  ///< "fill", "drain", "order", a rule of the transfers, or a word of IdleCause
  Ns idle_ns = 0;     ///< the sum over all ranks
  /// The makespan of the run without this cause. It is absent for fill, drain, order and the rules of
  /// transfers, which also exist in the ideal run.
  std::optional<Ns> without_ns{};
  /// The makespan if only this cause is added to the ideal run. It is absent for fill, drain, order and the
  /// rules of transfers, which also exist in the ideal run.
  std::optional<Ns> alone_ns{};
  /// The items of the cause, the largest first. They add up to the time that the cause adds to the
  /// makespan.
  std::vector<CauseItem> items{};

  friend bool operator==(const BillLine&, const BillLine&) = default;
};

/// The idle time of one rank, divided by the phases of the ideal run and by causes.
struct RankIdle {
  std::int32_t rank = 0;
  Ns idle_ns = 0;
  std::array<Ns, kIdlePhases> ideal{};
  CauseTimes causes{};

  friend bool operator==(const RankIdle&, const RankIdle&) = default;
};

/// A lever: a change of the experiment that may shorten the run, with the figures of the changed run.
struct Lever {
  std::string lever;           ///< for example "stage 2 10 % faster"
  Ns makespan_ns = 0;          ///< the makespan with the change
  double gain = 0;             ///< the fraction of the time of a sample that the change saves
  bool is_per_sample = false;  ///< true if the change alters the number of samples, so that makespans differ
  std::optional<std::int64_t>
      peak{};        ///< the peak memory of the rank with the highest peak, if the change alters the order
  bool fits = true;  ///< false if a rank needs more memory than its device has

  friend bool operator==(const Lever&, const Lever&) = default;
};

/// The makespans of two orders: the best one that a search finds with the memory of the present order, and
/// the best one with all of the device's memory. Their difference is the cost of the memory limit.
struct MemoryLimitCost {
  Ns within_ns = 0;  ///< makespan if ranks hold at most as many activations as now
  /// Makespan if ranks hold as many activations as fit device has room for.
  Ns with_all_ns = 0;
  double seconds = 0;  ///< the time of both searches together

  Ns cost_ns() const { return within_ns - with_all_ns; }

  friend bool operator==(const MemoryLimitCost&, const MemoryLimitCost&) = default;
};

/// The explanation why the ranks of one run are idle.
struct Explanation {
  std::string name;  ///< scenario, program or result
  std::string schedule;
  std::int32_t ranks = 0;
  Ns makespan_ns = 0;
  Ns busy_ns = 0;   ///< the sum over all ranks
  Ns ideal_ns = 0;  ///< the makespan of the ideal run
  Ns bound_ns = 0;  ///< the least makespan of the same actions on the same ranks in any order, at ideal costs
  std::vector<BillLine> bill{};
  std::vector<RankIdle> rank_idle{};
  /// For each stage, the time by which its actions take longer than in the ideal run. It is the sum over all
  /// actions of the stage. It is negative if they take less time.
  std::vector<Ns> stage_imbalance{};
  /// The idle intervals of each rank in the order of time. An interval with length 0 is also listed if
  /// causes cancel there. The intervals of a rank therefore add up to its element of `rank_idle`.
  std::vector<IdleInterval> intervals{};
  std::vector<ChainLink> critical_path{};
  std::vector<Lever> levers{};      ///< the changes that may shorten the run, the largest gain first
  std::int32_t smaller_levers = 0;  ///< the number of levers that gain less than the smallest one listed
  /// The cost of the memory limit; absent if no search was made.
  std::optional<MemoryLimitCost> memory_limit{};
  MemoryUnit memory_unit = MemoryUnit::bytes;
  /// The peak memory of the rank with the highest peak; absent if it is not known.
  std::optional<std::int64_t> peak{};
  std::vector<std::string> notes{};

  Ns idle_ns() const { return makespan_ns * ranks - busy_ns; }
};

/// Returns the bill of the explanation with the mean of each line over the ranks.
MeanBill mean_bill(const Explanation& explanation);

/// A line whose time differs between two bills.
struct BillChange {
  std::string cause;
  Ns before_ns = 0;
  Ns after_ns = 0;

  friend bool operator==(const BillChange&, const BillChange&) = default;
};
/// Returns the lines whose times differ, the largest change first. The changes add up to the change of the
/// makespan.
std::vector<BillChange> changes_of(const MeanBill& before, const MeanBill& after);
/// Returns the changes as text: one line for the makespan, and one for each changed line of the bill.
std::vector<std::string> change_lines(const MeanBill& before, const MeanBill& after);

/// The bill of a configuration, and the configuration's name.
struct NamedBill {
  std::string name;
  MeanBill bill;
};
/// Returns a table with one row for each cause of time, and with the mean time of a rank for the cause in
/// each bill. The last row has the makespans. With two bills, a column has their difference, second minus
/// first.
Table bills_table(const std::vector<NamedBill>& bills);

/// Rounds the parts to whole numbers that add up to `sum`. First adds the difference between `sum` and the
/// sum of the parts to the largest part. Then rounds up the parts with the largest fractions, and all other
/// parts down.
std::vector<Ns> rounded_parts(std::vector<double> parts, Ns sum);

/// Returns the sum of the times of all causes.
Ns sum_of(const CauseTimes& causes);

/// A selection of idle intervals. An absent value does not restrict the selection.
struct ShownIntervals {
  std::optional<std::int32_t> rank{};
  std::string action;  ///< shows the interval before this action; empty: no action is selected
  std::optional<Ns> at_ns{};
  std::optional<Ns> from_ns{};
  std::optional<Ns> to_ns{};

  bool shows_all() const { return !rank && action.empty() && !at_ns && !from_ns && !to_ns; }
  bool shows(const IdleInterval& interval) const;
};

/// Returns the explanation as text. Without a selection, the text has the bill, the levers and a table of
/// ranks. With a selection, it describes each selected interval. `width` is the longest line of a table in
/// characters; 0 means no limit.
std::string explanation_to_text(const Explanation& explanation, const ShownIntervals& shown,
                                std::size_t width = 0);
/// Returns the sentence in front of the bill. It states the makespan, and how long a rank computes and is
/// idle.
std::string idle_sentence(const Explanation& explanation);
/// Returns the bill as a table. Its last row is the sum.
Table bill_table(const Explanation& explanation);
/// Returns the levers (changes that may shorten the run) as a table. The table has no rows if the
/// explanation has no levers.
Table lever_table(const Explanation& explanation);
/// Returns one line for each of the longest idle intervals, the longest first. There are at most `most`
/// lines.
std::vector<std::string> longest_wait_lines(const Explanation& explanation, std::size_t most);
/// Writes the explanation as one JSON object with schema_version 1 and kind "explanation". All times are
/// whole nanoseconds.
void write_explanation_json(const Explanation& explanation, const TextSink& sink);
/// Writes the explanation as CSV with one row for each idle interval.
void write_explanation_csv(const Explanation& explanation, const TextSink& sink);

}  // namespace penstock
