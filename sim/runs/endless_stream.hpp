#pragma once
// An asynchronous schedule (UpdateRule::microbatch) is one stream without an end: what it comes to once its
// pipeline is full, however many microbatches the scenario runs. Used by simulate.cpp.

#include <optional>
#include <vector>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/engines/engines.hpp"

namespace penstock {

/// The steady state of a stream.
struct EndlessStream {
  std::optional<double> samples_per_second;  ///< absent: no period showed
  std::vector<RankMemory> memories;          ///< one a rank; peaks, no curve
  bool is_of_any_length = true;              ///< the scenario's number of microbatches was not asked for
};

/// The stream of `scenario`, from which `experiment` was prepared. Neither the scenario's number of
/// microbatches nor its iterations change the answer. Nothing when it has no such stream: updates come once
/// a minibatch, its program is a file (whose length is its own), or a stream that fills the pipeline is
/// beyond the engines.
std::optional<EndlessStream> endless_stream(const Scenario& scenario, const Experiment& experiment,
                                            Engine engine);

}  // namespace penstock
