#pragma once
// Plans tried by the simulator, each once, and a bound of what it can say that costs next to nothing. Private
// to sim/planning.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/engines.hpp"
#include "sim/planning/plan_bound.hpp"
#include "sim/planning/plan_choice.hpp"

namespace penstock {

/// What the simulator says of a plan.
struct Trial {
  double period_ns = 0;               ///< between two minibatches; infinite where the plan cannot run
  bool is_exact = true;               ///< otherwise the mean over rounds of a stream
  int attempts = 1;                   ///< of endless_stream() to find a period
  std::optional<Bytes> peak_bytes{};  ///< of the fullest device, as far as somebody asked
};

class PlanTrials {
 public:
  /// Both must outlive it.
  PlanTrials(const Scenario& scenario, const PlanningTask& task);

  /// Why the cluster cannot be built, whoever plans; empty: it can.
  const std::string& error() const { return error_; }

  /// The number of an order in which the layers can run and that has the same stages between `cuts` as
  /// `layers`: the model's own where that does, `layers` itself where no known one does.
  std::size_t order_for(std::vector<std::int32_t> layers, const std::vector<std::int32_t>& cuts);

  const Trial& of(const PlanChoice& choice) { return trial_of(choice, Asked::period); }
  /// The same, and its memory by the same simulation.
  const Trial& with_memory(const PlanChoice& choice) { return trial_of(choice, Asked::memory); }
  /// False where it hangs under the scenario's channels, or its stream is beyond the engines.
  bool runs(const PlanChoice& choice);
  /// Whether it runs within the memory limit, which only a simulation of its memory can say.
  bool fits(const PlanChoice& choice);
  /// With the rate of a longer stream where a short one shows no period: of as many attempts. With all of
  /// them it is what `simulate` prints.
  const Trial& settled(const PlanChoice& choice, int attempts);
  /// Simulated, of the fullest device.
  Bytes peak_bytes(const PlanChoice& choice);
  /// Nobody has to try what is known.
  const Trial* known(const PlanChoice& choice) const;
  /// All that were tried, in their own order.
  std::vector<PlanChoice> tried_choices() const;
  /// No simulation of the choice says less.
  double bound_ns(const PlanChoice& choice) { return bounds_[choice.order].period_ns(choice); }
  /// False where no simulation can keep within the memory limit.
  bool may_fit(const PlanChoice& choice) const;

  PipelinePlan plan_of(const PlanChoice& choice) const;
  tl::expected<PlannedScenario, std::string> scenario_of(const PlanChoice& choice) const;

  std::int32_t devices() const { return devices_; }
  std::int32_t layers() const { return static_cast<std::int32_t>(task_.layers.layers.size()); }
  std::int64_t simulations() const { return std::ssize(trials_); }
  /// Actions of all lists that were made and of all runs.
  std::int64_t actions() const { return actions_; }

 private:
  std::size_t add_order(std::vector<std::int32_t> layers);
  /// A choice but for what its cuts cost: the program of its replicas, laid out.
  struct Layout {
    Experiment experiment;
    EngineRun run;
    bool shares_links = false;
  };
  struct LayoutKey {
    std::vector<std::int32_t> replicas;
    std::vector<std::int32_t> devices;
    std::vector<std::int32_t> buckets;  ///< by stage; none: whole stages
    std::int32_t deeper = 0;

    friend auto operator<=>(const LayoutKey&, const LayoutKey&) = default;
  };

  enum class Asked : std::uint8_t { period, memory };

  Trial& trial_of(const PlanChoice& choice, Asked asked);
  Trial tried(const PlanChoice& choice, Asked asked);
  static Bytes highest_peak(const Layout& layout);
  LayoutKey key_of(const PlanChoice& choice) const;
  /// With whatever costs it had last; null where the choice cannot run.
  Layout* layout_of(const PlanChoice& choice, const Scenario& scenario);

  const Scenario& scenario_;
  const PlanningTask& task_;
  std::int32_t devices_ = 1;
  Cluster cluster_;
  std::string error_;
  std::vector<std::vector<std::int32_t>> orders_;
  std::vector<PlanBound> bounds_;  // by order
  std::map<PlanChoice, Trial> trials_;
  std::map<LayoutKey, std::optional<Layout>> layouts_;  // nothing: such a plan cannot run
  std::size_t kept_actions_ = 0;                        // of the layouts, all together
  std::int64_t actions_ = 0;
  std::optional<PlanChoice> last_;  // whose costs and times its layout has; nothing: those of no run
};

}  // namespace penstock
