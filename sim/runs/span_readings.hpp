#pragma once
// Computes figures of ranks and links from the spans of one rank after the other. Used by simulate.cpp and
// turn_run.cpp.

#include <cstdint>
#include <utility>
#include <vector>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/arrivals.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "sim/memory/memory.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/link_bytes.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Sums the bytes that ranks send, from the messages of one rank after the other.
class SentBytes {
 public:
  /// Keeps a reference to the experiment, which must outlive this object.
  explicit SentBytes(const Experiment& experiment);

  /// Adds the messages of one rank to the links that they cross. Requires that the rank has spans.
  void add(Spans of_rank, LinkBytes& links);

 private:
  Bytes& bytes_to(std::int32_t rank);

  const Experiment& experiment_;
  EdgeNumbers edges_;
  TransferSizes sizes_;
  CollectiveRings rings_;
  std::vector<std::pair<std::int32_t, Bytes>> bytes_to_;  // sent by the present rank, by receiver
};

/// Computes the figures, memory and traffic of a run that `options` require.
class SpanReadings {
 public:
  /// Keeps references to both arguments, which must outlive this object. The program's lists are not read.
  SpanReadings(const Experiment& experiment, const SimulateOptions& options);

  /// Adds the spans of the next rank, from the lowest rank to the highest. Does not store the spans.
  void add(Spans of_rank);

  /// Returns the figures by rank.
  std::vector<RankFigures> take_figures() { return std::move(figures_); }
  /// Returns the facts that follow from the spans and the experiment. Other facts have their defaults.
  RunFacts facts();

 private:
  const Experiment& experiment_;
  const SimulateOptions& options_;
  EdgeNumbers edges_;
  MemoryOfRanks memory_;
  SentBytes sent_;
  LinkBytes links_;
  std::vector<RankFigures> figures_;
  std::vector<RankMemory> memories_;
};

}  // namespace penstock
