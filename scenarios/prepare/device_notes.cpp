// A price is as good as what was assumed for it, so that all of it is said: which devices share what, and by
// which constants a layer was priced.

#include "scenarios/prepare/device_notes.hpp"

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_recompute.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/gather.hpp"
#include "topology/device_types.hpp"

namespace penstock {
namespace {

std::string_view on_or_off(bool flag) { return flag ? "on" : "off"; }

/// Which devices share what, and what lies between them.
std::string devices_note(const Workload& work) {
  const Parallel& parallel = work.parallel;
  const auto place = [&](DeviceGroup group) {
    return is_on_nvlink(parallel, work.ranks, group, work.device) ? "NVLink" : "network";
  };
  return fmt::format(
      "{} x {}: tensor {} x context {} ({}) x {} stages x data {}, expert {}, order {}; tensor over {}, "
      "stages over {}, copies over {}; a rank is {} of them, and its figures are those of one",
      device_count(parallel, work.ranks), work.device.name, parallel.tensor, parallel.context,
      to_text(parallel.context_exchange), work.ranks, parallel.data, parallel.expert, to_text(parallel.order),
      place(DeviceGroup::tensor), place(DeviceGroup::pipeline), place(DeviceGroup::data),
      parallel.devices_per_rank());
}

/// Everything that a scenario may leave out, with the value that was taken.
std::string prices_note(const LayerSplit& split, const Workload& work) {
  const Parallel& parallel = work.parallel;
  const DeviceType& device = work.device;
  return fmt::format(
      "priced with sequence {}, precision {}, {} bytes a gradient, {} bytes a parameter for the optimizer, "
      "recompute {}, layer_split {}, sequence_parallel {}, tensor_overlap {}, data_overlap {}, "
      "sharding {}{}, sustained {}, collectives {}, step_fraction {}",
      work.sequence, to_text(work.precision), work.gradient_bytes, work.optimizer_bytes,
      to_text(work.recompute), to_text(split), on_or_off(parallel.sequence_parallel),
      on_or_off(parallel.tensor_overlap), on_or_off(parallel.data_overlap), parallel.sharding,
      parallel.sharding > 1 ? fmt::format(" (gather {})", to_text(parallel.gather)) : "",
      sustained_factor(work), device.collectives, device.step_fraction);
}

/// Says which layers each stage has, and why the prices have decided that.
std::string layers_note(const LayerSplit& split, const Workload& work, std::span<const std::int64_t> layers) {
  const std::string reason =
      split.rule == LayerSplit::Rule::unstated
          ? fmt::format("{} layers do not divide over {} stages, and are balanced by price",
                        work.model.layers.size(), layers.size())
          : fmt::format("{} layers are balanced by price", work.model.layers.size());
  return fmt::format("{}; by stage: [{}]", reason, fmt::join(layers, ", "));
}

}  // namespace

std::vector<std::string> device_notes(const Workload& work, const LayerSplit& split,
                                      std::span<const std::int64_t> layers) {
  const LayerSplit in_force = {
      .rule = rule_in_force(split, std::ssize(work.model.layers), static_cast<std::int32_t>(layers.size())),
      .counts = split.counts};
  std::vector<std::string> notes = {devices_note(work), prices_note(in_force, work)};
  if (in_force.rule == LayerSplit::Rule::balanced) notes.push_back(layers_note(split, work, layers));
  if (work.deferred_head) {
    notes.emplace_back(
        "the head's weight gradient is computed at the end of the step, from what all microbatches leave "
        "(training.deferred_head)");
  }
  if (work.model.experts && work.unexplained_expert_seconds > 0) {
    notes.push_back(fmt::format(
        "each layer of experts has {:.4g} ms both ways that no known kernel explains, as DeepSeek-V2 showed "
        "on B200 (training.expert_layer)",
        work.unexplained_expert_seconds * 1e3));
  }
  return notes;
}

}  // namespace penstock
