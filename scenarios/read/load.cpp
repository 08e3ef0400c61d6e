// Reads a scenario in these steps: parse the text, insert the files that it names, apply the overrides,
// read the parts, and build the Scenario. The model's times hold for the microbatch size in the file. So
// this size is read before the overrides are applied.

#include "scenarios/read/load.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/machine.hpp"
#include "scenarios/read/quantities.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "text/enum_words.hpp"

namespace penstock {

namespace {

/// The top-level keys of a scenario, such as `model` and `cluster`, as they were read. An absent key has its
/// default.
struct Parts {
  ModelPart model;
  ClusterSpec cluster;
  LaunchCost launch;
  HostLink host;
  ParallelPart parallel;
  SchedulePart schedule;
  Partition partition;
  TrainingPart training;
};

/// Reads one top-level key of the scenario if it is present, even if other keys have errors.
template <typename Read>
auto read_part(const MappingReader& reader, std::string_view key, Problem& problem, Read read) {
  // Each key has its own problems, so that an error in one of them does not hide an error in another.
  const Node* node = reader.find(key);
  Problem own;
  auto part = node == nullptr ? decltype(read(*node, own)){} : read(*node, own);
  problem.note(own);
  return part;
}

constexpr std::array kPartKeys = {
    Key{.name = "model", .kind = KeyKind::mapping, .meaning = "What is trained.", .usual = "unit costs"},
    Key{.name = "cluster",
        .kind = KeyKind::mapping,
        .meaning = "The devices and their links.",
        .usual = "free links"},
    Key{.name = "host",
        .kind = KeyKind::mapping,
        .meaning = "What launches the actions of a rank.",
        .usual = "launches are free"},
    Key{.name = "parallel",
        .kind = KeyKind::mapping,
        .meaning = "How a model on named devices is laid over them.",
        .usual = "one device a rank"},
    Key{.name = "schedule",
        .kind = KeyKind::mapping,
        .meaning = "What each rank does, in which order.",
        .usual = "gpipe"},
    Key{.name = "partition",
        .kind = KeyKind::other,
        .meaning = "How layers become stages.",
        .usual = "required for layers on several stages",
        .form = "balanced, block, pipedream, a list of cuts, or a mapping",
        .schema =
            R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["integer", "string"]}}, {"$ref": "#/$defs/partition"}]})"},
    Key{.name = "training",
        .kind = KeyKind::mapping,
        .meaning = "Sizes of batches, the optimizer, precision and failures.",
        .usual = "one sample a microbatch"}};

/// Returns the document of a scenario. If the text belongs to another program, the error names the format.
tl::expected<Node, std::string> scenario_document(std::string_view text,
                                                  const std::shared_ptr<const Source>& source) {
  if (machine_format(text) != MachineFormat::none) {
    return tl::unexpected(
        fmt::format("{0}: expected a scenario, got the file of a machine, which a scenario takes as "
                    "`cluster: {0}`",
                    source->name));
  }
  auto document = parse_document(text, source);
  if (!document) return document;
  const bool is_scenario =
      document->kind == Node::Kind::mapping &&
      std::ranges::all_of(document->entries, [](const Node::Entry& entry) {
        return std::ranges::find(kPartKeys, entry.key.text, &Key::name) != kPartKeys.end();
      });
  if (is_scenario) return document;
  // YAML reads a TOML file without sections as one word. So a document that is not a mapping is checked for
  // other formats.
  const std::string form =
      document->kind == Node::Kind::mapping ? foreign_configuration(*document) : foreign_text(text);
  if (!form.empty()) return tl::unexpected(message_at(*document, "", form));
  return document;
}

Parts read_parts(const Node& document, Problem& problem) {
  const MappingReader reader(document, "", kPartKeys, problem);
  Parts parts;
  // An unknown key is probably a misspelled one, such as `modle`. A second error about the missing key would
  // not help.
  if (problem.found()) return parts;
  // The cluster is read first, because a transformer's times depend on the rate of its devices.
  parts.cluster = read_part(reader, "cluster", problem, read_cluster);
  parts.host = read_part(reader, "cluster", problem, read_host_link);
  if (!problem.found()) {
    parts.model = read_part(reader, "model", problem, [&](const Node& node, Problem& own) {
      return read_model(node, parts.cluster, own);
    });
  }
  parts.launch = read_part(reader, "host", problem, read_host);
  parts.parallel = read_part(reader, "parallel", problem, read_parallel);
  parts.schedule = read_part(reader, "schedule", problem, read_schedule);
  parts.partition = read_part(reader, "partition", problem, [&](const Node& node, Problem& own) {
    return read_partition(node, parts.model.model, own);
  });
  parts.training = read_part(reader, "training", problem, read_training);
  return parts;
}

MicrobatchMeaning meaning_of(const SchedulePart& schedule) {
  return meaning_of_microbatch(schedule.program ? schedule.program->schedule : schedule.name);
}

Batch batch_of(const SchedulePart& schedule, const TrainingPart& training) {
  Batch batch;
  batch.micro_batch_size = training.micro_batch_size;
  batch.global_batch_size = training.global_batch_size;
  batch.microbatches = schedule.microbatches;
  return batch;
}

/// Returns the microbatch size that the file states, before any override. Returns nothing if the file
/// states none. Errors in the file are reported later.
std::optional<std::int64_t> own_micro_batch_size(const Node& document) {
  Problem ignored;
  SchedulePart schedule;
  TrainingPart training;
  if (const Node* node = document.find("training")) training = read_training(*node, ignored);
  // The program file may be large. It is read here only if the file states a global batch without a
  // microbatch size (micro_batch_size_of()).
  const bool is_open = !training.micro_batch_size && training.global_batch_size;
  if (const Node* node = document.find("schedule"); node != nullptr && is_open)
    schedule = read_schedule(*node, ignored);
  if (schedule.program) schedule.microbatches = schedule.program->microbatches;
  return micro_batch_size_of(batch_of(schedule, training), meaning_of(schedule));
}

/// Returns the largest number of entries in those lists of the file that have one entry for each stage.
/// Returns 0 if there is no such list.
std::size_t longest_list(const Parts& parts) {
  std::size_t longest = parts.partition.cuts.empty() ? 0 : parts.partition.cuts.size() + 1;
  if (const auto* figures = std::get_if<StageFigures>(&parts.model.model)) {
    for (const auto figure : kStageFigures) {
      if ((figures->*figure).is_list) longest = std::max(longest, (figures->*figure).values.size());
    }
  }
  return longest;
}

/// Returns the number of stages K for a file that does not state it. It is computed from the length of the
/// file's lists.
std::int32_t default_stages(const Parts& parts) {
  const Shape& shape = parts.schedule.shape;
  const ScheduleInfo* schedule = find_schedule(parts.schedule.name);
  const auto chunks =
      static_cast<std::size_t>(schedule == nullptr ? shape.virtual_stages : chunks_of(*schedule, shape));
  const ExtraStages extra = extra_stages_of(parts.schedule.name);
  const auto layers =
      static_cast<std::size_t>(layer_stages(extra, static_cast<std::int32_t>(longest_list(parts))));
  const std::size_t stages = std::max(
      {std::size_t{1}, layers / chunks, shape.replicas.size(), shape.warmup.size(), shape.offload.size()});
  return static_cast<std::int32_t>(stages);
}

Scenario scenario_of(Parts parts, const std::string& file) {
  Scenario scenario;
  scenario.file = file;
  scenario.shape = parts.schedule.shape;
  scenario.shape.stages = parts.schedule.stages.value_or(default_stages(parts));
  scenario.shape.iterations = parts.training.iterations.value_or(1);
  // In a pipeline, torchtitan holds gathered weights until the step ends (reshard_after_forward: default).
  const std::int32_t ranks =
      parts.schedule.program ? parts.schedule.program->rank_count() : scenario.shape.stages;
  const bool gathers_once = parts.training.framework == Framework::torchtitan && ranks > 1;
  scenario.shape.gather = parts.parallel.gather.value_or(gathers_once ? Gather::step : scenario.shape.gather);
  scenario.shape.expert_overlap = parts.parallel.degrees.expert_overlap;
  scenario.schedule = parts.schedule.name;
  // Lists with one entry for each stage determine the number of stages, and with it the number of chunks.
  scenario.states_chunks = parts.schedule.states_chunks || longest_list(parts) > 0;
  use_default_chunks(scenario);
  scenario.channels = parts.schedule.channels;
  scenario.program = std::move(parts.schedule.program);
  if (scenario.program && parts.training.iterations)
    scenario.program->iterations = *parts.training.iterations;
  scenario.batch = batch_of(parts.schedule, parts.training);
  // A prefill has one prompt unless a number is stated.
  if (is_chunked_prefill(scenario.schedule) && !scenario.batch.microbatches &&
      !scenario.batch.global_batch_size)
    scenario.batch.microbatches = 1;
  scenario.partition = std::move(parts.partition);
  scenario.optimizer = parts.training.optimizer.value_or(Optimizer::sgd);
  scenario.precision = parts.training.precision.value_or(parts.model.precision);
  scenario.clones_versions = parts.training.clones_versions.value_or(false);
  scenario.failures = parts.training.failures;
  scenario.launch = parts.launch;
  scenario.host = parts.host;
  scenario.cluster = std::move(parts.cluster);
  // In `scenario.cluster`, one device represents all devices of a rank.
  scenario.cluster.devices_per_rank = parts.model.devices_per_rank;
  // The price becomes the price of one rank. priced_scenario.cpp includes the copies later.
  if (auto& price = scenario.cluster.price_per_device_hour) *price *= parts.model.devices_per_rank;
  scenario.prompt_tokens = parts.model.chunks ? parts.model.chunks->prompt : 0;
  scenario.model = std::move(parts.model.model);
  scenario.network = std::move(parts.model.network);
  scenario.notes = std::move(parts.model.notes);
  if (parts.model.architecture) scenario.notes = parts.model.architecture->notes;
  scenario.notes.insert(scenario.notes.end(), scenario.cluster.notes.begin(), scenario.cluster.notes.end());
  scenario.notes.insert(scenario.notes.end(), parts.schedule.notes.begin(), parts.schedule.notes.end());
  if (scenario.partition.rule != Partition::Rule::unset &&
      !std::holds_alternative<LayerGraph>(scenario.model)) {
    scenario.notes.emplace_back("partition is not used: the model is given stage by stage");
  }
  return scenario;
}

/// Sets the number and the tokens of slices in models whose costs depend on them: models on named devices,
/// and chunks of a prompt. Records a problem if the scenario states tokens of slices for another model.
void cut_into_slices(Parts& parts, const Node& document, Problem& problem) {
  auto* on_devices = std::get_if<DeviceModel>(&parts.model.model);
  const std::optional<ChunkModel>& chunks = parts.model.chunks;
  const std::optional<SliceSizes>& sizes = parts.schedule.slice_tokens;
  if (sizes && on_devices == nullptr && !chunks) {
    problem.note(*document.find("schedule")->find("slice_tokens"), "schedule.slice_tokens",
                 "goes with a model that is priced by its tokens: model.chunks, or a transformer with "
                 "cluster.device; leave it out, or state figures by slice (model.stages)");
    return;
  }
  const bool states_tokens = sizes && !sizes->tokens.empty();
  const std::int64_t sequence = on_devices != nullptr ? on_devices->work.sequence
                                : chunks              ? chunks->prompt
                                                      : 1;
  if (states_tokens && !parts.schedule.states_slices)
    parts.schedule.shape.slices = static_cast<std::int32_t>(slice_count(*sizes, sequence));
  if (on_devices != nullptr) on_devices->slices = sizes.value_or(SliceSizes{});
  if (!chunks) return;
  if (!parts.schedule.name.empty() && parts.schedule.shape.passes == Passes::both) {
    problem.note(*document.find("model")->find("chunks"), "model.chunks",
                 "has forward passes alone: expected schedule.name chunked-prefill, or forward_only: kv");
    return;
  }
  auto figures = chunk_figures(*chunks, sizes.value_or(SliceSizes{}), parts.schedule.shape.slices);
  if (!figures) {
    problem.note(*document.find("model")->find("chunks"), "model.chunks", figures.error());
    return;
  }
  parts.model.model = *std::move(figures);
}

/// Returns the document with each file name replaced by the content of the file.
tl::expected<Node, std::string> written_out(Node document) {
  auto resolved = resolve_parts(std::move(document));
  return resolved ? with_microbatch_files(*std::move(resolved)) : resolved;
}

tl::expected<Scenario, std::string> read_scenario(const Node& document, const std::string& file,
                                                  std::optional<std::int64_t> own) {
  Problem problem;
  Parts parts = read_parts(document, problem);
  if (!problem.found() && parts.model.network &&
      parts.training.precision.value_or(Precision::full) != Precision::full) {
    problem.note(*document.find("training")->find("precision"), "training.precision",
                 "expected full beside model.network, whose values have 4 bytes; leave it out");
  }
  if (!problem.found()) {
    const DeviceModelParts of{.model = parts.model,
                              .cluster = parts.cluster,
                              .parallel = parts.parallel,
                              .schedule = parts.schedule,
                              .training = parts.training};
    auto on_devices = device_model_of(document, of, problem);
    if (on_devices) parts.model.model = *std::move(on_devices);
    if (auto* fitted = std::get_if<FittedModel>(&parts.model.model)) {
      set_degrees(*fitted, document, parts.parallel.degrees, problem);
      parts.model.devices_per_rank = fitted->kind.tensor;
    }
    cut_into_slices(parts, document, problem);
  }
  if (problem.found()) return tl::unexpected(problem.message());
  // The model may state the number of samples for which its figures hold.
  if (parts.model.batch) own = parts.model.batch;
  if (!own && !std::holds_alternative<UnitCosts>(parts.model.model)) {
    return tl::unexpected(
        file + ": training: the file does not say for how many samples the model's times hold: expected " +
        "training.micro_batch_size, got only training.global_batch_size");
  }
  Scenario scenario = scenario_of(std::move(parts), file);
  scenario.batch.own_micro_batch_size = own.value_or(1);
  return scenario;
}

/// Applies the overrides. After each override, newly named files are read. For example, --set model=FILE
/// may be followed by --set model.layers.0.forward=1ms, which changes the content of this file. A program
/// replaces the name and the shape of the file's schedule.
tl::expected<Node, std::string> edited(Node document, std::span<const Override> overrides) {
  tl::expected<Node, std::string> changed = std::move(document);
  for (const Override& change : overrides) {
    changed = apply_override(*std::move(changed), change);
    if (changed && change.key == "schedule.program") remove_replaced_keys(*changed->find("schedule"));
    if (changed) changed = written_out(*std::move(changed));
    if (!changed) break;
  }
  return changed;
}

/// Replaces a file name in the document by its full path. `keys` are the keys that lead from `node` to the
/// file name.
void name_file_whole(Node* node, std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (node == nullptr || node->kind != Node::Kind::mapping) return;
    node = node->find(key);
  }
  if (node == nullptr || node->kind != Node::Kind::scalar) return;
  if (is_library_config(named_file(*node).path, node->text)) return;
  node->text = std::filesystem::absolute(named_file(*node).path).lexically_normal().string();
}

}  // namespace

std::vector<KeyGroup> scenario_keys() {
  std::vector<KeyGroup> groups = {{.path = "",
                                   .about = "Each part may be the name of a file, relative to the file that "
                                            "names it. That file holds the part "
                                            "alone, or several parts by their names.",
                                   .keys = {kPartKeys.begin(), kPartKeys.end()}}};
  for (const auto& of_part : {model_keys(), cluster_keys(), device_cluster_keys(), parallel_keys(),
                              schedule_keys(), training_keys()})
    groups.insert(groups.end(), of_part.begin(), of_part.end());
  return groups;
}

void use_default_chunks(Scenario& scenario) {
  if (scenario.states_chunks) return;
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  scenario.shape.virtual_stages = schedule == nullptr ? 1 : schedule->default_chunks;
}

bool work_grows_with_chunks(const Scenario& scenario) {
  const auto* figures = std::get_if<StageFigures>(&scenario.model);
  const auto* units = std::get_if<UnitCosts>(&scenario.model);
  const bool by_stage = units != nullptr && units->unit == CostUnit::stage;
  return by_stage || (figures != nullptr && !figures->forward.is_list);
}

bool is_chunked_prefill(std::string_view schedule) {
  return plain_name(schedule) == plain_name("chunked-prefill");
}

tl::expected<Scenario, std::string> parse_scenario(std::string_view text, std::string_view name,
                                                   const std::filesystem::path& base_directory,
                                                   std::span<const Override> overrides) {
  const auto source = std::make_shared<const Source>(
      Source{.name = std::string(name), .directory = base_directory, .override_key = ""});
  auto document = scenario_document(text, source);
  if (document) document = written_out(*std::move(document));
  if (!document) return tl::unexpected(document.error());
  const auto own = own_micro_batch_size(*document);
  const auto changed = edited(*std::move(document), overrides);
  if (!changed) return tl::unexpected(changed.error());
  return read_scenario(*changed, std::string(name), own);
}

tl::expected<Scenario, std::string> load_scenario(const std::filesystem::path& path,
                                                  std::span<const Override> overrides) {
  const auto text = read_text_file(path, path.string());
  if (!text) return tl::unexpected(text.error());
  return parse_scenario(*text, path.string(), path.parent_path(), overrides);
}

tl::expected<std::string, std::string> edited_scenario(const std::filesystem::path& path,
                                                       std::span<const Override> overrides) {
  const tl::expected<std::string, std::string> text =
      path.empty() ? std::string("{}") : read_text_file(path, path.string());
  if (!text) return tl::unexpected(text.error());
  auto document = scenario_document(
      *text, std::make_shared<const Source>(
                 Source{.name = path.string(), .directory = path.parent_path(), .override_key = ""}));
  if (document) document = written_out(*std::move(document));
  if (document) document = edited(*std::move(document), overrides);
  if (!document) return tl::unexpected(document.error());
  // The files of parts and of microbatch figures are already included, so only these file names remain.
  for (const std::string_view form : {"huggingface", "profile", "fitted"})
    name_file_whole(&*document, std::array<std::string_view, 2>{"model", form});
  name_file_whole(&*document, std::array<std::string_view, 2>{"schedule", "program"});
  name_file_whole(&*document, std::array<std::string_view, 2>{"cluster", "machine"});
  for (const std::string_view table : {"gemm", "attention", "collectives", "products"})
    name_file_whole(&*document, std::array<std::string_view, 3>{"cluster", "kernels", table});
  return document_to_yaml(*document);
}

// Reads a program file as the scenario {schedule: {program: FILE}}. This scenario is read like every other
// one, so --set and the error messages work in the same manner.

namespace {

/// Reads a scenario from a file. If the file has the lists of a program, the error says which name it needs.
tl::expected<Scenario, std::string> load_scenario_file(const std::filesystem::path& path,
                                                       std::span<const Override> overrides) {
  auto scenario = load_scenario(path, overrides);
  if (scenario) return scenario;
  const auto text = read_text_file(path, path.string());
  if (!text) return scenario;
  const bool is_printed = is_printed_schedule(*text);
  if (!is_printed && !text->starts_with(kProgramHeader)) return scenario;
  return tl::unexpected(fmt::format(
      "{}: expected a scenario, got {}, which is read from a file whose name ends in {}; rename the file, "
      "or give it on standard input (-)",
      path.string(),
      is_printed ? "the table of actions that torch.distributed.pipelining prints" : "a program",
      is_printed ? ".csv" : ".psched"));
}

}  // namespace

tl::expected<Scenario, std::string> load_scenario_or_program(const std::filesystem::path& path,
                                                             std::span<const Override> overrides) {
  const std::string name = path.string();
  const bool is_standard_input = name == kStandardInput;
  if (!names_program(name) && !is_standard_input) return load_scenario_file(path, overrides);
  // For a program file, this read only checks the file. Its error must not mention a scenario, because the
  // user did not write one.
  const auto text = read_text_file(path, name);
  if (!text) return tl::unexpected(text.error());
  if (is_standard_input && !is_program_text(*text)) return load_scenario(path, overrides);
  auto scenario =
      parse_scenario(fmt::format("schedule: {{program: {}}}", scalar_to_yaml(name)), "", "", overrides);
  if (scenario) scenario->file = name;
  return scenario;
}

// Selects the reader of a file by the suffix of its name, in upper or lower case. The content is not used. So
// for a broken file, the reader of the intended format reports the error.

bool has_file_suffix(std::string_view name, std::string_view suffix) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return name.size() >= suffix.size() &&
         std::ranges::equal(name.substr(name.size() - suffix.size()), suffix, same);
}

bool names_program(std::string_view file) {
  return has_file_suffix(file, ".psched") || has_file_suffix(file, ".csv");
}

bool is_program_text(std::string_view text) {
  if (text.starts_with(kProgramHeader) || is_printed_schedule(text)) return true;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] != '{' && text.find(':') == std::string_view::npos;
}

}  // namespace penstock
