#pragma once
// Published figures, predicted again. A reproduction is one experiment of a paper: a list of figures with
// what the paper prints beside what the simulator says. Adding one = a file with a function, and a row in
// reproduce.cpp.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The claim that a figure makes. The table of figures states it; whether the prediction meets the claim is
/// another question (`holds()`), so that a figure keeps its class when it changes sides.
enum class FigureClass : std::uint8_t {
  equal,    ///< A printed figure that the prediction must meet within a tolerance.
  bound,    ///< A printed number, or an order in words, that the prediction must not cross.
  formula,  ///< A closed form, a drawing or the output of a published algorithm, computed again.
  missed,   ///< A printed figure that no prediction is known to meet. The note says why.
  fitted,   ///< A printed figure from which a constant of the prediction was taken. It tests nothing.
  shown,    ///< A figure of ours that gives the others their scale. Nothing is printed for it.
};
template <>
inline constexpr auto kEnumWords<FigureClass> =
    std::to_array<EnumWord<FigureClass>>({{FigureClass::equal, "equal"},
                                          {FigureClass::bound, "bound"},
                                          {FigureClass::formula, "formula"},
                                          {FigureClass::missed, "missed"},
                                          {FigureClass::fitted, "fitted"},
                                          {FigureClass::shown, "ours"}});

/// The reason for which a prediction may differ from a printed figure. Each reason has one width for all
/// figures (`tolerance_table()`), so that no tolerance can be fitted to a figure.
enum class Tolerance : std::uint8_t { exact, nanoseconds, rounding, size, ratio, step };

/// A tolerance with its width and the reason for it.
struct ToleranceKind {
  Tolerance tolerance = Tolerance::exact;
  std::string_view word;    ///< "rounding"
  double part = 0;          ///< Part of the published figure; 0 for rounding, whose width the digits state.
  std::string_view reason;  ///< One sentence without a full stop.
};
/// All tolerances, in the order of the enum.
std::span<const ToleranceKind> tolerance_table();
const ToleranceKind& kind_of(Tolerance tolerance);

/// The side of a bound on which the prediction must stay.
enum class BoundSide : std::uint8_t { at_most, at_least };

/// One figure.
struct ReproducedFigure {
  std::string what;  ///< The setting and the figure: "K = 8, M = 24, zb-h1: bubble rate".
  FigureClass figure_class = FigureClass::equal;
  std::optional<double> published{};  ///< The printed number or the formula's value. Absent: there is none.
  double predicted = 0;
  Tolerance tolerance_kind = Tolerance::exact;
  int decimals = 0;                     ///< Printed digits behind the point, for `Tolerance::rounding`.
  BoundSide side = BoundSide::at_most;  ///< For bounds only.
  std::optional<double> bound{};        ///< The bound where an order is stated in words: 1 for a ratio.
  std::string note{};                   ///< A misprint, or what the two figures leave out.

  /// Returns whether the figure makes a claim that the prediction can fail.
  bool is_held() const;
  /// Returns whether the figure counts among the printed figures that are predicted: equal or missed.
  bool is_printed() const;
  /// Returns the largest distance from the published figure or bound, in its unit.
  double tolerance() const;
  /// Returns whether the prediction meets the claim. True for figures that are not held.
  bool holds() const;
  /// Returns (predicted - published) / |published|, below 0 where the prediction is smaller. Absent where
  /// nothing or 0 is published.
  std::optional<double> relative_error() const;
};

/// Returns a printed figure with a tolerance that its kind determines.
ReproducedFigure equal(Tolerance kind, std::string what, double published, double predicted);
/// Returns a printed figure that may differ by half a unit of its last digit.
ReproducedFigure rounded(int decimals, std::string what, double published, double predicted);
/// Returns a closed form, a drawing or an algorithm's output, computed again.
ReproducedFigure formula(std::string what, double published, double predicted,
                         Tolerance kind = Tolerance::exact);
/// Returns a printed bound: the prediction leaves something out that can only make it better.
ReproducedFigure at_least(std::string what, double published, double predicted);
ReproducedFigure at_most(std::string what, double published, double predicted);
/// Returns an order that is stated in words: the prediction, a ratio, is at least, or at most, `bound`.
ReproducedFigure no_less(std::string what, double predicted, double bound = 1);
ReproducedFigure no_more(std::string what, double predicted, double bound = 1);
/// Returns a printed figure that no prediction is known to meet; `note` says why. It counts as a miss.
ReproducedFigure missed(Tolerance kind, std::string what, double published, double predicted,
                        std::string note);
/// Returns a printed figure from which a constant of the prediction was taken; `note` says which.
ReproducedFigure fitted(std::string what, double published, double predicted, std::string note);
/// Returns a figure for which nothing is printed.
ReproducedFigure shown(std::string what, double predicted);
/// Returns `figure` with that note.
ReproducedFigure noted(ReproducedFigure figure, std::string note);
/// Returns `figure` with the tolerance of a number that was printed with so many digits behind the point.
ReproducedFigure with_decimals(int decimals, ReproducedFigure figure);

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
std::vector<ReproducedFigure> reproduce_horovod();
std::vector<ReproducedFigure> reproduce_data_parallelism();
std::vector<ReproducedFigure> reproduce_zero();
std::vector<ReproducedFigure> reproduce_zero_bubble_table_5();
std::vector<ReproducedFigure> reproduce_zero_bubble_memory();
std::vector<ReproducedFigure> reproduce_megatron_sc21();
std::vector<ReproducedFigure> reproduce_recomputation();
std::vector<ReproducedFigure> reproduce_stage_times();
std::vector<ReproducedFigure> reproduce_measured_runs();

}  // namespace penstock
