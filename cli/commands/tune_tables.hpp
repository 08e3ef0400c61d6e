#pragma once
// The tables of an answer of `penstock tune`. Configurations are numbered from 1, the best first.

#include <cstddef>
#include <string>
#include <vector>

#include "cli/commands/tune_answer.hpp"
#include "report/print/table.hpp"
#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// The configurations that tables list.
struct ShownConfigurations {
  std::vector<std::size_t> numbers;  ///< numbers of candidates, from 0, the best first
  /// Number of candidates between these that are left out, because each has the same figures as one before it
  std::size_t twins = 0;
};

/// Returns the first `answer.top` candidates that differ from each other in something that has an effect.
ShownConfigurations shown_configurations(const TuneAnswer& answer);
/// Returns one sentence about how many are left out and why; empty if none is.
std::string twins_text(const ShownConfigurations& shown);

/// Returns a row for each of these candidates: the configuration, its figures, its distance from the best.
Table configurations_table(const TuneAnswer& answer, const std::vector<std::size_t>& numbers);
/// Returns the cost of each value of each choice relative to the best.
Table choices_table(const TuneAnswer& answer);
/// Returns the best configurations on machines with one figure changed, and the loss of this machine's best
/// one there.
Table sensitivity_table(const TuneAnswer& answer);

/// Returns, for example, "tensor 8, 4 stages x 1, data 2, 1f1b, ..".
std::string configuration_text(const TuneRequest& request, const TunedConfiguration& tuned);
/// Returns GiB in the format of tables.
std::string gib(Bytes bytes);
/// Returns, for example, "does not fit by 3.20 GiB", for the fullest device. Requires a configuration that
/// does not fit.
std::string missing_text(const TuneAnswer& answer, const TunedConfiguration& tuned);

}  // namespace penstock
