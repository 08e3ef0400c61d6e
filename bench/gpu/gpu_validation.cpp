// Predicted against measured on one GPU that is cut into workers: the whole matrix, by one command.
//
//   gpu_validation [--quick] [-o FILE.md]      exit 77 where there is no GPU
//
// For each number of workers and each workload it measures what work and copies take (gpu_calibration.hpp),
// predicts every schedule from that alone, and runs it. Beside the table goes a FILE.csv.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/devices.hpp"
#include "backend/cuda/local_run.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/in_process_transport.hpp"
#include "backend/measured_run.hpp"
#include "bench/gpu/gpu_calibration.hpp"
#include "bench/gpu/workloads.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/generators.hpp"
#include "schedules/rendezvous_walk.hpp"
#include "sim/message_costs.hpp"
#include "tests/sim/experiments.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

constexpr int kNotAvailable = 77;
constexpr double kTarget = 0.03;  // stated before any run
constexpr double kGap = 0.03;     // schedules that differ by more must be ranked right
constexpr Bytes kActivation = Bytes{16} << 20;
constexpr std::int32_t kWarmup = 3;
constexpr std::int32_t kRepeats = 10;

enum class Link : std::uint8_t { fast, paced };

/// What the emulated links are: slow enough to be seen beside a forward.
constexpr double kPacedBytesPerSecond = 25e9;
constexpr Ns kPacedLatency = 200'000;

struct Configuration {
  GpuWorkload workload = GpuWorkload::occupy;
  std::string schedule;
  std::int32_t virtual_stages = 1;
  std::int32_t workers = 2;
  std::int32_t microbatches = 4;
  Link link = Link::fast;
};

struct Row {
  Configuration of;
  Ns predicted_ns = 0;
  Ns measured_ns = 0;
  double error() const {
    return static_cast<double>(predicted_ns - measured_ns) / static_cast<double>(measured_ns);
  }
};

std::string_view to_text(Link link) { return link == Link::fast ? "fast" : "paced"; }

// --- experiments ------------------------------------------------------------------------------------------

Ns forward_of(GpuWorkload workload) {
  return workload == GpuWorkload::gemm || workload == GpuWorkload::imbalanced ? 5'000'000 : 2'000'000;
}

/// What the actions of a stage are to take about: of two virtual stages half as long each.
StageCost nominal_cost(GpuWorkload workload, std::int32_t virtual_stages, bool first_half) {
  const Ns whole = forward_of(workload) / virtual_stages;
  const Ns forward = workload == GpuWorkload::imbalanced && first_half ? whole * 3 / 5 : whole;
  return {.forward_ns = forward,
          .backward_ns = 2 * forward,
          .backward_input_ns = forward,
          .backward_weight_ns = forward,
          .recompute_ns = forward,
          .kept = 1};
}

CostTable nominal_costs(const Program& program, GpuWorkload workload) {
  CostTable costs;
  const std::int32_t virtual_stages = program.stage_count() / program.rank_count();
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    costs.stages.push_back(nominal_cost(workload, virtual_stages, stage < program.stage_count() / 2));
  }
  for (const StageEdge& edge : program.edges) {
    costs.edges.push_back({.edge = edge, .activation = kActivation, .gradient = kActivation});
  }
  return costs;
}

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

Cluster cluster_of(const Bench& bench, Link link) {
  if (link == Link::fast) {
    return uniform_links(bench.workers, bench.copies.bytes_per_second, bench.copies.latency_ns);
  }
  return uniform_links(bench.workers, kPacedBytesPerSecond, kPacedLatency);
}

LinkPace pace_of(const Experiment& experiment, const FlatProgram& flat) {
  WalkDurations durations = walk_durations(experiment, flat);
  return {.hold = std::move(durations.hold), .latency = std::move(durations.latency)};
}

/// Nothing where the schedule does not take the shape.
std::optional<Program> program_of(const Configuration& of) {
  const auto program =
      generate(of.schedule,
               {.stages = of.workers, .microbatches = of.microbatches, .virtual_stages = of.virtual_stages});
  if (!program) return std::nullopt;
  return *program;
}

tl::expected<Row, std::string> row_of(const Configuration& of, const Program& program, const Bench& bench,
                                      const Calibrated& work) {
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
    return of.link == Link::paced ? pace_of(asked, flat) : LinkPace{};
  };
  const auto measured = run_on_cuda_local(asked, pace, {.warmup = kWarmup, .repeats = kRepeats}, make);
  if (!measured) return tl::unexpected(measured.error().message);
  return Row{.of = of, .predicted_ns = makespan_ns(calibrated), .measured_ns = (*measured)->makespan_ns};
}

// --- the matrix -------------------------------------------------------------------------------------------

std::vector<Configuration> matrix(GpuWorkload workload, std::int32_t workers, bool quick) {
  std::vector<Configuration> all;
  for (const Link link : {Link::fast, Link::paced}) {
    if (workload == GpuWorkload::bandwidth && link == Link::paced) continue;
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

tl::expected<Bench, std::string> bench_of(std::int32_t count) {
  const auto workers = CudaWorkers::create(count);
  if (!workers) return tl::unexpected(workers.error());
  return Bench{.workers = count, .copies = measure_copies(*workers)};
}

void print(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

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

tl::expected<std::vector<Row>, std::string> run_matrix(bool quick) {
  std::vector<Row> rows;
  for (const std::int32_t workers : {2, 4, 8}) {
    const auto bench = bench_of(workers);
    if (!bench) return tl::unexpected(bench.error());
    print(fmt::format("calibrated: copies on {} workers: {:.1f} us and {:.1f} GB/s", workers,
                      1e-3 * static_cast<double>(bench->copies.latency_ns),
                      1e-9 * bench->copies.bytes_per_second));
    for (const GpuWorkload workload :
         {GpuWorkload::occupy, GpuWorkload::gemm, GpuWorkload::imbalanced, GpuWorkload::bandwidth}) {
      const auto work = calibrated(workload, workers);
      if (!work) return tl::unexpected(work.error());
      print(times_line(workload, workers, *work));
      for (const Configuration& of : matrix(workload, workers, quick)) {
        const auto program = program_of(of);
        if (!program) continue;
        auto row = row_of(of, *program, *bench, *work);
        if (!row) return tl::unexpected(row.error());
        print(fmt::format("{}, {} K={} M={} {}: predicted {:.3f} ms, measured {:.3f} ms, {:+.2f} %",
                          to_text(of.workload), of.schedule, of.workers, of.microbatches, to_text(of.link),
                          1e-6 * static_cast<double>(row->predicted_ns),
                          1e-6 * static_cast<double>(row->measured_ns), 100 * row->error()));
        rows.push_back(*std::move(row));
      }
    }
  }
  return rows;
}

// --- the answer -------------------------------------------------------------------------------------------

bool counts(const Row& row) { return row.of.workload != GpuWorkload::bandwidth; }

/// Rows that differ in their schedule alone.
bool comparable(const Row& a, const Row& b) {
  return a.of.workload == b.of.workload && a.of.workers == b.of.workers &&
         a.of.microbatches == b.of.microbatches && a.of.link == b.of.link;
}

struct Ranking {
  std::int32_t pairs = 0;  ///< whose measured times differ by more than kGap
  std::int32_t right = 0;
};

Ranking ranking_of(const std::vector<Row>& rows) {
  Ranking ranking;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!counts(rows[i]) || !comparable(rows[i], rows[j])) continue;
      const auto shorter = static_cast<double>(std::min(rows[i].measured_ns, rows[j].measured_ns));
      const auto gap = static_cast<double>(rows[i].measured_ns - rows[j].measured_ns);
      if (std::abs(gap) <= kGap * shorter) continue;
      ++ranking.pairs;
      const bool longer_predicted = rows[i].predicted_ns > rows[j].predicted_ns;
      if (longer_predicted == (gap > 0)) ++ranking.right;
    }
  }
  return ranking;
}

double mean_error(const std::vector<Row>& rows, bool of_counted) {
  double sum = 0;
  double count = 0;
  for (const Row& row : rows) {
    if (counts(row) != of_counted) continue;
    sum += std::abs(row.error());
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

std::string table_of(const std::vector<Row>& rows, const std::string& device) {
  const Ranking ranking = ranking_of(rows);
  std::string text = fmt::format(
      "Target, stated before the run: mean absolute error {:g} % or less over all but the bandwidth-bound "
      "rows.\n\n"
      "{}; {} warm-ups and the median of {} runs each.\n\nMean absolute error: {:.2f} % over {} rows; "
      "bandwidth-bound "
      "apart: {:.2f} %. Schedules ranked right where measured times differ by over {:g} %: {} of {} "
      "pairs.\n\n"
      "| workload | schedule | K | M | links | predicted | measured | error "
      "|\n|---|---|---|---|---|---|---|---|\n",
      100 * kTarget, device, kWarmup, kRepeats, 100 * mean_error(rows, true),
      std::ranges::count_if(rows, counts), 100 * mean_error(rows, false), 100 * kGap, ranking.right,
      ranking.pairs);
  for (const Row& row : rows) {
    text += fmt::format("| {} | {} | {} | {} | {} | {:.3f} ms | {:.3f} ms | {:+.2f} % |\n",
                        to_text(row.of.workload), row.of.schedule, row.of.workers, row.of.microbatches,
                        to_text(row.of.link), 1e-6 * static_cast<double>(row.predicted_ns),
                        1e-6 * static_cast<double>(row.measured_ns), 100 * row.error());
  }
  return text;
}

std::string csv_of(const std::vector<Row>& rows) {
  std::string text = "workload,schedule,workers,microbatches,links,predicted_ns,measured_ns,error\n";
  for (const Row& row : rows) {
    text += fmt::format("\"{}\",{},{},{},{},{},{},{:.5f}\n", to_text(row.of.workload), row.of.schedule,
                        row.of.workers, row.of.microbatches, to_text(row.of.link), row.predicted_ns,
                        row.measured_ns, row.error());
  }
  return text;
}

int validate(bool quick, const std::string& file) {
  ask_for_hardware_queues();
  const auto devices = cuda_devices();
  if (!devices) {
    print("skipped: " + devices.error());
    return kNotAvailable;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto rows = run_matrix(quick);
  if (!rows) {
    print("failed: " + rows.error());
    return 1;
  }
  const std::string table = table_of(*rows, devices->front().name);
  print("\n" + table);
  print(fmt::format("took {:.0f} s",
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()));
  if (!file.empty()) {
    std::ofstream(file) << table;
    std::ofstream(file + ".csv") << csv_of(*rows);
  }
  return mean_error(*rows, true) <= kTarget ? 0 : 1;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  bool quick = false;
  std::string file;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument == "--quick") {
      quick = true;
    } else if (argument == "-o" && i + 1 < argc) {
      file = argv[++i];
    } else {
      std::fputs("gpu_validation [--quick] [-o FILE.md]\n", stderr);
      return 2;
    }
  }
  try {
    return penstock::validate(quick, file);
  } catch (const std::exception& error) {
    std::fputs((std::string("gpu_validation: ") + error.what() + "\n").c_str(), stderr);
    return 3;
  }
}
