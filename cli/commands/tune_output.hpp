#pragma once
// What `penstock tune` says: as text, JSON, CSV and a page.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/tuning/configuration.hpp"
#include "sim/tuning/sensitivity.hpp"
#include "sim/tuning/told_apart.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// An answer with what was asked.
struct TuneAnswer {
  TuneRequest request;
  TuneReport report;
  double seconds = 0;               ///< that the search took
  std::optional<double> tokens{};   ///< to be trained in all
  std::optional<ToldApart> told{};  ///< nothing where the search was interrupted
  std::vector<SensitivityRow> sensitivity{};
  std::string launch{};  ///< a launcher's name and arguments, for the best one
};

std::string tune_json(const TuneAnswer& answer);
/// `width`: of the terminal; 0: any.
std::string tune_text(const TuneAnswer& answer, std::size_t width);
std::string tune_csv(const TuneAnswer& answer);
std::string tune_html(const TuneAnswer& answer);

/// The space alone.
std::string space_json(const TuneRequest& request, const std::vector<Configuration>& space);
std::string space_text(const TuneRequest& request, const std::vector<Configuration>& space);

}  // namespace penstock
