#pragma once
// A plan in the form that plan_search.cpp changes: the cuts between layers, the replicas of each stage,
// and the devices. Used only in sim/choose.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/engines.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// The placement of a plan's replicas on the devices. A component of the cluster, such as a server, has
/// devices with consecutive numbers.
enum class PlanPlacement : std::uint8_t {
  in_order,  // stage after stage, on consecutive devices
  spread,    // each stage over as many servers as possible
  stated,    // on the devices in PlanChoice::devices
};

struct PlanChoice {
  std::size_t order = 0;               ///< number of the order of the layers in PlanTrials::orders_
  std::vector<std::int32_t> cuts;      ///< number of layers before each cut, in ascending order
  std::vector<std::int32_t> replicas;  ///< number of replicas of each stage
  PlanPlacement placement = PlanPlacement::in_order;
  std::vector<std::int32_t> devices{};  ///< devices of a `stated` placement, in the order of the ranks
  std::int32_t deeper = 0;              ///< number of additional warm-up forwards of each stage
  /// Number of gradient buckets of each stage; 0 means the number that the scenario states.
  std::int32_t buckets = 0;

  std::size_t stages() const { return replicas.size(); }
  std::int32_t device_count() const;

  friend auto operator<=>(const PlanChoice&, const PlanChoice&) = default;
};

/// Returns the number of warm-up forward passes of a stage. It is the number in 1F1B-RR (generators.hpp)
/// plus the choice's additional ones. `later` is the number of replicas of all later stages.
std::int32_t warmup_of(const PlanChoice& choice, std::size_t stage, std::int32_t later);

/// Returns true if some stage has replicas, and so reduces gradients. Otherwise buckets have no effect.
bool reduces(const PlanChoice& choice);

/// Returns the number of replicas of each stage as text, for example "12-3-1".
std::string configuration_of(const PlanChoice& choice);

/// The space of all plans that a search may consider: the numbers of layers and devices, and the form of
/// the plan.
struct PlanSpace {
  std::int32_t layers = 1;
  std::int32_t devices = 1;
  PlanForm form = PlanForm::replicated;
};

/// Returns the number of choices whose placement is `in_order`, or `most` if there are more.
std::int64_t count_choices(const PlanSpace& space, std::int64_t most);
/// Returns all choices whose placement is `in_order`. They combine every set of cuts with every list of
/// replicas that fits on the devices.
std::vector<PlanChoice> all_choices(const PlanSpace& space);

/// Returns the choices that differ from `choice` by one move. There are four kinds of moves:
///
///     put a cut anywhere between its neighbours;
///     move a replica to another stage, out of the plan or into the plan;
///     split a stage with any share of its replicas;
///     merge two stages, and give up to two replicas to any stage.
///
/// If `choice` has stated devices, its neighbours have the devices in order, because the stated ones belong
/// to the old stages.
std::vector<PlanChoice> neighbours(const PlanChoice& choice, const PlanSpace& space);

/// Returns the device of each rank of the choice, on a cluster with the bandwidth levels `levels`.
std::vector<std::int32_t> devices_of(const PlanChoice& choice, std::span<const BandwidthLevel> levels);

/// The way in which all plans of a search reduce gradients.
struct PlanReductions {
  bool in_buckets = false;        ///< true if reductions may run during the backward pass
  std::int32_t microbatches = 0;  ///< M if updates have a flush; otherwise 0
};

class PlanBound {
 public:
  /// Creates an object that computes bounds for choices with this `order` of layers. The devices of a
  /// component of `cluster` must have consecutive numbers. `state` is the number of bytes of optimizer state
  /// and gradients for each byte of weights.
  PlanBound(const LayerGraph& graph, std::span<const std::int32_t> order,
            std::span<const BandwidthLevel> levels, const Cluster& cluster, PlanReductions reductions,
            std::int64_t state);

  /// Returns a lower bound of the simulated time between two minibatches, in nanoseconds. It is the largest
  /// of three times. The first is the computation and reduction of the busiest device, and the second is
  /// the work of the busiest link. The third is the longest round trip of a minibatch, divided by the
  /// number of minibatches that may be in flight.
  double period_ns(const PlanChoice& choice);

  /// Returns a lower bound of the simulated peak, apart from rounding. It is the number of bytes that the
  /// fullest device holds when its first backward pass begins. These are the weights with their state, and
  /// the activations of the warm-up and of one more forward pass.
  double peak_bytes(const PlanChoice& choice) const;

 private:
  struct Sums {
    double time_ns = 0;  ///< sum over the layers before the cut, like `weights` and `kept`
    double weights = 0;
    double kept = 0;
    double alive = 0;  ///< bytes of all outputs that cross the cut
  };
  /// The costs of a ring all-reduce over devices, for each byte of weights: its time, and the bytes that
  /// each link carries.
  struct Ring {
    double ns_per_byte = 0;
    double latency_ns = 0;
    std::vector<std::pair<std::int32_t, double>> loads;
  };
  struct RoutePrice {
    std::vector<LinkNumber> links;
    double ns_per_byte = 0;
    double latency_ns = 0;
    bool is_known = false;
  };
  using Devices = std::span<const std::int32_t>;

  const Sums& sums_before(const PlanChoice& choice, std::size_t stage) const;
  const RoutePrice& route_price(std::int32_t from, std::int32_t to);
  const Ring& ring(Devices devices);
  double cross(Devices from, Devices to, double bytes);
  void load_ring(const Ring& ring, double bytes, double minibatches);
  void load(LinkNumber link, double bytes);

  std::vector<BandwidthLevel> levels_;
  const Cluster& cluster_;
  double overhead_ns_ = 0;
  bool buckets_ = false;
  std::int32_t microbatches_ = 0;
  double state_ = 0;
  std::vector<Sums> sums_;  // sums before each possible cut
  // The routes by source device, then by destination device. A route is computed at its first use, and the
  // bounds of many choices use it again.
  std::vector<std::vector<RoutePrice>> routes_;
  std::map<std::vector<std::int32_t>, Ring> rings_;
  // The time of each link for the current choice. It contains only links that were used so far.
  std::vector<double> link_ns_;
};

// The plans that a search tries. PlanTrials simulates each plan once and caches the result. It also computes
// lower bounds, which take about a microsecond. plan_starts() lists the plans from which the search starts.
// Used only in sim/choose.

/// The simulated figures of a plan.
struct Trial {
  double period_ns = 0;  ///< time between two minibatches; infinite if the plan cannot run
  bool is_exact = true;  ///< true if period_ns is an exact period, false if it is a mean over rounds
  int attempts = 1;      ///< number of streams that were tried to find a period
  std::optional<Bytes> peak_bytes{};  ///< peak of the fullest device; absent until a caller needs it
};

class PlanTrials {
 public:
  /// Keeps references to both arguments, which must outlive this object.
  PlanTrials(const Scenario& scenario, const PlanningTask& task);

  /// Returns the reason why the cluster cannot be built, or an empty text if it can.
  const std::string& error() const { return error_; }

  /// Returns the number of an order of layers. If `cuts` make the same stages in `layers` as in a known
  /// order, returns the number of the known order. Otherwise adds `layers` to the known orders and returns
  /// its number. The first known order is that of the model.
  std::size_t order_for(std::vector<std::int32_t> layers, const std::vector<std::int32_t>& cuts);

  const Trial& of(const PlanChoice& choice) { return trial_of(choice, Asked::period); }
  /// Simulates like of(), and also finds the peak memory in the same simulation. Returns the trial, which
  /// then has both.
  const Trial& with_memory(const PlanChoice& choice) { return trial_of(choice, Asked::memory); }
  /// Returns false if the plan hangs with the scenario's channels, or if its stream is too long to run.
  bool runs(const PlanChoice& choice);
  /// Returns true if the plan runs within the memory limit. May simulate the plan to find its memory.
  bool fits(const PlanChoice& choice);
  /// Returns the same trial as of() if the stream that of() simulates has a period. Otherwise tries longer
  /// streams, at most `attempts` streams in total, and uses the rate of the last one. With kStreamAttempts,
  /// the rate equals that of `simulate`.
  const Trial& with_longer_stream(const PlanChoice& choice, int attempts);
  /// Returns the simulated peak memory of the fullest device in bytes.
  Bytes peak_bytes(const PlanChoice& choice);
  /// Returns the trial of the choice, or null if the choice was not tried yet.
  const Trial* known(const PlanChoice& choice) const;
  /// Returns all tried choices, in the order of their operator<.
  std::vector<PlanChoice> tried_choices() const;
  /// Returns a lower bound of the simulated period of the choice, in nanoseconds.
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
  /// The flattened program of a choice, with its last run. Choices that differ only in their cuts share the
  /// program, but have different costs.
  struct Layout {
    Experiment experiment;
    EngineRun run;
    bool shares_links = false;
  };
  struct LayoutKey {
    std::vector<std::int32_t> replicas;
    std::vector<std::int32_t> devices;
    std::vector<std::int32_t> buckets;  ///< number of buckets of each stage; if empty, each stage has one
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
  std::vector<PlanBound> bounds_;  // bounds for each order of layers
  std::map<PlanChoice, Trial> trials_;
  std::map<LayoutKey, std::optional<Layout>>
      layouts_;                     // layout of each key; an empty value means that the program cannot run
  std::size_t stored_actions_ = 0;  // number of actions of all stored layouts
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
