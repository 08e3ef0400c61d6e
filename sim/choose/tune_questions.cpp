// Answers further questions about the result of a search (tune.cpp). The answers come from
// accuracy_groups(), sensitivity() and against_best().
//
// accuracy_groups() finds candidates that predictions cannot distinguish. An error that all configurations of
// a job share, such as that of its clocks, does not change their order. Only the error of a ratio of two
// configurations does. It is known if several configurations of one job were measured. Repeats of one
// configuration are replaced by their mean:
//
//     d = log(predicted_i / predicted_j) - log(measured_i / measured_j),  deviation^2 = mean of d^2 of all
//     pairs
//
// A group begins with its best candidate. It has all candidates whose tokens per second differ from those of
// the best by at most two deviations. Tests: tests/sim/tune_accuracy_test.cpp.

#include "sim/choose/tune_questions.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tuning_space.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

bool trains_experts(const MeasuredRun& run) {
  return std::get<DeviceModel>(run.scenario.model).work.model.experts.has_value();
}

/// A configuration that was measured, perhaps several times.
struct MeasuredConfiguration {
  std::size_t run = 0;  ///< index of the first of its runs
  double log_seconds = 0;
  std::size_t repeats = 0;

  double mean_log_seconds() const { return log_seconds / static_cast<double>(repeats); }
};

/// Returns the measured configurations of each job for which at least two were measured.
std::vector<std::vector<MeasuredConfiguration>> jobs_with_pairs(const MeasuredRuns& runs, bool experts) {
  std::map<MeasuredJob, std::vector<MeasuredConfiguration>> jobs;
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const MeasuredRun& run = runs.runs[i];
    if (trains_experts(run) != experts) continue;
    std::vector<MeasuredConfiguration>& known = jobs[job_of(run)];
    auto own = std::ranges::find_if(
        known, [&](const MeasuredConfiguration& one) { return is_repeat(runs.runs[one.run], run); });
    if (own == known.end()) own = known.insert(known.end(), {.run = i});
    own->log_seconds += std::log(run.step_seconds);
    ++own->repeats;
  }
  std::vector<std::vector<MeasuredConfiguration>> with_pairs;
  for (auto& [job, configurations] : jobs) {
    if (configurations.size() > 1) with_pairs.push_back(std::move(configurations));
  }
  return with_pairs;
}

/// Returns the predicted steps of some runs in seconds, with the devices' own constants.
std::vector<double> predicted_seconds(const MeasuredRuns& runs, const std::vector<std::size_t>& asked) {
  MeasuredRuns some{.header = runs.header, .runs = {}};
  for (const std::size_t number : asked) some.runs.push_back(runs.runs[number]);
  const auto predicted = predict_runs(some, nullptr, nullptr);
  if (!predicted) throw std::logic_error(predicted.error());
  std::vector<double> seconds;
  for (const PredictedRun& row : predicted->rows) seconds.push_back(row.predicted_seconds);
  return seconds;
}

bool is_fully_sharded(const Scenario& run) {
  const auto& model = std::get<DeviceModel>(run.model);
  return run.shape.sharding.value_or(model.work.parallel.sharding) == 3;
}

/// Returns the distance between a run and the best configuration, as a tuple of differences. The most
/// important difference is first, so tuples can be compared directly.
std::tuple<bool, bool, bool, bool, double, bool, double> distance_of(const MeasuredRun& run,
                                                                     const TuneRequest& request,
                                                                     const Configuration& best) {
  const Workload& work = model_of(request).work;
  const DeviceModel& model = std::get<DeviceModel>(run.scenario.model);
  const auto doublings = [](double a, double b) { return std::abs(std::log2(a / b)); };
  const double larger = doublings(static_cast<double>(parameters(model.work.model)),
                                  static_cast<double>(parameters(work.model)));
  // Among models of nearly the same size, a model that is sharded in the same way is more similar.
  const auto has_host_floor = [](const Workload& of) { return of.host_layer_seconds > 0; };
  return {run.device != work.device.name,
          run.precision != to_text(work.precision),
          trains_experts(run) != work.model.experts.has_value(),
          has_host_floor(model.work) != has_host_floor(work),
          std::round(larger),
          is_fully_sharded(run.scenario) != (best.sharding == 3),
          doublings(static_cast<double>(model.devices), static_cast<double>(device_count(best)))};
}

std::size_t nearest_number(const MeasuredRuns& runs, const TuneRequest& request, const Configuration& best) {
  const auto nearest = std::ranges::min_element(
      runs.runs, {}, [&](const MeasuredRun& run) { return distance_of(run, request, best); });
  return static_cast<std::size_t>(nearest - runs.runs.begin());
}

NearestRun nearest_run(const MeasuredRun& run, const TuneRequest& request, double predicted_seconds) {
  const Workload& work = model_of(request).work;
  // If a row has no id of its own, its id is the source and line. Otherwise the source is written in front of
  // the id.
  NearestRun nearest{
      .id = run.id.starts_with(run.source) ? run.id : fmt::format("{}, {}", run.source, run.id),
      .device = run.device,
      .model = model_name(run.model),
      .precision = run.precision,
      .devices = std::get<DeviceModel>(run.scenario.model).devices,
      .error = predicted_seconds / run.step_seconds - 1,
      .host_layer_ms = std::get<DeviceModel>(run.scenario.model).work.host_layer_seconds * 1e3};
  if (run.device != work.device.name) {
    nearest.none = work.device.name;
  } else if (run.precision != to_text(work.precision)) {
    nearest.none = fmt::format("{} on {}", to_text(work.precision), work.device.name);
  } else if (trains_experts(run) != work.model.experts.has_value()) {
    nearest.none = fmt::format("{} on {} {} experts", to_text(work.precision), work.device.name,
                               trains_experts(run) ? "without" : "with");
  }
  return nearest;
}

/// Returns the error of predicted ratios, over all pairs of configurations of one job. `predicted` has the
/// seconds of all configurations, job by job.
PairSpread spread_of(const std::vector<std::vector<MeasuredConfiguration>>& jobs,
                     std::span<const double> predicted) {
  PairSpread spread{.jobs = jobs.size()};
  double squares = 0;
  std::size_t begin = 0;
  for (const std::vector<MeasuredConfiguration>& job : jobs) {
    const auto error = [&](std::size_t i) {
      return std::log(predicted[begin + i]) - job[i].mean_log_seconds();
    };
    for (std::size_t i = 0; i < job.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        squares += (error(i) - error(j)) * (error(i) - error(j));
        ++spread.pairs;
      }
    }
    begin += job.size();
  }
  if (spread.pairs > 0) spread.deviation = std::sqrt(squares / static_cast<double>(spread.pairs));
  return spread;
}

}  // namespace

std::string nearest_text(const NearestRun& nearest) {
  const std::string host =
      nearest.host_layer_ms > 0
          ? fmt::format(", no CUDA graphs and so a host_layer of {:.1f} ms", nearest.host_layer_ms)
          : "";
  return fmt::format("nearest measured run: {}, {}, {}, {} devices{}: {:+.1f} % ({}){}", nearest.device,
                     nearest.model, nearest.precision, nearest.devices, host, 100 * nearest.error, nearest.id,
                     nearest.none.empty() ? "" : fmt::format("; {}: none", nearest.none));
}

AccuracyGroups accuracy_groups(const TuneRequest& request, const TuneReport& report) {
  const MeasuredRuns runs = all_library_runs();
  const auto jobs = jobs_with_pairs(runs, model_of(request).work.model.experts.has_value());
  std::vector<std::size_t> asked;
  for (const auto& job : jobs)
    std::ranges::transform(job, std::back_inserter(asked), &MeasuredConfiguration::run);
  // The nearest run is added after the pairs, so that one call predicts all of them.
  asked.push_back(nearest_number(runs, request, report.candidates.front().configuration));
  const std::vector<double> seconds = predicted_seconds(runs, asked);
  AccuracyGroups answer{.spread = spread_of(jobs, seconds),
                        .nearest = nearest_run(runs.runs[asked.back()], request, seconds.back()),
                        .groups = {}};
  std::size_t first = 0;
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const TunedConfiguration& best = report.candidates[first];
    const TunedConfiguration& one = report.candidates[i];
    const double ratio = std::log(best.tokens_per_second_per_device / one.tokens_per_second_per_device);
    // Candidates are sorted, so the first one outside the range of a group begins a new group.
    const bool is_new = one.fits != best.fits || std::abs(ratio) > 2 * answer.spread.deviation;
    if (is_new) first = i;
    answer.groups.push_back(answer.groups.empty() ? 0 : answer.groups.back() + (is_new ? 1 : 0));
  }
  return answer;
}

// Computes sensitivity(). It searches again for machines on which one figure of the device is halved or
// doubled. So the table shows how much the answer changes if a figure is wrong. Each row needs one search.
// Tests: tests/sim/tuning_space_test.cpp.

namespace {

/// A function that multiplies one figure of a device, such as its memory, by `factor`.
using Change = void (*)(DeviceType&, double factor);

/// The figures of a device that can be changed. Each function multiplies memory or a rate by its factor.
/// `sustained` and `collectives` are factors of times, so they are divided by it.
constexpr std::array<std::pair<std::string_view, Change>, 4> kFigures = {
    {{"memory",
      [](DeviceType& device, double factor) {
        device.memory_bytes =
            static_cast<std::int64_t>(std::llround(static_cast<double>(device.memory_bytes) * factor));
      }},
     {"sustained rate",
      [](DeviceType& device, double factor) {
        device.sustained /= factor;
        device.sustained_fp8 /= factor;
        device.sustained_fp4 /= factor;
      }},
     {"network bandwidth",
      [](DeviceType& device, double factor) { device.network_bytes_per_second *= factor; }},
     {"rate of collectives", [](DeviceType& device, double factor) { device.collectives /= factor; }}}};
constexpr std::array kHalfAndDouble = {0.5, 2.0};

/// Returns the device with the least free memory in a simulated configuration.
FullestDevice fullest_device(const TuneRequest& request, const Configuration& configuration,
                             const Result& result) {
  const auto lacking = [](const FullestDevice& device) {
    return device.peak_bytes - device.usable_bytes.value_or(std::numeric_limits<Bytes>::max());
  };
  FullestDevice fullest = device_with_peak(request, configuration, 0, result.ranks.front().memory.peak_bytes);
  for (std::size_t rank = 1; rank < result.ranks.size(); ++rank) {
    const FullestDevice device = device_with_peak(request, configuration, static_cast<std::int64_t>(rank),
                                                  result.ranks[rank].memory.peak_bytes);
    if (lacking(device) > lacking(fullest)) fullest = device;
  }
  return fullest;
}

/// Predicts a tuned configuration on the machine of `request` with simulate(). The configuration keeps its
/// layers.
tl::expected<TunedConfiguration, std::string> tuned_there(const TuneRequest& request,
                                                          const TunedConfiguration& tuned) {
  const Configuration& configuration = tuned.configuration;
  SimulateOptions options;
  options.steady = SteadyState::skip;
  const auto result = simulate_scenario(
      scenario_of(with_layers(request, configuration, tuned.layers), configuration), options);
  if (!result) return tl::unexpected(result.error().message);
  auto there = tuned_configuration(request, configuration, result->makespan_ns,
                                   fullest_device(request, configuration, *result));
  there.layers = tuned.layers;
  return there;
}

/// Returns the step time times the number of devices. All configurations train the same batch, so this is
/// inversely proportional to tokens per second and device. The result is an integer, so that equal
/// configurations have a loss of exactly 0.
std::int64_t device_time(const TunedConfiguration& tuned) {
  return tuned.step_ns * device_count(tuned.configuration);
}

/// Returns true if `one` is better than `other`. A configuration that fits is better than one that does not.
/// Otherwise the time decides.
bool is_better(const TunedConfiguration& one, const TunedConfiguration& other) {
  if (one.fits != other.fits) return one.fits;
  return device_time(one) < device_time(other);
}

/// Searches again on a machine with one changed figure, and simulates the old best configuration there. The
/// old configuration may still be the better one, because the new search may not have refined its order.
tl::expected<SensitivityRow, std::string> row_of(TuneRequest request, const TunedConfiguration& best,
                                                 const std::pair<std::string_view, Change>& figure,
                                                 double factor) {
  auto& model = std::get<DeviceModel>(request.base.model);
  figure.second(model.work.device, factor);
  for (DeviceKind& kind : model.kinds) figure.second(kind.type, factor);
  // TuneOptions::refined has its default, as in the search that found `best`.
  const auto report = tune(request, {.top = 1});
  if (!report) return tl::unexpected(report.error().message);
  const auto old = tuned_there(request, best);
  if (!old) return tl::unexpected(old.error());
  const TunedConfiguration& found = report->candidates.front();
  SensitivityRow row{.figure = figure.first, .factor = factor, .best = is_better(*old, found) ? *old : found};
  if (old->fits)
    row.loss = static_cast<double>(device_time(row.best)) / static_cast<double>(device_time(*old)) - 1;
  return row;
}

}  // namespace

tl::expected<std::vector<SensitivityRow>, std::string> sensitivity(const TuneRequest& request,
                                                                   const TunedConfiguration& best) {
  std::vector<SensitivityRow> rows;
  for (const auto& figure : kFigures) {
    for (const double factor : kHalfAndDouble) {
      auto row = row_of(request, best, figure, factor);
      if (!row) return tl::unexpected(row.error());
      rows.push_back(*std::move(row));
    }
  }
  return rows;
}

tl::expected<std::optional<TensorOverlapWorth>, std::string> tensor_overlap_worth(
    const TuneRequest& request, const TunedConfiguration& best) {
  if (best.configuration.tensor == 1 || !model_of(request).work.parallel.tensor_overlap) return std::nullopt;
  TuneRequest without = request;
  std::get<DeviceModel>(without.base.model).work.parallel.tensor_overlap = false;
  const auto same = tuned_there(without, best);
  if (!same) return tl::unexpected(same.error());
  const auto report = tune(without, {.top = 1});
  if (!report) return tl::unexpected(report.error().message);
  const TunedConfiguration& found = report->candidates.front();
  // The search may not have refined the order of `same`, so `same` may be better.
  return TensorOverlapWorth{.same = *same, .best = is_better(*same, found) ? *same : found};
}

// Computes against_best(), which compares a measured run with the best configuration for the same task. The
// task is the run's model, precision, overlaps, devices and global batch. The search chooses degrees, stages,
// schedule and microbatch. For each value that the run has chosen, the best step with this value is compared
// with the best step of all:
//
//     run: tensor 4, stages 8, ..    best of all: tensor 8, stages 4      best with tensor 4: 2 % longer
//
// Tests: tests/sim/tuning_test.cpp.

namespace {

/// A search request that belongs to a measured run, with its search space and the report of its search.
struct Answered {
  TuneRequest request;
  std::vector<Configuration> space;
  /// Report of the search; it has no candidates if the search had no result within its time.
  TuneReport report;
  bool stopped = false;
};

/// Returns the run's workload without the choices that the search makes. Of the parallelism, only sequence
/// parallelism, overlaps, the bucket size and the exchange of experts remain.
Workload question_of(const Scenario& run) {
  Workload work = std::get<DeviceModel>(run.model).work;
  const Parallel chosen = std::exchange(work.parallel, {});
  work.parallel.sequence_parallel = chosen.sequence_parallel;
  work.parallel.tensor_overlap = chosen.tensor_overlap;
  work.parallel.data_overlap = chosen.data_overlap;
  work.parallel.bucket_size = chosen.bucket_size;
  work.parallel.expert_dispatch = chosen.expert_dispatch;
  work.parallel.fp8_dispatch = chosen.fp8_dispatch;
  work.parallel.expert_overlap = chosen.expert_overlap;
  work.recompute = {};
  work.ranks = 1;
  work.micro_batch_size = 1;
  return work;
}

/// Returns the run's layer split. If the run states no rule, returns the rule that is used by default.
LayerSplit split_of(const Scenario& run) {
  const auto& model = std::get<DeviceModel>(run.model);
  const ScheduleInfo* schedule = find_schedule(run.schedule);
  const auto layers = static_cast<std::int64_t>(model.work.model.layers.size());
  const std::int32_t stages = run.shape.stages * chunks_of(*schedule, run.shape);
  LayerSplit split = model.split;
  split.rule = rule_in_force(split, layers, stages);
  return split;
}

/// Returns the number of samples in a step. It is a product of three factors, and measured runs state all
/// of them.
std::int64_t global_batch(const Scenario& run) {
  return *run.batch.micro_batch_size * *run.batch.microbatches * *std::get<DeviceModel>(run.model).copies;
}

/// Makes the search request that has the model, devices and batch of a measured run. Returns an error if the
/// devices do not fill whole nodes.
tl::expected<TuneRequest, std::string> request_of(const Scenario& run) {
  TuneRequest request{.base = run, .global_batch_size = global_batch(run)};
  const DeviceType& device = model_of(request).work.device;
  const std::int64_t devices = model_of(request).devices;
  if (devices % device.devices_per_node != 0) {
    return tl::unexpected(fmt::format("devices: expected whole nodes of {} {}, got {}",
                                      device.devices_per_node, device.name, devices));
  }
  request.base.cluster.named =
      DeviceCluster{.type = device, .nodes = static_cast<std::int32_t>(devices / device.devices_per_node)};
  // The run's own choices are added to the space, so that the search finds the best step with each of them.
  auto& model = std::get<DeviceModel>(request.base.model);
  model.split = split_of(run);
  const LayerSplit& split = model.split;
  if (std::ranges::find(request.layer_splits, split) == request.layer_splits.end())
    request.layer_splits.push_back(split);
  if (std::ranges::find(request.schedules, run.schedule) == request.schedules.end())
    request.schedules.push_back(run.schedule);
  return request;
}

/// Returns true if two requests have the same answer. The number of nodes follows from the number of
/// devices, so it is not compared.
bool asks_the_same(const TuneRequest& a, const TuneRequest& b) {
  return a.global_batch_size == b.global_batch_size && a.layer_splits == b.layer_splits &&
         a.schedules == b.schedules && model_of(a).devices == model_of(b).devices &&
         question_of(a.base) == question_of(b.base);
}

/// Returns the run's placement order of parallelisms. If the run's order and the default order number the
/// devices equally, returns the default order.
PlacementOrder order_in_space(const Scenario& run) {
  const DeviceModel& model = std::get<DeviceModel>(run.model);
  Parallel parallel = model.work.parallel;
  parallel.data = *model.copies;
  return orders_differ(parallel, run.shape.stages, model.work.device) ? parallel.order : Parallel{}.order;
}

/// Returns the run's configuration in the form in which the space contains it. The space has only one value
/// for a choice without effect, and the result has this value. Examples are the exchange on one device, the
/// schedule of one stage, or the sharding without copies. Selective recomputation has no effect, because
/// attention kernels are fused.
Configuration configuration_of(const Scenario& run, const TuneRequest& request) {
  const DeviceModel& model = std::get<DeviceModel>(run.model);
  const Parallel& parallel = model.work.parallel;
  const bool has_copies = *model.copies * parallel.context > 1;
  const auto split = std::ranges::find(request.layer_splits, split_of(run));
  return {.nodes = request.base.cluster.named->nodes,
          .tensor = parallel.tensor,
          .context = parallel.context,
          .context_exchange = parallel.context > 1 ? parallel.context_exchange : ContextExchange::ring,
          .expert = parallel.expert,
          .data = *model.copies,
          .order = order_in_space(run),
          .stages = run.shape.stages,
          .virtual_stages = std::max(run.shape.virtual_stages, find_schedule(run.schedule)->chunks),
          .schedule = run.shape.stages == 1 ? "1f1b" : find_schedule(run.schedule)->name,
          .layer_split =
              run.shape.stages == 1 ? 0 : static_cast<std::size_t>(split - request.layer_splits.begin()),
          .micro_batch_size = static_cast<std::int32_t>(*run.batch.micro_batch_size),
          .microbatches = static_cast<std::int32_t>(*run.batch.microbatches),
          .recompute =
              model.work.recompute == LayerRecompute::selective ? LayerRecompute::none : model.work.recompute,
          .sharding = has_copies ? run.shape.sharding.value_or(parallel.sharding) : 0};
}

/// Returns the simulated step time of the run. The run may be outside the space, so the search may not have
/// computed it.
tl::expected<Ns, std::string> step_of(const Scenario& run) {
  const SimulateOptions options{.memory = {.samples = false},
                                .steady = SteadyState::skip,
                                .timeline = TimelineKept::none,
                                .figures = WantedFigures::of_rows};
  const auto result = simulate_scenario(run, options);
  if (!result) return tl::unexpected(result.error().message);
  return result->makespan_ns;
}

std::vector<ChosenValue> values_of(const Answered& answered, const Configuration& configuration) {
  const TuneReport& report = answered.report;
  const auto best = static_cast<double>(report.candidates.front().step_ns);
  const ChoiceTexts texts = choice_texts(answered.request, configuration);
  std::vector<ChosenValue> values;
  for (std::size_t choice = 0; choice < kChoices.size(); ++choice) {
    const auto cost = std::ranges::find_if(report.choices, [&](const ChoiceCost& one) {
      return one.choice == kChoices[choice] && one.value == texts[choice];
    });
    // If no configuration of the space has the run's value, the value is left out. An example is a microbatch
    // of 32 samples.
    if (cost == report.choices.end()) continue;
    ChosenValue& value = values.emplace_back(ChosenValue{kChoices[choice], texts[choice], {}});
    if (cost->best) value.longer = static_cast<double>(report.candidates[*cost->best].step_ns) / best - 1;
  }
  std::ranges::stable_sort(values, std::ranges::greater(), [](const ChosenValue& value) {
    return value.longer.value_or(std::numeric_limits<double>::infinity());
  });
  return values;
}

/// Returns the values of `best` that differ from those of `own`, as text.
std::string differences(const Answered& answered, const Configuration& own, const Configuration& best) {
  const ChoiceTexts owns = choice_texts(answered.request, own);
  const ChoiceTexts bests = choice_texts(answered.request, best);
  std::vector<std::string> words;
  for (std::size_t choice = 0; choice < kChoices.size(); ++choice) {
    if (owns[choice] != bests[choice]) words.push_back(fmt::format("{} {}", kChoices[choice], bests[choice]));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

/// A cache of search requests and the results of their searches. There are few requests, so a linear search
/// is enough.
class Questions {
 public:
  explicit Questions(std::optional<double> seconds) : seconds_(seconds) {}

  tl::expected<const Answered*, std::string> answer(TuneRequest request) {
    for (const Answered& known : answered_) {
      if (asks_the_same(known.request, request)) return &known;
    }
    auto space = tuning_space(request);
    if (!space) return tl::unexpected(space.error());
    const auto start = std::chrono::steady_clock::now();
    const auto is_late = [&] {
      return seconds_ &&
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > *seconds_;
    };
    auto report = tune(request, {.top = 1, .refined = 1, .stopped = is_late});
    // If a search was stopped before it had a result, an answer without a configuration is stored.
    if (!report && !is_late()) return tl::unexpected(report.error().message);
    return &answered_.emplace_back(Answered{.request = std::move(request),
                                            .space = *std::move(space),
                                            .report = report ? *std::move(report) : TuneReport{},
                                            .stopped = is_late()});
  }

  // Other code stores pointers to the elements. They stay valid when a deque grows.
 private:
  std::optional<double> seconds_;
  std::deque<Answered> answered_;  // a deque, because its elements do not move when it grows
};

tl::expected<AgainstBest, std::string> compared(const MeasuredRun& run, Questions& questions) {
  const auto step = step_of(run.scenario);
  if (!step) return tl::unexpected(step.error());
  auto request = request_of(run.scenario);
  if (!request) return tl::unexpected(request.error());
  const auto answered = questions.answer(*std::move(request));
  if (!answered) return tl::unexpected(answered.error());
  const Configuration own = configuration_of(run.scenario, (*answered)->request);
  AgainstBest row{.id = run.id,
                  .in_space = std::ranges::binary_search((*answered)->space, own),
                  .step_ns = *step,
                  .best_ns = *step,
                  .stopped = (*answered)->stopped};
  if ((*answered)->report.candidates.empty()) return row;
  const TunedConfiguration& best = (*answered)->report.candidates.front();
  row.best_ns = best.step_ns;
  row.best_differs = differences(**answered, own, best.configuration);
  row.values = values_of(**answered, own);
  row.best =
      scenario_of(with_layers((*answered)->request, best.configuration, best.layers), best.configuration);
  return row;
}

}  // namespace

tl::expected<std::vector<AgainstBest>, std::string> against_best(std::span<const MeasuredRun> runs,
                                                                 const AgainstBestProgress& progress,
                                                                 std::optional<double> seconds) {
  Questions questions(seconds);
  std::vector<AgainstBest> all;
  for (const MeasuredRun& run : runs) {
    auto one = compared(run, questions);
    if (!one) return tl::unexpected(fmt::format("{}: {}", run.id, one.error()));
    all.push_back(*std::move(one));
    if (progress) progress(all.size(), runs.size());
  }
  return all;
}

}  // namespace penstock
