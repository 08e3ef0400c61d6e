// Reads the flags of `penstock tune`. Each choice is a list of allowed values. If a list is missing, all
// values are allowed. Memory and price become keys of the scenario.

#include "cli/commands/tune_answer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/quantities.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/choose/configuration.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

/// Splits a text at its commas into words. An empty text has no words. Between two adjacent commas there is
/// an empty word.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// Reads comma-separated words as values of an enum. An empty text gives an empty list, which allows all
/// values.
template <typename Value, std::size_t kCount>
tl::expected<std::vector<Value>, UserError> chosen_words(
    std::string_view flag, const std::string& text,
    const std::array<std::pair<std::string_view, Value>, kCount>& known) {
  std::vector<Value> values;
  for (const std::string& word : split(text)) {
    const auto found = std::ranges::find(known, word, &std::pair<std::string_view, Value>::first);
    if (found == known.end()) {
      std::vector<std::string_view> names;
      names.reserve(kCount);
      for (const auto& [name, value] : known) names.push_back(name);
      return bad_input(
          fmt::format("{}: expected some of {}, got \"{}\"", flag, fmt::join(names, ", "), word));
    }
    values.push_back(found->second);
  }
  return values;
}

// Scenario files use the same words. "none" and "0" both mean no sharding.
constexpr std::array kExchanges = {std::pair{std::string_view("ring"), ContextExchange::ring},
                                   std::pair{std::string_view("all-to-all"), ContextExchange::all_to_all}};
constexpr std::array kOrders = {
    std::pair{to_text(PlacementOrder::tp_cp_ep_dp_pp), PlacementOrder::tp_cp_ep_dp_pp},
    std::pair{to_text(PlacementOrder::tp_cp_ep_pp_dp), PlacementOrder::tp_cp_ep_pp_dp}};
constexpr std::array kGroupOrders = {std::pair{to_text(GroupOrder::stated), GroupOrder::stated},
                                     std::pair{to_text(GroupOrder::reversed), GroupOrder::reversed}};
constexpr std::array kRecomputes = {std::pair{std::string_view("none"), LayerRecompute::none},
                                    std::pair{std::string_view("selective"), LayerRecompute::selective},
                                    std::pair{std::string_view("full"), LayerRecompute::full}};
constexpr std::array kOffloads = {std::pair{std::string_view("none"), 0}, std::pair{std::string_view("0"), 0},
                                  std::pair{std::string_view("0.5"), 50},
                                  std::pair{std::string_view("1"), 100}};
constexpr std::array kShardings = {std::pair{std::string_view("none"), 0},
                                   std::pair{std::string_view("0"), 0}, std::pair{std::string_view("1"), 1},
                                   std::pair{std::string_view("2"), 2}, std::pair{std::string_view("3"), 3}};

/// Reads the flags that list the allowed numbers and words. An error names the flag and the wrong text.
tl::expected<TuneChoices, UserError> choices_of(const TuneChoiceFlags& flags) {
  TuneChoices choices;
  const std::array<std::pair<std::string_view, std::pair<const std::string*, std::vector<std::int32_t>*>>, 7>
      lists = {{{"--tensor-parallel", {&flags.tensor, &choices.tensor}},
                {"--context-parallel", {&flags.context, &choices.context}},
                {"--expert-parallel", {&flags.expert, &choices.expert}},
                {"--data-parallel", {&flags.data, &choices.data}},
                {"--pp-size", {&flags.stages, &choices.stages}},
                {"--virtual-stages", {&flags.virtual_stages, &choices.virtual_stages}},
                {"--micro-batch-size", {&flags.micro_batch_size, &choices.micro_batch_size}}}};
  for (const auto& [flag, place] : lists) {
    auto numbers = numbers_of_flag(flag, *place.first);
    if (!numbers) return tl::unexpected(numbers.error());
    *place.second = *std::move(numbers);
  }
  auto exchanges = chosen_words("--context-exchange", flags.context_exchange, kExchanges);
  if (!exchanges) return tl::unexpected(exchanges.error());
  choices.context_exchange = *std::move(exchanges);
  auto orders = chosen_words("--order", flags.order, kOrders);
  if (!orders) return tl::unexpected(orders.error());
  choices.order = *std::move(orders);
  auto group_orders = chosen_words("--group-order", flags.group_order, kGroupOrders);
  if (!group_orders) return tl::unexpected(group_orders.error());
  choices.group_order = *std::move(group_orders);
  auto recomputes = chosen_words("--recompute", flags.recompute, kRecomputes);
  if (!recomputes) return tl::unexpected(recomputes.error());
  choices.recompute = *std::move(recomputes);
  auto shardings = chosen_words("--sharding", flags.sharding, kShardings);
  if (!shardings) return tl::unexpected(shardings.error());
  choices.sharding = *std::move(shardings);
  auto offloads = chosen_words("--offload", flags.offload, kOffloads);
  if (!offloads) return tl::unexpected(offloads.error());
  choices.offload = *std::move(offloads);
  return choices;
}

/// Returns the scenario for which tune() chooses a configuration. The memory limit is checked first, so
/// that its error names the flag. Returns an error if the scenario does not state a model on named devices.
tl::expected<Scenario, UserError> base_of(const TuneFlags& flags) {
  if (const std::string& limit = flags.choices.memory_limit; !limit.empty()) {
    const auto bytes = parse_bytes(limit);
    if (!bytes) return bad_input(fmt::format("--memory-limit: {}", bytes.error()));
    if (*bytes == 0) return bad_input("--memory-limit: expected more than 0 bytes of a device, got 0");
    const auto stated = load_input(flags.input);
    if (stated && !stated->cluster.groups.empty()) {
      return bad_input(
          "--memory-limit: expected devices of one kind, got cluster.groups; state `memory` in each group");
    }
  }
  auto scenario = load_input(base_input(flags));
  if (!scenario) return scenario;
  if (std::holds_alternative<DeviceModel>(scenario->model)) return scenario;
  return bad_input(
      "expected a model on named devices: --model config.json --device h100-sxm --sequence 8192, or a "
      "scenario with model.huggingface and cluster.device (`--help` has examples)");
}

/// Reads a list such as "[3, 4, 3]", which gives the number of layers of each stage.
tl::expected<LayerSplit, std::string> listed_split(const std::string& text) {
  LayerSplit list{.rule = LayerSplit::Rule::listed};
  if (!text.ends_with(']')) return tl::unexpected(fmt::format("expected a ']' at the end of \"{}\"", text));
  for (const std::string& word : split(text.substr(1, text.size() - 2))) {
    const auto count =
        finite_number(std::string_view(word).substr(std::min(word.find_first_not_of(' '), word.size())));
    if (!count || *count < 0 || *count != std::floor(*count) || *count > 1e6)
      return tl::unexpected(fmt::format("expected whole numbers such as [3, 4, 3], got \"{}\"", word));
    list.counts.push_back(static_cast<std::int64_t>(*count));
  }
  return list;
}

tl::expected<std::vector<LayerSplit>, UserError> layer_splits_of(const std::vector<std::string>& texts) {
  std::vector<LayerSplit> splits;
  for (const std::string& text : texts) {
    const auto split = text.starts_with('[') ? listed_split(text) : parse_layer_split(text);
    if (!split) return bad_input(fmt::format("--layer-split: {}", split.error()));
    splits.push_back(*split);
  }
  return splits;
}

/// Returns the numbers of nodes to try: the powers of two up to `most`, and `most` itself.
std::vector<std::int32_t> nodes_up_to(std::int64_t most) {
  std::vector<std::int32_t> nodes;
  for (std::int64_t count = 1; count < most; count *= 2) nodes.push_back(static_cast<std::int32_t>(count));
  nodes.push_back(static_cast<std::int32_t>(most));
  return nodes;
}

}  // namespace

InputFlags base_input(const TuneFlags& flags) {
  InputFlags input = flags.input;
  // The global batch is part of the request. The scenario has no M yet to which it could be compared.
  input.global_batch_size.reset();
  if (!flags.choices.memory_limit.empty()) {
    input.settings.push_back(fmt::format("cluster.memory={}", flags.choices.memory_limit));
    // A flag gives the memory that is really usable, so nothing is reserved unless another flag requests it.
    const bool is_reserved = std::ranges::any_of(
        input.settings, [](const std::string& setting) { return setting.starts_with("cluster.reserve="); });
    if (!is_reserved) input.settings.emplace_back("cluster.reserve=0 B");
  }
  if (flags.price) input.settings.push_back(fmt::format("cluster.price={}", *flags.price));
  return input;
}

/// Declares the flags that limit what the search may choose.
static void add_choice_flags(Subcommand app, TuneChoiceFlags& choices) {
  const std::string group = "Choices (lists: 4 | 1,2,4 | 1..16; default: all that the model allows)";
  const auto list = [&](const std::string& names, std::string& value, const std::string& type,
                        const std::string& help) {
    app.add_option(names, value, help).group(group).type_name(type);
  };
  app.add_words(
         "--schedule", choices.schedules,
         "schedules to try, with commas between them (default 1f1b,interleaved,zb-h1,zb-v, "
         "ep-1f1b where devices share experts, and 1f1b-vocab-1,1f1b-vocab-2 where the output layer is "
         "as large as four layers)")
      .words(schedule_names())
      .group(group)
      .type_name("NAMES");
  list("--tensor-parallel", choices.tensor, "NUMBERS", "devices that share each layer");
  list("--context-parallel", choices.context, "NUMBERS", "devices that share each sequence");
  list("--context-exchange", choices.context_exchange, "WORDS", "ring,all-to-all");
  list("--expert-parallel", choices.expert, "NUMBERS", "devices that share the experts of a layer");
  list("--data-parallel", choices.data, "NUMBERS", "copies of the pipeline");
  list("--order", choices.order, "WORDS",
       "numbering of devices, nearest first: tp-cp-ep-dp-pp,tp-cp-ep-pp-dp");
  list("--group-order", choices.group_order, "WORDS",
       "how a pipeline goes through cluster.groups: stated,reversed");
  list("--pp-size", choices.stages, "NUMBERS", "K, ranks of a pipeline");
  list("--virtual-stages", choices.virtual_stages, "NUMBERS", "v, model chunks a rank");
  list("--micro-batch-size", choices.micro_batch_size, "NUMBERS", "samples of a microbatch, of 1,2,4,8,16");
  list("--recompute", choices.recompute, "WORDS", "none,selective,full");
  list("--sharding", choices.sharding, "WORDS", "ZeRO stages: none,1,2,3");
  list("--offload", choices.offload, "WORDS",
       "activations of 1f1b and interleaved that wait in the memory of hosts: none,0.5,1 "
       "(default: none, but all if cluster.host is stated)");
  app.add_option(
         "--layer-split", choices.layer_splits,
         "layouts to try (default even, ends-one-less and balanced), a Megatron layout or a list among "
         "them; may be repeated")
      .one_value_each()
      .group(group)
      .type_name("RULE");
  app.add_option("--max-nodes", choices.max_nodes, "try 1, 2, 4, .. nodes up to so many, not all of them")
      .range(std::int64_t{1}, std::int64_t{1 << 20})
      .group(group)
      .type_name("N");
  list("--memory-limit", choices.memory_limit, "BYTES",
       "that may be used of a device, such as 72GiB (default: its own, less the reserve)");
}

void add_tune_flags(Subcommand app, TuneFlags& flags) {
  add_input_file(app, flags.input.file);
  app.add_option("--global-batch-size", flags.input.global_batch_size,
                 "samples of a step, over all copies of the pipeline (default: the scenario's)")
      .range(std::int64_t{1}, std::int64_t{std::numeric_limits<std::int32_t>::max()})
      .type_name("N");
  add_trained_model_flags(app, flags.input.model);
  add_choice_flags(app, flags.choices);
  const std::string search = "Search";
  app.add_option("--top", flags.top,
                 "rows of the table of configurations, and of .csv and .html (default 10)")
      .range(std::int64_t{1}, std::int64_t{1'000'000})
      .group(search)
      .type_name("N");
  app.add_flag("--details", flags.details,
               "also list what no other configuration beats in time and memory, and what each choice costs");
  app.add_flag("--list", flags.list, "print the space and time nothing");
  app.add_flag("--exhaustive", flags.exhaustive, "time every configuration: the same answer, later");
  app.add_flag("--sensitivity", flags.sensitivity,
               "what is best with half and twice the bandwidth, sustained rate and memory");
  const std::string answer = "Answer";
  add_choice(
      app, "--emit", flags.emit,
      {.words = enum_choices<Launcher>(),
       .help = "search what megatron or torchtitan can run, and print the best one's command line for it",
       .group = answer,
       .type_name = "LAUNCHER"});
  app.add_option("--price", flags.price, "of a device for an hour")
      .range(0.0, 1e9)
      .group(answer)
      .type_name("NUMBER");
  app.add_option("--tokens", flags.tokens, "to be trained in all, such as 15e12: adds days and cost")
      .range(1.0, 1e18)
      .group(answer)
      .type_name("NUMBER");
  add_settings_flag(app, flags.input.settings, search);
  add_output_flags(app, flags.output,
                   ".json .csv .html .txt .yaml (the best one's scenario) .sh (its command line of --emit)");
}

tl::expected<TuneRequest, UserError> request_of(const TuneFlags& flags) {
  auto base = base_of(flags);
  if (!base) return tl::unexpected(base.error());
  auto choices = choices_of(flags.choices);
  if (!choices) return tl::unexpected(choices.error());
  auto splits = layer_splits_of(flags.choices.layer_splits);
  if (!splits) return tl::unexpected(splits.error());
  for (const std::string& name : flags.choices.schedules) {
    if (auto known = known_schedule(name); !known) return tl::unexpected(known.error());
  }
  const auto batch =
      flags.input.global_batch_size ? flags.input.global_batch_size : base->batch.global_batch_size;
  if (!batch)
    return bad_input("expected --global-batch-size N, or training.global_batch_size in the scenario");
  TuneRequest request;
  request.base = *std::move(base);
  request.global_batch_size = *batch;
  request.choices = *std::move(choices);
  if (flags.choices.max_nodes) request.nodes = nodes_up_to(*flags.choices.max_nodes);
  request.schedules = flags.choices.schedules.empty() ? default_tuned_schedules(model_of(request).work.model)
                                                      : flags.choices.schedules;
  if (!splits->empty()) request.layer_splits = *std::move(splits);
  if (auto launcher = enum_of_text<Launcher>(flags.emit)) request.launcher = launcher;
  return request;
}

}  // namespace penstock
