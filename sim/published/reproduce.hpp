#pragma once
// Predicts published figures again. A reproduction is one experiment of a paper: a list of figures, each with
// the printed and the predicted value. A new one needs a file with a function, and a row in reproduce.cpp.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The claim that a figure makes. The class does not depend on whether the prediction meets the claim
/// (`holds()`).
enum class FigureClass : std::uint8_t {
  equal,    ///< A printed figure that the prediction must meet within a tolerance.
  bound,    ///< A printed number, or an order in words, that the prediction must not cross.
  formula,  ///< A closed form, a drawing or the output of a published algorithm, computed again.
  missed,   ///< A printed figure that no known prediction meets. The note says why.
  fitted,   ///< A printed figure that determined a constant of the prediction. It tests nothing.
  shown,    ///< A predicted figure for comparison with the others. Nothing is printed for it.
};
template <>
inline constexpr auto kEnumWords<FigureClass> =
    std::to_array<EnumWord<FigureClass>>({{FigureClass::equal, "equal"},
                                          {FigureClass::bound, "bound"},
                                          {FigureClass::formula, "formula"},
                                          {FigureClass::missed, "missed"},
                                          {FigureClass::fitted, "fitted"},
                                          {FigureClass::shown, "ours"}});

/// The reason why a prediction may differ from a printed figure. Each reason has one tolerance for all
/// figures (`tolerance_table()`), so that no tolerance can be fitted to a figure.
enum class Tolerance : std::uint8_t { exact, nanoseconds, rounding, size, ratio, step };

/// A tolerance with its width and the reason for it.
struct ToleranceKind {
  Tolerance tolerance = Tolerance::exact;
  std::string_view word;  ///< "rounding"
  double part = 0;  ///< Fraction of the published figure; 0 for rounding, because the printed digits give its
                    ///< tolerance.
  std::string_view reason;  ///< One sentence without a full stop.
};
/// All tolerances, in the order of the enum.
std::span<const ToleranceKind> tolerance_table();
const ToleranceKind& kind_of(Tolerance tolerance);

/// The side of a bound on which the prediction must stay.
enum class BoundSide : std::uint8_t { at_most, at_least };

/// One figure.
struct ReproducedFigure {
  std::string what;  ///< Setting and figure, for example "K = 8, M = 24, zb-h1: bubble rate".
  FigureClass figure_class = FigureClass::equal;
  std::optional<double> published{};  ///< Printed number, or value of the formula; absent if there is none.
  double predicted = 0;
  Tolerance tolerance_kind = Tolerance::exact;
  int decimals = 0;  ///< Printed digits after the decimal point, for `Tolerance::rounding`.
  BoundSide side = BoundSide::at_most;  ///< For bounds only.
  std::optional<double> bound{};        ///< Bound of an order that is stated in words, such as 1 for a ratio.
  std::string note{};                   ///< A misprint in the paper, or effects that the figures leave out.

  /// Returns whether the figure makes a claim that the prediction can fail to meet.
  bool is_held() const;
  /// Returns whether the figure is a printed one that is predicted: its class is `equal` or `missed`.
  bool is_printed() const;
  /// Returns the largest allowed distance from the published figure or bound, in the figure's unit.
  double tolerance() const;
  /// Returns whether the prediction meets the claim. Returns true if the figure makes no claim.
  bool holds() const;
  /// Returns (predicted - published) / |published|. Returns nothing if no value, or 0, is published.
  std::optional<double> relative_error() const;
};

/// Returns a printed figure with the tolerance of the given kind.
ReproducedFigure equal(Tolerance kind, std::string what, double published, double predicted);
/// Returns a printed figure that may differ by half a unit of its last digit.
ReproducedFigure rounded(int decimals, std::string what, double published, double predicted);
/// Returns a figure that compares with a closed form, a drawing or the output of an algorithm.
ReproducedFigure formula(std::string what, double published, double predicted,
                         Tolerance kind = Tolerance::exact);
/// Returns a printed bound: the prediction must be at least, or at most, `published`.
ReproducedFigure at_least(std::string what, double published, double predicted);
ReproducedFigure at_most(std::string what, double published, double predicted);
/// Returns an order that is stated in words: the predicted ratio is at least, or at most, `bound`.
ReproducedFigure no_less(std::string what, double predicted, double bound = 1);
ReproducedFigure no_more(std::string what, double predicted, double bound = 1);
/// Returns a printed figure that no known prediction meets; `note` says why. It counts as a miss.
ReproducedFigure missed(Tolerance kind, std::string what, double published, double predicted,
                        std::string note);
/// Returns a printed figure that determined a constant of the prediction; `note` names the constant.
ReproducedFigure fitted(std::string what, double published, double predicted, std::string note);
/// Returns a predicted figure for which nothing is printed.
ReproducedFigure shown(std::string what, double predicted);
/// Returns `figure` with the note.
ReproducedFigure noted(ReproducedFigure figure, std::string note);
/// Returns `figure` with the tolerance of a number that is printed with this number of decimals.
ReproducedFigure with_decimals(int decimals, ReproducedFigure figure);

/// One experiment of a paper.
struct Reproduction {
  std::string_view name;     ///< for example "zero-bubble-table-5"
  std::string_view source;   ///< paper, table or figure
  std::string_view setting;  ///< assumptions where the paper states none, and units
  std::vector<ReproducedFigure> (*run)() = nullptr;
};

/// Returns all experiments.
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
