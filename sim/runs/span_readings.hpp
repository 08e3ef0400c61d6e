#pragma once
// What results say of ranks and links, read off the spans of one rank after the other. Used by simulate.cpp
// and turn_run.cpp.

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

/// Bytes that ranks send, from the messages of one rank after the other.
class SentBytes {
 public:
  /// The experiment must outlive it.
  explicit SentBytes(const Experiment& experiment);

  /// Adds the messages of a rank, which has spans, to the links that they cross.
  void add(Spans of_rank, LinkBytes& links);

 private:
  Bytes& bytes_to(std::int32_t rank);

  const Experiment& experiment_;
  EdgeNumbers edges_;
  TransferSizes sizes_;
  CollectiveRings rings_;
  std::vector<std::pair<std::int32_t, Bytes>> bytes_to_;  // from the rank at hand
};

/// Figures, memory and traffic of a run, as far as `options` ask for them.
class SpanReadings {
 public:
  /// Both must outlive it. Nothing is read of the program's lists.
  SpanReadings(const Experiment& experiment, const SimulateOptions& options);

  /// The spans of the next rank, from the lowest to the highest. None is kept.
  void add(Spans of_rank);

  /// By rank.
  std::vector<RankFigures> take_figures() { return std::move(figures_); }
  /// What the spans say among a result's facts; the rest is the experiment's, or left as it is.
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
