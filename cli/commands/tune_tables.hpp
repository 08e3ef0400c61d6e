#pragma once
// Makes the tables of an answer of `penstock tune`. Tables number configurations from 1, and the best one
// comes first.

#include <cstddef>
#include <string>
#include <vector>

#include "cli/commands/tune_answer.hpp"
#include "report/print/table.hpp"
#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// The configurations that the tables list.
struct ShownConfigurations {
  /// the indices of the candidates, from 0; the best candidate comes first
  std::vector<std::size_t> numbers;
  /// The number of candidates left out among these. A candidate is left out if an earlier candidate has the
  /// same figures.
  std::size_t twins = 0;
};

/// Returns the first `answer.top` candidates that differ from each other in an option that has an effect.
ShownConfigurations shown_configurations(const TuneAnswer& answer);
/// Returns one sentence about how many candidates are left out and why. It is empty if none is left out.
std::string twins_text(const ShownConfigurations& shown);

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
