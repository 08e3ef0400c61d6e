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
  std::vector<std::size_t> numbers;  ///< of candidates, from 0, the best first
  std::size_t twins = 0;  ///< between these, left out: each differs from one before it in no figure
};

/// Returns the first `answer.top` candidates that differ from each other in something that has an effect.
ShownConfigurations shown_configurations(const TuneAnswer& answer);
/// Returns how many are left out and why, in one sentence; empty where none is.
std::string twins_text(const ShownConfigurations& shown);

/// A row a candidate of these numbers: what it is, what it takes, how far it is from the best.
Table configurations_table(const TuneAnswer& answer, const std::vector<std::size_t>& numbers);
/// What each value of each choice costs against the best.
Table choices_table(const TuneAnswer& answer);
/// The best configuration on machines with one figure changed, and what the one found loses there.
Table sensitivity_table(const TuneAnswer& answer);

/// "tensor 8, 4 stages x 1, data 2, 1f1b, ..".
std::string configuration_text(const TuneRequest& request, const TunedConfiguration& tuned);
/// GiB, as tables have them.
std::string gib(Bytes bytes);
/// "does not fit by 3.20 GiB", of the fullest device. Requires one that does not fit.
std::string missing_text(const TuneAnswer& answer, const TunedConfiguration& tuned);

}  // namespace penstock
