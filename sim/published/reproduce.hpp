#pragma once
// Predicts figures that papers have published. A reproduction is one experiment of a paper: a list of
// figures, each with the published and the predicted value. A new reproduction needs a function in a file,
// and a row in the table of reproduce.cpp.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The kind of claim that a figure makes. It does not depend on whether the prediction meets the claim;
/// holds() returns that.
enum class FigureClass : std::uint8_t {
  equal,    ///< A printed figure that the prediction must meet within a tolerance.
  bound,    ///< A printed limit that the prediction must not cross, as a number or in words.
  formula,  ///< A value from a formula, a drawing or a published algorithm.
  missed,   ///< A printed figure that the prediction does not meet. The note says why.
  fitted,   ///< A printed figure that determined a constant of the prediction. It tests nothing.
  shown,    ///< A predicted figure that the paper does not print. It is shown for comparison.
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
  double part = 0;  ///< Fraction of the published figure. It is 0 for rounding, for which the printed digits
                    ///< determine the tolerance.
  std::string_view reason;  ///< One sentence without a full stop.
};
/// All tolerances, in the order of the enum.
std::span<const ToleranceKind> tolerance_table();
const ToleranceKind& kind_of(Tolerance tolerance);

/// The side of a bound on which the prediction must stay.
enum class BoundSide : std::uint8_t { at_most, at_least };

/// One figure of a reproduction, with its published and its predicted value.
struct ReproducedFigure {
  std::string what;  ///< Setting and figure, for example "K = 8, M = 24, zb-h1: bubble rate".
  FigureClass figure_class = FigureClass::equal;
  std::optional<double> published{};  ///< Printed number or value of the formula. Absent if there is none.
  double predicted = 0;
  Tolerance tolerance_kind = Tolerance::exact;
  int decimals = 0;  ///< Printed digits after the decimal point, for `Tolerance::rounding`.
  BoundSide side = BoundSide::at_most;  ///< For bounds only.
  /// The limit that the paper states in words. For example, "faster" means a ratio of 1.
  std::optional<double> bound{};
  std::string note{};  ///< A remark, for example about a misprint in the paper.

  /// Returns true if the figure makes a claim that a prediction may miss.
  bool is_held() const;
  /// Returns true if the category of the figure is `equal` or `missed`. In both, a prediction is compared
  /// with a printed number.
  bool is_printed() const;
  /// Returns the largest allowed distance from the published figure or bound, in the figure's unit.
  double tolerance() const;
  /// Returns true if the prediction meets the claim, or if the figure makes no claim.
  bool holds() const;
  /// Returns (predicted - published) / |published|. Returns nothing if the published value is absent or 0.
  std::optional<double> relative_error() const;
};

/// Returns a printed figure that the prediction must meet within this kind of tolerance.
ReproducedFigure equal(Tolerance kind, std::string what, double published, double predicted);
/// Returns a figure of the category `equal` whose number is printed with `decimals` decimals. The
/// prediction must meet it within half a unit of the last digit.
ReproducedFigure rounded(int decimals, std::string what, double published, double predicted);
/// Returns a figure of the category `formula`. `published` is a value from a formula, a drawing or an
/// algorithm, not a printed number.
ReproducedFigure formula(std::string what, double published, double predicted,
                         Tolerance kind = Tolerance::exact);
/// Return a figure of the category `bound` with a printed limit. The prediction must be at least, or at
/// most, `published`.
ReproducedFigure at_least(std::string what, double published, double predicted);
ReproducedFigure at_most(std::string what, double published, double predicted);
/// Return a figure of the category `bound` with a limit that the paper states in words. The predicted ratio
/// must be at least, or at most, `bound`.
ReproducedFigure no_less(std::string what, double predicted, double bound = 1);
ReproducedFigure no_more(std::string what, double predicted, double bound = 1);
/// Returns a figure of the category `missed`: a printed number that the prediction does not meet. `note`
/// gives the reason.
ReproducedFigure missed(Tolerance kind, std::string what, double published, double predicted,
                        std::string note);
/// Returns a figure of the category `fitted`: a printed number that was used to fit a constant. `note`
/// names this constant.
ReproducedFigure fitted(std::string what, double published, double predicted, std::string note);
/// Returns a figure of the category `shown`: a predicted value that the paper does not print.
ReproducedFigure shown(std::string what, double predicted);
ReproducedFigure noted(ReproducedFigure figure, std::string note);
/// Returns `figure` with the tolerance of a number that is printed with `decimals` decimals.
ReproducedFigure with_decimals(int decimals, ReproducedFigure figure);

/// One experiment of a paper.
struct Reproduction {
  std::string_view name;     ///< for example "zero-bubble-table-5"
  std::string_view source;   ///< the paper, and the section, table or figure
  std::string_view setting;  ///< the assumptions that replace what the paper does not state, and the units
  std::vector<ReproducedFigure> (*run)() = nullptr;
};

/// Returns all experiments that can be reproduced.
std::span<const Reproduction> reproduction_table();

// Each of these functions computes the figures of one experiment.
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
