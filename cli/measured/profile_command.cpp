// penstock profile: measures the layers of a network. It writes them in the format of PipeDream's profiler,
// so that PipeDream's partitioner and Penstock's can read the file. The flags or a scenario name the network.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/calibration/calibration_samples.hpp"
#include "cli/commands/commands.hpp"
#include "cli/executable.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

const std::vector<std::string_view> kProfileFiles = {".txt"};

struct ProfileFlags {
  std::string model;
  std::vector<std::string> sizes;
  ProfileOptions options{.samples = 0};  // samples: 0 means that the flag was not given
  OutputFlags output;
};

/// Sets a size of the network from a text such as "width=64". It replaces the size in the scenario. Returns
/// an error if the name or the number is missing, or if the number is below 1.
tl::expected<void, UserError> add_size(const std::string& text, NetworkSpec& network) {
  const std::size_t equals = text.find('=');
  const bool has_name = equals != std::string::npos && equals > 0;
  const auto value = has_name ? std::string_view(text).substr(equals + 1) : std::string_view();
  const std::int64_t size = number_of_text<std::int64_t>(value).value_or(0);
  if (size < 1) return bad_input(fmt::format("--size {}: expected a size such as width=64", text));
  network.sizes[text.substr(0, equals)] = size;
  return {};
}

/// Returns the network that the flags or their scenario name. If `samples` is 0, sets it to the microbatch
/// size of the scenario, so that the profile has the same size as the run.
tl::expected<NetworkSpec, UserError> network_of(const ProfileFlags& flags, std::int64_t& samples) {
  NetworkSpec network{.name = flags.model, .sizes = {}, .place = ""};
  if (flags.model.ends_with(".yaml") || flags.model.ends_with(".yml") || flags.model.ends_with(".json")) {
    const auto scenario = load_scenario(flags.model, {});
    if (!scenario) return bad_input(scenario.error());
    if (!scenario->network) {
      return bad_input(
          fmt::format("{}: model.network is missing: expected the network to profile", flags.model));
    }
    network = *scenario->network;
    if (samples == 0) samples = scenario->batch.micro_batch_size.value_or(1);
  }
  for (const std::string& size : flags.sizes) {
    if (auto added = add_size(size, network); !added) return tl::unexpected(added.error());
  }
  return network;
}

/// Returns a table with a row for each measured layer. The file of -o also contains the graph of the
/// layers.
std::string table_of(const NetworkSpec& network, const LayerGraph& graph, const ProfileOptions& options) {
  Table table{.columns = {"layer", "forward", "backward", "output", "weights"}, .rows = {}};
  const auto figure = [](std::string text, std::int64_t value) {
    return Cell{std::move(text), static_cast<double>(value)};
  };
  for (const Layer& layer : graph.layers) {
    table.rows.push_back({{layer.name, {}},
                          figure(format_duration(layer.forward_ns), layer.forward_ns),
                          figure(format_duration(layer.backward_ns), layer.backward_ns),
                          figure(format_bytes(layer.output), layer.output),
                          figure(format_bytes(layer.weights), layer.weights)});
  }
  return fmt::format("{} with {} a microbatch: medians of {} passes, {} before them not counted\n{}",
                     shown_name(network.name), format_count(options.samples, "sample"), options.repeats,
                     options.warmup, table_to_text(table));
}

Outcome run_profile(ProfileFlags flags, const Invocation& invocation) {
  if (auto known = check_output_files(flags.output.files, kProfileFiles, {{"the input", flags.model}});
      !known)
    return tl::unexpected(known.error());
  // This check comes before any file is read, because another executable would read the files again.
  if (!invocation.extensions.profile)
    return tl::unexpected(become("penstock-torch", invocation.arguments, "profile"));
  const auto network = network_of(flags, flags.options.samples);
  if (!network) return tl::unexpected(network.error());
  flags.options.samples = std::max<std::int64_t>(flags.options.samples, 1);
  const auto graph = invocation.extensions.profile(*network, flags.options);
  if (!graph) return bad_input(fmt::format("profile: {}", graph.error()));
  const std::vector<OutputForm> forms = {{".txt", [&] { return pipedream_profile_text(*graph); }}};
  if (auto written = write_answer(flags.output, forms, table_of(*network, *graph, flags.options)); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command profile_command(CLI::App& root, const Invocation& invocation) {
  Subcommand app(root, "profile", "Measure a network's layers; needs LibTorch.");
  const auto flags = std::make_shared<ProfileFlags>();
  const std::string group = "Measuring";
  app.add_option("NETWORK", flags->model,
                 "mlp, conv-net, branch-net, transformer, or a scenario whose model names one of them")
      .required()
      .type_name("NAME | FILE");
  app.add_option("--size", flags->sizes, "one of the network's sizes: width=64; may be repeated")
      .group(group)
      .type_name("NAME=N");
  app.add_option("--micro-batch-size", flags->options.samples,
                 "samples that the layers are measured with (default: the scenario's, or 1)")
      .range(1, 1'000'000)
      .group(group)
      .type_name("N");
  app.add_option("--warmup", flags->options.warmup, "passes that do not count (default 5)")
      .range(0, 1'000'000)
      .group(group)
      .type_name("N");
  app.add_option("--repeats", flags->options.repeats, "passes that count; medians are taken (default 30)")
      .range(1, 1'000'000)
      .group(group)
      .type_name("N");
  add_output_flags(app, flags->output, ".txt");
  app.footer(
      "Examples:\n"
      "  penstock profile conv-net --size width=32 --micro-batch-size 8 -o graph.txt\n"
      "graph.txt has the form of PipeDream's profiler. A scenario names it and what it is the profile of:\n"
      "  model: {profile: graph.txt, network: {conv-net: {width: 32}}, batch: 8}");
  return {app, [flags, &invocation] { return run_profile(*flags, invocation); }};
}

}  // namespace penstock
