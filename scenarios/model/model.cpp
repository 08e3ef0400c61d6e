// Figures that differ from microbatch to microbatch become those of one microbatch, key by key:
//
//   forward: [1 ms, [1 ms, 3 ms]]   at microbatch 1   forward: [1 ms, 3 ms]
//
// so that whatever reads figures reads those of one microbatch, and never asks which.

#include "scenarios/model/model.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

// Of what a microbatch passes through. Weights, their gradients and state, STEP and overhead are a stage's
// own, whatever the microbatch.
StageFigures StageFigures::at_microbatch(std::size_t microbatch) const {
  StageFigures one = *this;
  for (PerStage<Ns>* times : {&one.forward, &one.backward, &one.backward_input, &one.backward_weight,
                              &one.recompute, &one.overlapped_pair}) {
    *times = times->at_microbatch(microbatch);
  }
  for (PerStage<Bytes>* bytes : {&one.activation, &one.gradient, &one.kept, &one.released_by_input,
                                 &one.recomputed, &one.recomputed_at_once, &one.input, &one.transient}) {
    *bytes = bytes->at_microbatch(microbatch);
  }
  return one;
}

std::vector<std::pair<std::size_t, std::string>> StageFigures::microbatch_lists() const {
  std::vector<std::pair<std::size_t, std::string>> lists;
  const auto add = [&lists](const auto& figures) {
    for (const auto& of_stage : figures.by_microbatch) {
      if (!of_stage.empty()) lists.emplace_back(of_stage.size(), figures.place);
    }
  };
  for (const PerStage<Ns>* times :
       {&forward, &backward, &backward_input, &backward_weight, &recompute, &overlapped_pair}) {
    add(*times);
  }
  for (const PerStage<Bytes>* bytes : {&activation, &gradient, &kept, &released_by_input, &recomputed,
                                       &recomputed_at_once, &input, &transient})
    add(*bytes);
  return lists;
}

std::size_t StageFigures::microbatch_period(std::int32_t microbatches) const {
  const auto lists = microbatch_lists();
  if (lists.empty()) return 0;
  const auto most = static_cast<std::size_t>(microbatches);
  std::size_t period = 1;
  for (const auto& [length, place] : lists) {
    // Of a list longer than M the first M count. Beyond M nothing repeats, and lcm() cannot overflow below
    // it.
    period = std::lcm(period, std::min(length, most));
    if (period >= most) return most;
  }
  // Iterations number their microbatches through: a period that does not divide M would begin the next one in
  // its middle.
  return most % period == 0 ? period : most;
}

}  // namespace penstock
