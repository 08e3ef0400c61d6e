// Finds the chain of waits behind an idle interval. It walks backwards from the end of the interval:
//
//   rank 0   .......................0B0     waits for the message, that waits for 1B0, that waits for ...
//   0 > 1                    |-----|
//   rank 1              1B0=1
//
// Each step takes the latest input of a node. The links fill the interval without gaps, because a node starts
// at the end of its latest input. Tests: tests/sim/why_test.cpp.

#include "sim/why/account.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/why/explanation.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// A writer of a chain. It adds links from the latest to the earliest, and leaves out those that take no
/// time.
class ChainWriter {
 public:
  ChainWriter(Ns from_ns, Ns until_ns) : from_ns_(from_ns), until_ns_(until_ns) {}

  void add(Ns from, Ns to, ChainKind what, std::int32_t rank, const std::string& name) {
    // In a measurement, an input may seem to end after the start of its node.
    to = std::min(to, until_ns_);
    from = std::max(from, from_ns_);
    if (from >= to) return;
    links_.push_back({from, to, what, rank, name});
    until_ns_ = from;
  }

  std::vector<ChainLink> links() && {
    std::ranges::reverse(links_);
    return std::move(links_);
  }

 private:
  Ns from_ns_;
  Ns until_ns_;  // the start of the earliest link so far
  std::vector<ChainLink> links_;
};

/// Returns the name of a node: its action, or "barrier".
std::string node_name(const CauseGraph& graph, const FlatProgram& flat, CauseNode node) {
  const std::int32_t subject = graph.subjects[node];
  switch (graph.kinds[node]) {
    case NodeKind::compute:
    case NodeKind::step:
      return group_text(flat, subject);
    case NodeKind::launch:
    case NodeKind::resident:
      return to_text(flat.actions[index(subject)]);
    case NodeKind::transfer:
    case NodeKind::collective:
    case NodeKind::copy:
      return to_text(flat.actions[index(flat.messages[index(subject)].first)]);
    case NodeKind::barrier:
    case NodeKind::finish:
      break;
  }
  return "barrier";
}

/// Returns the input of the node that ends at `latest`. If there are several, it prefers an action of the
/// node's own rank, and otherwise takes the first. Returns nothing if there is none.
std::optional<Moment> binding_input(const CauseGraph& graph, const std::vector<Ns>& moments, CauseNode node,
                                    Ns latest) {
  std::optional<Moment> found;
  for (std::uint32_t i = graph.first_input[node]; i < graph.first_input[node + 1]; ++i) {
    const Moment input = graph.inputs[i];
    if (moments[input] != latest) continue;
    const NodeKind kind = graph.kinds[node_of(input)];
    const bool runs = kind == NodeKind::compute || kind == NodeKind::step;
    if (runs && graph.ranks[node_of(input)] == graph.ranks[node]) return input;
    if (!found) found = input;
  }
  return found;
}

}  // namespace

std::string group_text(const FlatProgram& flat, std::int32_t position) {
  std::string text = to_text(flat.actions[index(position)]);
  for (std::int32_t p = position + 1; p < flat.group_end(position); ++p)
    text += fmt::format(";{}", to_text(flat.actions[index(p)]));
  return text;
}

std::vector<ChainLink> chain_of(const CauseGraph& graph, const FlatProgram& flat, const GraphTimes& times,
                                CauseNode node, Ns from_ns) {
  const std::vector<Ns>& moments = times.moments();
  ChainWriter chain(from_ns, times.start(node));
  while (times.start(node) > from_ns) {
    const Ns latest = times.start(node) - times.lag(node);
    if (times.lag(node) > 0) {
      const std::int32_t rank = std::max(0, graph.ranks[node]);
      chain.add(latest, times.start(node), ChainKind::launch, rank, node_name(graph, flat, node));
    }
    const auto input = binding_input(graph, moments, node, latest);
    if (!input || latest <= from_ns) break;
    node = node_of(*input);
    const Ns start = times.start(node);
    const Ns released = moments[release_of(node)];
    const std::int32_t rank = graph.ranks[node];
    const std::string name = node_name(graph, flat, node);
    switch (graph.kinds[node]) {
      case NodeKind::compute:
      case NodeKind::step:
        chain.add(start, latest, ChainKind::compute, rank, name);
        break;
      case NodeKind::transfer:
        if (is_release(*input)) {
          chain.add(start, latest, ChainKind::queue, rank, name);
        } else {
          chain.add(released, latest, ChainKind::latency, rank, name);
          chain.add(start, released, ChainKind::transfer, rank, name);
        }
        break;
      case NodeKind::collective: {
        const std::int32_t first = flat.messages[index(graph.subjects[node])].first;
        chain.add(start, latest, ChainKind::collective, flat.rank_of(first), name);
        break;
      }
      case NodeKind::copy:
        chain.add(start, latest, ChainKind::offload, rank, name);
        break;
      case NodeKind::launch:
        chain.add(start, latest, ChainKind::launch, rank, name);
        break;
      case NodeKind::resident:
      case NodeKind::barrier:
      case NodeKind::finish:
        break;
    }
  }
  return std::move(chain).links();
}

ReadyActions::ReadyActions(const CauseGraph& graph, const FlatProgram& flat, const Program& program,
                           const GraphTimes& times)
    : flat_(flat), graph_(graph), ranks_(index(flat.rank_count)), place_of_(graph.size(), 0) {
  const DataInputs data = data_inputs(graph, flat, program);
  const std::vector<Ns>& moments = times.moments();
  for (CauseNode node = 0; node < graph.size(); ++node) {
    if (graph.kinds[node] != NodeKind::compute) continue;
    RankList& list = ranks_[index(graph.ranks[node])];
    place_of_[node] = list.nodes.size();
    list.nodes.push_back(node);
    // The action is ready when its last input has arrived. An input is a message, or data that an earlier
    // action on this rank has left.
    Ns since = 0;
    for (std::uint32_t i = data.first[node]; i < data.first[node + 1]; ++i)
      since = std::max(since, moments[end_of(data.nodes[i])]);
    for (std::uint32_t i = graph.first_input[node]; i < graph.first_input[node + 1]; ++i) {
      const NodeKind kind = graph.kinds[node_of(graph.inputs[i])];
      const bool is_message =
          kind == NodeKind::transfer || kind == NodeKind::collective || kind == NodeKind::copy;
      if (is_message) since = std::max(since, moments[graph.inputs[i]]);
    }
    list.least.push_back(since);
  }
  for (RankList& list : ranks_) {
    while (list.leaves < list.nodes.size()) list.leaves *= 2;
    std::vector<Ns> tree(2 * list.leaves, std::numeric_limits<Ns>::max());
    std::ranges::copy(list.least, tree.begin() + static_cast<std::ptrdiff_t>(list.leaves));
    for (std::size_t i = list.leaves; i-- > 1;) tree[i] = std::min(tree[2 * i], tree[2 * i + 1]);
    list.least = std::move(tree);
  }
}

std::optional<ReadyAction> ReadyActions::behind(const IdlePart& part) const {
  if (graph_.kinds[part.node] != NodeKind::compute) return std::nullopt;
  const RankList& list = ranks_[index(part.rank)];
  // The search goes up the tree to the first subtree on the right that has a ready action. Then it goes down
  // to the first ready action.
  std::size_t at = list.leaves + place_of_[part.node];
  while (true) {
    while (at > 1 && at % 2 == 1) at /= 2;
    if (at <= 1) return std::nullopt;
    ++at;
    if (list.least[at] <= part.start_ns) break;
  }
  while (at < list.leaves) at = 2 * at + (list.least[2 * at] <= part.start_ns ? 0 : 1);
  const CauseNode node = list.nodes[at - list.leaves];
  return ReadyAction{.action = group_text(flat_, graph_.subjects[node]), .since_ns = list.least[at]};
}

}  // namespace penstock
