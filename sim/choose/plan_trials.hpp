#pragma once
// The plans that a search tries: simulates them, each once, gives bounds of their results that take about
// a microsecond, and lists the first ones. Used only in sim/choose.

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
  bool is_exact = true;               ///< the stream repeats exactly; false: period_ns is a mean over rounds
  int attempts = 1;                   ///< attempts of endless_stream() that were made to find a period
  std::optional<Bytes> peak_bytes{};  ///< peak of the fullest device; absent until a caller needs it
};

class PlanTrials {
 public:
  /// Keeps references to both arguments, which must outlive this object.
  PlanTrials(const Scenario& scenario, const PlanningTask& task);

  /// Returns why the cluster cannot be built for any plan; empty if it can.
  const std::string& error() const { return error_; }

  /// Returns the number of an order of layers that can run and has the same stages between `cuts` as
  /// `layers`. It prefers the model's own order, then known orders. Otherwise it adds `layers` as a new
  /// order.
  std::size_t order_for(std::vector<std::int32_t> layers, const std::vector<std::int32_t>& cuts);

  const Trial& of(const PlanChoice& choice) { return trial_of(choice, Asked::period); }
  /// Like of(), and also finds the peak memory in the same simulation.
  const Trial& with_memory(const PlanChoice& choice) { return trial_of(choice, Asked::memory); }
  /// Returns false if the plan hangs under the scenario's channels, or if its stream is too long for the
  /// engines.
  bool runs(const PlanChoice& choice);
  /// Returns whether the plan runs within the memory limit. This simulates its memory.
  bool fits(const PlanChoice& choice);
  /// Like of(), but if a short stream shows no period, tries up to `attempts` longer ones and uses the rate
  /// of the last. With kStreamAttempts the rate equals that of `simulate`.
  const Trial& with_longer_stream(const PlanChoice& choice, int attempts);
  /// Returns the simulated peak of the fullest device.
  Bytes peak_bytes(const PlanChoice& choice);
  /// Returns the trial if the choice was already tried, otherwise null.
  const Trial* known(const PlanChoice& choice) const;
  /// Returns all choices that were tried, in the order of their operator<.
  std::vector<PlanChoice> tried_choices() const;
  /// Returns a lower bound of the simulated period.
  double bound_ns(const PlanChoice& choice) { return bounds_[choice.order].period_ns(choice); }
  /// Returns false if no simulation can stay within the memory limit.
  bool may_fit(const PlanChoice& choice) const;

  PipelinePlan plan_of(const PlanChoice& choice) const;
  tl::expected<PlannedScenario, std::string> scenario_of(const PlanChoice& choice) const;

  std::int32_t devices() const { return devices_; }
  std::int32_t layers() const { return static_cast<std::int32_t>(task_.layers.layers.size()); }
  std::int64_t simulations() const { return std::ssize(trials_); }
  /// Returns the actions of all lists that were generated and of all runs.
  std::int64_t actions() const { return actions_; }

 private:
  std::size_t add_order(std::vector<std::int32_t> layers);
  /// A choice without the costs of its cuts: the program of its replicas, flattened.
  struct Layout {
    Experiment experiment;
    EngineRun run;
    bool shares_links = false;
  };
  struct LayoutKey {
    std::vector<std::int32_t> replicas;
    std::vector<std::int32_t> devices;
    std::vector<std::int32_t> buckets;  ///< number for each stage; empty: gradients are reduced in whole
                                        ///< stages
    std::int32_t deeper = 0;

    friend auto operator<=>(const LayoutKey&, const LayoutKey&) = default;
  };

  enum class Asked : std::uint8_t { period, memory };

  Trial& trial_of(const PlanChoice& choice, Asked asked);
  Trial tried(const PlanChoice& choice, Asked asked);
  static Bytes highest_peak(const Layout& layout);
  LayoutKey key_of(const PlanChoice& choice) const;
  /// Returns the layout with the costs of its last use, or null if the choice cannot run.
  Layout* layout_of(const PlanChoice& choice, const Scenario& scenario);

  const Scenario& scenario_;
  const PlanningTask& task_;
  std::int32_t devices_ = 1;
  Cluster cluster_;
  std::string error_;
  std::vector<std::vector<std::int32_t>> orders_;
  std::vector<PlanBound> bounds_;  // one for each order of layers
  std::map<PlanChoice, Trial> trials_;
  std::map<LayoutKey, std::optional<Layout>> layouts_;  // an empty value means that such a plan cannot run
  std::size_t stored_actions_ = 0;                      // actions of all stored layouts
  std::int64_t actions_ = 0;
  // The choice to which the costs and times of its layout belong. Absent after a trial that ended early.
  std::optional<PlanChoice> last_;
};

// The plans from which the search begins. Used only in sim/choose.

/// The kind of a start. The best start of each family is improved, even if it is slower than all others.
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
  std::optional<double> promised_ns{};  ///< period that a recurrence predicts; absent for other starts
};

/// Returns all starts, each choice once, in this order:
///
///     data parallelism on all devices; the straight pipeline; every two-stage split on all devices;
///     even splits into 2 to 16 stages with equal replicas;
///     the plans of each recurrence for each number of devices, with the cluster's levels and with one level
///
/// Adds to `trials` the orders of layers that only a recurrence has.
std::vector<PlanStart> plan_starts(const PlanningTask& task, PlanTrials& trials);

/// Returns the start with its gradients in buckets, one forward deeper, and on other devices: one change
/// each.
std::vector<PlanStart> variants_of(const PlanStart& start, const PlanningTask& task);

}  // namespace penstock
