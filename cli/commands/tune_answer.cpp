// Computes the time and the price of a whole training. A step trains a global batch of sequences, so training
// all tokens takes
//
//     tokens / (global batch x sequence) steps
//
// The price is this time multiplied by the number of devices and the price of one device.

#include "cli/commands/tune_answer.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {

double step_seconds(const TunedConfiguration& tuned) {
  return static_cast<double>(tuned.step_ns) * kSecondsPerNanosecond;
}

double gain_against(const TunedConfiguration& tuned, const TunedConfiguration& best) {
  return tuned.tokens_per_second_per_device / best.tokens_per_second_per_device - 1;
}

double training_seconds(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  const double tokens_per_step = static_cast<double>(answer.request.global_batch_size) *
                                 static_cast<double>(model_of(answer.request).work.sequence);
  return *answer.tokens / tokens_per_step * step_seconds(tuned);
}

std::optional<double> training_cost(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  const auto& price = answer.request.base.cluster.price_per_device_hour;
  if (!price || !answer.tokens) return std::nullopt;
  return training_seconds(answer, tuned) / 3600 * *price *
         static_cast<double>(device_count(tuned.configuration));
}

std::string split_text(const TuneRequest& request, const Configuration& of) {
  return to_text(request.layer_splits[of.layer_split]);
}

std::string layers_text(const TuneRequest& request, const TunedConfiguration& tuned) {
  std::string text = split_text(request, tuned.configuration);
  if (request.layer_splits[tuned.configuration.layer_split].rule != LayerSplit::Rule::balanced) return text;
  for (auto next = tuned.layers.begin(); next != tuned.layers.end();) {
    const auto end =
        std::find_if(next, tuned.layers.end(), [&](std::int64_t other) { return other != *next; });
    text += end - next == 1 ? fmt::format(" {}", *next) : fmt::format(" {}*{}", *next, end - next);
    next = end;
  }
  return text;
}

}  // namespace penstock
