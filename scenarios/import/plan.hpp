#pragma once
// The content of an imported configuration: keys of a scenario, and numbers on which several keys depend. An
// importer fills a Plan. scenario_of_plan() completes it and writes the scenario.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

namespace penstock {

/// The content of an imported configuration, expressed with the keys and names of a scenario.
struct Plan {
  /// The keys of the scenario with their values as YAML, such as {"parallel.tensor", "2"}. The sizes of the
  /// model are keys of model.transformer, such as {"model.hidden", "4096"}.
  std::vector<std::pair<std::string, std::string>> keys{};

  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t stages = 1;
  std::int64_t chunks = 1;
  std::string schedule = "1f1b";
  /// The file with the lists of all ranks, if the configuration states one. It replaces `schedule`.
  std::string program{};
  /// The number of devices of one server, if the configuration states it.
  std::optional<std::int64_t> devices_per_node{};
  std::optional<std::int64_t> devices{};
  std::optional<std::int64_t> copies{};
  std::optional<std::int64_t> micro_batch_size{};
  std::optional<std::int64_t> global_batch_size{};
  /// The number of microbatches that one copy of the pipeline runs in a step.
  std::optional<std::int64_t> microbatches{};
  /// The layers of each stage, in the model's order, as the framework cuts them; empty if they are not known.
  std::vector<std::int64_t> layers{};
  /// The value of the scenario's key schedule.layer_split; empty if the configuration does not determine
  /// it.
  std::string layer_split{};
  /// The name of a model in scenarios/library/models, if the configuration uses this model. Empty
  /// otherwise.
  std::string library_model{};
  bool recomputes_fully = false;
  std::vector<std::string> notes{};
  /// Errors that do not belong to a single key, such as a number of stages that the imported framework also
  /// refuses.
  std::vector<std::string> refusals{};

  /// Sets a key, or replaces its value.
  void set(std::string key, std::string value);
  void set(std::string key, std::int64_t value) { set(std::move(key), std::to_string(value)); }
  /// Returns the value of a key, or null if the plan does not contain the key.
  const std::string* find(std::string_view key) const;
  std::optional<std::int64_t> number(std::string_view key) const;
  void remove(std::string_view key);
};

/// The settings that the user states in addition to the configuration.
struct PlanChoices {
  std::string device{};  ///< the name of an accelerator; empty if the user states none
  std::string model{};   ///< the file of a config.json; empty if the user states none
};

/// The text of a scenario, and remarks about what it assumes.
struct WrittenScenario {
  std::string yaml;
  std::vector<std::string> notes;
};

/// Computes the missing numbers of devices, copies and microbatches, and writes the scenario. If no device is
/// stated, each layer or stage takes 1 ms, and notes say so and name the missing flags. Returns an error if
/// the device is unknown, if it is stated for a model of unknown sizes, or if numbers cannot be divided as
/// required.
tl::expected<WrittenScenario, std::string> scenario_of_plan(Plan plan, const PlanChoices& choices);

}  // namespace penstock
