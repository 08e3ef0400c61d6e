// PipeDream (Narayanan et al., SOSP'19): depth against latency (figure 18), and the gain over GPipe (section
// 5.4), with streams of 1F1B. The depth is the number of minibatches in flight. Stage s runs warm-up[s] + 1
// forwards before its first backward. With latency L, a round trip takes 2 L for each cut, which a longer
// warm-up hides.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/balanced_cuts.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/published/library_models.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/published/reproduce_runs.hpp"

namespace penstock {
namespace {

/// Returns the units for each minibatch of four stages. `warmup` is the number of forwards in each stage's
/// warm-up, and `latency` is the time of a message in one direction.
double period_at_depth(std::vector<std::int32_t> warmup, double latency) {
  return period_units(predicted_run(
      "1f1b-rr", {.stages = 4, .microbatches = 200, .warmup = std::move(warmup)}, equal_stages(4), latency));
}

/// Returns the times, in ms, of the GNMT stages that the balanced cut gives.
std::vector<UnitTimes> gnmt_stages() {
  const LayerGraph graph = library_model("gnmt").graph;
  std::vector<std::int32_t> ends = balanced_cuts(graph, 4);
  ends.push_back(static_cast<std::int32_t>(graph.layers.size()));
  std::vector<UnitTimes> stages;
  std::size_t layer = 0;
  for (const std::int32_t end : ends) {
    UnitTimes times{.forward = 0, .backward = 0};
    for (; layer < static_cast<std::size_t>(end); ++layer) {
      times.forward += static_cast<double>(graph.layers[layer].forward_ns) / 1e6;
      times.backward += static_cast<double>(graph.layers[layer].backward_ns) / 1e6;
    }
    stages.push_back(times);
  }
  return stages;
}

/// Returns the time of a GPipe minibatch of four microbatches, divided by the time of four PipeDream
/// minibatches.
double gpipe_over_pipedream(Checkpoint checkpoint, RecomputeTiming recompute) {
  const Shape shape{.stages = 4, .microbatches = 4, .checkpoint = checkpoint, .recompute = recompute};
  const double pipedream =
      period_units(predicted_run("1f1b-rr", {.stages = 4, .microbatches = 64}, equal_stages(4)));
  return makespan_units(predicted_run("gpipe", shape, equal_stages(4))) / (4 * pipedream);
}

}  // namespace

std::vector<ReproducedFigure> reproduce_pipedream_depth() {
  std::vector<ReproducedFigure> figures;
  for (const double latency : {0.0, 0.25, 0.5, 1.0}) {
    figures.push_back(shown(fmt::format("warm-ups 3, 2, 1, 0 and latency {}: units a minibatch", latency),
                            period_at_depth({3, 2, 1, 0}, latency)));
  }
  for (const double latency : {0.25, 1.0, 1.5}) {
    figures.push_back(shown(fmt::format("warm-ups 6, 4, 2, 0 and latency {}: units a minibatch", latency),
                            period_at_depth({6, 4, 2, 0}, latency)));
  }
  figures.push_back(shown("GPipe over PipeDream, 4 microbatches, nothing recomputed",
                          gpipe_over_pipedream(Checkpoint::never, RecomputeTiming::early)));
  figures.push_back(
      noted(equal(Tolerance::ratio, "GPipe over PipeDream, recomputed before the gradient arrives", 2,
                  gpipe_over_pipedream(Checkpoint::always, RecomputeTiming::early)),
            "the paper says: about 2x"));
  figures.push_back(shown("GPipe over PipeDream, recomputed when it has arrived",
                          gpipe_over_pipedream(Checkpoint::always, RecomputeTiming::late)));
  const std::vector<UnitTimes> gnmt = gnmt_stages();
  figures.push_back(
      formula("GNMT-8 in 4 stages, one minibatch in flight: ms a minibatch, the sum of all stages", 89.416,
              period_units(predicted_run("1f1b-rr", {.stages = 4, .microbatches = 64, .warmup = {0, 0, 0, 0}},
                                         gnmt))));
  figures.push_back(
      formula("GNMT-8 in 4 stages, four minibatches in flight: ms a minibatch, the slowest stage", 25.868,
              period_units(predicted_run("1f1b-rr", {.stages = 4, .microbatches = 64}, gnmt))));
  return figures;
}

}  // namespace penstock
