// penstock largest: finds the largest value of a scenario key for which every device has enough memory.
// The key must take whole numbers. Each trial is one `simulate` with `--set KEY=VALUE`. largest_value()
// chooses the values to try.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/largest_value.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

struct LargestFlags {
  PredictionFlags prediction;
  OutputFlags output;
  std::string key;
  std::int64_t least = 0;  // the smallest value to try; 0 means the value of `step`
  std::int64_t most = std::int64_t{1} << 20;
  std::int64_t step = 1;
};

/// Returns the flags of a simulation in which the searched key has this value.
InputFlags with_value(const LargestFlags& flags, std::string_view value) {
  InputFlags input = flags.prediction.input;
  input.settings.push_back(fmt::format("{}={}", flags.key, value));
  return input;
}

/// Returns the rank whose device has the least free memory at its peak. Returns nothing if no device states
/// its memory.
std::optional<std::size_t> tightest(const Result& result) {
  std::optional<std::size_t> found;
  const auto room = [&](std::size_t i) {
    const RankMemory& memory = result.ranks[i].memory;
    return *memory.usable() - memory.peak_bytes;
  };
  for (std::size_t i = 0; i < result.ranks.size(); ++i) {
    if (!result.ranks[i].memory.usable()) continue;
    if (!found || room(i) < room(*found)) found = i;
  }
  return found;
}

constexpr std::string_view kNoLimit =
    "no device of the cluster states its memory, so that every value fits; give cluster.memory, such as "
    "`--set cluster.memory=80GiB`";

/// Simulates the scenario with one value and returns its peak memory, or the reason why it cannot be
/// simulated.
TriedValue tried(const LargestFlags& flags, std::int64_t value) {
  TriedValue tried{.value = value};
  const auto scenario = scenario_of(with_value(flags, std::to_string(value)), flags.prediction.channels);
  if (!scenario) {
    tried.refusal = scenario.error().message;
    return tried;
  }
  const auto result = simulate_scenario(*scenario, {.engine = engine_of(flags.prediction.engine),
                                                    .memory = {.samples = false},
                                                    .steady = SteadyState::skip,
                                                    .digest = ProgramDigest::skip,
                                                    .timeline = TimelineKept::none});
  if (!result) {
    tried.refusal = result.error().message;
    return tried;
  }
  const auto rank = tightest(*result);
  if (!rank) {
    // Without a limit every value would fit. This value counts as too large, so that the search ends here.
    tried.peak_bytes = 1;
    return tried;
  }
  const RankReport& report = result->ranks[*rank];
  tried.peak_bytes = report.memory.peak_bytes;
  tried.usable_bytes = *report.memory.usable();
  tried.rank = report.rank;
  tried.device = report.device;
  tried.at_peak = report.memory.at_peak;
  return tried;
}

/// Returns an error if the key also takes fractions or words, because such a key has no next larger value.
/// Returns nothing if the key takes only whole numbers.
std::optional<std::string> key_fault(const LargestFlags& flags) {
  for (const std::string& fraction : {std::string("0.5"), fmt::format("{}.5", flags.least)}) {
    if (!scenario_of(with_value(flags, fraction), flags.prediction.channels)) continue;
    return fmt::format("--over {0}: expected a key that takes whole numbers, but {0} takes {1} as well",
                       flags.key, fraction);
  }
  return std::nullopt;
}

std::string device_text(const TriedValue& value) {
  return value.device.empty() ? fmt::format("rank {}", value.rank)
                              : fmt::format("rank {} ({})", value.rank, value.device);
}

/// Returns the memory category with the most bytes at the peak, such as "activations 50.10 GiB".
std::string most_of_it(const TriedValue& value) {
  const auto most = std::ranges::max_element(value.at_peak);
  const auto category = static_cast<MemoryCategory>(most - value.at_peak.begin());
  return fmt::format("{} {}", to_text(category), format_bytes(*most));
}

/// Returns a line about one tried value, such as "12: rank 0 (gpu0) needs 15.9 GiB of 16.0 GiB, most of it
/// weights 9.1 GiB".
std::string line_of(const TriedValue& value) {
  if (!value.refusal.empty()) return fmt::format("{}: refused, {}", value.value, value.refusal);
  const Bytes room = value.usable_bytes - value.peak_bytes;
  return fmt::format("{}: {} needs {} of {}, {} {}; most of it is {}", value.value, device_text(value),
                     format_bytes(value.peak_bytes), format_bytes(value.usable_bytes),
                     format_bytes(room < 0 ? -room : room), room < 0 ? "too much" : "to spare",
                     most_of_it(value));
}

std::string_view bounded_by(const LargestValue& found) {
  if (!found.next) return "range";
  return found.next->refusal.empty() ? "memory" : "refusal";
}

std::string answer_text(const LargestFlags& flags, const LargestValue& found) {
  std::string text = fmt::format("{}: {} is the largest that fits\n  {}\n", flags.key, found.largest->value,
                                 line_of(*found.largest));
  const bool all_fit = std::ranges::all_of(
      found.tried, [](const TriedValue& value) { return value.fits() || !value.refusal.empty(); });
  text += found.next ? fmt::format("  {}\n", line_of(*found.next))
          : all_fit  ? fmt::format("  every value that was tried fits, up to --most {}\n", flags.most)
                     : fmt::format("  it is the last value up to --most {}\n", flags.most);
  if (bounded_by(found) == "refusal")
    text += "  larger values were refused; a still larger one that was not tried may fit\n";
  if (!found.grows())
    text += "  memory does not grow with every step, so a value that was not tried may fit as well\n";
  return text + fmt::format("tried {} values\n", found.tried.size());
}

Json value_json(const std::optional<TriedValue>& value) {
  if (!value) return {};
  if (!value->refusal.empty()) return {{"value", value->value}, {"refusal", value->refusal}};
  return {
      {"value", value->value},   {"fits", value->fits()},           {"rank", value->rank},
      {"device", value->device}, {"peak_bytes", value->peak_bytes}, {"usable_bytes", value->usable_bytes}};
}

std::string answer_json(const LargestFlags& flags, const LargestValue& found) {
  Json tried = Json::array();
  for (const TriedValue& value : found.tried) tried.push_back(value_json(value));
  return Json{{"schema_version", 1},
              {"kind", "largest"},
              {"key", flags.key},
              {"largest", found.largest ? Json(found.largest->value) : Json()},
              {"bounded_by", bounded_by(found)},
              {"grows", found.grows()},
              {"fits", value_json(found.largest)},
              {"next", value_json(found.next)},
              {"tried", std::move(tried)}}
             .dump(2) +
         '\n';
}

/// Returns the outcome of the search. If the smallest value is refused or memory is unlimited, the exit code
/// is 2. If the smallest value does not fit, it is 1.
Outcome outcome_of(const LargestFlags& flags, const LargestValue& found) {
  if (found.largest) return ExitCode::ok;
  if (!found.next->refusal.empty()) return bad_input(found.next->refusal);
  if (found.next->usable_bytes == 0) return bad_input(std::string(kNoLimit));
  return user_error(
      ErrorKind::check_failed,
      fmt::format("out of memory: no value of {} that was tried fits; {}", flags.key, line_of(*found.next)));
}

/// Checks the flags of the command. Returns an error for the first flag with a wrong value.
tl::expected<void, UserError> checked(const LargestFlags& flags) {
  if (auto known =
          check_output_files(flags.output.files, {".txt", ".json"}, inputs_of(flags.prediction.input));
      !known)
    return known;
  if (auto scenario = load_input(flags.prediction.input); !scenario) return tl::unexpected(scenario.error());
  if (flags.key.empty()) {
    return bad_input(
        "--over: expected the key that varies, such as `--over model.layers`, got nothing; `--set` takes the "
        "same "
        "keys");
  }
  if (flags.least > flags.most) {
    return bad_input(
        fmt::format("--most: expected at least the smallest value, {}, got {}", flags.least, flags.most));
  }
  if (auto single = refuse_flag_of("--over", flags.key, flags.prediction.input, flags.prediction.channels);
      !single)
    return single;
  if (auto fault = key_fault(flags)) return bad_input(*std::move(fault));
  return {};
}

/// Searches for the largest value that fits, and shows on a terminal which value is being tried.
LargestValue searched(const LargestFlags& flags) {
  ProgressBar bar(display_for(flags.output));
  return largest_value({.least = flags.least, .most = flags.most, .step = flags.step},
                       [&](std::int64_t value) {
                         bar.say(fmt::format("trying {} = {}", flags.key, value));
                         return tried(flags, value);
                       });
}

Outcome run_largest(LargestFlags flags) {
  if (flags.least == 0) flags.least = flags.step;
  if (auto fine = checked(flags); !fine) return tl::unexpected(fine.error());
  const LargestValue found = searched(flags);
  Outcome outcome = outcome_of(flags, found);
  if (!found.largest && !flags.output.json) return outcome;
  if (!outcome && outcome.error().kind == ErrorKind::bad_input) return outcome;
  std::string text = found.largest ? answer_text(flags, found) : "";
  const std::vector<OutputForm> forms = {{".txt", [&text] { return text; }},
                                         {".json", [&] { return answer_json(flags, found); }}};
  if (auto written = write_answer(flags.output, forms, flags.output.json ? answer_json(flags, found) : text);
      !written)
    return tl::unexpected(written.error());
  return outcome;
}

}  // namespace

Command largest_command(CLI::App& root) {
  Subcommand app(root, "largest", "Find the largest value of a key with which everything fits in memory.");
  const auto flags = std::make_shared<LargestFlags>();
  add_prediction_flags(app, flags->prediction);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  app.add_option(
         "--over", flags->key,
         "the key that varies, as of --set: model.layers, training.micro_batch_size, ..; it must take "
         "whole numbers")
      .group("Values")
      .type_name("KEY");
  app.add_option("--least", flags->least, "the smallest value (default: that of --multiple-of)")
      .range(std::int64_t{1}, kMost)
      .group("Values")
      .type_name("N");
  app.add_option("--most", flags->most, "the largest value (default 1048576)")
      .range(std::int64_t{1}, kMost)
      .group("Values")
      .type_name("N");
  app.add_option("--multiple-of", flags->step, "the distance from one value to the next (default 1)")
      .range(std::int64_t{1}, kMost)
      .group("Values")
      .type_name("N");
  add_output_flags(app, flags->output, ".txt .json");
  app.footer(
      "The values are tried at doubling distances until one does not fit; then the gap is halved. This "
      "supposes\n"
      "that memory grows with the key; the answer says where it did not.\n"
      "Exit status: 1 when the smallest value does not fit; 2 when no value can be predicted.\n"
      "Examples:\n"
      "  penstock largest scenarios/library/deepspeed-zero-2.yaml --over model.transformer.layers\n"
      "  penstock largest scenarios/library/llama-70b-h100.yaml --over training.micro_batch_size --most 64 "
      "--json");
  return {app, [flags] { return run_largest(*flags); }};
}

}  // namespace penstock
