// For each number of workers and each workload: what work and copies take is measured (gpu_calibration.hpp),
// every schedule is predicted from that alone, and run.

#include "bench/gpu/validation.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/devices.hpp"
#include "backend/cuda/local_run.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/link_pace.hpp"
#include "backend/executor/measured_run.hpp"
#include "bench/gpu/gpu_calibration.hpp"
#include "bench/gpu/nominal_costs.hpp"
#include "bench/gpu/validation_rows.hpp"
#include "bench/gpu/workloads.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/message_costs.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// What the emulated links are: slow enough to be seen beside a forward.
constexpr double kPacedBytesPerSecond = 25e9;
constexpr Ns kPacedLatency = 200'000;

// --- experiments ------------------------------------------------------------------------------------------

/// The table with every stated duration replaced by what such work was measured to take on busy workers.
CostTable measured_costs(CostTable costs, const std::map<Ns, WorkTimes>& times) {
  for (StageCost& stage : costs.stages) {
    for (Ns* duration : {&stage.forward_ns, &stage.backward_ns, &stage.backward_input_ns,
                         &stage.backward_weight_ns, &stage.recompute_ns}) {
      *duration = times.at(*duration).busy.median_ns;
    }
  }
  return costs;
}

/// All durations that a workload's actions may have.
std::set<Ns> durations_of(GpuWorkload workload) {
  std::set<Ns> durations;
  for (const std::int32_t virtual_stages : {1, 2}) {
    for (const bool first_half : {true, false}) {
      const StageCost cost = nominal_cost(workload, virtual_stages, first_half);
      durations.insert({cost.forward_ns, cost.backward_ns});
    }
  }
  return durations;
}

/// What a workload takes on some number of workers.
struct Calibrated {
  Ns unit_ns = 1000;  ///< of its work
  std::map<Ns, WorkTimes> times;
};

/// One number of workers, cut once.
struct Bench {
  std::int32_t workers = 2;
  CopyTimes copies;
};

Cluster cluster_of(const Bench& bench, GpuLinks link) {
  const bool paced = link == GpuLinks::paced;
  return uniform_cluster({.devices = bench.workers,
                          .bytes_per_second = paced ? kPacedBytesPerSecond : bench.copies.bytes_per_second,
                          .latency_ns = paced ? kPacedLatency : bench.copies.latency_ns,
                          .memory_bytes = {}})
      .value();
}

/// The lowered program at these costs.
Experiment experiment_of(const Program& program, const CostTable& costs, const Cluster& cluster) {
  return {.name = program.schedule,
          .program = lower(program).value(),
          .costs = costs,
          .cluster = cluster,
          .channels = {},
          .notes = {}};
}

/// What holds the messages of a run back: the same times that the engines give them.
LinkPace pace_of(const Experiment& experiment, const FlatProgram& flat) {
  WalkDurations durations = walk_durations(experiment, flat);
  return {.hold = std::move(durations.hold), .latency = std::move(durations.latency)};
}

/// Nothing where the schedule does not take the shape.
std::optional<Program> program_of(const GpuConfiguration& of) {
  const auto program =
      generate(of.schedule,
               {.stages = of.workers, .microbatches = of.microbatches, .virtual_stages = of.virtual_stages});
  if (!program) return std::nullopt;
  return *program;
}

/// One row. The workers are asked for the nominal costs; the prediction is made from what these were measured
/// to take:
///
///   nominal costs    -> run on the GPU                                    -> measured_ns
///        |
///        v
///   measured costs   -> critical path of the same program                 -> predicted_ns
///
/// Paced links are held back by the stated figures in the run, and have the same figures in the prediction.
tl::expected<GpuRow, std::string> row_of(const GpuConfiguration& of, const Program& program,
                                         const Bench& bench, const Calibrated& work) {
  const CostTable nominal = nominal_costs(program, of.workload);
  const Cluster cluster = cluster_of(bench, of.link);
  const Experiment asked = experiment_of(program, nominal, cluster);
  const Experiment calibrated = experiment_of(program, measured_costs(nominal, work.times), cluster);
  const MakeCudaModules make =
      [&](const std::vector<std::optional<CudaPlace>>& places) -> tl::expected<CudaModules, std::string> {
    std::vector<std::unique_ptr<WorkClock>> clocks;
    for (const auto& place : places)
      clocks.push_back(std::make_unique<WorkClock>(of.workload, place.value(), work.unit_ns));
    return CudaModules{.family = std::make_unique<WorkFamily>(asked, std::move(clocks))};
  };
  const PaceOfLinks pace = [&](const FlatProgram& flat) {
    return of.link == GpuLinks::paced ? pace_of(asked, flat) : LinkPace{};
  };
  const auto measured = run_on_cuda_local(asked, pace, {.warmup = kWarmup, .repeats = kRepeats}, make);
  if (!measured) return tl::unexpected(measured.error().message);
  return GpuRow{.of = of,
                .predicted_ns = critical_path(calibrated).value().makespan_ns,
                .measured_ns = (*measured)->makespan_ns};
}

// --- the matrix -------------------------------------------------------------------------------------------

/// All configurations of one workload on so many workers, in the order of the table.
std::vector<GpuConfiguration> matrix(GpuWorkload workload, std::int32_t workers, bool quick) {
  std::vector<GpuConfiguration> all;
  for (const GpuLinks link : {GpuLinks::fast, GpuLinks::paced}) {
    if (workload == GpuWorkload::bandwidth && link == GpuLinks::paced) continue;
    for (const std::int32_t microbatches : {2 * workers, 4 * workers}) {
      const bool shortened = quick || workload == GpuWorkload::imbalanced;  // ten minutes are all there is
      if (shortened && microbatches > 2 * workers) continue;
      for (const auto& [schedule, virtual_stages] :
           {std::pair("gpipe", 1), std::pair("1f1b", 1), std::pair("interleaved", 2), std::pair("zb-h1", 1),
            std::pair("1f1b-rr", 1)}) {
        all.push_back({.workload = workload,
                       .schedule = schedule,
                       .virtual_stages = virtual_stages,
                       .workers = workers,
                       .microbatches = microbatches,
                       .link = link});
      }
    }
  }
  return all;
}

/// Times of the workload on that many workers.
tl::expected<Calibrated, std::string> calibrated(GpuWorkload workload, std::int32_t count) {
  const auto workers = CudaWorkers::create(count);
  if (!workers) return tl::unexpected(workers.error());
  std::vector<std::unique_ptr<WorkClock>> clocks;
  for (std::int32_t worker = 0; worker < count; ++worker) {
    clocks.push_back(std::make_unique<WorkClock>(workload, workers->place(worker), 1000));
  }
  const Ns unit_ns = unit_of(workload, clocks);
  for (const auto& clock : clocks) clock->set_unit(unit_ns);
  return Calibrated{.unit_ns = unit_ns, .times = measure_work(clocks, durations_of(workload))};
}

/// Copies need no workload, so that one measurement serves all of them.
tl::expected<Bench, std::string> bench_of(std::int32_t count) {
  const auto workers = CudaWorkers::create(count);
  if (!workers) return tl::unexpected(workers.error());
  return Bench{.workers = count, .copies = measure_copies(*workers)};
}

/// "calibrated: gemm on 4 workers: 5.000 ms takes 5.021 alone, 5.103 busy (+-0.4 %); ..."
std::string times_line(GpuWorkload workload, std::int32_t workers, const Calibrated& work) {
  std::string line = fmt::format("calibrated: {} on {} workers:", to_text(workload), workers);
  for (const auto& [duration, taken] : work.times) {
    line +=
        fmt::format(" {:.3f} ms takes {:.3f} alone, {:.3f} busy (+-{:.1f} %);",
                    1e-6 * static_cast<double>(duration), 1e-6 * static_cast<double>(taken.alone.median_ns),
                    1e-6 * static_cast<double>(taken.busy.median_ns), 100 * taken.busy.relative());
  }
  return line;
}

/// All rows of one workload on one number of workers.
tl::expected<void, std::string> add_rows(GpuWorkload workload, const Bench& bench,
                                         const ValidationRequest& request, std::vector<GpuRow>& rows) {
  const auto work = calibrated(workload, bench.workers);
  if (!work) return tl::unexpected(work.error());
  request.print(times_line(workload, bench.workers, *work));
  for (const GpuConfiguration& of : matrix(workload, bench.workers, request.quick)) {
    const auto program = program_of(of);
    if (!program) continue;
    auto row = row_of(of, *program, bench, *work);
    if (!row) return tl::unexpected(row.error());
    request.print(fmt::format("{}, {} K={} M={} {}: predicted {:.3f} ms, measured {:.3f} ms, {:+.2f} %",
                              to_text(of.workload), of.schedule, of.workers, of.microbatches,
                              to_text(of.link), 1e-6 * static_cast<double>(row->predicted_ns),
                              1e-6 * static_cast<double>(row->measured_ns), 100 * row->error()));
    rows.push_back(*std::move(row));
  }
  return {};
}

tl::expected<std::vector<GpuRow>, std::string> run_matrix(const ValidationRequest& request) {
  std::vector<GpuRow> rows;
  for (const std::int32_t workers : request.workers) {
    const auto bench = bench_of(workers);
    if (!bench) return tl::unexpected(bench.error());
    request.print(fmt::format("calibrated: copies on {} workers: {:.1f} us and {:.1f} GB/s", workers,
                              1e-3 * static_cast<double>(bench->copies.latency_ns),
                              1e-9 * bench->copies.bytes_per_second));
    for (const GpuWorkload workload : request.workloads) {
      if (const auto added = add_rows(workload, *bench, request, rows); !added) {
        return tl::unexpected(added.error());
      }
    }
  }
  return rows;
}

bool is_written(const std::string& file, const std::string& text) {
  std::ofstream stream(file);
  return static_cast<bool>(stream << text << std::flush);
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
  const auto rows = run_matrix(request);
  if (!rows) {
    request.print("failed: " + rows.error());
    return ValidationOutcome::failed;
  }
  const std::string table = table_of(*rows, devices->front().name);
  request.print("\n" + table);
  request.print(fmt::format("took {:.0f} s",
                            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()));
  if (!request.file.empty()) {
    const bool written = is_written(request.file, table) && is_written(request.file + ".csv", csv_of(*rows));
    if (!written) {
      request.print(fmt::format("failed: {} or {}.csv cannot be written", request.file, request.file));
      return ValidationOutcome::failed;
    }
  }
  if (const std::string unseen = unseen_pacing(*rows); !unseen.empty()) {
    request.print(unseen);
    return ValidationOutcome::failed;
  }
  return mean_error(*rows) <= kTarget ? ValidationOutcome::good : ValidationOutcome::failed;
}

}  // namespace penstock
