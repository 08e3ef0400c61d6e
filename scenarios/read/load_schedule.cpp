// Reads `schedule:`. It contains the name and shape of a generated schedule, or a program file. Both forms
// may have channel options.

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

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

using Word = std::string_view;

/// The words for the degrees of ZeRO sharding.
constexpr std::array<Word, 5> kShardingWords = {"none", "0", "1", "2", "3"};

}  // namespace

/// The words of `schedule.recompute`. With `none`, all activations are stored.
enum class Recompute : std::uint8_t { none, early, late };
template <>
inline constexpr auto kEnumWords<Recompute> = std::to_array<EnumWord<Recompute>>(
    {{Recompute::none, "none"}, {Recompute::early, "early"}, {Recompute::late, "late"}});

namespace {

constexpr Range kAnyCount{.least = 1, .most = std::numeric_limits<std::int64_t>::max()};
constexpr Range kPasses{.least = 0};
constexpr Range kSeeds{.least = 0, .most = std::numeric_limits<std::int64_t>::max()};
constexpr std::string_view kLayerSplitSchema =
    R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer", "minimum": 0}}]})";

constexpr std::string_view kBlockingSchema =
    R"({"enum": [true, false, "true", "on", "yes", "false", "off", "no", "batched"]})";

constexpr std::string_view kOffloadSchema =
    R"({"anyOf": [{"const": "none"}, {"type": "number", "minimum": 0, "maximum": 1}, )"
    R"({"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}, "minItems": 1}]})";
constexpr std::string_view kSliceTokensSchema =
    R"({"anyOf": [{"enum": ["even", "equal-time"]}, {"type": "integer", "minimum": 1}, {"type": "array", "items": {"type": "integer", "minimum": 1}}]})";

/// Returns the table entry for a key of `schedule:` whose value is stored in the schedule's shape.
template <auto member>
consteval Field<SchedulePart> of_shape(Key key) {
  return field<&SchedulePart::shape, member>(key);
}

/// Returns the table entry for a key of `schedule:` whose value is stored as a channel option.
template <auto member>
consteval Field<SchedulePart> of_channels(Key key) {
  return field<&SchedulePart::channels, member>(key);
}

// The rule of a schedule checks which of these options it accepts (generate()).
constexpr auto kScheduleFields = std::to_array<Field<SchedulePart>>({
    unbound<SchedulePart>({.name = "name",
                           .kind = KeyKind::name,
                           .meaning = "The name of a schedule; `penstock schedules` lists them.",
                           .usual = "gpipe"}),
    field<&SchedulePart::stages>({.name = "stages",
                                  .kind = KeyKind::integer,
                                  .meaning = "K, the ranks of the pipeline.",
                                  .usual = "entries of the model's longest list / v, or 1"}),
    field<&SchedulePart::microbatches>({.name = "microbatches",
                                        .kind = KeyKind::integer,
                                        .meaning = "M, the microbatches of one minibatch, over all replicas.",
                                        .usual = "global_batch_size / micro_batch_size, or 1",
                                        .range = kAnyCount}),
    of_shape<&Shape::virtual_stages>(
        {.name = "virtual_stages",
         .kind = KeyKind::integer,
         .meaning = "v, the model chunks of a rank.",
         .usual = "1; 2 of interleaved schedules, unless the model's figures are lists"}),
    of_shape<&Shape::replicas>({.name = "replicas",
                                .kind = KeyKind::integer,
                                .meaning = "Ranks that hold a stage together.",
                                .usual = "1",
                                .values = KeyValues::stages}),
    unbound<SchedulePart>({.name = "warmup",
                           .kind = KeyKind::integer,
                           .meaning = "Forward passes before the first backward pass.",
                           .usual = "the rule's own",
                           .range = {.least = 0},
                           .values = KeyValues::stages}),
    unbound<SchedulePart>(
        {.name = "depth",
         .kind = KeyKind::integer,
         .meaning = "Microbatches in flight: warmup + 1. Only one of the two may be stated.",
         .usual = "the rule's own",
         .values = KeyValues::stages}),
    unbound<SchedulePart>(
        {.name = "checkpoint",
         .kind = KeyKind::word,
         .meaning = "The microbatches that keep only their stage's input and recompute the rest.",
         .usual = "never; always where recompute is stated",
         .words = words_of<Checkpoint>()}),
    of_shape<&Shape::routing>(
        {.name = "routing",
         .kind = KeyKind::word,
         .meaning = "The replica of the next stage that takes a microbatch: by its number, or as PipeDream's "
                    "runtime chooses it.",
         .usual = "runtime"}),
    of_shape<&Shape::weights>(
        {.name = "weights",
         .kind = KeyKind::word,
         .meaning = "The version of the weights that an asynchronous schedule uses in a backward pass.",
         .usual = "stash"}),
    unbound<SchedulePart>({.name = "recompute",
                           .kind = KeyKind::word,
                           .meaning = "early: R does not wait for the gradient. late: R waits for it.",
                           .usual = "none; early where checkpoint is stated",
                           .words = words_of<Recompute>()}),
    of_shape<&Shape::backward_order>(
        {.name = "backward_order",
         .kind = KeyKind::word,
         .meaning = "The microbatch that a rank runs backward first: the oldest or the newest.",
         .usual = "fifo"}),
    of_shape<&Shape::reduction>(
        {.name = "reduction",
         .kind = KeyKind::word,
         .meaning = "Replicas reduce each stage's gradients after its last backward pass, or all at the end.",
         .usual = "overlapped"}),
    unbound<SchedulePart>(
        {.name = "program",
         .kind = KeyKind::file,
         .meaning = "A .psched or .csv file with the lists of all ranks, instead of a name. --set and --vary "
                    "replace the file's name and shape by it."}),
    of_shape<&Shape::group_size>(
        {.name = "group_size",
         .kind = KeyKind::integer,
         .meaning = "Microbatches of one group, of the schedules that run in groups.",
         .usual = "PyTorch's rounds of interleaved; 2 of kfkb"}),
    of_shape<&Shape::slices>({.name = "slices",
                              .kind = KeyKind::integer,
                              .meaning = "Slices of a microbatch, of the schedules that cut the sequence.",
                              .usual = "1"}),
    unbound<SchedulePart>(
        {.name = "slice_tokens",
         .kind = KeyKind::other,
         .meaning =
             "Tokens of each slice of a model that is priced by tokens. With equal-time, slices take equally "
             "long; of a stated number, the last slice has the rest.",
         .usual = "even",
         .form = "even, equal-time, a number of tokens, or a list",
         .schema = kSliceTokensSchema}),
    unbound<SchedulePart>({.name = "replica_sync",
                           .kind = KeyKind::flag,
                           .meaning = "Replicas of a stage reduce their gradients.",
                           .usual = "true"}),
    of_shape<&Shape::update>({.name = "update",
                              .kind = KeyKind::word,
                              .meaning = "One update of the weights a minibatch, or one a microbatch.",
                              .usual = "minibatch",
                              .words = words_of<UpdateRule>().first(2)}),
    of_shape<&Shape::data_parallel>(
        {.name = "data_parallel",
         .kind = KeyKind::integer,
         .meaning =
             "Copies of the pipeline that share the M microbatches; copy i of rank r is rank r * copies + i.",
         .usual = "1"}),
    unbound<SchedulePart>(
        {.name = "forward_only",
         .kind = KeyKind::other,
         .meaning =
             "Stages run only forwards (evaluation, prefill): no gradients, no updates. kv: what each F "
             "keeps is held until the run ends.",
         .usual = "false, or the program's own",
         .form = "true, false or kv",
         .schema = R"({"enum": [true, false, "true", "false", "kv"]})"}),
    unbound<SchedulePart>({.name = "dialect",
                           .kind = KeyKind::word,
                           .meaning = "The release of PyTorch whose spelling the .csv has.",
                           .usual = "torch-2.6",
                           .words = words_of<CsvDialect>()}),
    of_shape<&Shape::memory_limit>(
        {.name = "memory_limit",
         .kind = KeyKind::bytes,
         .meaning =
             "Most bytes that a rank keeps, without what is recomputed, of the schedules that weigh costs.",
         .usual = "the rule's own",
         .values = KeyValues::stages}),
    of_shape<&Shape::barrier>({.name = "barrier",
                               .kind = KeyKind::flag,
                               .meaning = "An iteration starts when all ranks have ended the one before.",
                               .usual = "false"}),
    of_channels<&ChannelOptions::model>({.name = "channel",
                                         .kind = KeyKind::word,
                                         .meaning = "The messages that queue behind each other.",
                                         .usual = "directed, or the program's own"}),
    unbound<SchedulePart>({.name = "blocking",
                           .kind = KeyKind::other,
                           .meaning =
                               "true: the order of the list waits for each message. batched: the messages "
                               "between two compute actions are posted together, and it waits for all.",
                           .usual = "false",
                           .form = "true, false or batched",
                           .schema = kBlockingSchema}),
    of_channels<&ChannelOptions::capacity>(
        {.name = "capacity",
         .kind = KeyKind::count,
         .meaning = "Messages of a channel that may wait for their consumers.",
         .usual = "unlimited"}),
    of_channels<&ChannelOptions::eager_bytes>(
        {.name = "eager",
         .kind = KeyKind::bytes,
         .meaning = "Messages below this size need only their sender to be ready.",
         .usual = "0"}),
    unbound<SchedulePart>(
        {.name = "sharding",
         .kind = KeyKind::word,
         .meaning = "ZeRO's stage: holders of a stage share the optimizer's state (1), gradients too (2), "
                    "weights too (3).",
         .usual = "none; 1 of a model on named devices",
         .words = kShardingWords}),
    of_shape<&Shape::buckets>(
        {.name = "buckets",
         .kind = KeyKind::integer,
         .meaning = "Parts of a stage whose gradients are reduced one by one during the backward pass.",
         .usual = "1",
         .values = KeyValues::stages}),
    unbound<SchedulePart>(
        {.name = "layer_split",
         .kind = KeyKind::other,
         .meaning = "How the layers of a model on named devices are shared out among the stages.",
         .usual = "even; balanced where the layers do not divide",
         .form = "even, ends-one-less, balanced, a Megatron layout, or a list of layers a stage",
         .schema = kLayerSplitSchema}),
    unbound<SchedulePart>({.name = "passes",
                           .kind = KeyKind::integer,
                           .meaning = "Passes of a search, each of which builds the order once; large "
                                      "programs get fewer unless stated.",
                           .usual = "500",
                           .range = kPasses}),
    unbound<SchedulePart>({.name = "seed",
                           .kind = KeyKind::integer,
                           .meaning = "The seed of a search.",
                           .usual = "1",
                           .range = kSeeds}),
    unbound<SchedulePart>({.name = "budget",
                           .kind = KeyKind::duration,
                           .meaning = "Time after which a search ends; it then makes as many passes as fit.",
                           .usual = "no end before the passes are made"}),
    of_shape<&Shape::objective>(
        {.name = "objective",
         .kind = KeyKind::word,
         .meaning = "What a search shortens: the longest span of a rank, or the time until all have ended.",
         .usual = "span"}),
    of_shape<&Shape::placement>({.name = "placement",
                                 .kind = KeyKind::word,
                                 .meaning = "How the chunks of `synthesized` lie on the ranks.",
                                 .usual = "two chunks as a V, others interleaved"}),
    unbound<SchedulePart>(
        {.name = "offload",
         .kind = KeyKind::other,
         .meaning = "The share of each rank's activations that wait in its host's memory for their backward "
                    "pass (`cluster.host`).",
         .usual = "none",
         .form = "none, a share from 0 to 1, or a list of shares, one a rank",
         .schema = kOffloadSchema}),
    of_channels<&ChannelOptions::launch_order>(
        {.name = "launch_order",
         .kind = KeyKind::flag,
         .meaning = "NCCL's kernels of a rank start in the order of their launches.",
         .usual = "false"}),
});

constexpr auto kScheduleKeys = keys_of(kScheduleFields);

constexpr std::array<Word, 10> kProgramKeys = {"channel",      "blocking",   "capacity", "eager",
                                               "launch_order", "program",    "dialect",  "forward_only",
                                               "sharding",     "layer_split"};

/// Reads which activations are checkpoints and when they are recomputed. The key `recompute` alone also
/// enables checkpoints.
void read_recomputation(const MappingReader& reader, Shape& shape) {
  const auto checkpoint = reader.choice<Checkpoint>("checkpoint");
  const auto recompute = reader.choice<Recompute>("recompute");
  const bool recomputes = recompute && *recompute != Recompute::none;
  shape.checkpoint = checkpoint.value_or(recomputes ? Checkpoint::always : Checkpoint::never);
  if (recompute == Recompute::late) shape.recompute = RecomputeTiming::late;
  if (recompute && recomputes != (shape.checkpoint != Checkpoint::never)) {
    reader.complain("recompute", fmt::format("does not go with checkpoint: {}; leave one of them out",
                                             reader.word("checkpoint").value_or("")));
  }
}

/// Returns the stated warm-up lengths: one number for all stages, or one for each stage. Returns an empty
/// list if none is stated. The schedule's rule then decides.
std::vector<std::int32_t> read_warmup(const MappingReader& reader) {
  std::vector<std::int32_t> depths = reader.integers("depth");
  if (!reader.has("depth")) return reader.integers("warmup");
  if (reader.has("warmup")) reader.complain("depth", "expected depth or warmup (= depth - 1), got both");
  // The depth of a stage is its warm-up plus 1, because the microbatch whose backward pass runs next also
  // counts.
  for (std::int32_t& depth : depths) --depth;
  return depths;
}

/// Reads `blocking`, which is true, false or the word `batched`.
Blocking read_blocking(const MappingReader& reader) {
  if (!reader.has("blocking")) return Blocking::none;
  const auto word = reader.word("blocking");
  if (word == to_text(Blocking::batched)) return Blocking::batched;
  return reader.flag("blocking").value_or(false) ? Blocking::each : Blocking::none;
}

/// Returns true if a list of the program contains a group of transfers.
bool states_groups(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(
        list, [](const Action& action) { return action.overlaps_next && is_transfer(action.kind); });
  });
}

SearchEffort read_effort(const MappingReader& reader) {
  SearchEffort effort;
  const auto passes = reader.integer("passes");
  const auto seed = reader.integer("seed");
  const auto budget = reader.duration("budget");
  if (seed) effort.seed = static_cast<std::uint64_t>(*seed);
  if (budget) effort = with_budget(effort, static_cast<double>(*budget) * 1e-9);
  // A budget also sets the number of passes. So a stated number is set after it.
  if (passes) effort.passes = *passes;
  return effort;
}

/// Reads the degree of ZeRO sharding. Returns nothing if the key is absent.
std::optional<std::int32_t> read_sharding(const MappingReader& reader) {
  const auto word = reader.choice_word("sharding");
  if (!word) return std::nullopt;
  return *word == "none" ? 0 : word->front() - '0';
}

/// Reads `offload`: none, one share for all ranks, or a list with one share for each rank. If all shares are
/// 0, returns an empty list, which means none.
std::vector<double> read_offload(const MappingReader& reader) {
  const Node* node = reader.find("offload");
  if (node == nullptr || (node->kind == Node::Kind::scalar && node->text == "none")) return {};
  const bool is_list = node->kind == Node::Kind::list && !node->items.empty();
  std::vector<double> shares;
  for (const Node& entry : is_list ? node->items : std::vector<Node>{*node}) {
    const auto share = entry.kind == Node::Kind::scalar ? finite_number(entry.text) : std::optional<double>();
    if (!share || *share < 0 || *share > 1) {
      reader.complain(
          "offload", fmt::format("expected none, a share from 0 to 1 such as 0.5, or a list of shares, one a "
                                 "rank, got {}",
                                 describe(entry)));
      return {};
    }
    shares.push_back(*share);
  }
  const bool is_none = std::ranges::all_of(shares, [](double share) { return share == 0; });
  return is_none ? std::vector<double>{} : shares;
}

/// Returns the name of the schedule, or an empty text if it is absent. Records a problem if the name is
/// unknown.
std::string read_name(const MappingReader& reader) {
  const auto name = reader.word("name");
  if (!name || find_schedule(*name) != nullptr) return name.value_or("");
  reader.complain("name", unknown_schedule(*name));
  return "";
}

/// Reads which notation the PyTorch .csv file uses for actions. It differs between PyTorch releases.
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
  const bool is_standard_input = *name == kStandardInput;
  if (!names_program(*name) && !is_standard_input) {
    reader.complain("program", fmt::format("expected a .psched or .csv file, got \"{}\"", *name));
    return std::nullopt;
  }
  const bool names_csv = has_file_suffix(*name, ".csv");
  const auto dialect = read_dialect(reader);
  if (dialect && !names_csv && !is_standard_input) {
    reader.complain("dialect",
                    fmt::format("goes with a .csv of PyTorch, not with \"{}\"; leave it out", *name));
    return std::nullopt;
  }
  const Passes passes = reader.choice<Passes>("forward_only").value_or(Passes::both);
  const auto text = read_text_file(file.path, file.name);
  if (!text) {
    reader.complain("program", text.error());
    return std::nullopt;
  }
  const bool is_csv = is_standard_input ? !text->starts_with(kProgramHeader) : names_csv;
  // A PyTorch .csv file may need corrections before it is a valid program. The notes list them.
  auto imported = is_csv
                      ? import_pytorch_csv(*text, file.name, dialect.value_or(CsvDialect::torch_2_6), passes)
                      : parse_program(*text, file.name).map([](Program program) {
                          return ImportedCsv{.program = std::move(program), .notes = {}};
                        });
  if (!imported) problem.note(imported.error());
  // A file of lists may state its own passes. They are replaced only if the scenario asks for forward passes
  // alone.
  if (imported && passes != Passes::both) set_passes(imported->program, passes);
  return imported ? std::optional(*std::move(imported)) : std::nullopt;
}

bool goes_with_program(const Node::Entry& entry) {
  return std::ranges::find(kProgramKeys, entry.key.text) != kProgramKeys.end();
}

/// Reads how layers are divided among stages: the name of a rule, a layout, or a list with the number of
/// layers of each stage.
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

/// Reads a program file. The program has its own stages, microbatches and options, so only keys about its
/// execution are allowed.
SchedulePart read_program_part(const MappingReader& reader, Problem& problem) {
  for (const Node::Entry& entry : reader.node().entries) {
    if (!goes_with_program(entry)) {
      reader.complain(
          entry.key.text,
          fmt::format("does not go with schedule.program, which states it itself; beside "
                      "program there may be dialect, forward_only, channel, blocking, capacity, eager, "
                      "launch_order, and of a model on named devices sharding and layer_split"));
    }
  }
  SchedulePart part;
  if (auto imported = read_program(reader, problem)) {
    part.program = std::move(imported->program);
    part.notes = std::move(imported->notes);
  }
  // A program file states the channel model for which it was checked.
  if (part.program) part.channels.model = part.program->channel;
  read_fields(reader, kScheduleFields, part);
  part.channels.blocking = read_blocking(reader);
  part.shape.sharding = read_sharding(reader);
  part.layer_split = read_layer_split(reader);
  if (part.channels.launch_order && part.program && states_groups(*part.program)) {
    reader.complain("launch_order",
                    "does not go with groups of transfers (GROUP) in the lists, which are launched together; "
                    "leave it out");
  }
  return part;
}

/// Reads `slice_tokens`, the rule for the tokens of slices. Returns nothing if the key is absent.
std::optional<SliceSizes> read_slice_tokens(const MappingReader& reader) {
  const Node* node = reader.find("slice_tokens");
  if (node == nullptr) return std::nullopt;
  if (node->text == "even") return SliceSizes{};
  if (node->text == "equal-time") return SliceSizes{.rule = SliceSizes::Rule::equal_time};
  const bool is_number = node->kind == Node::Kind::scalar && looks_like_a_figure(node->text);
  if (!is_number && node->kind != Node::Kind::list) {
    reader.complain(
        "slice_tokens",
        "expected even, equal-time, the tokens of a slice, or a list of them, got " + describe(*node));
    return std::nullopt;
  }
  const std::vector<std::int32_t> tokens = reader.integers("slice_tokens", kModelSize);
  if (tokens.empty()) return std::nullopt;
  return SliceSizes{.rule = is_number ? SliceSizes::Rule::fixed : SliceSizes::Rule::listed,
                    .tokens = {tokens.begin(), tokens.end()}};
}

/// Records a problem if `channel` is a mapping. The fields of channels stand beside it.
void refuse_mapped_channel(const MappingReader& reader) {
  const Node* channel = reader.find("channel");
  if (channel == nullptr || channel->kind != Node::Kind::mapping) return;
  reader.complain("channel",
                  fmt::format("expected {}, got a mapping; blocking, capacity, eager and launch_order "
                              "stand beside it, as in schedule: {{channel: directed, blocking: batched}}",
                              fmt::join(words_of<ChannelModel>(), " or ")));
}

}  // namespace

void remove_replaced_keys(Node& schedule) {
  std::erase_if(schedule.entries, [](const Node::Entry& entry) {
    return !goes_with_program(entry) && entry.value.source->override_key.empty();
  });
}

SchedulePart read_schedule(const Node& node, Problem& problem) {
  const MappingReader reader(node, "schedule", kScheduleKeys, problem);
  if (problem.found()) return {};
  refuse_mapped_channel(reader);
  if (problem.found()) return {};
  if (reader.has("program")) return read_program_part(reader, problem);
  if (reader.has("dialect")) reader.complain("dialect", "goes with `program: FILE.csv`; leave it out");
  SchedulePart part;
  part.name = read_name(reader);
  read_fields(reader, kScheduleFields, part);
  part.channels.blocking = read_blocking(reader);
  part.shape.warmup = read_warmup(reader);
  read_recomputation(reader, part.shape);
  if (!reader.flag("replica_sync").value_or(true)) part.shape.replica_sync = ReplicaSync::off;
  part.shape.sharding = read_sharding(reader);
  part.shape.passes = reader.choice<Passes>("forward_only").value_or(Passes::both);
  part.shape.effort = read_effort(reader);
  part.layer_split = read_layer_split(reader);
  part.shape.offload = read_offload(reader);
  part.states_chunks = reader.has("virtual_stages");
  part.states_slices = reader.has("slices");
  part.slice_tokens = read_slice_tokens(reader);
  if (!is_chunked_prefill(part.name)) return part;
  if (reader.has("forward_only") && part.shape.passes == Passes::both)
    reader.complain("forward_only", "prefill has no backward passes: expected kv or true, got false");
  if (!reader.has("forward_only")) part.shape.passes = Passes::forward_kv;
  return part;
}

std::vector<KeyGroup> schedule_keys() {
  return {{.path = "schedule",
           .about =
               "A schedule of the table with its options, of which each schedule takes its own, or a file of "
               "lists. Beside `program` only `dialect`, `forward_only`, `channel`, `blocking`, `capacity`, "
               "`eager` and `launch_order` may stand. If the model is on named devices, `sharding` and "
               "`layer_split` may stand there, too.\n\n"
               "`sharding` adds the gathers (UNSHARD): behind the STEPs under 1 and 2, around the uses under "
               "3; REDUCE_GRAD is then a reduce-scatter. It goes with schedules that have one update a "
               "minibatch. Of a model on named devices it says what the copies (`parallel.data`, `context`) "
               "share, priced rather than simulated.\n\n"
               "`layer_split`: `ends-one-less` counts the embedding and the head as a layer each; `balanced` "
               "goes by the prices of all layers within the devices' memory, and a note lists the layers of "
               "each stage; a Megatron layout is such as `Et*3|(tt|)*30,t*2L`.\n\n"
               "`offload` adds OFFLOAD behind an F and RELOAD one compute action before its B. Activations "
               "without two compute actions between F and B stay on the device, so the last stage of 1f1b "
               "offloads none.",
           .keys = {kScheduleKeys.begin(), kScheduleKeys.end()}}};
}

}  // namespace penstock
