#pragma once
// Published figures, predicted again. A reproduction is one experiment of a paper: a list of figures with
// what the paper prints beside what the simulator says. Adding one = a file with a function, and a row in
// reproduce.cpp.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// What a figure says of Penstock.
enum class FigureClass : std::uint8_t {
  tested,     // published, and the prediction is held against it
  fitted,     // published, and a constant that predicts it was taken from it: no test
  missed,     // published, and no prediction of ours meets it: the note says why
  direction,  // no number is published, only which of two is larger; that is held
  scale,      // ours alone: it gives the others their scale
};

/// How the prediction must stand to the published figure, or to the bound of a direction.
enum class Claim : std::uint8_t {
  equal,     // at most the tolerance away
  at_most,   // not above it by more than the tolerance: the paper's schedule may be beaten
  at_least,  // not below it by more than the tolerance: a bound on what the paper measured
  fitted,    // shown beside what a constant of the prediction was taken from
  none,      // shown, not held against anything
};

/// One figure.
struct ReproducedFigure {
  std::string what;                   ///< the setting and the figure: "K = 8, M = 24, zb-h1: bubble rate"
  std::optional<double> published{};  ///< a number that somebody else printed; absent: none
  double predicted = 0;
  double tolerance = 0;  ///< absolute, >= 0
  Claim claim = Claim::equal;
  std::string note{};             ///< a misprint, or what the two figures leave out
  std::optional<double> bound{};  ///< of a direction, which has no published number: 1 for a ratio

  FigureClass figure_class() const;
  /// False where a published number or a direction is not met; true of what is not held against anything.
  bool holds() const;
  /// (predicted - published) / |published|, below 0 where the prediction is smaller. Absent where nothing or
  /// 0 is published.
  std::optional<double> relative_error() const;
};

/// `published` within a part of it: 0.06 is 6 %.
ReproducedFigure within(double part, std::string what, double published, double predicted);
/// A bound: the prediction leaves something out that can only make it better.
ReproducedFigure at_least(std::string what, double published, double predicted);
ReproducedFigure at_most(std::string what, double published, double predicted);
/// A direction: the prediction, a ratio, is at least, or at most, `bound`.
ReproducedFigure no_less(std::string what, double predicted, double bound = 1);
ReproducedFigure no_more(std::string what, double predicted, double bound = 1);
/// A figure that nothing is printed for; it gives the ones beside it their scale.
ReproducedFigure shown(std::string what, double predicted);
/// A printed figure that no model of a schedule can or should meet; `note` says why.
ReproducedFigure untested(std::string what, double published, double predicted, std::string note);
/// A printed figure from which a constant of the prediction was taken; `note` says which.
ReproducedFigure fitted(std::string what, double published, double predicted, std::string note);
/// `figure` with that note.
ReproducedFigure noted(ReproducedFigure figure, std::string note);

/// One experiment.
struct Reproduction {
  std::string_view name;     ///< "zero-bubble-table-5"
  std::string_view source;   ///< paper, table or figure
  std::string_view setting;  ///< what is assumed where the paper leaves it open; units
  std::vector<ReproducedFigure> (*run)() = nullptr;
};

/// All experiments.
std::span<const Reproduction> reproduction_table();

// The experiments themselves.
std::vector<ReproducedFigure> reproduce_pipedream_figures();
std::vector<ReproducedFigure> reproduce_megatron_schedule();
std::vector<ReproducedFigure> reproduce_schedule_memory();
std::vector<ReproducedFigure> reproduce_pipedream_depth();
std::vector<ReproducedFigure> reproduce_pipedream_plans();
std::vector<ReproducedFigure> reproduce_pipedream_traffic();
std::vector<ReproducedFigure> reproduce_pipedream_cluster_a();
std::vector<ReproducedFigure> reproduce_pipedream_cluster_b();
std::vector<ReproducedFigure> reproduce_pipedream_table_1();
std::vector<ReproducedFigure> reproduce_pipedream_server();
std::vector<ReproducedFigure> reproduce_pipedream_memory();
std::vector<ReproducedFigure> reproduce_pipedream_in_flight();
std::vector<ReproducedFigure> reproduce_flexflow();
std::vector<ReproducedFigure> reproduce_replicator();
std::vector<ReproducedFigure> reproduce_gpipe_schedule();
std::vector<ReproducedFigure> reproduce_gpipe_speed();
std::vector<ReproducedFigure> reproduce_gpipe_memory();
std::vector<ReproducedFigure> reproduce_torchgpipe();
std::vector<ReproducedFigure> reproduce_data_parallelism();
std::vector<ReproducedFigure> reproduce_zero();
std::vector<ReproducedFigure> reproduce_zero_bubble_table_5();
std::vector<ReproducedFigure> reproduce_zero_bubble_memory();
std::vector<ReproducedFigure> reproduce_megatron_sc21();
std::vector<ReproducedFigure> reproduce_recomputation();
std::vector<ReproducedFigure> reproduce_stage_times();
std::vector<ReproducedFigure> reproduce_measured_runs();

}  // namespace penstock
