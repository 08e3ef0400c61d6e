// Runs for each number of workers and each workload:
//
//     1F1B and naive over the same stages  -> device stamps  -> costs (workloads.hpp)
//     costs + the lowered program of a row -> critical path  -> predicted time
//     the same program                     -> GPU            -> measured time
//
// All rows use the same workers. A row is written as soon as it is known, so that an interrupted run has all
// rows up to that point. tests/backend/standin/self_tests_test.cpp runs all of it on a model of CUDA.

#include "bench/gpu/validation.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/transport.hpp"
#include "bench/gpu/validation_rows.hpp"
#include "bench/gpu/workloads.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {
namespace {

/// The emulated links are so slow that their time is visible compared with a forward.
constexpr double kPacedBytesPerSecond = 25e9;
constexpr Ns kPacedLatency = 200'000;

/// A calibration program repeats its measurements itself, so one run is enough.
const RunOptions kOnce{.warmup = 0, .repeats = 1};

GpuRepeats repeats_of(bool quick) { return quick ? GpuRepeats{.warmup = 1, .counted = 5} : GpuRepeats{}; }

// --- workers and what they compute with -------------------------------------------------------------------

/// The workers, and the clocks of the present workload.
struct Bench {
  CudaWorkers workers;
  MessageTimes messages{};
  GpuWorkload workload = GpuWorkload::occupy;
  std::vector<std::unique_ptr<WorkClock>> clocks{};
  std::map<std::int32_t, tl::expected<std::vector<StageCost>, std::string>>
      stages{};  ///< costs by number of stages

  std::int32_t count() const { return workers.count(); }
};

LinkPace no_pace(const FlatProgram&) { return {}; }

tl::expected<Result, std::string> measured(const Bench& bench, const Experiment& asked,
                                           const PaceOfLinks& pace, const RunOptions& options) {
  const MakeCudaModules make =
      [&](const std::vector<std::optional<CudaPlace>>&) -> tl::expected<CudaModules, std::string> {
    return CudaModules{.family = std::make_unique<WorkFamily>(asked, bench.clocks)};
  };
  auto result = run_on_workers(asked, pace, options, bench.workers, make);
  if (!result) return tl::unexpected(std::move(result.error().message));
  return std::move(result->value());
}

RunOnWorkers runner_of(const Bench& bench) {
  return [&bench](const Experiment& experiment) -> tl::expected<Timeline, std::string> {
    auto result = measured(bench, experiment, no_pace, kOnce);
    if (!result) return tl::unexpected(std::move(result.error()));
    return std::move(result->timeline);
  };
}

/// Gives the workers the clocks of another workload, and removes the measurements of the previous one.
void begin_workload(Bench& bench, GpuWorkload workload) {
  bench.workload = workload;
  bench.stages.clear();
  bench.clocks.clear();
  for (std::int32_t worker = 0; worker < bench.count(); ++worker)
    bench.clocks.push_back(std::make_unique<WorkClock>(workload, bench.workers.place(worker), 1000));
  const Ns unit_ns = unit_of(workload, bench.clocks);
  for (const auto& clock : bench.clocks) clock->set_unit(unit_ns);
}

/// Returns the costs of stages for the number of stages of `program`. They are measured at first use.
const tl::expected<std::vector<StageCost>, std::string>& stages_of(Bench& bench, const Program& program) {
  const std::int32_t stages = program.stage_count();
  const auto found = bench.stages.find(stages);
  if (found != bench.stages.end()) return found->second;
  // All workers are equal, so the rank of a stage does not matter, and the measurement with one schedule
  // applies to all.
  auto like = generate(
      "looped-bfs",
      {.stages = bench.count(), .microbatches = bench.count(), .virtual_stages = stages / bench.count()});
  auto measured = like ? measured_stages(bench.workload, *like, runner_of(bench))
                       : tl::expected<std::vector<StageCost>, std::string>(tl::unexpected(like.error()));
  return bench.stages.emplace(stages, std::move(measured)).first->second;
}

// --- one row ----------------------------------------------------------------------------------------------

std::string milliseconds(Ns time) { return fmt::format("{:.3f} ms", 1e-6 * static_cast<double>(time)); }

/// Returns the times of the emulated links. They are the times that the engines compute for the experiment's
/// cluster.
LinkPace pace_of(const Experiment& experiment, const FlatProgram& flat) {
  WalkDurations durations = walk_durations(experiment, flat);
  return {.hold = std::move(durations.hold), .latency = std::move(durations.latency)};
}

/// Returns one row. Paced links have equal stated figures in the run and in the prediction.
GpuRow row_of(const GpuConfiguration& of, const Program& program, Bench& bench, const GpuRepeats& repeats) {
  GpuRow row{.of = of};
  const auto& stages = stages_of(bench, program);
  if (!stages) {
    row.failure = "calibration: " + stages.error();
    return row;
  }
  const bool paced = of.link == GpuLinks::paced;
  const Ns latency = paced ? kPacedLatency : bench.messages.latency_ns;
  const double bandwidth = paced ? kPacedBytesPerSecond
                                 : 1e9 * static_cast<double>(kNominalMessage) /
                                       static_cast<double>(std::max<Ns>(1, bench.messages.copy_busy_ns));
  const CostTable nominal = nominal_costs(program, of.workload);
  CostTable costs = nominal;
  costs.stages = *stages;
  const auto predicted = critical_path(gpu_experiment_of(program, costs, latency, bandwidth));
  if (!predicted) {
    row.failure = "prediction: " + predicted.error().message;
    return row;
  }
  row.predicted_ns = predicted->makespan_ns;
  const Experiment asked = gpu_experiment_of(program, nominal, latency, bandwidth);
  const PaceOfLinks pace = [&](const FlatProgram& flat) { return paced ? pace_of(asked, flat) : LinkPace{}; };
  const auto result = measured(bench, asked, pace, {.warmup = repeats.warmup, .repeats = repeats.counted});
  if (result) {
    row.measured_ns = result->makespan_ns;
  } else {
    row.failure = result.error();
  }
  return row;
}

std::string line_of(const GpuRow& row) {
  std::string line =
      fmt::format("{}, {} K={} M={} {}: predicted {}, ", to_text(row.of.workload), row.of.schedule,
                  row.of.workers, row.of.microbatches, to_text(row.of.link), milliseconds(row.predicted_ns));
  if (row.has_failed()) return line + "failed: " + row.failure;
  return line + fmt::format("measured {}, {:+.2f} %", milliseconds(row.measured_ns), 100 * row.error());
}

// --- the matrix -------------------------------------------------------------------------------------------

/// Returns the schedules of a part of the matrix: the five named here, or all schedules of the table.
std::vector<std::string> schedules_of(GpuWorkload workload, std::int32_t workers, GpuLinks link,
                                      const ValidationRequest& request) {
  std::vector<std::string> names = {"gpipe", "1f1b", "interleaved", "zb-h1", "1f1b-rr"};
  const bool all = request.every_schedule && workload == GpuWorkload::occupy && link == GpuLinks::fast &&
                   (!request.quick || workers == 4);
  if (!all) return names;
  names.clear();
  for (const ScheduleInfo& schedule : schedule_table()) names.emplace_back(schedule.name);
  return names;
}

/// Returns all configurations of one workload on `workers` workers, in the order of the table.
std::vector<GpuConfiguration> matrix(GpuWorkload workload, std::int32_t workers,
                                     const ValidationRequest& request) {
  std::vector<GpuConfiguration> all;
  for (const GpuLinks link : {GpuLinks::fast, GpuLinks::paced}) {
    if (workload == GpuWorkload::bandwidth && link == GpuLinks::paced) continue;
    for (const std::int32_t microbatches : {2 * workers, 4 * workers}) {
      // The whole run must end within ten minutes.
      const bool shortened = request.quick || workload == GpuWorkload::imbalanced;
      if (shortened && microbatches > 2 * workers) continue;
      for (const std::string& schedule : schedules_of(workload, workers, link, request)) {
        all.push_back({.workload = workload,
                       .schedule = schedule,
                       .virtual_stages = takes_chunks(*find_schedule(schedule)) ? 2 : 1,
                       .workers = workers,
                       .microbatches = microbatches,
                       .link = link});
      }
    }
  }
  return all;
}

/// The rows of one validation. Each row is written and printed as soon as it is known.
class Report {
 public:
  Report(const ValidationRequest& request, std::string device)
      : request_(request), device_(std::move(device)), repeats_(repeats_of(request.quick)) {}

  const GpuRepeats& repeats() const { return repeats_; }
  const std::vector<GpuRow>& rows() const { return rows_; }
  std::string table() const { return table_of(rows_, device_, repeats_); }

  void add(GpuRow row) {
    request_.print(line_of(row));
    rows_.push_back(std::move(row));
    write();
  }

  /// Returns true if the last row could be written.
  bool is_written() const { return written_; }

 private:
  void write() {
    if (request_.file.empty()) return;
    written_ = write_to(request_.file, table()) && write_to(request_.file + ".csv", csv_of(rows_));
  }

  static bool write_to(const std::string& file, const std::string& text) {
    std::ofstream stream(file);
    return static_cast<bool>(stream << text << std::flush);
  }

  const ValidationRequest& request_;
  std::string device_;
  GpuRepeats repeats_;
  std::vector<GpuRow> rows_;
  bool written_ = true;
};

void add_rows(GpuWorkload workload, Bench& bench, const ValidationRequest& request, Report& report) {
  begin_workload(bench, workload);
  for (const GpuConfiguration& of : matrix(workload, bench.count(), request)) {
    if (of.link == GpuLinks::paced && !bench.workers.can_pace_links()) continue;
    const auto program = generate(
        of.schedule,
        {.stages = of.workers, .microbatches = of.microbatches, .virtual_stages = of.virtual_stages});
    if (!program) continue;  // the schedule does not accept the shape
    // Data parallelism without stages is not a pipeline.
    if (program->stage_count() < bench.count()) continue;
    GpuRow row{.of = of};
    try {
      row = row_of(of, *program, bench, report.repeats());
    } catch (const std::exception& error) {
      row.failure = error.what();
    }
    report.add(std::move(row));
  }
}

/// Measures all rows for one number of workers. Fails if the workers cannot be created, or if no message was
/// measured.
tl::expected<void, std::string> add_workers(std::int32_t count, const ValidationRequest& request,
                                            Report& report) {
  auto workers = CudaWorkers::create(count);
  if (!workers) return tl::unexpected(workers.error());
  Bench bench{.workers = *std::move(workers)};
  request.print(bench.workers.description());
  if (!bench.workers.can_pace_links())
    request.print("no SMs are left for emulated links: rows of paced links are left out");
  begin_workload(bench, GpuWorkload::occupy);
  const auto messages = measured_messages(count, runner_of(bench));
  if (!messages) return tl::unexpected(messages.error());
  bench.messages = *messages;
  request.print(fmt::format(
      "calibrated: messages of {} MiB on {} workers: copy {:.1f} us alone, {:.1f} us busy, latency {:.1f} us",
      kNominalMessage >> 20, count, 1e-3 * static_cast<double>(messages->copy_alone_ns),
      1e-3 * static_cast<double>(messages->copy_busy_ns), 1e-3 * static_cast<double>(messages->latency_ns)));
  for (const GpuWorkload workload : request.workloads) add_rows(workload, bench, request, report);
  return {};
}

}  // namespace

ValidationOutcome validate(const ValidationRequest& request) {
  ask_for_hardware_queues();
  const auto devices = cuda_devices();
  if (!devices) {
    request.print("skipped: " + devices.error());
    return ValidationOutcome::no_gpu;
  }
  const auto begin = std::chrono::steady_clock::now();
  Report report(request, devices->front().name);
  bool failed = false;
  for (const std::int32_t workers : request.workers) {
    const auto added = add_workers(workers, request, report);
    if (added) continue;
    request.print(fmt::format("failed: {} workers: {}", workers, added.error()));
    failed = true;
  }
  request.print(fmt::format("\n{}", report.table()));
  request.print(fmt::format("took {:.0f} s",
                            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()));
  for (const GpuRow& row : report.rows()) failed |= row.has_failed();
  if (!report.is_written()) {
    request.print(fmt::format("failed: {} or {}.csv cannot be written", request.file, request.file));
    failed = true;
  }
  if (const std::string unseen = unseen_pacing(report.rows()); !unseen.empty()) {
    request.print(unseen);
    failed = true;
  }
  return !failed && mean_error(report.rows()) <= kTarget ? ValidationOutcome::good
                                                         : ValidationOutcome::failed;
}

}  // namespace penstock
