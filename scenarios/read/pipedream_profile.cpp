// Reads PipeDream's profiles, which have one line for each node or edge. Times are in ms and sizes in
// bytes. A layer with several outputs has a list of sizes:
//
//   node4 -- Linear(in_features=8, out_features=8) -- forward_compute_time=0.5, backward_compute_time=1.0,
//     activation_size=[64.0; 32.0], parameter_size=288.0 [-- stage_id=0]
//   <tab>node3 -- node4

#include "scenarios/read/load.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/read/quantities.hpp"
#include "schedules/ir/action.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

using Id = std::int64_t;

/// A node of the profile and its line number in the file.
struct ProfiledNode {
  std::string operation;
  Layer layer;
  std::size_t line = 0;
  std::set<Id> inputs;
  std::set<Id> readers;
};

using Nodes = std::map<Id, ProfiledNode>;
using Checked = tl::expected<void, std::string>;

constexpr std::string_view kSeparator = " -- ";

tl::unexpected<std::string> fault(std::string_view file, std::size_t line, std::string_view text) {
  return tl::unexpected(fmt::format("{}:{}: {}", file, line, text));
}

/// Returns the number of a node name, such as 12 for "node12", or -1 for any other text.
Id id_of(std::string_view name) {
  constexpr std::string_view kPrefix = "node";
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  return number_of_text<Id>(name).value_or(-1);
}

/// Returns the value of `key` in one line of a profile: the text from the key to the next comma. Returns an
/// empty text if the key is absent.
std::string_view figure_text(std::string_view figures, std::string_view key) {
  const std::size_t at = figures.find(key);
  if (at == std::string_view::npos) return {};
  figures.remove_prefix(at + key.size());
  return trimmed(figures.substr(0, figures.find(',')));
}

/// Returns a size in whole bytes, or the sum of a list "[a; b; c]".
tl::expected<Bytes, std::string> size_of(std::string_view text) {
  const bool is_list = text.starts_with('[') && text.ends_with(']');
  if (is_list) text = text.substr(1, text.size() - 2);
  Bytes total = 0;
  while (true) {
    const std::string_view one = trimmed(text.substr(0, text.find(';')));
    const auto bytes = parse_bytes(std::string(one) + " B");
    if (one.empty() || !bytes)
      return tl::unexpected(fmt::format("expected a number of bytes, got \"{}\"", one));
    if (__builtin_add_overflow(total, *bytes, &total))
      return tl::unexpected(std::string("the size is beyond 2^63"));
    if (!is_list || text.find(';') == std::string_view::npos) return total;
    text.remove_prefix(text.find(';') + 1);
  }
}

tl::expected<Ns, std::string> time_of(std::string_view text) {
  const auto time = parse_duration(std::string(text) + " ms");
  if (text.empty() || !time)
    return tl::unexpected(fmt::format("expected a number of milliseconds, got \"{}\"", text));
  return *time;
}

tl::expected<Layer, std::string> layer_of(std::string_view figures) {
  const auto forward = time_of(figure_text(figures, "forward_compute_time="));
  if (!forward) return tl::unexpected("forward_compute_time: " + forward.error());
  const auto backward = time_of(figure_text(figures, "backward_compute_time="));
  if (!backward) return tl::unexpected("backward_compute_time: " + backward.error());
  const auto output = size_of(figure_text(figures, "activation_size="));
  if (!output) return tl::unexpected("activation_size: " + output.error());
  const auto weights = size_of(figure_text(figures, "parameter_size="));
  if (!weights) return tl::unexpected("parameter_size: " + weights.error());
  return Layer{.name = "",
               .forward_ns = *forward,
               .backward_ns = *backward,
               .output = *output,
               .weights = *weights,
               .inputs = {}};
}

Checked add_node(Nodes& nodes, std::string_view file, std::size_t line, std::string_view text) {
  const std::size_t name_end = text.find(kSeparator);
  // The text of an operation may contain the separator. So the operation ends at the first key of the
  // figures, not at the separator.
  const std::size_t figures_at = text.find(" -- forward_compute_time=");
  const Id id = id_of(trimmed(text.substr(0, name_end)));
  if (id < 0 || figures_at == std::string_view::npos || figures_at <= name_end) {
    return fault(file, line,
                 "expected `nodeN -- OPERATION -- forward_compute_time=..., backward_compute_time=..., "
                 "activation_size=..., parameter_size=...`");
  }
  std::string_view figures = text.substr(figures_at + kSeparator.size());
  figures = figures.substr(0, figures.find(kSeparator));  // an assigned stage may follow
  auto layer = layer_of(figures);
  if (!layer) return fault(file, line, layer.error());
  const std::size_t operation_at = name_end + kSeparator.size();
  ProfiledNode node{.operation = std::string(trimmed(text.substr(operation_at, figures_at - operation_at))),
                    .layer = *std::move(layer),
                    .line = line,
                    .inputs = {},
                    .readers = {}};
  node.layer.name = fmt::format("{}-{}", trimmed(node.operation.substr(0, node.operation.find('('))), id);
  const auto [first, is_new] = nodes.try_emplace(id, std::move(node));
  if (!is_new)
    return fault(file, line, fmt::format("node{} is given twice, first in line {}", id, first->second.line));
  return {};
}

/// An edge as the profile states it, with its line number. It is stored until all nodes are known.
struct WrittenEdge {
  std::string_view text;
  std::size_t line;
};

Checked add_edge(Nodes& nodes, std::string_view file, const WrittenEdge& edge) {
  const std::size_t middle = edge.text.find(kSeparator);
  if (middle == std::string_view::npos) return fault(file, edge.line, "expected an edge `nodeA -- nodeB`");
  const std::string_view names[] = {trimmed(edge.text.substr(0, middle)),
                                    trimmed(edge.text.substr(middle + kSeparator.size()))};
  for (const std::string_view name : names) {
    if (!nodes.contains(id_of(name))) {
      return fault(file, edge.line, fmt::format("the edge names {}, which is no node of the file", name));
    }
  }
  const Id from = id_of(names[0]);
  const Id to = id_of(names[1]);
  // The file may state an edge twice. `readers` and `inputs` are sets, so it then counts once.
  nodes[from].readers.insert(to);
  nodes[to].inputs.insert(from);
  return {};
}

tl::expected<Nodes, std::string> read_nodes(std::string_view text, std::string_view file) {
  Nodes nodes;
  std::vector<WrittenEdge> edges;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view written = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (trimmed(written).empty()) continue;
    if (written.starts_with('\t')) {
      // An edge may come before its nodes in the file, so it is stored until all nodes are known.
      edges.push_back({written, line});
    } else if (auto added = add_node(nodes, file, line, written); !added) {
      return tl::unexpected(added.error());
    }
  }
  for (const WrittenEdge& edge : edges) {
    if (auto added = add_edge(nodes, file, edge); !added) return tl::unexpected(added.error());
  }
  return nodes;
}

/// Returns true for operations that load data: "Input", "Input0" and so on, but not "InputNorm".
bool is_loading(const std::string& operation) {
  constexpr std::string_view kInput = "Input";
  return operation.starts_with(kInput) &&
         operation.find_first_not_of("0123456789", kInput.size()) == std::string::npos;
}

/// Removes the node. The nodes that read it lose this input. They are not connected to the inputs of the
/// removed node.
void drop(Nodes& nodes, Id id) {
  for (const Id input : nodes[id].inputs) nodes[input].readers.erase(id);
  for (const Id reader : nodes[id].readers) nodes[reader].inputs.erase(id);
  nodes.erase(id);
}

Nodes without_what_does_not_compute(Nodes nodes) {
  std::vector<Id> ids;
  for (const auto& [id, node] : nodes) ids.push_back(id);
  for (const Id id : ids) {
    const ProfiledNode& node = nodes[id];
    const bool is_unused_part = node.operation.starts_with("__getitem__") && node.readers.empty();
    if (is_loading(node.operation) || is_unused_part) drop(nodes, id);
  }
  return nodes;
}

tl::expected<LayerGraph, std::string> in_topological_order(const Nodes& nodes, std::string_view file) {
  std::map<Id, std::size_t> waiting;
  std::set<Id> ready;
  for (const auto& [id, node] : nodes) {
    waiting[id] = node.inputs.size();
    if (node.inputs.empty()) ready.insert(id);
  }
  LayerGraph graph;
  std::map<Id, std::int32_t> position;
  // Among the nodes with all inputs available, the node with the lowest number comes first. The order then
  // depends only on the graph, and not on the order of the lines.
  while (!ready.empty()) {
    const Id id = *ready.begin();
    ready.erase(ready.begin());
    const ProfiledNode& node = nodes.at(id);
    position[id] = static_cast<std::int32_t>(graph.layers.size());
    Layer layer = node.layer;
    for (const Id input : node.inputs) layer.inputs.push_back(position.at(input));
    std::ranges::sort(layer.inputs);
    graph.layers.push_back(std::move(layer));
    for (const Id reader : node.readers) {
      if (--waiting[reader] == 0) ready.insert(reader);
    }
  }
  for (const auto& [id, node] : nodes) {
    if (!position.contains(id)) {
      return fault(file, node.line, fmt::format("node{} is on a cycle of edges, or behind one", id));
    }
  }
  return graph;
}

}  // namespace

tl::expected<LayerGraph, std::string> parse_pipedream_profile(std::string_view text, std::string_view file) {
  auto nodes = read_nodes(text, file);
  if (!nodes) return tl::unexpected(nodes.error());
  const Nodes layers = without_what_does_not_compute(*std::move(nodes));
  if (layers.empty()) return tl::unexpected(fmt::format("{}: the profile has no layer", file));
  return in_topological_order(layers, file);
}

namespace {

/// Returns the text before the last '-', and the number after it. The number is -1 if there is no such
/// number.
std::pair<std::string_view, Id> operation_and_id(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return {name, -1};
  return {name.substr(0, dash), id_of(fmt::format("node{}", name.substr(dash + 1)))};
}

std::vector<Id> ids_of(const LayerGraph& graph) {
  std::vector<Id> ids;
  ids.reserve(graph.layers.size());
  for (const Layer& layer : graph.layers) ids.push_back(operation_and_id(layer.name).second);
  const std::set<Id> distinct(ids.begin(), ids.end());
  // If the names do not end in distinct numbers, layers are numbered in their order.
  if (distinct.size() != ids.size() || distinct.contains(-1)) std::iota(ids.begin(), ids.end(), Id{0});
  return ids;
}

/// Returns a time in milliseconds with six decimals, so that no nanosecond is lost.
std::string milliseconds(Ns time) { return fmt::format("{}.{:06}", time / 1'000'000, time % 1'000'000); }

}  // namespace

std::string pipedream_profile_text(const LayerGraph& graph) {
  const std::vector<Id> ids = ids_of(graph);
  std::string nodes;
  std::string edges;
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    const Layer& layer = graph.layers[i];
    nodes += fmt::format(
        "node{} -- {} -- forward_compute_time={}, backward_compute_time={}, activation_size={}.0, "
        "parameter_size={}.0\n",
        ids[i], operation_and_id(layer.name).first, milliseconds(layer.forward_ns),
        milliseconds(layer.backward_ns), layer.output, layer.weights);
    for (const std::int32_t input : layer.inputs)
      edges += fmt::format("\tnode{} -- node{}\n", ids[static_cast<std::size_t>(input)], ids[i]);
  }
  return nodes + edges;
}

}  // namespace penstock
