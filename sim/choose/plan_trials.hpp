#pragma once
// The plans that a search tries. PlanTrials simulates each plan once and caches the result. It also computes
// lower bounds, which take about a microsecond. plan_starts() lists the plans from which the search starts.
// Used only in sim/choose.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/plan_choice.hpp"
#include "sim/engines/engines.hpp"

namespace penstock {

/// The simulated figures of a plan.
struct Trial {
  double period_ns = 0;               ///< time between two minibatches; infinite if the plan cannot run
  bool is_exact = true;               ///< true: period_ns is an exact period; false: it is a mean over rounds
  int attempts = 1;                   ///< number of streams that were tried to find a period
  std::optional<Bytes> peak_bytes{};  ///< peak of the fullest device; absent until a caller needs it
};

class PlanTrials {
 public:
  /// Keeps references to both arguments, which must outlive this object.
  PlanTrials(const Scenario& scenario, const PlanningTask& task);

  /// Returns the reason why the cluster cannot be built, or an empty text if it can.
  const std::string& error() const { return error_; }

  /// Returns the number of a known order of layers in which `cuts` make the same stages as in the order
  /// `layers`. The known orders begin with the order of the model. If no known order fits, adds `layers`
  /// and returns its number.
  std::size_t order_for(std::vector<std::int32_t> layers, const std::vector<std::int32_t>& cuts);

  const Trial& of(const PlanChoice& choice) { return trial_of(choice, Asked::period); }
  /// Simulates like of(), and also finds the peak memory in the same simulation. Returns the trial, which
  /// then has both.
  const Trial& with_memory(const PlanChoice& choice) { return trial_of(choice, Asked::memory); }
  /// Returns false if the plan hangs with the scenario's channels, or if its stream is too long to run.
  bool runs(const PlanChoice& choice);
  /// Returns true if the plan runs within the memory limit. May simulate the plan to find its memory.
  bool fits(const PlanChoice& choice);
  /// Returns the same trial as of() if the short stream has a period. Otherwise tries longer streams, at
  /// most `attempts` streams in total, and uses the rate of the last one. With kStreamAttempts, the rate
  /// equals that of `simulate`.
  const Trial& with_longer_stream(const PlanChoice& choice, int attempts);
  /// Returns the simulated peak memory of the fullest device in bytes.
  Bytes peak_bytes(const PlanChoice& choice);
  /// Returns the trial of the choice, or null if the choice was not tried yet.
  const Trial* known(const PlanChoice& choice) const;
  /// Returns all tried choices, in the order of their operator<.
  std::vector<PlanChoice> tried_choices() const;
  /// Returns a lower bound of the simulated period.
  double bound_ns(const PlanChoice& choice) { return bounds_[choice.order].period_ns(choice); }
  /// Returns false if a lower bound shows that the plan exceeds the memory limit.
  bool may_fit(const PlanChoice& choice) const;

  PipelinePlan plan_of(const PlanChoice& choice) const;
  tl::expected<PlannedScenario, std::string> scenario_of(const PlanChoice& choice) const;

  std::int32_t devices() const { return devices_; }
  std::int32_t layers() const { return static_cast<std::int32_t>(task_.layers.layers.size()); }
  std::int64_t simulations() const { return std::ssize(trials_); }
  /// Returns the number of actions that were generated or run so far, over all plans.
  std::int64_t actions() const { return actions_; }

 private:
  std::size_t add_order(std::vector<std::int32_t> layers);
  /// The flattened program of a choice, with its last run. Choices that differ only in their cuts have the
  /// same program and different costs.
  struct Layout {
    Experiment experiment;
    EngineRun run;
    bool shares_links = false;
  };
  struct LayoutKey {
    std::vector<std::int32_t> replicas;
    std::vector<std::int32_t> devices;
    std::vector<std::int32_t> buckets;  ///< number of buckets of each stage; empty: one for each
    std::int32_t deeper = 0;

    friend auto operator<=>(const LayoutKey&, const LayoutKey&) = default;
  };

  enum class Asked : std::uint8_t { period, memory };

  Trial& trial_of(const PlanChoice& choice, Asked asked);
  Trial tried(const PlanChoice& choice, Asked asked);
  static Bytes highest_peak(const Layout& layout);
  LayoutKey key_of(const PlanChoice& choice) const;
  /// Returns the layout of the choice, or null if the choice cannot run. The layout has the costs of its last
  /// use.
  Layout* layout_of(const PlanChoice& choice, const Scenario& scenario);

  const Scenario& scenario_;
  const PlanningTask& task_;
  std::int32_t devices_ = 1;
  Cluster cluster_;
  std::string error_;
  std::vector<std::vector<std::int32_t>> orders_;
  std::vector<PlanBound> bounds_;  // one for each order of layers
  std::map<PlanChoice, Trial> trials_;
  std::map<LayoutKey, std::optional<Layout>> layouts_;  // an empty value means that the program cannot run
  std::size_t stored_actions_ = 0;                      // number of actions of all stored layouts
  std::int64_t actions_ = 0;
  // The choice that ran last. Its layout still has its costs and times. Absent after a trial that ended
  // early.
  std::optional<PlanChoice> last_;
};

/// The family of a start, which says how the start was made. The search improves the best start of each
/// family, even if all other families are faster.
enum class PlanFamily : std::uint8_t {
  data_parallel,
  straight,
  two_stages,
  even,
  sum,
  maximum,
  maximum_printed,
};

struct PlanStart {
  PlanFamily family = PlanFamily::data_parallel;
  std::string name;
  PlanChoice choice;
  /// The period that the recurrence predicts. It is absent if the start does not come from a recurrence.
  std::optional<double> promised_ns{};
};

/// Returns all starts, each choice once, in this order:
///
///     data parallelism on all devices; the straight pipeline; every two-stage split on all devices;
///     even splits into 2 to 16 stages with equal replicas;
///     the plans of each recurrence for each number of devices, with the cluster's levels and with one level
///
/// Adds the recurrences' orders of layers to `trials`.
std::vector<PlanStart> plan_starts(const PlanningTask& task, PlanTrials& trials);

/// Returns variants of a start. Each differs by one change: gradient buckets, one more warm-up forward
/// pass, or replicas that are spread over servers.
std::vector<PlanStart> variants_of(const PlanStart& start, const PlanningTask& task);

}  // namespace penstock
