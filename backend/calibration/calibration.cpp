// Measures a scenario's stages and links. It runs one program for each size and load. It fits lines through
// the means of the actions' durations, because a cost table can express only lines:
//
//     duration = overhead + samples * rate        and        latency + bytes / bandwidth for each hop
//
// Each size is measured with load `alone` and with load `busy`. On real machines, an action takes longer when
// other ranks work at the same time, as they do in a pipeline. Tests: tests/backend/calibration_test.cpp.

#include "backend/calibration/calibration.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/calibration/calibration_samples.hpp"
#include "backend/executor/module_family.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

namespace {

// The spread of durations is not judged below this limit. Such short durations spread widely because of the
// clock and the scheduler alone.
constexpr Ns kTooShortToJudge = 200'000;

template <typename Value>
using OrRunError = tl::expected<Value, UserError>;

tl::unexpected<UserError> refused(std::string message) {
  return user_error(ErrorKind::bad_input, std::move(message));
}

/// Returns the forms of backward passes (B, or I and W) that are measured. The first is the form of the
/// scenario's program. Each form has its own program, because the ranks of one device may share bandwidth or
/// power. The time of an I then depends on its neighbour: it differs between an I beside a B and an I beside
/// a W.
std::vector<BackwardForm> forms_of(const NeededKinds& needed, CalibrationKinds kinds) {
  if (needed.whole_backward && needed.split_backward) return {BackwardForm::both};
  const BackwardForm own = needed.split_backward ? BackwardForm::split : BackwardForm::whole;
  if (kinds == CalibrationKinds::needed) return {own};
  return {own, own == BackwardForm::split ? BackwardForm::whole : BackwardForm::split};
}

/// Returns `scenario` with another program and microbatch size, and with the default channel options. The
/// batch size is removed, because it follows from the number of microbatches in the program.
Scenario with_program(Scenario scenario, Program program, std::int64_t micro_batch_size) {
  scenario.program = std::move(program);
  scenario.batch.micro_batch_size = micro_batch_size;
  scenario.batch.global_batch_size = std::nullopt;
  scenario.batch.microbatches = std::nullopt;
  scenario.channels = {};
  return scenario;
}

OrRunError<Experiment> prepared_by(const Scenario& scenario) {
  auto experiment = prepare(scenario);
  if (!experiment) return refused(std::move(experiment.error().message));
  return *std::move(experiment);
}

// --- one measurement ------------------------------------------------------------------------------

struct Measurement {
  CalibrationSamples samples;
  std::string engine;
  std::vector<std::string> notes;
  std::vector<Bytes> peak_bytes;  // peak memory of each rank; empty if the modules report no memory
  double spread = 0;              // the largest spread of any kind's durations
};

/// Returns the largest relative spread of any kind of action. The relative spread is the width of the
/// middle half of the durations, divided by their median.
double worst_spread(const CalibrationSamples& samples) {
  double worst = 0;
  for (const auto& [key, durations] : samples.durations) {
    const Spread spread = spread_of(durations);
    if (spread.median_ns >= kTooShortToJudge) worst = std::max(worst, spread.relative());
  }
  return worst;
}

/// Returns the measured peak memory of each rank. The result is empty if no rank reports memory.
std::vector<Bytes> peaks_of(const Result& result) {
  std::vector<Bytes> peaks;
  peaks.reserve(result.ranks.size());
  for (const RankReport& rank : result.ranks) peaks.push_back(rank.memory.peak_bytes);
  return std::ranges::all_of(peaks, [](Bytes peak) { return peak == 0; }) ? std::vector<Bytes>{} : peaks;
}

/// The settings of one measuring run: its microbatch size, its load, and the kinds of actions that it
/// measures.
struct MeasurementPlan {
  CalibrationLoad load = CalibrationLoad::alone;
  BackwardForm backward = BackwardForm::whole;
  bool recomputes = false;
  std::int64_t micro_batch_size = 1;
};

/// Repeats a measuring run and returns the attempt with the smallest spread of durations. It stops early if
/// an attempt is steady enough.
OrRunError<Measurement> measurement_of(const Scenario& scenario, const Program& like,
                                       const MeasurementPlan& plan, const CalibrationOptions& options,
                                       const CalibrationRun& run, const BytesOfStages& bytes_of) {
  // If both forms of the backward are measured, each form occurs only in every second microbatch. So twice as
  // many microbatches are needed.
  const std::int32_t turns = plan.backward == BackwardForm::both ? 2 : 1;
  // When a busy pipeline drains, some ranks are idle. Therefore the program runs more microbatches than it
  // measures.
  const std::int32_t drain = plan.load == CalibrationLoad::busy ? like.stage_count() : 0;
  const CountedMicrobatches counted{.first = turns * options.warmup,
                                    .last = turns * (options.warmup + options.samples)};
  auto experiment = calibration_experiment(scenario, like,
                                           {.load = plan.load,
                                            .microbatches = counted.last + drain,
                                            .backward = plan.backward,
                                            .recomputes = plan.recomputes},
                                           plan.micro_batch_size);
  if (!experiment) return tl::unexpected(std::move(experiment.error()));
  // The stage modules report how many bytes they send. These bytes replace the sizes in the scenario, so that
  // each measured message has its true size.
  if (const auto bytes = bytes_of ? bytes_of(*experiment) : std::vector<StageBytes>{}; !bytes.empty())
    experiment->costs = with_stage_bytes(std::move(experiment->costs), experiment->program, bytes);
  std::optional<Measurement> steadiest;
  for (std::int32_t attempt = 0; attempt < options.attempts; ++attempt) {
    const auto result = run(*experiment);
    if (!result) return tl::unexpected(result.error());
    Measurement measured{.samples = samples_of(result->timeline, *experiment, counted),
                         .engine = result->engine,
                         .notes = result->notes,
                         .peak_bytes = peaks_of(*result)};
    measured.spread = worst_spread(measured.samples);
    // The attempt with the smallest spread is taken, because other load on the machine can only increase the
    // spread.
    if (!steadiest || measured.spread < steadiest->spread) steadiest = std::move(measured);
    if (steadiest->spread <= options.steady) break;
  }
  return *std::move(steadiest);
}

// --- all measurements -----------------------------------------------------------------------------

/// The measurements of all microbatch sizes, each with both loads (alone and busy).
struct Gathered {
  std::map<StageKind, std::vector<KindAtSize>> kinds;
  std::vector<Ns> alone_launches;
  std::vector<Ns> busy_launches;
  std::vector<Hop> alone_hops;
  std::vector<Hop> busy_hops;
  std::string engine;
  std::vector<std::string> notes;
  std::vector<Bytes> peak_bytes;
  double spread = 0;
};

/// Adds a measurement to `all`. `is_own_form` is true if its backward passes (B, or I and W) have the form of
/// the scenario's program. If it is false, only the durations are added.
void gather(Gathered& all, const MeasurementPlan& plan, bool is_own_form, Measurement measured) {
  const bool alone = plan.load == CalibrationLoad::alone;
  for (const auto& [key, durations] : measured.samples.durations) {
    auto& sizes = all.kinds[key];
    // All measurements of one microbatch size come directly after each other, so a new size begins a new
    // entry.
    if (sizes.empty() || sizes.back().micro_batch_size != plan.micro_batch_size)
      sizes.push_back({.micro_batch_size = plan.micro_batch_size});
    Spread& spread = alone ? sizes.back().alone : sizes.back().busy;
    // F and STEP occur in the programs of both backward forms. They keep the times of the scenario's own
    // form, which is measured first.
    if (spread.samples == 0) spread = spread_of(durations);
  }
  all.engine = std::move(measured.engine);
  all.spread = std::max(all.spread, measured.spread);
  if (!is_own_form) return;
  std::vector<Ns>& launches = alone ? all.alone_launches : all.busy_launches;
  for (const auto& [stage, times] : measured.samples.launches)
    launches.insert(launches.end(), times.begin(), times.end());
  std::vector<Hop>& hops = alone ? all.alone_hops : all.busy_hops;
  hops.insert(hops.end(), measured.samples.hops.begin(), measured.samples.hops.end());
  if (!alone && all.notes.empty()) {
    all.notes = std::move(measured.notes);
    all.peak_bytes = std::move(measured.peak_bytes);
  }
}

/// A function that runs the program of one MeasurementPlan and returns its measured times.
using Measure = std::function<OrRunError<Measurement>(const MeasurementPlan&)>;

/// Measures every microbatch size with both loads, alone and busy, and in each form of backward passes. The
/// sizes are in ascending order.
OrRunError<Gathered> gathered_of(const Program& like, const std::vector<std::int64_t>& sizes,
                                 const CalibrationOptions& options, const Measure& measure,
                                 const CalibrationProgress& progress) {
  Gathered all;
  const NeededKinds needed = needed_kinds(like);
  const std::vector<BackwardForm> forms = forms_of(needed, options.kinds);
  const std::size_t total = sizes.size() * 2 * forms.size();  // each size is measured under two loads
  std::size_t done = 0;
  if (progress) progress(done, total);
  for (const std::int64_t size : sizes) {
    for (const CalibrationLoad load : {CalibrationLoad::alone, CalibrationLoad::busy}) {
      for (const BackwardForm form : forms) {
        const MeasurementPlan plan{
            .load = load, .backward = form, .recomputes = needed.recompute, .micro_batch_size = size};
        auto measured = measure(plan);
        if (!measured) return tl::unexpected(std::move(measured.error()));
        gather(all, plan, form == forms.front(), *std::move(measured));
        if (progress) progress(++done, total);
      }
    }
  }
  return all;
}

/// The smallest number of hops (messages) of one size in busy runs from which a time is computed.
constexpr std::int64_t kEnoughHops = 5;

/// Returns true if the busy runs have enough hops (message times) between the same ranks and of the same
/// sizes as the alone runs. The time of a hop can be measured only if the receiving rank was idle. A rank
/// that always has other work therefore gives no hops.
bool measures_all_hops(const Gathered& all) {
  std::map<std::tuple<std::int32_t, std::int32_t, Bytes>, std::int64_t> counts;
  for (const Hop& hop : all.busy_hops) ++counts[{hop.from_rank, hop.to_rank, hop.bytes}];
  return std::ranges::all_of(all.alone_hops, [&](const Hop& hop) {
    const auto found = counts.find({hop.from_rank, hop.to_rank, hop.bytes});
    return found != counts.end() && found->second >= kEnoughHops;
  });
}

/// Fits a line through the mean durations of all microbatch sizes. The durations are those measured under the
/// load `load` (KindAtSize::alone or busy).
Line line_over_sizes(const std::vector<KindAtSize>& sizes, Spread KindAtSize::* load) {
  std::vector<LinePoint> points;
  for (const KindAtSize& size : sizes) {
    if ((size.*load).samples == 0) continue;
    points.push_back({static_cast<double>(size.micro_batch_size), static_cast<double>((size.*load).mean_ns)});
  }
  return fit_line(points);
}

std::vector<std::vector<KindCalibration>> calibrated_stages(Gathered& gathered, std::int32_t stages) {
  std::vector<std::vector<KindCalibration>> calibrated(static_cast<std::size_t>(stages));
  for (auto& [key, sizes] : gathered.kinds) {
    KindCalibration kind{.kind = key.kind, .sizes = std::move(sizes)};
    kind.alone = line_over_sizes(kind.sizes, &KindAtSize::alone);
    kind.busy = line_over_sizes(kind.sizes, &KindAtSize::busy);
    calibrated[static_cast<std::size_t>(key.stage)].push_back(std::move(kind));
  }
  return calibrated;
}

/// Returns the microbatch sizes in samples, in ascending order. At least three sizes are required, because
/// two points always lie on a line and show no error.
tl::expected<std::vector<std::int64_t>, std::string> sizes_of(const CalibrationOptions& options,
                                                              std::int64_t own) {
  const std::set<std::int32_t> multiples(options.multiples.begin(), options.multiples.end());
  if (multiples.size() < 3 || *multiples.begin() < 1) {
    return tl::unexpected(
        fmt::format("expected three or more different sizes of at least 1, which separate overhead and rate, "
                    "got {}",
                    multiples.size()));
  }
  std::vector<std::int64_t> sizes;
  sizes.reserve(multiples.size());
  for (const std::int32_t multiple : multiples) sizes.push_back(own * multiple);
  return sizes;
}

std::string spread_note(double spread) {
  return fmt::format(
      "durations of one kind spread by up to {} (middle half over median): something else ran on the "
      "machine, or the actions are too short for it; calibrate again at a quiet moment",
      format_percent(spread));
}

}  // namespace

double KindCalibration::duration_ns(CalibrationLoad load, std::int64_t micro_batch_size) const {
  for (const KindAtSize& size : sizes) {
    const Spread& spread = load == CalibrationLoad::alone ? size.alone : size.busy;
    if (size.micro_batch_size == micro_batch_size && spread.samples > 0)
      return static_cast<double>(spread.mean_ns);
  }
  return line(load).at(static_cast<double>(micro_batch_size));
}

tl::expected<Calibration, UserError> calibrate(const Scenario& scenario, const CalibrationOptions& options,
                                               const CalibrationRun& run, const BytesOfStages& bytes_of,
                                               const CalibrationProgress& progress) {
  const auto planned = with_planned_partition(scenario);
  if (!planned) return refused(planned.error());
  const auto reference = prepared_by(*planned);
  if (!reference) return tl::unexpected(reference.error());
  const std::int64_t own_size = planned->batch.own_micro_batch_size;
  const auto sizes = sizes_of(options, own_size);
  if (!sizes) return refused(sizes.error());
  const Program& like = reference->program;
  // This experiment has the scenario's costs and placement, and the calibration's own program. The stage
  // modules report the bytes of its stages for the measured model.
  auto own = calibration_experiment(*planned, like, {}, own_size);
  if (!own) return tl::unexpected(own.error());
  const std::vector<StageBytes> bytes = bytes_of ? bytes_of(*own) : std::vector<StageBytes>{};
  if (!bytes.empty()) own->costs = with_stage_bytes(std::move(own->costs), own->program, bytes);
  const auto measure = [&](const MeasurementPlan& plan) {
    return measurement_of(*planned, like, plan, options, run, bytes_of);
  };
  auto gathered = gathered_of(like, *sizes, options, measure, progress);
  if (!gathered) return tl::unexpected(std::move(gathered.error()));

  Calibration calibration{.scenario = reference->name,
                          .engine = gathered->engine,
                          .options = options,
                          .own_micro_batch_size = own_size,
                          .ranks = like.rank_count(),
                          .alone_launch = spread_of(gathered->alone_launches),
                          .busy_launch = spread_of(gathered->busy_launches),
                          .peak_bytes = std::move(gathered->peak_bytes),
                          .counted_bytes = !bytes.empty(),
                          .notes = std::move(gathered->notes)};
  if (gathered->spread > options.steady) calibration.notes.push_back(spread_note(gathered->spread));
  const bool busy = options.load == CalibrationLoad::busy && measures_all_hops(*gathered);
  calibration.links =
      fitted_links(busy ? gathered->busy_hops : gathered->alone_hops, planned->cluster, reference->cluster,
                   (busy ? calibration.busy_launch : calibration.alone_launch).median_ns);
  calibration.cluster = calibrated_cluster(planned->cluster, calibration.links);
  calibration.stages = calibrated_stages(*gathered, like.stage_count());
  CalibratedModel model = calibrated_model(calibration, *own, needed_kinds(like));
  calibration.model = std::move(model.figures);
  calibration.notes.insert(calibration.notes.end(), model.notes.begin(), model.notes.end());
  return calibration;
}

tl::expected<Experiment, UserError> calibration_experiment(const Scenario& scenario, const Program& like,
                                                           const CalibrationShape& shape,
                                                           std::int64_t micro_batch_size) {
  auto program = calibration_program(like, shape);
  if (!program) return refused(std::move(program.error()));
  return prepared_by(with_program(scenario, *std::move(program), micro_batch_size));
}

// Generates the programs that a calibration runs. A published schedule gives one list of actions for each
// stage. If a rank holds several stages, their lists are merged into one list. The order of the merged list
// is one in which the actions could run if all took equally long:
//
//     stage 0   F0 F1 B0 B1            rank 0 (stages 0 and 2)   0F0 2F0 2B0 0F1 ...
//     stage 1   F0 B0 F1 B1     ->     rank 1 (stage 1)          1F0 1B0 1F1 1B1
//     stage 2   F0 B0 F1 B1
//
// Tests: tests/backend/calibration_test.cpp.

namespace {

/// Replaces each B, or the B of each odd microbatch, by I and W: 0B1 becomes 0I1 0W1.
std::vector<Action> with_backward_form(const std::vector<Action>& list, BackwardForm form) {
  std::vector<Action> formed;
  for (const Action& action : list) {
    // With `both`, even microbatches use B, and odd microbatches use I and W.
    const bool split =
        form == BackwardForm::split || (form == BackwardForm::both && action.microbatch % 2 == 1);
    formed.push_back(action);
    if (action.kind != ActionKind::backward || !split) continue;
    formed.back().kind = ActionKind::backward_input;
    formed.push_back(action);
    formed.back().kind = ActionKind::backward_weight;
  }
  return formed;
}

/// A merger of the stages' action lists into one list for each rank.
class Merge {
 public:
  Merge(std::vector<std::vector<Action>> lists, std::int32_t microbatches)
      : lists_(std::move(lists)),
        next_(lists_.size(), 0),
        forward_done_(lists_.size(), std::vector<bool>(index(microbatches))),
        gradient_done_(forward_done_) {}

  /// Returns the list of each rank. Each round appends at most one action to each rank's list, until all
  /// actions are appended.
  std::vector<std::vector<Action>> onto(const std::vector<std::int32_t>& rank_of_stage, std::size_t ranks) {
    std::vector<std::vector<Action>> merged(ranks);
    bool moved = true;
    while (moved) {
      moved = false;
      std::vector<Action> round;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const auto stage = ready_stage(rank_of_stage, static_cast<std::int32_t>(rank));
        if (!stage) continue;
        round.push_back(lists_[*stage][next_[*stage]++]);
        merged[rank].push_back(round.back());
        moved = true;
      }
      // All ranks choose their actions before the actions of this round count as done. So an action can use
      // only the results of earlier rounds.
      for (const Action& action : round) note(action);
    }
    return merged;
  }

 private:
  /// Returns a stage of the rank whose next action can run, or nothing if there is none. Backward actions
  /// come before forward actions. Among forward actions the later stage comes first, and among backward
  /// actions the earlier stage.
  std::optional<std::size_t> ready_stage(const std::vector<std::int32_t>& rank_of_stage,
                                         std::int32_t rank) const {
    std::optional<std::size_t> found;
    for (std::size_t stage = 0; stage < lists_.size(); ++stage) {
      if (rank_of_stage[stage] != rank || next_[stage] == lists_[stage].size() || !is_ready(stage)) continue;
      if (!found || lists_[*found][next_[*found]].kind == ActionKind::forward) found = stage;
    }
    return found;
  }

  bool is_ready(std::size_t stage) const {
    const Action& action = lists_[stage][next_[stage]];
    if (action.kind == ActionKind::forward && stage > 0)
      return forward_done_[stage - 1][index(action.microbatch)];
    if (makes_input_gradient(action.kind) && stage + 1 < lists_.size())
      return gradient_done_[stage + 1][index(action.microbatch)];
    return true;
  }

  void note(const Action& action) {
    if (action.kind == ActionKind::forward)
      forward_done_[index(action.stage)][index(action.microbatch)] = true;
    if (makes_input_gradient(action.kind))
      gradient_done_[index(action.stage)][index(action.microbatch)] = true;
  }

  std::vector<std::vector<Action>> lists_;  // action list of each stage
  std::vector<std::size_t> next_;  // by stage: the number of actions of its list that are already merged
  std::vector<std::vector<bool>> forward_done_;  // true if F has run, for each stage and microbatch
  std::vector<std::vector<bool>> gradient_done_;
};

}  // namespace

tl::expected<Program, std::string> calibration_program(const Program& like, const CalibrationShape& shape) {
  const bool alone = shape.load == CalibrationLoad::alone;
  auto rule = generate(alone ? "naive" : "1f1b",
                       {.stages = like.stage_count(),
                        .microbatches = shape.microbatches,
                        .checkpoint = shape.recomputes ? Checkpoint::always : Checkpoint::never,
                        .update = alone ? UpdateRule::microbatch : UpdateRule::minibatch});
  if (!rule) return rule;
  // All replicas of a stage have the same cost, so only the first replica is measured.
  std::vector<std::int32_t> rank_of_stage;
  for (StagePlacement& stage : rule->placement.stages) stage = {};
  for (std::size_t stage = 0; stage < like.placement.stages.size(); ++stage) {
    rank_of_stage.push_back(like.placement.stages[stage].ranks.front());
    rule->placement.stages[stage].ranks = {rank_of_stage.back()};
  }
  for (std::vector<Action>& list : rule->ranks) list = with_backward_form(list, shape.backward);
  rule->ranks =
      Merge(std::move(rule->ranks), shape.microbatches).onto(rank_of_stage, index(like.rank_count()));
  rule->schedule = alone ? "calibration-alone" : "calibration-busy";
  return rule;
}

}  // namespace penstock
