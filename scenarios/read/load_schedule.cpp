// `schedule:` names a generator with its shape, or a program file; either with the channels it runs over.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/file_suffix.hpp"
#include "scenarios/read/parts.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/search_effort.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/schedule_names.hpp"
#include "schedules/text/csv_dialect.hpp"
#include "schedules/text/program_text.hpp"
#include "schedules/text/pytorch_csv.hpp"

namespace penstock {
namespace {

using Word = std::string_view;

constexpr std::array kBackwardOrders = {std::pair{Word{"fifo"}, BackwardOrder::fifo},
                                        std::pair{Word{"lifo"}, BackwardOrder::lifo}};
constexpr std::array kCheckpoints = {std::pair{Word{"never"}, Checkpoint::never},
                                     std::pair{Word{"always"}, Checkpoint::always},
                                     std::pair{Word{"except_last"}, Checkpoint::except_last}};
constexpr std::array kRoutings = {std::pair{Word{"global"}, Routing::global},
                                  std::pair{Word{"runtime"}, Routing::runtime}};
constexpr std::array kWeightPolicies = {std::pair{Word{"stash"}, WeightPolicy::stash},
                                        std::pair{Word{"vertical_sync"}, WeightPolicy::vertical_sync},
                                        std::pair{Word{"latest"}, WeightPolicy::latest}};
constexpr std::array kReductions = {std::pair{Word{"overlapped"}, Reduction::overlapped},
                                    std::pair{Word{"at_end"}, Reduction::at_end}};
constexpr std::array kUpdates = {std::pair{Word{"minibatch"}, UpdateRule::minibatch},
                                 std::pair{Word{"microbatch"}, UpdateRule::microbatch}};
constexpr std::array kObjectives = {std::pair{Word{"span"}, Objective::span},
                                    std::pair{Word{"makespan"}, Objective::makespan}};
constexpr std::array kPlacements = {std::pair{Word{"interleaved"}, ChunkPlacement::interleaved},
                                    std::pair{Word{"v"}, ChunkPlacement::v}};
/// ZeRO's stages.
constexpr std::array kShardings = {std::pair{Word{"none"}, 0}, std::pair{Word{"0"}, 0},
                                   std::pair{Word{"1"}, 1}, std::pair{Word{"2"}, 2}, std::pair{Word{"3"}, 3}};
constexpr std::array kChannels = {
    std::pair{Word{"rank"}, ChannelModel::rank}, std::pair{Word{"pair"}, ChannelModel::pair},
    std::pair{Word{"direction"}, ChannelModel::direction},
    std::pair{Word{"directed"}, ChannelModel::directed}, std::pair{Word{"boundary"}, ChannelModel::boundary}};

/// How `recompute:` is written; `none` keeps everything.
enum class Recompute : std::uint8_t { none, early, late };
constexpr std::array kRecomputes = {std::pair{Word{"none"}, Recompute::none},
                                    std::pair{Word{"early"}, Recompute::early},
                                    std::pair{Word{"late"}, Recompute::late}};

constexpr std::array<Word, 7> kProgramKeys = {"channel",      "blocking", "capacity", "eager",
                                              "launch_order", "program",  "dialect"};

/// `model` is what a program file was checked for, or the default.
ChannelOptions read_channels(const MappingReader& reader, ChannelModel model) {
  ChannelOptions options;
  options.model = reader.choice("channel", kChannels).value_or(model);
  options.blocking = reader.flag("blocking").value_or(false);
  // 0 is unlimited in the options, and no number of messages that anybody would write.
  const Node* capacity = reader.find("capacity");
  if (capacity != nullptr && capacity->text != "unlimited") {
    options.capacity = reader.integer("capacity", {.least = 1}).value_or(0);
  }
  options.eager_bytes = reader.bytes("eager").value_or(0);
  options.launch_order = reader.flag("launch_order").value_or(false);
  return options;
}

/// Checkpoint and its timing, which `recompute:` alone also turns on.
void read_recomputation(const MappingReader& reader, Shape& shape) {
  const auto checkpoint = reader.choice("checkpoint", kCheckpoints);
  const auto recompute = reader.choice("recompute", kRecomputes);
  const bool recomputes = recompute && *recompute != Recompute::none;
  shape.checkpoint = checkpoint.value_or(recomputes ? Checkpoint::always : Checkpoint::never);
  if (recompute == Recompute::late) shape.recompute = RecomputeTiming::late;
  if (recompute && recomputes != (shape.checkpoint != Checkpoint::never)) {
    reader.complain("recompute", fmt::format("does not go with checkpoint: {}; leave one of them out",
                                             reader.word("checkpoint").value_or("")));
  }
}

/// One for all stages or one a stage; empty: by the rule.
std::vector<std::int32_t> read_warmup(const MappingReader& reader) {
  std::vector<std::int32_t> depths = reader.integers("depth", {.least = 1});
  if (!reader.has("depth")) return reader.integers("warmup", {.least = 0});
  if (reader.has("warmup")) reader.complain("depth", "expected depth or warmup (= depth - 1), got both");
  // A depth counts the microbatch that goes back as well.
  for (std::int32_t& depth : depths) --depth;
  return depths;
}

SearchEffort read_effort(const MappingReader& reader) {
  SearchEffort effort;
  const auto passes =
      reader.integer("passes", {.least = 0, .most = std::numeric_limits<std::int32_t>::max()});
  const auto seed = reader.integer("seed", {.least = 0, .most = std::numeric_limits<std::int64_t>::max()});
  const auto budget = reader.duration("budget");
  if (seed) effort.seed = static_cast<std::uint64_t>(*seed);
  if (budget) effort = with_budget(effort, static_cast<double>(*budget) * 1e-9);
  // Last, since a budget brings a number of passes of its own.
  if (passes) effort.passes = *passes;
  return effort;
}

/// The options of all schedules; which of them one takes is for its rule to say (generate()). Stages,
/// microbatches and iterations come from elsewhere.
Shape read_shape(const MappingReader& reader) {
  Shape shape;
  shape.virtual_stages =
      static_cast<std::int32_t>(reader.integer("virtual_stages", {.least = 1}).value_or(1));
  shape.replicas = reader.integers("replicas", {.least = 1});
  shape.warmup = read_warmup(reader);
  shape.backward_order = reader.choice("backward_order", kBackwardOrders).value_or(shape.backward_order);
  read_recomputation(reader, shape);
  shape.routing = reader.choice("routing", kRoutings).value_or(shape.routing);
  shape.weights = reader.choice("weights", kWeightPolicies).value_or(shape.weights);
  shape.replica_sync = reader.flag("replica_sync").value_or(true) ? ReplicaSync::on : ReplicaSync::off;
  shape.reduction = reader.choice("reduction", kReductions).value_or(shape.reduction);
  shape.update = reader.choice("update", kUpdates).value_or(shape.update);
  shape.barrier = reader.flag("barrier").value_or(false);
  shape.group_size = static_cast<std::int32_t>(reader.integer("group_size", {.least = 1}).value_or(0));
  shape.slices = static_cast<std::int32_t>(reader.integer("slices", {.least = 1}).value_or(1));
  shape.data_parallel = static_cast<std::int32_t>(reader.integer("data_parallel", {.least = 1}).value_or(1));
  shape.buckets = reader.integers("buckets", {.least = 1});
  shape.sharding = reader.choice("sharding", kShardings);
  shape.memory_limit = reader.bytes_per_stage("memory_limit").values;
  shape.effort = read_effort(reader);
  shape.objective = reader.choice("objective", kObjectives).value_or(shape.objective);
  shape.placement = reader.choice("placement", kPlacements).value_or(shape.placement);
  return shape;
}

/// Empty where it is left out, or unknown with a problem noted.
std::string read_name(const MappingReader& reader) {
  const auto name = reader.word("name");
  if (!name || find_schedule(*name) != nullptr) return name.value_or("");
  reader.complain("name", unknown_schedule(*name));
  return "";
}

/// How a .csv of PyTorch writes its actions, which changed from release to release.
std::optional<CsvDialect> read_dialect(const MappingReader& reader) {
  const auto word = reader.word("dialect");
  if (!word) return std::nullopt;
  const auto dialect = csv_dialect_of_text(*word);
  if (!dialect) {
    reader.complain("dialect",
                    fmt::format("expected torch-2.4, torch-2.5 or torch-2.6 (and later), got \"{}\"", *word));
  }
  return dialect;
}

std::optional<ImportedCsv> read_program(const MappingReader& reader, Problem& problem) {
  const auto name = reader.word("program");
  if (!name) return std::nullopt;
  const NamedFile file = named_file(*reader.find("program"));
  const bool is_csv = has_file_suffix(*name, ".csv");
  if (!names_program(*name)) {
    reader.complain("program", fmt::format("expected a .psched or .csv file, got \"{}\"", *name));
    return std::nullopt;
  }
  const auto dialect = read_dialect(reader);
  if (dialect && !is_csv) {
    reader.complain("dialect",
                    fmt::format("goes with a .csv of PyTorch, not with \"{}\"; leave it out", *name));
    return std::nullopt;
  }
  const auto text = read_text_file(file.path, file.name);
  if (!text) {
    reader.complain("program", text.error());
    return std::nullopt;
  }
  // A .csv may need mending before it is a program, and says what was mended.
  auto imported = is_csv ? import_pytorch_csv(*text, file.name, dialect.value_or(CsvDialect::torch_2_6))
                         : parse_program(*text, file.name).map([](Program program) {
                             return ImportedCsv{.program = std::move(program), .notes = {}};
                           });
  if (!imported) problem.note(imported.error());
  return imported ? std::optional(*std::move(imported)) : std::nullopt;
}

/// A program has its own stages, microbatches and options: beside it only what says how it is run.
SchedulePart read_program_part(const MappingReader& reader, Problem& problem) {
  for (const Node::Entry& entry : reader.node().entries) {
    if (std::ranges::find(kProgramKeys, entry.key.text) == kProgramKeys.end()) {
      reader.complain(
          entry.key.text,
          fmt::format("does not go with schedule.program, which states it itself; beside "
                      "program there may be dialect, channel, blocking, capacity, eager, launch_order"));
    }
  }
  SchedulePart part;
  if (auto imported = read_program(reader, problem)) {
    part.program = std::move(imported->program);
    part.notes = std::move(imported->notes);
  }
  part.channels = read_channels(reader, part.program ? part.program->channel : ChannelModel::directed);
  return part;
}

/// A rule's name, a layout, or a list of layers a stage.
std::optional<LayerSplit> read_layer_split(const MappingReader& reader) {
  const Node* node = reader.find("layer_split");
  if (node == nullptr) return std::nullopt;
  if (node->kind == Node::Kind::list) {
    const std::vector<std::int32_t> counts = reader.integers("layer_split", {.least = 0});
    return LayerSplit{.rule = LayerSplit::Rule::listed, .counts = {counts.begin(), counts.end()}};
  }
  const auto split = parse_layer_split(node->text);
  if (split) return *split;
  reader.complain("layer_split", split.error());
  return std::nullopt;
}

}  // namespace

SchedulePart read_schedule(const Node& node, Problem& problem) {
  static constexpr std::array<Word, 35> kKeys = {
      "name",          "stages",     "microbatches", "virtual_stages", "replicas",     "warmup",
      "depth",         "checkpoint", "routing",      "weights",        "recompute",    "backward_order",
      "reduction",     "program",    "group_size",   "slices",         "replica_sync", "update",
      "data_parallel", "dialect",    "memory_limit", "barrier",        "channel",      "blocking",
      "capacity",      "eager",      "sharding",     "buckets",        "layer_split",  "passes",
      "seed",          "budget",     "objective",    "placement",      "launch_order"};
  const MappingReader reader(node, "schedule", kKeys, problem);
  if (problem.found()) return {};
  if (reader.has("program")) return read_program_part(reader, problem);
  if (reader.has("dialect")) reader.complain("dialect", "goes with `program: FILE.csv`; leave it out");
  const auto stages = reader.integer("stages", {.least = 1});
  return {.name = read_name(reader),
          .stages = stages ? std::optional(static_cast<std::int32_t>(*stages)) : std::nullopt,
          .microbatches =
              reader.integer("microbatches", {.least = 1, .most = std::numeric_limits<std::int64_t>::max()}),
          .shape = read_shape(reader),
          .program = std::nullopt,
          .channels = read_channels(reader, ChannelModel::directed),
          .layer_split = read_layer_split(reader),
          .states_chunks = reader.has("virtual_stages")};
}

}  // namespace penstock
