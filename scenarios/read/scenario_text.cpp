// Writes a scenario as text. If the text is read again, all figures are exactly the same. Numbers are
// written with their exact value and a unit (B, ns, B/s). Most texts are in quotes, because YAML would
// read words such as "no" and "1e3" as other values.

#include "scenarios/read/scenario.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/read/quantities.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/text/program_text.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < ' '; }

/// Returns the text in double quotes, in which YAML allows escapes for control characters.
std::string escaped_scalar(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (is_control(c)) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + "\"";
}

/// Returns the bandwidth with all digits that are needed to read back the same number.
std::string bandwidth(double bytes_per_second) {
  return bytes_per_second == kUnlimitedBandwidth ? "unlimited" : fmt::format("{} B/s", bytes_per_second);
}

std::string memory(std::optional<Bytes> bytes) {
  return bytes ? fmt::format("{} B", *bytes) : std::string("unlimited");
}

/// Returns ", flops: ..." if a device's rate is known, and an empty text otherwise.
std::string flops(double flops_per_second) {
  return flops_per_second == 0 ? std::string() : fmt::format(", flops: {} FLOP/s", flops_per_second);
}

/// Returns `reserve: ...` between `before` and `behind` if memory is reserved, and an empty text otherwise.
std::string reserve(std::int64_t bytes, std::string_view before, std::string_view behind) {
  return bytes == 0 ? std::string() : fmt::format("{}reserve: {} B{}", before, bytes, behind);
}

/// Returns `price: ...` between `before` and `behind` if a device has a price, and an empty text otherwise.
std::string price(std::optional<double> per_device_hour, std::string_view before, std::string_view behind) {
  return per_device_hour ? fmt::format("{}price: {}{}", before, *per_device_hour, behind) : std::string();
}

// --- the parts ------------------------------------------------------------------------------------------

/// Returns the YAML line that states one layer. `inputs` is omitted if it is only the previous layer, which
/// is the default.
std::string layer_line(const LayerGraph& graph, std::size_t index) {
  const Layer& layer = graph.layers[index];
  std::string line = fmt::format("    - {{name: {}, forward: {}, backward: {}, output: {} B, weights: {} B",
                                 scalar_to_yaml(layer.name), duration_text(layer.forward_ns),
                                 duration_text(layer.backward_ns), layer.output, layer.weights);
  if (layer.kept) line += fmt::format(", kept: {} B", *layer.kept);
  if (layer.transient != 0) line += fmt::format(", transient: {} B", layer.transient);
  if (layer.recomputed != 0) line += fmt::format(", recomputed: {} B", layer.recomputed);
  const auto before = static_cast<std::int32_t>(index) - 1;
  const std::vector<std::int32_t> usual =
      index == 0 ? std::vector<std::int32_t>{} : std::vector<std::int32_t>{before};
  if (layer.inputs != usual) {
    std::vector<std::string> names;
    names.reserve(layer.inputs.size());
    for (const std::int32_t input : layer.inputs)
      names.push_back(scalar_to_yaml(graph.layers[static_cast<std::size_t>(input)].name));
    line += fmt::format(", inputs: [{}]", fmt::join(names, ", "));
  }
  return line + "}\n";
}

std::string network_line(const NetworkSpec& network) {
  if (!network.graphs.empty())
    return fmt::format("  network: {{graphs: {}}}\n", scalar_to_yaml(network.graphs));
  std::vector<std::string> sizes;
  sizes.reserve(network.sizes.size());
  for (const auto& [name, size] : network.sizes) sizes.push_back(fmt::format("{}: {}", name, size));
  return fmt::format("  network: {{{}: {{{}}}}}\n", network.name, fmt::join(sizes, ", "));
}

std::string model_text(const LayerGraph& graph, const Scenario& scenario) {
  std::string text = fmt::format("model:\n  batch: {}\n", scenario.batch.own_micro_batch_size);
  if (scenario.network) text += network_line(*scenario.network);
  if (graph.overhead_ns != 0) text += fmt::format("  overhead: {}\n", duration_text(graph.overhead_ns));
  text += "  layers:\n";
  for (std::size_t index = 0; index < graph.layers.size(); ++index) text += layer_line(graph, index);
  return text;
}

using Text = tl::expected<std::string, std::string>;

std::string torus_collectives(const Torus& torus) {
  return torus.collectives == TorusCollectives::ring ? "  collectives: ring\n" : "";
}

/// A visitor that returns the text "cluster: .." for each shape of a cluster. All numbers of a preset are
/// written, so that the text does not depend on the preset's defaults.
struct ClusterText {
  std::string preset;
  std::optional<double> price_per_device_hour;

  Text operator()(const UniformCluster& shape) const {
    return fmt::format("cluster: {{preset: uniform, {}bandwidth: {}, latency: {}, memory: {}{}{}{}}}\n",
                       shape.devices > 0 ? fmt::format("devices: {}, ", shape.devices) : "",
                       bandwidth(shape.bytes_per_second), duration_text(shape.latency_ns),
                       memory(shape.memory_bytes), reserve(shape.reserved_bytes, ", ", ""),
                       flops(shape.flops_per_second), price(price_per_device_hour, ", ", ""));
  }
  Text operator()(const TwoLevelCluster& shape) const {
    std::string text = fmt::format(
        "cluster:\n  preset: {}\n  nodes: {}\n  devices_per_node: {}\n  intra_bandwidth: {}\n"
        "  intra_latency: {}\n  inter_bandwidth: {}\n  inter_latency: {}\n  memory: {}\n",
        preset, shape.nodes, shape.devices_per_node, bandwidth(shape.intra_bytes_per_second),
        duration_text(shape.intra_latency_ns), bandwidth(shape.inter_bytes_per_second),
        duration_text(shape.inter_latency_ns), memory(shape.memory_bytes));
    text += reserve(shape.reserved_bytes, "  ", "\n");
    if (shape.flops_per_second != 0) text += fmt::format("  flops: {} FLOP/s\n", shape.flops_per_second);
    text += price(price_per_device_hour, "  ", "\n");
    if (!shape.device_order.empty())
      text += fmt::format("  device_order: [{}]\n", fmt::join(shape.device_order, ", "));
    return text;
  }
  Text operator()(const Cluster& cluster) const {
    if (cluster.torus() && cluster.device_count() > 1) return torus_text(cluster);
    return explicit_text(cluster);
  }

 private:
  /// Returns the text of a cluster that states its devices, switches and links. Two consecutive links with
  /// opposite directions and equal figures are written as one. Fails if devices reserve different bytes,
  /// because a scenario has only one key for them.
  Text explicit_text(const Cluster& cluster) const {
    const std::vector<Device>& devices = cluster.devices();
    const Bytes reserved = devices.front().reserved_bytes;
    if (std::ranges::any_of(devices, [&](const Device& one) { return one.reserved_bytes != reserved; })) {
      return tl::unexpected(std::string(
          "a cluster whose devices reserve different bytes cannot be written into a scenario: take the table "
          "or JSON"));
    }
    const std::vector<Link> links = cluster.links();
    const std::vector<std::string> names = node_names(cluster, links);
    // A link's name must contain one '>', between the names of its two ends. A '>' in the name of a device
    // would make the ends ambiguous.
    const bool has_marks =
        std::ranges::any_of(links, [](const Link& link) { return std::ranges::count(link.name, '>') != 1; });
    if (has_marks || std::set<std::string>(names.begin(), names.end()).size() != names.size()) {
      return tl::unexpected(
          std::string("a cluster with '>' or '#' in the names of its switches cannot be written into a "
                      "scenario: take the "
                      "table or JSON"));
    }
    std::string text = fmt::format("cluster:\n  name: {}\n  devices:\n", scalar_to_yaml(cluster.name()));
    for (const Device& device : devices) {
      text += fmt::format("    - {{name: {}, memory: {}{}}}\n", scalar_to_yaml(device.name),
                          memory(device.memory_bytes), flops(device.flops_per_second));
    }
    text += reserve(reserved, "  ", "\n") + price(price_per_device_hour, "  ", "\n");
    if (names.size() > devices.size()) {
      text += "  switches:\n";
      for (std::size_t i = devices.size(); i < names.size(); ++i)
        text += fmt::format("    - {}\n", scalar_to_yaml(names[i]));
    }
    text += links.empty() ? "" : "  links:\n";
    for (std::size_t i = 0; i < links.size(); ++i) {
      const Link& link = links[i];
      const bool is_duplex = i + 1 < links.size() && is_other_direction(link, links[i + 1]);
      text += fmt::format("    - {{between: [{}, {}], bandwidth: {}, latency: {}{}}}\n",
                          scalar_to_yaml(names[static_cast<std::size_t>(link.from)]),
                          scalar_to_yaml(names[static_cast<std::size_t>(link.to)]),
                          bandwidth(link.bytes_per_second), duration_text(link.latency_ns),
                          is_duplex ? "" : ", duplex: false");
      if (is_duplex) ++i;
    }
    return text;
  }

  static bool is_other_direction(const Link& link, const Link& next) {
    return next.from == link.to && next.to == link.from && next.bytes_per_second == link.bytes_per_second &&
           next.latency_ns == link.latency_ns;
  }

  /// Returns the names of devices and switches by number. The names of switches are those in the names of
  /// links, which are "a>b" or "a>b#2".
  static std::vector<std::string> node_names(const Cluster& cluster, const std::vector<Link>& links) {
    std::vector<std::string> names;
    for (const Device& device : cluster.devices()) names.push_back(device.name);
    const std::size_t devices = names.size();
    for (const Link& link : links) {
      const auto most = static_cast<std::size_t>(std::max(link.from, link.to)) + 1;
      if (names.size() < most) names.resize(most);
      const std::size_t middle = link.name.find('>');
      if (static_cast<std::size_t>(link.from) >= devices)
        names[static_cast<std::size_t>(link.from)] = link.name.substr(0, middle);
      if (static_cast<std::size_t>(link.to) < devices) continue;
      names[static_cast<std::size_t>(link.to)] =
          link.name.substr(middle + 1, link.name.rfind('#') - middle - 1);
    }
    return names;
  }

  /// Returns the text of a torus. All its links and all its devices have equal figures, so the text states
  /// those of the first link and the first device.
  std::string torus_text(const Cluster& cluster) const {
    const Link link = cluster.link(0);
    const Device& device = cluster.devices().front();
    std::string text =
        fmt::format("cluster:\n  preset: torus\n  dims: [{}]\n  bandwidth: {}\n  latency: {}\n  memory: {}\n",
                    fmt::join(cluster.torus()->dimensions, ", "), bandwidth(link.bytes_per_second),
                    duration_text(link.latency_ns), memory(device.memory_bytes));
    text += torus_collectives(*cluster.torus());
    text += reserve(device.reserved_bytes, "  ", "\n");
    if (device.flops_per_second != 0) text += fmt::format("  flops: {} FLOP/s\n", device.flops_per_second);
    return text + price(price_per_device_hour, "  ", "\n");
  }
};

/// Returns the lines under `schedule:` for all channel options that differ from their defaults.
std::string channels_text(const ChannelOptions& channels) {
  const ChannelOptions usual;
  std::string text;
  if (channels.model != usual.model) text += fmt::format("  channel: {}\n", to_text(channels.model));
  if (channels.waits()) text += fmt::format("  blocking: {}\n", to_text(channels.blocking));
  if (channels.capacity != usual.capacity) text += fmt::format("  capacity: {}\n", channels.capacity);
  if (channels.eager_bytes != usual.eager_bytes) text += fmt::format("  eager: {} B\n", channels.eager_bytes);
  if (channels.launch_order) text += "  launch_order: true\n";
  return text;
}

std::string schedule_text(const Scenario& scenario) {
  const Shape& shape = scenario.shape;
  std::string text = fmt::format(
      "schedule:\n  name: {}\n  stages: {}\n  replicas: [{}]\n  microbatches: {}\n", scenario.schedule,
      shape.stages, fmt::join(shape.replicas, ", "), scenario.batch.microbatches.value_or(1));
  if (shape.routing == Routing::global) text += "  routing: global\n";
  if (shape.barrier) text += "  barrier: true\n";
  if (!shape.warmup.empty()) text += fmt::format("  warmup: [{}]\n", fmt::join(shape.warmup, ", "));
  if (!shape.buckets.empty()) text += fmt::format("  buckets: [{}]\n", fmt::join(shape.buckets, ", "));
  return text + channels_text(scenario.channels);
}

std::string precision_text(Precision precision) {
  return precision == Precision::full ? "" : fmt::format(", precision: {}", to_text(precision));
}

std::string failures_text(const FailureRates& failures) {
  std::string text = fmt::format(", failures: {{mtbf: {}, checkpoint_cost: {}, restart: {}",
                                 duration_text(failures.device_mtbf_ns), duration_text(failures.save_ns),
                                 duration_text(failures.restart_ns));
  if (failures.interval_ns)
    text += fmt::format(", checkpoint_every: {}", duration_text(*failures.interval_ns));
  return text + "}";
}

std::string host_text(const LaunchCost& launch) {
  if (launch.is_free()) return "";
  std::string text = fmt::format("host: {{launch_overhead: {}", duration_text(launch.overhead_ns));
  if (launch.most_ahead > 0) text += fmt::format(", launch_ahead: {}", launch.most_ahead);
  return text + "}\n";
}

/// Returns a line such as "    forward: [1 ms, 2 ms]\n", or an empty text if the scenario does not state this
/// number.
template <typename Value, typename ToText>
std::string figure_line(std::string_view key, const PerStage<Value>& figure, ToText to_text) {
  if (!figure.given()) return "";
  const auto list = [&](const std::vector<Value>& values) {
    std::vector<std::string> texts;
    texts.reserve(values.size());
    for (const Value value : values) texts.push_back(to_text(value));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  };
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < figure.values.size(); ++i) {
    const bool differs = !figure.by_microbatch.empty() && !figure.by_microbatch[i].empty();
    entries.push_back(differs ? list(figure.by_microbatch[i]) : to_text(figure.values[i]));
    if (differs && figure.by_slice) {
      entries.back() = fmt::format("{{slices: {}}}", entries.back());
    } else if (differs && !figure.is_list) {
      entries.back() = fmt::format("{{microbatches: {}}}", entries.back());
    }
  }
  if (!figure.is_list) return fmt::format("    {}: {}\n", key, entries.front());
  return fmt::format("    {}: [{}]\n", key, fmt::join(entries, ", "));
}

bool is_nothing(const PerStage<Bytes>& figure) {
  return std::ranges::all_of(figure.values, [](Bytes bytes) { return bytes == 0; });
}

std::string byte_line(std::string_view key, const PerStage<Bytes>& figure) {
  return figure_line(key, figure, [](Bytes bytes) { return fmt::format("{} B", bytes); });
}

/// Returns the line for a number of bytes whose default is 0. Returns an empty text if all its values are 0.
std::string byte_line_unless_0(std::string_view key, const PerStage<Bytes>& figure) {
  return is_nothing(figure) ? "" : byte_line(key, figure);
}

/// Returns the line for a number of bytes whose default is computed from `others`. If all values of `others`
/// are 0, the default is 0.
std::string byte_line_beside(std::string_view key, const PerStage<Bytes>& figure,
                             const PerStage<Bytes>& others) {
  return is_nothing(others) ? byte_line_unless_0(key, figure) : byte_line(key, figure);
}

}  // namespace

std::string scalar_to_yaml(std::string_view text) {
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  const bool has_digit = std::ranges::any_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  const bool starts_with_letter = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0;
  // A text with a letter first and a digit later is neither a number nor a word of YAML (no, null, true, ..).
  if (starts_with_letter && has_digit && std::ranges::all_of(text, is_plain)) return std::string(text);
  if (std::ranges::any_of(text, is_control)) return escaped_scalar(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

std::string comment_to_yaml(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    std::ranges::replace_if(line, is_control, '?');
    lines += line.empty() ? "#\n" : fmt::format("# {}\n", line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

tl::expected<std::string, std::string> cluster_to_yaml(const ClusterSpec& cluster) {
  return std::visit(ClusterText{cluster.name, cluster.price_per_device_hour}, cluster.shape);
}

std::string stages_to_yaml(const StageFigures& figures, std::int64_t batch) {
  std::string text = fmt::format("model:\n  batch: {}\n  stages:\n", batch);
  text += figure_line("forward", figures.forward, duration_text);
  text += figure_line("backward", figures.backward, duration_text);
  text += figure_line("backward_input", figures.backward_input, duration_text);
  text += figure_line("backward_weight", figures.backward_weight, duration_text);
  text += figure_line("recompute", figures.recompute, duration_text);
  text += figure_line("overlapped_pair", figures.overlapped_pair, duration_text);
  text += figure_line("pair_hidden", figures.pair_hidden, duration_text);
  text += figure_line("step", figures.step, duration_text);
  text += figure_line("overhead", figures.overhead, duration_text);
  text += byte_line_unless_0("activation", figures.activation);
  text += byte_line_beside("gradient", figures.gradient, figures.activation);
  text += byte_line("expected_activation", figures.expected_activation);
  text += byte_line("expected_gradient", figures.expected_gradient);
  text += byte_line_unless_0("kept", figures.kept);
  text += byte_line_unless_0("released_by_input", figures.released_by_input);
  text += byte_line_unless_0("recomputed", figures.recomputed);
  text += byte_line_unless_0("recomputed_at_once", figures.recomputed_at_once);
  text += byte_line_unless_0("input", figures.input);
  text += byte_line_unless_0("weights", figures.weights);
  text += byte_line_beside("gradients", figures.gradients, figures.weights);
  text += byte_line_beside("optimizer_state", figures.optimizer_state, figures.weights);
  text += byte_line_unless_0("transient", figures.transient);
  if (figures.edges.empty()) return text;
  std::vector<std::string> edges;
  edges.reserve(figures.edges.size());
  for (const StageEdge& edge : figures.edges) {
    const bool both = edge.flows == EdgeFlows::both;
    edges.push_back(both ? fmt::format("[{}, {}]", edge.from, edge.to)
                         : fmt::format("\"{}\"", to_text(edge)));
  }
  return text + fmt::format("    edges: [{}]\n", fmt::join(edges, ", "));
}

tl::expected<std::string, std::string> scenario_to_yaml(const Scenario& scenario, std::string_view comment) {
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  if (graph == nullptr || scenario.partition.rule != Partition::Rule::cuts) {
    return tl::unexpected(std::string("only a scenario of layers with cuts between them can be written"));
  }
  auto cluster = cluster_to_yaml(scenario.cluster);
  if (!cluster) return cluster;
  std::string text = comment_to_yaml(comment) + model_text(*graph, scenario);
  text += *cluster + host_text(scenario.launch) + schedule_text(scenario);
  if (!scenario.partition.cuts.empty())
    text += fmt::format("partition: [{}]\n", fmt::join(scenario.partition.cuts, ", "));
  return text + fmt::format("training: {{micro_batch_size: {}, optimizer: {}{}{}{}}}\n",
                            scenario.batch.micro_batch_size.value_or(1), to_text(scenario.optimizer),
                            precision_text(scenario.precision),
                            scenario.clones_versions ? ", weight_versions: cloned" : "",
                            scenario.failures ? failures_text(*scenario.failures) : "");
}

}  // namespace penstock
