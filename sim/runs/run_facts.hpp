#pragma once
// Computes the parts of a result that do not depend on the engine. Some follow from the experiment, the
// others from the spans, which are passed rank by rank.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "sim/memory/memory.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// Returns the parts of a result that depend only on the experiment, and not on its run. The experiment must
/// outlive them.
RunFacts facts_of_experiment(const Experiment& experiment);

/// Returns true if the run is a prefill. In a prefill, all stages hold keys and values. In addition, prompts
/// are cut into slices, or the scenario states their number of tokens.
bool is_prefill(const Experiment& experiment);

/// Sets, in each SEND of `spans`, the time at which the message has left its channel. It is the end of the
/// SEND minus the latency of its route.
void set_releases(std::span<Span> spans, const Experiment& experiment);

// Adds up the bytes that ranks send over each link of a cluster.

class LinkBytes {
 public:
  /// Keeps a reference to the cluster, which must outlive this object.
  explicit LinkBytes(const Cluster& cluster) : cluster_(cluster) {}

  /// Adds the bytes that one rank sends to another to the links between them. Each call looks up the route.
  /// Callers should therefore add up all messages between two ranks first.
  void add(std::int32_t from_rank, std::int32_t to_rank, Bytes bytes) {
    for (const LinkNumber link : cluster_.route(from_rank, to_rank).links) bytes_of_link_[link] += bytes;
  }

  /// Returns the links that carried bytes, in the order of their numbers.
  std::vector<LinkTraffic> traffic() const {
    std::vector<LinkTraffic> traffic;
    for (const auto& [link, bytes] : bytes_of_link_) {
      if (bytes > 0) traffic.push_back({cluster_.link(link).name, bytes});
    }
    return traffic;
  }

 private:
  const Cluster& cluster_;
  std::map<LinkNumber, Bytes> bytes_of_link_;
};

/// A collector of the bytes that ranks send over links. The caller passes the spans of one rank after
/// another.
class SentBytes {
 public:
  /// Keeps a reference to the experiment, which must outlive this object.
  explicit SentBytes(const Experiment& experiment);

  /// Adds the bytes of one rank's messages to the links that they cross. `of_rank` must not be empty.
  void add(Spans of_rank, LinkBytes& links);

 private:
  Bytes& bytes_to(std::int32_t rank);

  const Experiment& experiment_;
  EdgeNumbers edges_;
  TransferSizes sizes_;
  CollectiveRings rings_;
  // Bytes that the current rank has sent to each receiver.
  std::vector<std::pair<std::int32_t, Bytes>> bytes_to_;
};

/// The figures, memory and traffic of a run, computed from its spans (the start and end of each action), one
/// rank after another. `options` state which of them are wanted. simulate.cpp and runs_without_lists.cpp use
/// this class.
class SpanReadings {
 public:
  /// Keeps references to both arguments, which must outlive this object. Does not read the program's lists.
  SpanReadings(const Experiment& experiment, const SimulateOptions& options);

  /// Adds the spans of the next rank. Ranks come in ascending order. The spans are not stored.
  void add(Spans of_rank);

  /// Returns the figures, one element for each rank. May be called only once.
  std::vector<RankFigures> take_figures() { return std::move(figures_); }
  /// Returns the parts of the result (RunFacts) that follow from the spans and the experiment. All other
  /// parts have their default values.
  RunFacts facts();

 private:
  const Experiment& experiment_;
  const SimulateOptions& options_;
  EdgeNumbers edges_;
  MemoryOfRanks memory_;
  SentBytes sent_;
  LinkBytes links_;
  std::optional<FirstTokens> first_tokens_;
  std::vector<RankFigures> figures_;
  std::vector<RankMemory> memories_;
};

}  // namespace penstock
