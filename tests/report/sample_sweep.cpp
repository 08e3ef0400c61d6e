#include "tests/report/sample_sweep.hpp"

#include <cstdint>
#include <string>

#include "report/result/sweep_table.hpp"

namespace penstock::sample {
namespace {

/// F + B take 3 ms on one rank; the bubble is the closed form's.
SweepRow row_of(const std::string& schedule, std::int32_t stages, std::int32_t microbatches) {
  SweepRow row;
  row.schedule = schedule;
  row.stages = stages;
  row.microbatches = microbatches;
  row.micro_batch_size = 1;
  row.global_batch_size = microbatches;
  row.makespan_ns = Ns{3'000'000} * (microbatches + stages - 1);
  const double bubble = (stages - 1.0) / (microbatches + stages - 1.0);
  row.bubble = {bubble, (stages - 1.0) / microbatches, 0.25};
  if (schedule == "gpipe") row.closed_form_bubble = bubble;
  row.throughput.samples_per_second = 1e9 * microbatches / static_cast<double>(row.makespan_ns);
  row.throughput.samples_per_update = microbatches;
  row.peak_bytes = Bytes{1} << 30;
  return row;
}

SweepRow without_figures(SweepRow row, SweepStatus status, const std::string& reason) {
  row.status = status;
  if (status == SweepStatus::skipped) row.micro_batch_size.reset();
  row.reason = reason;
  return row;
}

}  // namespace

Sweep small_sweep() {
  Sweep sweep;
  sweep.title = "small";
  for (const std::int32_t microbatches : {1, 4}) {
    sweep.rows.push_back(row_of("gpipe", 1, microbatches));
    sweep.rows.push_back(row_of("gpipe", 2, microbatches));
    sweep.rows.push_back(without_figures(row_of("gpipe", 3, microbatches), SweepStatus::skipped,
                                         "3 stages need 3 devices, there are 2"));
    sweep.rows.push_back(without_figures(row_of("1f1b", 1, microbatches), SweepStatus::out_of_memory, ""));
    SweepRow steady = row_of("1f1b", 2, microbatches);
    steady.throughput.steady_samples_per_second = 1000.0 / 3;
    sweep.rows.push_back(steady);
  }
  return sweep;
}

}  // namespace penstock::sample
