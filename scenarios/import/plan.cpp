// Completes a Plan and writes it as a scenario. The missing numbers are computed from the others:
//
//     copies       = devices / (tensor x context x stages)
//     microbatches = global batch / (microbatch x copies)
//
// A scenario on a named device has all keys of the plan. If no device is named, no costs can be computed.
// Each layer then takes F = 1 ms and B = 2 ms, and schedule.data_parallel states the copies.
// tests/scenarios/import_test.cpp and tests/sim/import_emitted_test.cpp check both forms.

#include "scenarios/import/plan.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/read/quantities.hpp"
#include "scenarios/read/scenario.hpp"
#include "text/numbers.hpp"
#include "topology/presets.hpp"

namespace penstock {

void Plan::set(std::string key, std::string value) {
  const auto found = std::ranges::find(keys, key, &std::pair<std::string, std::string>::first);
  if (found != keys.end()) {
    found->second = std::move(value);
  } else {
    keys.emplace_back(std::move(key), std::move(value));
  }
}

const std::string* Plan::find(std::string_view key) const {
  const auto found = std::ranges::find(keys, key, &std::pair<std::string, std::string>::first);
  return found == keys.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> Plan::number(std::string_view key) const {
  const std::string* value = find(key);
  return value == nullptr ? std::nullopt : number_of_text<std::int64_t>(*value);
}

void Plan::remove(std::string_view key) {
  std::erase_if(keys, [&](const auto& entry) { return entry.first == key; });
}

namespace {

using Check = tl::expected<void, std::string>;

Check complete_copies(Plan& plan) {
  const std::int64_t of_copy = plan.tensor * plan.context * plan.stages;
  if (!plan.copies && plan.devices) {
    if (*plan.devices % of_copy != 0) {
      return tl::unexpected(
          fmt::format("expected a number of devices that is a multiple of tensor {} x context {} x stages {} "
                      "= {}, got {}; "
                      "give --devices N",
                      plan.tensor, plan.context, plan.stages, of_copy, *plan.devices));
    }
    plan.copies = *plan.devices / of_copy;
  }
  if (!plan.copies && plan.global_batch_size && plan.microbatches && plan.micro_batch_size) {
    const std::int64_t of_one = *plan.micro_batch_size * *plan.microbatches;
    if (*plan.global_batch_size % of_one != 0) {
      return tl::unexpected(
          fmt::format("expected a global batch that is a multiple of microbatch {} x microbatches {}, got {}",
                      *plan.micro_batch_size, *plan.microbatches, *plan.global_batch_size));
    }
    plan.copies = *plan.global_batch_size / of_one;
  }
  if (!plan.copies) {
    // Experts are spread over tensor x context x data, so they need a multiple of that.
    const std::int64_t of_stage = plan.tensor * plan.context;
    plan.copies = std::lcm(plan.number("parallel.expert").value_or(1), of_stage) / of_stage;
    const std::string taken = *plan.copies == 1
                                  ? std::string("one copy of the pipeline is")
                                  : fmt::format("the {} copies that hold its experts are", *plan.copies);
    plan.notes.push_back(
        fmt::format("the number of devices is not stated: {} taken (devices: {}); give --devices N", taken,
                    *plan.copies * of_copy));
  }
  const std::int64_t needed = *plan.copies * of_copy;
  if (plan.devices && *plan.devices != needed) {
    return tl::unexpected(fmt::format(
        "the configuration needs {} devices (tensor {} x context {} x stages {} x copies {}), and {} "
        "are stated",
        needed, plan.tensor, plan.context, plan.stages, *plan.copies, *plan.devices));
  }
  const std::int64_t expert = plan.number("parallel.expert").value_or(1);
  if (expert > 1 && *plan.copies * plan.tensor * plan.context % expert != 0) {
    return tl::unexpected(fmt::format(
        "expected devices of a stage that are a multiple of the expert-parallel degree {}, got {} "
        "(tensor {} x context {} x copies {}); change one of these degrees",
        expert, *plan.copies * plan.tensor * plan.context, plan.tensor, plan.context, *plan.copies));
  }
  plan.devices = needed;
  return {};
}

Check complete_batch(Plan& plan) {
  if (!plan.micro_batch_size && plan.microbatches && plan.global_batch_size) {
    const std::int64_t of_all = *plan.microbatches * *plan.copies;
    if (*plan.global_batch_size % of_all == 0) plan.micro_batch_size = *plan.global_batch_size / of_all;
  }
  const std::int64_t micro = plan.micro_batch_size.value_or(1);
  if (!plan.micro_batch_size)
    plan.notes.emplace_back("the size of a microbatch is not stated: one sample is taken");
  const std::int64_t all = micro * *plan.copies;
  if (!plan.microbatches && plan.global_batch_size) {
    if (*plan.global_batch_size % all != 0) {
      return tl::unexpected(
          fmt::format("expected a global batch that is a multiple of microbatch {} x copies {}, got {}; give "
                      "another --devices N",
                      micro, *plan.copies, *plan.global_batch_size));
    }
    plan.microbatches = *plan.global_batch_size / all;
  }
  if (!plan.microbatches) {
    plan.notes.emplace_back("the global batch is not stated: each copy runs one microbatch a step");
    plan.microbatches = 1;
  }
  const std::int64_t global = all * *plan.microbatches;
  if (plan.global_batch_size && *plan.global_batch_size != global) {
    return tl::unexpected(
        fmt::format("microbatch {} x microbatches {} x copies {} is a global batch of {}, and {} is stated",
                    micro, *plan.microbatches, *plan.copies, global, *plan.global_batch_size));
  }
  plan.micro_batch_size = micro;
  plan.global_batch_size = global;
  return {};
}

/// The sizes that are needed to compute the costs of a transformer, and the names of the flags that state
/// them.
constexpr auto kNeededSizes =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"model.layers", "layers"},
                                                                  {"model.hidden", "hidden"},
                                                                  {"model.heads", "heads"},
                                                                  {"model.sequence", "sequence"},
                                                                  {"model.vocabulary", "vocabulary"}});

std::vector<std::string_view> missing_sizes(const Plan& plan, bool has_file) {
  std::vector<std::string_view> missing;
  for (const auto& [key, name] : kNeededSizes) {
    const bool is_in_file = has_file && name != "sequence";
    if (!is_in_file && plan.find(key) == nullptr) missing.push_back(name);
  }
  return missing;
}

/// Returns the YAML text of one top-level key of the scenario, such as "parallel", with one inner key in each
/// line. Returns an empty text if the plan has no such keys.
std::string part_text(const Plan& plan, std::string_view part) {
  std::string text;
  for (const auto& [key, value] : plan.keys) {
    if (key.starts_with(part) && key.size() > part.size() && key[part.size()] == '.')
      text += fmt::format("  {}: {}\n", key.substr(part.size() + 1), value);
  }
  return text.empty() ? text : fmt::format("{}:\n{}", part, text);
}

/// Returns the text of the `cluster:` part, with as many devices as the plan needs.
std::string cluster_text(const Plan& plan, const DeviceType& type) {
  const std::int64_t devices = *plan.devices;
  std::int64_t of_node = plan.devices_per_node.value_or(type.devices_per_node);
  if (devices % of_node != 0) of_node = std::gcd(devices, of_node);
  if (devices < type.devices_per_node && !plan.devices_per_node) of_node = devices;
  std::string text = fmt::format("cluster:\n  device: {}\n  nodes: {}\n", type.name, devices / of_node);
  if (of_node != type.devices_per_node) text += fmt::format("  devices_per_node: {}\n", of_node);
  return text;
}

std::string model_text(const Plan& plan, const std::string& file) {
  std::string text = "model:\n";
  if (!file.empty()) {
    text += fmt::format("  huggingface: {}\n", scalar_to_yaml(file));
    for (const std::string_view key : {"layers", "sequence", "multi_token"}) {
      if (const std::string* value = plan.find(fmt::format("model.{}", key)))
        text += fmt::format("  {}: {}\n", key, *value);
    }
    return text;
  }
  text += "  transformer:\n";
  for (const auto& [key, value] : plan.keys) {
    constexpr std::string_view kPart = "model.";
    if (key.starts_with(kPart)) text += fmt::format("    {}: {}\n", key.substr(kPart.size()), value);
  }
  return text;
}

void set_schedule(Plan& plan) {
  if (!plan.program.empty()) {
    plan.set("schedule.program", scalar_to_yaml(plan.program));
  } else {
    plan.set("schedule.name", plan.schedule);
    plan.set("schedule.stages", plan.stages);
    if (plan.chunks > 1) plan.set("schedule.virtual_stages", plan.chunks);
  }
  plan.set("training.micro_batch_size", *plan.micro_batch_size);
  plan.set("training.global_batch_size", *plan.global_batch_size);
}

std::string priced_text(Plan& plan, const DeviceType& type, const std::string& file) {
  plan.set("parallel.tensor", plan.tensor);
  if (plan.context > 1) plan.set("parallel.context", plan.context);
  if (!plan.layer_split.empty() && plan.stages > 1) plan.set("schedule.layer_split", plan.layer_split);
  return model_text(plan, file) + cluster_text(plan, type) + part_text(plan, "parallel") +
         part_text(plan, "schedule") + part_text(plan, "training");
}

/// Returns the times of the stages as a YAML list. `layers` has each stage's number of layers. Each layer
/// takes `each` milliseconds.
std::string times_text(const std::vector<std::int64_t>& layers, std::int64_t each) {
  std::vector<std::string> times;
  times.reserve(layers.size());
  for (const std::int64_t count : layers) times.push_back(fmt::format("{} ms", count * each));
  return fmt::format("[{}]", fmt::join(times, ", "));
}

std::string unpriced_text(Plan& plan) {
  // Without a device, no costs are computed, so these keys have no effect. The note about the device names
  // the keys that are left out.
  std::vector<std::string> left_out;
  std::vector<std::pair<std::string, std::string>> kept;
  for (const auto& [key, value] : plan.keys) {
    const bool stays = key == "schedule.sharding" || key == "schedule.group_size" || key == "parallel.gather";
    if (stays) {
      kept.emplace_back(key, value);
    } else if (!key.starts_with("model.")) {
      left_out.push_back(key);
    }
  }
  const std::string* distributed = plan.find("parallel.distributed_optimizer");
  if (distributed != nullptr && *distributed == "true" && plan.find("schedule.sharding") == nullptr)
    kept.emplace_back("schedule.sharding", "1");
  if (*plan.copies == 1) {
    std::erase_if(kept, [](const auto& entry) { return entry.first != "schedule.group_size"; });
  }
  if (!plan.program.empty()) kept.clear();
  plan.keys = std::move(kept);
  set_schedule(plan);
  if (!plan.program.empty()) {
    // The lists state the microbatches of one copy. Other copies run the same lists at the same times.
    plan.set("training.global_batch_size", *plan.global_batch_size / *plan.copies);
  } else {
    plan.set("schedule.microbatches", *plan.microbatches * *plan.copies);
  }
  if (*plan.copies > 1 && plan.program.empty()) {
    plan.set("schedule.data_parallel", *plan.copies);
    plan.notes.push_back(
        fmt::format("each of {} copies of the pipeline runs {} microbatches, and schedule.microbatches "
                    "counts those of all",
                    *plan.copies, *plan.microbatches));
  }
  const bool has_empty = std::ranges::find(plan.layers, 0) != plan.layers.end();
  std::string text;
  std::string times;
  if (!plan.layers.empty() && !has_empty) {
    text = fmt::format("model:\n  stages:\n    forward: {}\n    backward: {}\n", times_text(plan.layers, 1),
                       times_text(plan.layers, plan.recomputes_fully ? 3 : 2));
    times = fmt::format("a layer takes F = 1 ms and B = {} ms", plan.recomputes_fully ? 3 : 2);
  } else if (plan.recomputes_fully) {
    // A rank's share takes F = 1 ms, and its backward pass begins with a second forward pass.
    const std::int64_t stage_ns = 1'000'000 / plan.chunks;
    text =
        fmt::format("model:\n  stages:\n    forward: {} ns\n    backward: {} ns\n", stage_ns, 3 * stage_ns);
    times = "a rank's share of the model takes F = 1 ms and B = 3 ms";
  } else {
    times = "a rank's share of the model takes F = 1 ms and B = 2 ms";
  }
  plan.notes.insert(
      plan.notes.begin(),
      fmt::format("the times are not those of the model, because no device is stated: {}, and links are free",
                  times));
  const std::int64_t devices_of_rank = plan.tensor * plan.context;
  if (devices_of_rank > 1)
    plan.notes.push_back(fmt::format("a rank of the scenario stands for {} devices", devices_of_rank));
  if (!left_out.empty())
    plan.notes.push_back(fmt::format("keys that need a device are left out: {}", fmt::join(left_out, ", ")));
  return text + part_text(plan, "parallel") + part_text(plan, "schedule") + part_text(plan, "training");
}

}  // namespace

tl::expected<WrittenScenario, std::string> scenario_of_plan(Plan plan, const PlanChoices& choices) {
  const DeviceType* type = choices.device.empty() ? nullptr : find_device_type(choices.device);
  if (type == nullptr && !choices.device.empty())
    return tl::unexpected("--device: " + unknown_device(choices.device));
  if (auto copies = complete_copies(plan); !copies) return tl::unexpected(copies.error());
  if (auto batch = complete_batch(plan); !batch) return tl::unexpected(batch.error());
  const std::vector<std::string_view> missing = missing_sizes(plan, !choices.model.empty());
  if (type != nullptr && missing.empty()) {
    set_schedule(plan);
    const std::string yaml = priced_text(plan, *type, choices.model);
    return WrittenScenario{.yaml = yaml, .notes = std::move(plan.notes)};
  }
  const std::string sizes = fmt::format("the model's {} {} not stated", fmt::join(missing, ", "),
                                        missing.size() == 1 ? "is" : "are");
  // A config.json states all sizes but the sequence length.
  const bool is_in_config = missing.size() > 1 || (missing.size() == 1 && missing.front() != "sequence");
  const std::string cure = missing.empty()
                               ? ""
                               : fmt::format("give {}--set model.transformer.{}=N",
                                             is_in_config ? "--model config.json, or " : "", missing.front());
  if (type != nullptr) return tl::unexpected(fmt::format("{}, so nothing can be priced; {}", sizes, cure));
  const std::string yaml = unpriced_text(plan);
  // What limits the prediction most comes first: the note of unpriced_text() on the times, and how to get
  // others.
  std::vector<std::string> needed = {
      fmt::format("the device is not stated: give --device NAME, one of {}", device_type_names())};
  if (!missing.empty()) needed.push_back(fmt::format("{}: {}", sizes, cure));
  plan.notes.insert(plan.notes.begin() + 1, needed.begin(), needed.end());
  return WrittenScenario{.yaml = yaml, .notes = std::move(plan.notes)};
}

}  // namespace penstock
