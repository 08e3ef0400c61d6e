#pragma once
// Defines the answer of `penstock tune`, and makes its tables, its text, its files and its page.
// Configurations are numbered from 1, the best first.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "report/print/table.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tune_questions.hpp"

namespace penstock {

/// The answer of `penstock tune`, together with the request.
struct TuneAnswer {
  TuneRequest request;
  TuneReport report;
  std::size_t top = 10;            ///< the number of configurations that a table lists
  double seconds = 0;              ///< the time that the search took
  std::optional<double> tokens{};  ///< the number of tokens of the whole training; absent if not given
  /// The accuracy of the predictions. It is absent if the search was interrupted.
  std::optional<AccuracyGroups> accuracy{};
  std::vector<SensitivityRow> sensitivity{};
  /// The configurations that show the gain from overlapping tensor collectives with computation. Present only
  /// if a launcher was chosen and the best configuration has this overlap.
  std::optional<TensorOverlapWorth> overlap{};
  std::string launch{};  ///< the launcher's name and its command for the best configuration
};

double step_seconds(const TunedConfiguration& tuned);
/// Returns the gain of `tuned` over `best` in tokens per second and device. 0.02 means that `tuned` is 2 %
/// faster.
double gain_against(const TunedConfiguration& tuned, const TunedConfiguration& best);
/// Returns the time in seconds of a training on answer.tokens tokens, which must be present.
double training_seconds(const TuneAnswer& answer, const TunedConfiguration& tuned);
/// Returns the cost of training on all tokens with all devices. Returns nothing if the number of tokens or
/// the price of a device is unknown.
std::optional<double> training_cost(const TuneAnswer& answer, const TunedConfiguration& tuned);
/// Returns the division of the layers into stages, in the words of a scenario file.
std::string split_text(const TuneRequest& request, const Configuration& of);
/// Returns split_text(), followed by the number of layers of each stage if the split is balanced. Equal
/// neighbours are counted, as in "balanced 4 5 4*5 3".
std::string layers_text(const TuneRequest& request, const TunedConfiguration& tuned);

// Makes the tables of an answer of `penstock tune`. Tables number configurations from 1, and the best one
// comes first.

/// Returns the indices of the configurations that the tables list. They are the best `answer.top` ones, the
/// best first.
std::vector<std::size_t> shown_configurations(const TuneAnswer& answer);

/// Returns a table with one row for each configuration in `numbers`: its choices, its predicted results, and
/// how much slower it is than the best configuration.
Table configurations_table(const TuneAnswer& answer, const std::vector<std::size_t>& numbers);
/// Returns a table with the values of each choice, such as of the schedule. For each value, it shows the
/// best configuration with this value, and how much worse it is than the best of all.
Table choices_table(const TuneAnswer& answer);
/// Returns a table of machines that differ from this machine in one property, such as a bandwidth. Each row
/// shows the best configuration on such a machine. It also shows how much slower the best configuration of
/// this machine would be there.
Table sensitivity_table(const TuneAnswer& answer);

/// Returns a configuration as text, such as "tensor 8, 4 stages x 1, data 2, 1f1b, ..".
std::string configuration_text(const TuneRequest& request, const TunedConfiguration& tuned);
/// Returns the bytes in GiB, with the digits that tables show.
std::string gib(Bytes bytes);
/// Returns a text about the memory that the fullest device lacks, such as "does not fit by 3.20 GiB".
/// Requires a configuration that does not fit into memory.
std::string missing_text(const TuneAnswer& answer, const TunedConfiguration& tuned);

// Prints the answers of `penstock tune`: as text and as a page for readers, and as JSON and CSV for
// programs.

/// The extent of the tables in the text of an answer: `fastest` or `all`. `fastest` lists the fastest
/// configurations only. `all` also lists those that no other configuration beats in both time and memory,
/// and the cost of each choice.
enum class TuneTables : std::uint8_t { fastest, all };

/// Returns the answer as text, which ends with the best configuration. `width` is the terminal's width in
/// characters; 0 means no limit.
std::string tune_text(const TuneAnswer& answer, std::size_t width, TuneTables tables);
/// The parts of a page that the text of an answer does not have.
struct TunePage {
  std::string launch{};            ///< a launcher's command for the best configuration, or why there is none
  std::vector<NamedBill> bills{};  ///< bills of the best configuration and of the runner-up
};
std::string tune_html(const TuneAnswer& answer, const TunePage& extra);

/// Returns the configurations of the search space as text, without results.
std::string space_text(const TuneRequest& request, const std::vector<Configuration>& space);

std::string tune_json(const TuneAnswer& answer);
/// Returns a CSV table with one row per candidate. The best candidate comes first.
std::string tune_csv(const TuneAnswer& answer);
/// Returns the configurations of the search space as JSON, without results.
std::string space_json(const TuneRequest& request, const std::vector<Configuration>& space);

// Reads the flags of `penstock tune` into a request for tune().

/// The texts of the flags that state the allowed values of each choice. An empty text allows all values of
/// the choice.
struct TuneChoiceFlags {
  std::vector<std::string> schedules;
  std::vector<std::string> layer_splits;
  std::string tensor;
  std::string context;
  std::string context_exchange;
  std::string expert;
  std::string data;
  std::string order;
  std::string group_order;
  std::string offload;
  std::string stages;
  std::string virtual_stages;
  std::string micro_batch_size;
  std::string recompute;
  std::string sharding;
  std::optional<std::int64_t> max_nodes;
  std::string memory_limit;
};

struct TuneFlags {
  InputFlags input;
  TuneChoiceFlags choices;
  OutputFlags output;
  std::int64_t top = 10;
  bool details = false;  ///< Print all tables, as in a .txt file.
  bool list = false;
  bool exhaustive = false;
  bool sensitivity = false;
  std::string emit;  ///< "megatron" or "torchtitan"
  std::optional<double> price;
  std::optional<double> tokens;
};

void add_tune_flags(Subcommand app, TuneFlags& flags);

/// Returns the input flags of `penstock tune`. They also contain --set entries for the memory limit and the
/// price.
InputFlags base_input(const TuneFlags& flags);

/// Returns the request for the search that the flags describe. Fails if the model is not on named devices,
/// if the global batch is missing, or if a choice has an unknown value.
tl::expected<TuneRequest, UserError> request_of(const TuneFlags& flags);

}  // namespace penstock
