// Converts measured durations to the times of a scenario's stages. For each kind of action, d is its duration
// plus the launch time, at the file's own microbatch size. The overhead o is the part of d that does not grow
// with the number of samples. The model is:
//
//     overhead = o        figure = d - o        duration of m times as many samples = o + m (d - o)
//
// At the file's own microbatch size, this is exact for every o. For the other sizes, o is chosen by least
// squares of the relative errors of all kinds of the stage. y is the measured time:
//
//     residual = (o (1 - m) + m d - y) / y,   o = sum (1 - m)(y - m d) / y^2  /  sum (1 - m)^2 / y^2
//
// In a model, B is I + W. If the program has only B, the time of B is exact, and it is divided in the ratio
// of the measured I and W. Otherwise the times of I and W are exact. Tests:
// tests/backend/calibration_test.cpp.

#include "backend/calibration/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "backend/calibration/calibration_samples.hpp"
#include "report/print/units.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

constexpr double kWorthANote = 0.01;  // the smallest relative error for which the user gets a note

const KindCalibration* find_kind(const std::vector<KindCalibration>& stage, ActionKind kind) {
  const auto found = std::ranges::find(stage, kind, &KindCalibration::kind);
  return found == stage.end() ? nullptr : &*found;
}

// --- one stage ------------------------------------------------------------------------------------

/// The times of one stage, for each kind of action. The times do not include the overhead.
struct StageTimes {
  Ns overhead = 0;
  Ns forward = 0;
  Ns backward = 0;
  Ns backward_input = 0;
  Ns backward_weight = 0;
  Ns recompute = 0;
  Ns step = 0;
};

/// The formulas at the top of this file, applied to one stage under one load.
class StageFormula {
 public:
  StageFormula(const Calibration& calibration, const std::vector<KindCalibration>& kinds)
      : kinds_(kinds),
        load_(calibration.options.load),
        own_(calibration.own_micro_batch_size),
        launch_(static_cast<double>(
            (load_ == CalibrationLoad::alone ? calibration.alone_launch : calibration.busy_launch).mean_ns)) {
    double above = 0;
    double below = 0;
    double least = INFINITY;
    for (const KindCalibration& kind : kinds_) {
      if (kind.kind == ActionKind::step) continue;
      const double d = duration(kind);
      least = std::min(least, d);
      for (const KindAtSize& size : kind.sizes) {
        const double y = measured(size);
        const double m = ratio(size);
        // A kind that was not measured at this microbatch size has the time 0 and is skipped.
        if (y <= 0) continue;
        above += (1 - m) * (y - m * d) / (y * y);
        below += (1 - m) * (1 - m) / (y * y);
      }
    }
    // The overhead is a part of each duration, so it is between 0 and the shortest duration.
    overhead_ = below > 0 ? std::clamp(above / below, 0.0, least) : 0;
  }

  double overhead() const { return overhead_; }
  bool has(ActionKind kind) const { return find_kind(kinds_, kind) != nullptr; }
  /// Returns the time d - o of an action kind without its overhead, or 0 if the kind was not measured.
  double figure(ActionKind kind) const {
    const KindCalibration* found = find_kind(kinds_, kind);
    return found == nullptr ? 0 : duration(*found) - overhead_;
  }
  /// Returns the time of a STEP (optimizer update). A STEP runs once per minibatch, so the overhead of
  /// microbatches is not subtracted.
  double step() const {
    const KindCalibration* found = find_kind(kinds_, ActionKind::step);
    return found == nullptr ? 0 : found->duration_ns(CalibrationLoad::alone, own_) + launch_;
  }
  /// Returns the measured time of an action kind at one microbatch size, including the launch. Returns 0 if
  /// this size was not measured.
  double measured(const KindAtSize& size) const {
    const Spread& spread = load_ == CalibrationLoad::alone ? size.alone : size.busy;
    return spread.samples > 0 ? static_cast<double>(spread.mean_ns) + launch_ : 0;
  }
  /// Returns m, the ratio of this microbatch size to the file's own microbatch size.
  double ratio(const KindAtSize& size) const {
    return static_cast<double>(size.micro_batch_size) / static_cast<double>(own_);
  }

 private:
  /// Returns d, the duration of a kind at the file's own microbatch size, including the launch.
  double duration(const KindCalibration& kind) const { return kind.duration_ns(load_, own_) + launch_; }

  const std::vector<KindCalibration>& kinds_;
  CalibrationLoad load_;
  std::int64_t own_;
  double launch_;
  double overhead_ = 0;
};

StageTimes times_of(const StageFormula& formula, const NeededKinds& needed) {
  StageTimes times{.overhead = std::llround(formula.overhead()),
                   .forward = std::llround(formula.figure(ActionKind::forward)),
                   .recompute = std::llround(formula.figure(ActionKind::recompute)),
                   .step = std::llround(formula.step())};
  const double whole = formula.figure(ActionKind::backward);
  const double input = formula.figure(ActionKind::backward_input);
  const double weight = formula.figure(ActionKind::backward_weight);
  times.backward_input = std::llround(input);
  times.backward_weight = std::llround(weight);
  times.backward = times.backward_input + times.backward_weight;
  if (needed.split_backward || !formula.has(ActionKind::backward)) return times;
  times.backward = std::llround(whole);
  // The measured time of B is kept exactly. I and W divide it in the ratio of their own measured times, or
  // equally if I and W were not measured.
  const double share = input + weight > 0 ? input / (input + weight) : 0.5;
  times.backward_input = std::llround(whole * share);
  times.backward_weight = times.backward - times.backward_input;
  return times;
}

double figure_of(const StageTimes& times, ActionKind kind) {
  if (kind == ActionKind::forward) return static_cast<double>(times.forward);
  if (kind == ActionKind::backward) return static_cast<double>(times.backward);
  if (kind == ActionKind::backward_input) return static_cast<double>(times.backward_input);
  if (kind == ActionKind::backward_weight) return static_cast<double>(times.backward_weight);
  return static_cast<double>(times.recompute);
}

// --- figures --------------------------------------------------------------------------------------

/// Returns value_of(stage) for all stages, in the form in which a scenario states one value for each stage.
template <typename Value, typename Function>
PerStage<Value> listed(std::size_t stages, Function value_of) {
  PerStage<Value> list{.values = {}, .is_list = true, .place = {}};
  for (std::size_t stage = 0; stage < stages; ++stage) list.values.push_back(value_of(stage));
  return list;
}

/// Returns the bytes of the messages on the first edge that leaves a stage, or 0 if no edge leaves it.
EdgeCost edge_out_of(const Experiment& own, std::size_t stage) {
  const std::vector<StageEdge> edges = stage_edges(own.program);
  const auto first = std::ranges::find(edges, static_cast<std::int32_t>(stage), &StageEdge::from);
  return first == edges.end() ? EdgeCost{}
                              : own.costs.edges.at(static_cast<std::size_t>(first - edges.begin()));
}

/// Returns true if some stage stores more bytes after I (gradient of the input) than after F. In such a
/// stage, W (gradient of the weights) needs more additional bytes than I frees.
bool release_is_clamped(const CostTable& costs) {
  return std::ranges::any_of(costs.stages, [](const StageCost& cost) { return cost.released_by_input < 0; });
}

void add_bytes(StageFigures& figures, const Experiment& own) {
  const CostTable& costs = own.costs;
  const std::size_t stages = costs.stages.size();
  const auto of_stage = [&](Bytes StageCost::* bytes) {
    return listed<Bytes>(stages, [&](std::size_t stage) { return costs.stages[stage].*bytes; });
  };
  figures.activation =
      listed<Bytes>(stages, [&](std::size_t stage) { return edge_out_of(own, stage).activation; });
  figures.gradient =
      listed<Bytes>(stages, [&](std::size_t stage) { return edge_out_of(own, stage).gradient; });
  figures.kept = of_stage(&StageCost::kept);
  figures.released_by_input = listed<Bytes>(
      stages, [&](std::size_t stage) { return std::max<Bytes>(0, costs.stages[stage].released_by_input); });
  figures.input = of_stage(&StageCost::input);
  figures.weights = of_stage(&StageCost::weights);
  figures.gradients = of_stage(&StageCost::gradients);
  figures.optimizer_state = of_stage(&StageCost::optimizer_state);
  figures.transient = of_stage(&StageCost::transient);
}

/// The largest relative error of the model, and the stage and action kind with this error.
struct WorstError {
  double error = 0;
  std::string place;

  void add(double modelled, double measured, std::string where) {
    const double relative = measured > 0 ? std::abs(modelled - measured) / measured : 0;
    if (relative <= error) return;
    error = relative;
    place = std::move(where);
  }
};

/// Returns notes about measured times that the model cannot express. There is one note for the file's own
/// microbatch size (about B, or about I and W) and one note for the other sizes.
std::vector<std::string> error_notes(const Calibration& calibration, const std::vector<StageTimes>& times) {
  WorstError at_own;
  WorstError at_others;
  for (std::size_t stage = 0; stage < times.size(); ++stage) {
    const StageFormula formula(calibration, calibration.stages[stage]);
    for (const KindCalibration& kind : calibration.stages[stage]) {
      if (kind.kind == ActionKind::step) continue;
      for (const KindAtSize& size : kind.sizes) {
        const double m = formula.ratio(size);
        const double modelled =
            static_cast<double>(times[stage].overhead) + m * figure_of(times[stage], kind.kind);
        (m == 1 ? at_own : at_others)
            .add(modelled, formula.measured(size), fmt::format("stage {} {}", stage, letters(kind.kind)));
      }
    }
  }
  std::vector<std::string> notes;
  if (at_own.error >= kWorthANote) {
    notes.push_back(
        fmt::format("a model's B is I + W, which is off by up to {} here ({}); exact is what the scenario's "
                    "schedule has",
                    format_percent(at_own.error), at_own.place));
  }
  if (at_others.error >= kWorthANote) {
    notes.push_back(fmt::format(
        "a model has one overhead a stage for all kinds, which leaves an error of up to {} at other "
        "sizes than the file's own microbatch ({})",
        format_percent(at_others.error), at_others.place));
  }
  return notes;
}

}  // namespace

NeededKinds needed_kinds(const Program& program) {
  NeededKinds needed;
  for (const auto& list : program.ranks) {
    for (const Action& action : list) {
      needed.whole_backward |= action.kind == ActionKind::backward;
      needed.split_backward |= action.kind == ActionKind::backward_input;
      needed.recompute |= action.kind == ActionKind::recompute;
    }
  }
  return needed;
}

CalibratedModel calibrated_model(const Calibration& calibration, const Experiment& own,
                                 const NeededKinds& needed) {
  CalibratedModel model;
  std::vector<StageTimes> times;
  times.reserve(calibration.stages.size());
  for (const auto& kinds : calibration.stages)
    times.push_back(times_of(StageFormula(calibration, kinds), needed));
  const auto listed_times = [&](Ns StageTimes::* figure) {
    return listed<Ns>(times.size(), [&](std::size_t stage) { return times[stage].*figure; });
  };
  StageFigures& figures = model.figures;
  figures.forward = listed_times(&StageTimes::forward);
  // All stages have the same kinds. A scenario may state B, or I and W. It may also state B and I; W is then
  // B - I.
  const std::vector<KindCalibration>& kinds = calibration.stages.front();
  if (needed.split_backward || find_kind(kinds, ActionKind::backward) == nullptr) {
    figures.backward_input = listed_times(&StageTimes::backward_input);
    figures.backward_weight = listed_times(&StageTimes::backward_weight);
  } else {
    figures.backward = listed_times(&StageTimes::backward);
    if (find_kind(kinds, ActionKind::backward_input) != nullptr)
      figures.backward_input = listed_times(&StageTimes::backward_input);
  }
  if (needed.recompute) figures.recompute = listed_times(&StageTimes::recompute);
  figures.step = listed_times(&StageTimes::step);
  figures.overhead = listed_times(&StageTimes::overhead);
  add_bytes(figures, own);
  figures.edges = own.program.edges;
  model.notes = error_notes(calibration, times);
  if (release_is_clamped(own.costs)) {
    model.notes.emplace_back(
        "I holds more than it lets go of on some stage, which a model cannot say: its released_by_input is "
        "0");
  }
  return model;
}

// Fits the latency and the bandwidth of links. A message (hop) takes latency + bytes / bandwidth, so a line
// is fitted through the median times of each size. If the measured times scatter too much to give a slope,
// the bandwidth of the scenario is used and only the latency is fitted. Tests:
// tests/backend/calibration_test.cpp.

namespace {

constexpr std::size_t kInside = 0;  // links inside a server, or all links if the cluster is not two-level
constexpr std::size_t kBetween = 1;

/// Returns the number of the kind of link between two ranks in the cluster. Rank r is on the r-th device of
/// the cluster's device order.
std::size_t kind_of_link(const ClusterSpec& spec, std::int32_t from, std::int32_t to) {
  const auto* shape = std::get_if<TwoLevelCluster>(&spec.shape);
  if (shape == nullptr) return kInside;
  const auto server = [&](std::int32_t device) {
    const std::int32_t number =
        shape->device_order.empty() ? device : shape->device_order[static_cast<std::size_t>(device)];
    return number / shape->devices_per_node;
  };
  return server(from) == server(to) ? kInside : kBetween;
}

std::string name_of_link(const ClusterSpec& spec, std::size_t kind) {
  if (!std::holds_alternative<TwoLevelCluster>(spec.shape)) return "between ranks";
  return kind == kInside ? "inside a server" : "between servers";
}

/// Returns the latency and bandwidth that are fitted to the measured messages of one kind of link. The
/// bandwidth comes from the fit only if the slope of the line is larger than the scatter of the times.
/// Otherwise the bandwidth is `bytes_per_second`.
LinkCalibration fitted_link(std::string name, const std::map<Bytes, std::vector<Ns>>& hops,
                            double bytes_per_second, Ns launch_ns) {
  LinkCalibration link{.name = std::move(name), .points = {}, .bytes_per_second = bytes_per_second};
  std::vector<LinePoint> medians;
  // For each size, this list gets the median time minus the time that the scenario's bandwidth explains.
  std::vector<Ns> beside_bandwidth;
  Ns widest = 0;  // largest spread of the times of one size
  for (const auto& [bytes, times] : hops) {
    link.points.push_back({.bytes = bytes, .hop = spread_of(times)});
    const Spread& hop = link.points.back().hop;
    medians.push_back({static_cast<double>(bytes), static_cast<double>(hop.median_ns)});
    beside_bandwidth.push_back(hop.median_ns - serialization_ns(bytes, bytes_per_second));
    widest = std::max(widest, hop.middle_half_ns);
  }
  const Line line = fit_line(medians);
  const double gain = line.slope * (medians.back().x - medians.front().x);
  // Two conditions must hold. The times of different sizes differ by more than the spread of one size, and
  // the slope is more than twice its standard error.
  link.bandwidth_measured = gain > static_cast<double>(widest) && line.slope > 2 * line.slope_error;
  double latency = line.constant;
  if (link.bandwidth_measured) {
    link.bytes_per_second = 1e9 / line.slope;
  } else {
    latency = static_cast<double>(spread_of(beside_bandwidth).median_ns);
  }
  // A hop is measured from the end of one action to the start of another, so it contains a launch. The launch
  // time is subtracted, because the stages' overhead already contains it.
  link.latency_ns = std::max<Ns>(0, std::llround(latency) - launch_ns);
  return link;
}

const LinkCalibration* find_link(const std::vector<LinkCalibration>& links, const std::string& name) {
  const auto found = std::ranges::find(links, name, &LinkCalibration::name);
  return found == links.end() ? nullptr : &*found;
}

}  // namespace

std::vector<LinkCalibration> fitted_links(const std::vector<Hop>& hops, const ClusterSpec& spec,
                                          const Cluster& cluster, Ns launch_ns) {
  std::vector<LinkCalibration> links;
  for (const std::size_t kind : {kInside, kBetween}) {
    std::map<Bytes, std::vector<Ns>> times;
    double bytes_per_second = kUnlimitedBandwidth;
    for (const Hop& hop : hops) {
      if (kind_of_link(spec, hop.from_rank, hop.to_rank) != kind) continue;
      times[hop.bytes].push_back(hop.time_ns);
      bytes_per_second =
          std::min(bytes_per_second, cluster.route(hop.from_rank, hop.to_rank).bytes_per_second);
    }
    if (!times.empty())
      links.push_back(fitted_link(name_of_link(spec, kind), times, bytes_per_second, launch_ns));
  }
  return links;
}

std::optional<ClusterSpec> calibrated_cluster(const ClusterSpec& spec,
                                              const std::vector<LinkCalibration>& links) {
  ClusterSpec calibrated = spec;
  const LinkCalibration* inside = find_link(links, name_of_link(spec, kInside));
  if (auto* uniform = std::get_if<UniformCluster>(&calibrated.shape)) {
    if (inside == nullptr) return calibrated;
    uniform->latency_ns = inside->latency_ns;
    uniform->bytes_per_second = inside->bytes_per_second;
    return calibrated;
  }
  auto* shape = std::get_if<TwoLevelCluster>(&calibrated.shape);
  if (shape == nullptr) return std::nullopt;
  if (inside != nullptr) {
    shape->intra_latency_ns = inside->latency_ns;
    shape->intra_bytes_per_second = inside->bytes_per_second;
  }
  if (const LinkCalibration* between = find_link(links, name_of_link(spec, kBetween))) {
    // The latency of a route between servers also contains the latency inside a server, so it is subtracted.
    shape->inter_latency_ns = std::max<Ns>(0, between->latency_ns - shape->intra_latency_ns);
    shape->inter_bytes_per_second = between->bytes_per_second;
  }
  return calibrated;
}

}  // namespace penstock
