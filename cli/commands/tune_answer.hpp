#pragma once
// The answer of `penstock tune` with its question, and its tables. Configurations are numbered from 1, the
// best first. tune_output.hpp makes the text, the files and the page of them.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/print/table.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tune_questions.hpp"

namespace penstock {

/// The answer of a search, together with the request.
struct TuneAnswer {
  TuneRequest request;
  TuneReport report;
  std::size_t top = 10;            ///< the number of configurations that a table lists
  double seconds = 0;              ///< the time that the search took
  std::optional<double> tokens{};  ///< the number of tokens of the whole training; absent if not given
  /// the accuracy of predictions; absent if the search was interrupted
  std::optional<AccuracyGroups> accuracy{};
  std::vector<SensitivityRow> sensitivity{};
  /// The gain from overlapping the tensor collectives of the best configuration. It is present only if a
  /// launcher was chosen and the best configuration overlaps these collectives.
  std::optional<TensorOverlapWorth> overlap{};
  std::string launch{};  ///< the launcher's name and its arguments for the best configuration
};

double step_seconds(const TunedConfiguration& tuned);
/// Returns how many tokens per second and device `tuned` has relative to `best`, minus 1.
double gain_against(const TunedConfiguration& tuned, const TunedConfiguration& best);
/// Returns the seconds that training on all tokens takes. Requires that answer.tokens is present.
double training_seconds(const TuneAnswer& answer, const TunedConfiguration& tuned);
/// Returns the cost of training on all tokens with all devices. Returns nothing if the number of tokens or
/// the price of a device is unknown.
std::optional<double> training_cost(const TuneAnswer& answer, const TunedConfiguration& tuned);
/// Returns how the layers are divided into stages, in the words of a scenario file.
std::string split_text(const TuneRequest& request, const Configuration& of);
/// Returns split_text(). If the split is balanced, the number of layers of each stage follows. Equal
/// neighbours are counted: "balanced 4 5 4*5 3".
std::string layers_text(const TuneRequest& request, const TunedConfiguration& tuned);

// Makes the tables of an answer of `penstock tune`. Tables number configurations from 1, and the best one
// comes first.

/// Returns the indices of the candidates that the tables list: the first `answer.top`, the best first.
std::vector<std::size_t> shown_configurations(const TuneAnswer& answer);

/// Returns a table with one row per candidate in `numbers`: its configuration, its figures, and its distance
/// from the best one.
Table configurations_table(const TuneAnswer& answer, const std::vector<std::size_t>& numbers);
/// Returns a table of choices, such as the schedule. For each value it shows the best configuration with that
/// value, and its cost relative to the best of all.
Table choices_table(const TuneAnswer& answer);
/// Returns a table of machines that differ from this one in one figure. Each row has the best configuration
/// there, and the loss of this machine's best configuration there.
Table sensitivity_table(const TuneAnswer& answer);

/// Returns a configuration as text, such as "tensor 8, 4 stages x 1, data 2, 1f1b, ..".
std::string configuration_text(const TuneRequest& request, const TunedConfiguration& tuned);
/// Returns the bytes in GiB, with the digits that tables show.
std::string gib(Bytes bytes);
/// Returns the memory that the fullest device lacks, such as "does not fit by 3.20 GiB". Requires a
/// configuration that does not fit.
std::string missing_text(const TuneAnswer& answer, const TunedConfiguration& tuned);

}  // namespace penstock
