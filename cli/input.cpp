// Makes a Scenario from flags. The file is read first, then --set is applied, then the other flags. Each step
// overrides earlier values. A program file fixes the shape, so a flag that would change the shape is an
// error. Without a file the flags must give the whole shape.

#include "cli/input.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "scenarios/import/importers.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

/// Reads each --set KEY=VALUE as an override. The overrides have the order of the flags.
tl::expected<std::vector<Override>, UserError> overrides_of(const std::vector<std::string>& settings) {
  std::vector<Override> overrides;
  for (const std::string& text : settings) {
    auto change = parse_override(text);
    if (!change) return bad_input(change.error());
    overrides.push_back(*std::move(change));
  }
  return overrides;
}

/// Chooses a default schedule if the scenario has a model on named devices and the user gives no schedule.
/// Adds a note about the choice.
void add_default_schedule(Scenario& scenario) {
  const bool is_given = !scenario.schedule.empty() || scenario.program.has_value();
  if (is_given || !std::holds_alternative<DeviceModel>(scenario.model)) return;
  scenario.schedule = scenario.shape.virtual_stages > 1 ? "interleaved" : "1f1b";
  scenario.notes.push_back(fmt::format("no schedule is given: {}", scenario.schedule));
}

/// Sets the number of pipeline copies (data parallelism). For a model on named devices or with fitted
/// costs, this number is the key parallel.data. For other models it is an option of the schedule.
void set_copies(Scenario& scenario, const std::optional<std::int64_t>& copies) {
  if (!copies) return;
  const auto count = static_cast<std::int32_t>(*copies);  // The flag's check limits the number to 31 bits.
  if (auto* model = std::get_if<DeviceModel>(&scenario.model)) {
    model->copies = count;
  } else if (auto* fitted = std::get_if<FittedModel>(&scenario.model)) {
    fitted->copies = count;
  } else {
    scenario.shape.data_parallel = count;
  }
}

/// Applies --unit, which says what takes 1 ms for F if no model is given: a rank's share of the model, or a
/// stage. Returns an error if the scenario has a model, because the model already determines the times of
/// stages.
tl::expected<void, UserError> set_unit(Scenario& scenario, const std::string& unit) {
  if (unit.empty()) return {};
  auto* costs = std::get_if<UnitCosts>(&scenario.model);
  if (costs == nullptr) {
    return bad_input(
        "--unit says what takes F = 1 ms if no model is given, but this scenario has one: leave the flag "
        "out");
  }
  costs->unit = enum_of_text<CostUnit>(unit).value_or(CostUnit::rank);
  return {};
}

/// Returns an error for the first flag that would change the program of a file. --iterations is allowed,
/// because it only repeats the program.
tl::expected<void, UserError> refuse_shape_of_program(const InputFlags& flags) {
  for (const auto& [name, given] :
       {std::pair{"--schedule", !flags.schedule.empty()}, std::pair{"--pp-size", flags.pp_size.has_value()},
        std::pair{"--num-microbatches", flags.num_microbatches.has_value()},
        std::pair{"--virtual-stages", flags.virtual_stages.has_value()},
        std::pair{"--data-parallel", flags.data_parallel.has_value()},
        std::pair{"--buckets", flags.buckets.has_value()},
        std::pair{"--sharding", flags.sharding.has_value()}, std::pair{"--gather", !flags.gather.empty()},
        std::pair{"--group-size", flags.group_size.has_value()},
        std::pair{"--slices", flags.slices.has_value()}, std::pair{"--passes", flags.passes.has_value()},
        std::pair{"--seed", flags.seed.has_value()},
        std::pair{"--budget", flags.budget_seconds.has_value()}}) {
    if (given) {
      return bad_input(
          fmt::format("{} cannot be used with a program file, which states it: leave the flag out{}", name,
                      flags.file.empty() ? "" : fmt::format(" (program of {})", flags.file)));
    }
  }
  return {};
}

/// Returns an error if the shape of the program is incomplete: there is no file, and the flags and --set do
/// not give all of it.
tl::expected<void, UserError> require_shape(const InputFlags& flags, const Scenario& scenario) {
  if (!flags.file.empty() || scenario.program) return {};
  // A model on named devices needs no stated shape: it uses one rank by default, and its batch is checked
  // when costs are computed.
  if (std::holds_alternative<DeviceModel>(scenario.model)) return {};
  std::vector<std::string_view> missing;
  if (scenario.schedule.empty()) missing.emplace_back("--schedule NAME");
  if (!flags.pp_size && flags.settings.empty()) missing.emplace_back("--pp-size K");
  // --set may give schedule.stages or schedule.microbatches. If they are still missing, the generator of the
  // program reports the error.
  const bool sizes_say_it = flags.micro_batch_size && flags.global_batch_size;
  if (!flags.num_microbatches && !sizes_say_it && flags.settings.empty())
    missing.emplace_back("--num-microbatches M");
  if (missing.empty()) return {};
  return bad_input(
      fmt::format("expected a scenario or program file, or else {} as well (`--help` has examples)",
                  fmt::join(missing, " ")));
}

/// Returns the number of a flag as 32 bits. Returns `otherwise` if the flag is not given.
std::int32_t narrowed(std::optional<std::int64_t> number, std::int32_t otherwise) {
  return number ? static_cast<std::int32_t>(*number)
                : otherwise;  // The flag's check limits the number to 31 bits.
}

/// Sets a field to its default value, which means that its flag is not given. Returns true if it was given.
template <typename Value>
bool cleared(Value& value) {
  return std::exchange(value, Value{}) != Value{};
}

template <auto Member>
bool cleared_shape(InputFlags& input, ChannelFlags& /*channels*/) {
  return cleared(input.*Member);
}
template <auto Member>
bool cleared_model(InputFlags& input, ChannelFlags& /*channels*/) {
  return cleared(input.model.*Member);
}
template <auto Member>
bool cleared_channel(InputFlags& /*input*/, ChannelFlags& channels) {
  return cleared(channels.*Member);
}

/// A flag that states a key of the scenario. `clear` removes the flag, and returns true if it was given.
struct FlagOfKey {
  std::string_view key;
  std::string_view flag;
  bool (*clear)(InputFlags& input, ChannelFlags& channels);
};

constexpr auto kFlagsOfKeys = std::to_array<FlagOfKey>({
    {"schedule.name", "--schedule", cleared_shape<&InputFlags::schedule>},
    {"schedule.stages", "--pp-size", cleared_shape<&InputFlags::pp_size>},
    {"schedule.microbatches", "--num-microbatches", cleared_shape<&InputFlags::num_microbatches>},
    {"schedule.virtual_stages", "--virtual-stages", cleared_shape<&InputFlags::virtual_stages>},
    {"schedule.group_size", "--group-size", cleared_shape<&InputFlags::group_size>},
    {"schedule.slices", "--slices", cleared_shape<&InputFlags::slices>},
    {"schedule.data_parallel", "--data-parallel", cleared_shape<&InputFlags::data_parallel>},
    {"parallel.data", "--data-parallel", cleared_shape<&InputFlags::data_parallel>},
    {"schedule.buckets", "--buckets", cleared_shape<&InputFlags::buckets>},
    {"schedule.sharding", "--sharding", cleared_shape<&InputFlags::sharding>},
    {"parallel.gather", "--gather", cleared_shape<&InputFlags::gather>},
    {"schedule.passes", "--passes", cleared_shape<&InputFlags::passes>},
    {"schedule.seed", "--seed", cleared_shape<&InputFlags::seed>},
    {"schedule.budget", "--budget", cleared_shape<&InputFlags::budget_seconds>},
    {"schedule.forward_only", "--forward-only", cleared_shape<&InputFlags::forward_only>},
    {"schedule.offload", "--offload", cleared_shape<&InputFlags::offload>},
    {"schedule.dialect", "--dialect", cleared_shape<&InputFlags::dialect>},
    {"training.micro_batch_size", "--micro-batch-size", cleared_shape<&InputFlags::micro_batch_size>},
    {"training.global_batch_size", "--global-batch-size", cleared_shape<&InputFlags::global_batch_size>},
    {"training.iterations", "--iterations", cleared_shape<&InputFlags::iterations>},
    {"model.huggingface", "--model", cleared_model<&ModelFlags::model>},
    {"model.sequence", "--sequence", cleared_model<&ModelFlags::sequence>},
    {"model.layers", "--layers", cleared_model<&ModelFlags::layers>},
    {"cluster.device", "--device", cleared_model<&ModelFlags::device>},
    {"cluster.nodes", "--nodes", cleared_model<&ModelFlags::nodes>},
    {"cluster.reserve", "--memory-reserve", cleared_model<&ModelFlags::memory_reserve>},
    {"parallel.tensor", "--tensor-parallel", cleared_model<&ModelFlags::tensor_parallel>},
    {"parallel.context", "--context-parallel", cleared_model<&ModelFlags::context_parallel>},
    {"parallel.expert", "--expert-parallel", cleared_model<&ModelFlags::expert_parallel>},
    {"training.precision", "--precision", cleared_model<&ModelFlags::precision>},
    {"training.recompute", "--recompute", cleared_model<&ModelFlags::recompute>},
    {"schedule.layer_split", "--layer-split", cleared_model<&ModelFlags::layer_split>},
    {"schedule.channel", "--channel", cleared_channel<&ChannelFlags::channel>},
    {"schedule.blocking", "--blocking", cleared_channel<&ChannelFlags::blocking>},
    {"schedule.capacity", "--capacity", cleared_channel<&ChannelFlags::capacity>},
    {"schedule.eager", "--eager", cleared_channel<&ChannelFlags::eager>},
});

/// Sets the limits of the search for a schedule that searches for its order. The time budget is applied
/// first, because it removes the limit of passes. --passes may then set this limit again.
void set_effort(SearchEffort& effort, const InputFlags& flags) {
  if (flags.budget_seconds) effort = with_budget(effort, *flags.budget_seconds);
  if (flags.passes) effort.passes = *flags.passes;
  if (flags.seed) effort.seed = static_cast<std::uint64_t>(*flags.seed);
}

}  // namespace

std::vector<FileArgument> inputs_of(const InputFlags& flags) {
  std::vector<FileArgument> inputs = {{"the input", flags.file}, {"--model", flags.model.model}};
  // The value of any --set may be a file name (--set model=costs.yaml). Other values are never equal to the
  // name of an output file.
  for (const std::string& setting : flags.settings)
    inputs.push_back({"--set", setting.substr(setting.find('=') + 1)});
  for (const Override& change : flags.varied) inputs.push_back({"--vary", change.value});
  return inputs;
}

tl::expected<std::string, UserError> known_schedule(const std::string& name) {
  if (find_schedule(name) != nullptr) return name;
  if (names_program(name)) {
    return bad_input(fmt::format(
        "--schedule: expected the name of a schedule, got the program {0}; give the file itself, as in "
        "penstock simulate {0}, or compare it with others by penstock sweep --schedule 1f1b,{0}",
        name));
  }
  return bad_input("--schedule: " + unknown_schedule(name));
}

std::string_view clear_flag_of(std::string_view key, InputFlags& input, ChannelFlags& channels) {
  for (const FlagOfKey& row : kFlagsOfKeys) {
    if (row.key == key && row.clear(input, channels)) return row.flag;
  }
  return "";
}

tl::expected<void, UserError> refuse_flag_of(std::string_view by, std::string_view key, InputFlags input,
                                             ChannelFlags channels) {
  const std::string_view flag = clear_flag_of(key, input, channels);
  if (flag.empty()) return {};
  return bad_input(fmt::format("{} {} and {} state the same key: leave {} out", by, key, flag, flag));
}

tl::expected<std::vector<Override>, UserError> scenario_overrides(const InputFlags& flags) {
  auto overrides = overrides_of(flags.settings);
  if (!overrides) return tl::unexpected(overrides.error());
  if (!flags.dialect.empty()) {
    if (!has_file_suffix(flags.file, ".csv") && flags.file != kStandardInput) {
      return bad_input(fmt::format("--dialect goes with a .csv of PyTorch{}; leave the flag out",
                                   flags.file.empty() ? "" : fmt::format(", not with {}", flags.file)));
    }
    overrides->push_back({.key = "schedule.dialect", .value = flags.dialect});
  }
  if (flags.forward_only)
    overrides->push_back({.key = "schedule.forward_only", .value = "true", .flag = "--forward-only"});
  if (!flags.offload.empty()) {
    const bool is_list = flags.offload.find(',') != std::string::npos;
    overrides->push_back({.key = "schedule.offload",
                          .value = is_list ? fmt::format("[{}]", flags.offload) : flags.offload,
                          .flag = "--offload"});
  }
  for (Override& change : overrides_of(flags.model)) overrides->push_back(std::move(change));
  std::ranges::copy(flags.varied, std::back_inserter(*overrides));
  return overrides;
}

tl::expected<ImportInput, UserError> import_input(const std::string& name) {
  // A name without '.' and '/' is taken for the name of a recipe if no file or folder has it. An unknown name
  // then gives an error that lists the recipes.
  std::error_code ignored;
  const bool is_recipe = name != kStandardInput && name.find_first_of("./") == std::string::npos &&
                         !std::filesystem::exists(name, ignored);
  if (is_recipe) return ImportInput{.name = name, .text = ""};
  auto text = read_text_file(name, name);
  if (!text) return bad_input(text.error());
  if (text->find_first_not_of(" \t\r\n") == std::string::npos)
    return bad_input(fmt::format("{}: the file is empty; expected the configuration of a program", name));
  return ImportInput{.name = name, .text = *std::move(text)};
}

tl::expected<ImportRequest, UserError> import_request(std::vector<ImportInput> inputs,
                                                      const ModelFlags& flags,
                                                      const std::vector<std::string>& settings) {
  auto stated = overrides_of(settings);
  if (!stated) return tl::unexpected(stated.error());
  for (const Override& change : *stated) {
    if (change.value.find_first_not_of(' ') == std::string::npos)
      return bad_input(fmt::format("--set {}: expected a value, got nothing", change.key));
  }
  return ImportRequest{.inputs = std::move(inputs),
                       .device = flags.device,
                       .devices = flags.devices,
                       .nodes = flags.nodes,
                       .model = flags.model,
                       .layers = flags.layers,
                       .ignore = flags.ignore,
                       .stated = *std::move(stated)};
}

namespace {

/// Imports the configuration of another program. Flags that the importer does not use are applied to the
/// scenario that it makes.
tl::expected<Scenario, UserError> imported_scenario(const InputFlags& flags, ImportInput input) {
  InputFlags rest = flags;
  rest.model.device.clear();
  rest.model.model.clear();
  rest.model.ignore.clear();
  rest.model.nodes.reset();
  rest.model.devices.reset();
  rest.model.layers.reset();
  // Sizes that the configuration does not state must be known before the scenario is written.
  const auto states_size = [](const std::string& setting) {
    return setting.starts_with("model.transformer.");
  };
  std::vector<std::string> sizes;
  std::ranges::copy_if(rest.settings, std::back_inserter(sizes), states_size);
  std::erase_if(rest.settings, states_size);
  const auto request = import_request({std::move(input)}, flags.model, sizes);
  if (!request) return tl::unexpected(request.error());
  const auto imported = import_configuration(*request);
  if (!imported) return bad_input(imported.error());
  const auto overrides = scenario_overrides(rest);
  if (!overrides) return tl::unexpected(overrides.error());
  auto scenario = parse_scenario(imported->yaml, flags.file + " (imported)", "", *overrides);
  if (!scenario) return bad_input(scenario.error());
  scenario->file = flags.file;
  std::vector<std::string> notes = {
      fmt::format("{}; `penstock import {}` lists them", import_summary(*imported), flags.file)};
  notes.insert(notes.end(), imported->notes.begin(), imported->notes.end());
  scenario->notes.insert(scenario->notes.begin(), notes.begin(), notes.end());
  return *std::move(scenario);
}

/// Returns the end of a message about an input that is no file. It is empty for a file.
std::string hint_on_input(const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::is_directory(name, ignored))
    return fmt::format("; name its files, as in {}/*.yaml", name);
  const bool is_schedule = find_schedule(name) != nullptr && !std::filesystem::exists(name, ignored);
  return is_schedule ? fmt::format("; a schedule is a flag: --schedule {}", name) : "";
}

}  // namespace

tl::expected<Scenario, UserError> load_input(const InputFlags& flags) {
  const auto overrides = scenario_overrides(flags);
  if (!overrides) return tl::unexpected(overrides.error());
  auto scenario = flags.file.empty() ? parse_scenario("{}", "", "", *overrides)
                                     : load_scenario_or_program(flags.file, *overrides);
  if (!scenario) {
    // A configuration of another program is never a valid scenario, so it is looked for only after an error.
    auto input = import_input(flags.file);
    if (input && !recognised_importer(input->name, input->text).empty())
      return imported_scenario(flags, *std::move(input));
    return bad_input(scenario.error() + hint_on_input(flags.file));
  }
  if (flags.model.devices) {
    return bad_input(
        "--devices goes with the configuration of another program; write --nodes N for a scenario");
  }
  return *std::move(scenario);
}

Batch stated_batch(const InputFlags& flags) {
  Batch stated;
  stated.micro_batch_size = flags.micro_batch_size;
  stated.global_batch_size = flags.global_batch_size;
  stated.microbatches = flags.num_microbatches;
  return stated;
}

tl::expected<Scenario, UserError> scenario_with_flags(const InputFlags& flags, const ChannelFlags& channels) {
  auto scenario = load_input(flags);
  if (!scenario) return scenario;
  if (scenario->program) {
    if (auto refused = refuse_shape_of_program(flags); !refused) return tl::unexpected(refused.error());
    if (flags.iterations) scenario->program->iterations = narrowed(flags.iterations, 1);
  }
  if (!flags.schedule.empty()) {
    auto name = known_schedule(flags.schedule);
    if (!name) return tl::unexpected(name.error());
    scenario->schedule = *std::move(name);
    if (is_chunked_prefill(flags.schedule) && scenario->shape.passes == Passes::both)
      scenario->shape.passes = Passes::forward_kv;
  }
  Shape& shape = scenario->shape;
  shape.stages = narrowed(flags.pp_size, shape.stages);
  shape.virtual_stages = narrowed(flags.virtual_stages, shape.virtual_stages);
  scenario->states_chunks |= flags.virtual_stages.has_value();
  use_default_chunks(*scenario);
  if (auto unit = set_unit(*scenario, flags.unit); !unit) return tl::unexpected(unit.error());
  set_copies(*scenario, flags.data_parallel);
  if (flags.buckets) shape.buckets = {narrowed(flags.buckets, 1)};
  if (flags.sharding) shape.sharding = narrowed(flags.sharding, 0);
  shape.gather = enum_of_text<Gather>(flags.gather).value_or(shape.gather);
  shape.group_size = narrowed(flags.group_size, shape.group_size);
  shape.slices = narrowed(flags.slices, shape.slices);
  shape.iterations = narrowed(flags.iterations, shape.iterations);
  set_effort(shape.effort, flags);
  // The schedule is needed, because it says what a microbatch is. For 1f1b-rr, a microbatch is a whole
  // minibatch.
  const std::string& schedule = scenario->program ? scenario->program->schedule : scenario->schedule;
  scenario->batch = overridden(scenario->batch, stated_batch(flags), meaning_of_microbatch(schedule));
  auto options = with_flags(scenario->channels, channels);
  if (!options) return tl::unexpected(options.error());
  scenario->channels = *options;
  return scenario;
}

tl::expected<Scenario, UserError> scenario_of(const InputFlags& flags, const ChannelFlags& channels) {
  auto scenario = scenario_with_flags(flags, channels);
  if (!scenario) return scenario;
  add_default_schedule(*scenario);
  if (auto complete = require_shape(flags, *scenario); !complete) return tl::unexpected(complete.error());
  return scenario;
}

tl::expected<Experiment, UserError> prepared(const Scenario& scenario) {
  // This check comes before the lists are generated, because the lists alone may be too large for the memory.
  if (auto refusal = lists_refusal(scenario)) return bad_input(*std::move(refusal));
  return prepare(scenario);
}

tl::expected<Experiment, UserError> experiment_of(const InputFlags& flags, const ChannelFlags& channels) {
  return scenario_of(flags, channels).and_then(prepared);
}

}  // namespace penstock
