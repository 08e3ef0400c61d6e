// The C++ part of the Python package penstock_sim. It has one prediction, the checks of a program, and the
// command line. All other functions of the package are written in Python and call these functions.
//
// The arguments are those of `penstock simulate`, so a flag has the same name, range and error message in
// both. If a caller passes the text of a scenario or a program, the text replaces standard input.
//
// The functions here return errors as values. The package then raises its own exceptions.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): on_exit() is glibc's
#include <unistd.h>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
#include <CLI/CLI.hpp>
#include <tl/expected.hpp>

#include "cli/command_line.hpp"
#include "cli/commands/channel_verdict.hpp"
#include "cli/executable.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "report/pages/html_report.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/counterexample.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/explain.hpp"

namespace nb = nanobind;

namespace penstock {
namespace {

/// An error that the package raises as a Python exception.
struct Failure {
  ErrorKind kind = ErrorKind::bad_input;
  std::string message;
  /// One entry for each wait of a hang: the action, its rank, its position and what it waits for.
  std::vector<std::string> cycle;
};

Failure failure_of(const UserError& error) {
  Failure failure{.kind = error.kind, .message = error.message, .cycle = {}};
  if (!error.hang) return failure;
  for (const WaitFor& wait : error.hang->cycle) {
    failure.cycle.push_back(to_text(wait.action) + " on rank " + std::to_string(wait.rank) + ", position " +
                            std::to_string(wait.position) + ", waits for " + wait.waits_for);
  }
  return failure;
}

Failure bad_program(std::string message) {
  return {.kind = ErrorKind::check_failed, .message = std::move(message), .cycle = {}};
}

/// The declared flags of a prediction. Declaring them takes longer than a small prediction, so each thread
/// declares them once.
class PredictionArguments {
 public:
  PredictionArguments() {
    root_.set_help_flag();  // The package has no use for help texts.
    add_prediction_flags(command_, flags_);
    add_search_flags(command_, flags_.input);
  }

  /// Returns the scenario that the arguments describe.
  tl::expected<Scenario, UserError> scenario(const std::vector<std::string>& arguments) {
    flags_ = {};
    std::vector<const char*> words = {"penstock", "simulate"};
    for (const std::string& argument : arguments) words.push_back(argument.c_str());
    if (auto parsed = parse_arguments(root_, words); !parsed) return tl::unexpected(parsed.error());
    return scenario_of(flags_.input, flags_.channels);
  }
  Engine engine() const { return engine_of(flags_.engine); }

 private:
  CLI::App root_{"", "penstock"};
  PredictionFlags flags_;
  Subcommand command_{root_, "simulate", ""};
};

/// Returns the flags that this Python thread has declared. An interrupted call keeps them, and the next call
/// declares new ones.
std::shared_ptr<PredictionArguments>& own_parser() {
  thread_local std::shared_ptr<PredictionArguments> parser;
  if (!parser) parser = std::make_shared<PredictionArguments>();
  return parser;
}

/// The number of calls that are computed, including calls that were interrupted.
std::atomic<int> running_calls = 0;  // NOLINT(readability-identifier-naming): no constant

/// Ends the process without destructors if a call is still computed, because it uses objects that
/// destructors of the process would destroy. `status` is the exit code.
void end_beside_running_calls(int status, void* /*unused*/) {
  if (running_calls == 0) return;
  std::fflush(nullptr);
  ::_exit(status);
}

/// Computes `work(parser)` in another thread and returns its result. Meanwhile this thread releases Python's
/// global lock and looks for signals, so that other Python threads run and Ctrl-C raises KeyboardInterrupt
/// at once. The interrupted work goes on to its end and its result is dropped, because an engine cannot be
/// stopped within a run. `work` reads `text` in place of standard input. It must own all that it uses.
template <class Work>
auto outside_python(std::string text, Work work) {
  constexpr std::chrono::milliseconds kLook{20};
  using Answer = std::invoke_result_t<Work, PredictionArguments&>;
  std::packaged_task<Answer()> task([text = std::move(text), parser = own_parser(), work = std::move(work)] {
    const StandardInputText input(text);
    return work(*parser);
  });
  std::future<Answer> answer = task.get_future();
  ++running_calls;
  std::thread thread([task = std::move(task)]() mutable {
    task();
    task = {};
    --running_calls;
  });
  const auto is_done = [&] {
    const nb::gil_scoped_release released;
    return answer.wait_for(kLook) == std::future_status::ready;
  };
  while (!is_done()) {
    if (PyErr_CheckSignals() == 0) continue;
    thread.detach();
    own_parser().reset();
    [[maybe_unused]] static const int registered = ::on_exit(end_beside_running_calls, nullptr);
    throw nb::python_error();
  }
  thread.join();
  return answer.get();
}

std::variant<Result, Failure> simulate_call(const std::vector<std::string>& arguments,
                                            const std::string& text, bool timeline) {
  return outside_python(
      text, [arguments, timeline](PredictionArguments& parser) -> std::variant<Result, Failure> {
        const auto scenario = parser.scenario(arguments);
        if (!scenario) return failure_of(scenario.error());
        auto result =
            simulate_scenario(*scenario, {.engine = parser.engine(),
                                          .memory = {.samples = timeline},
                                          .band = SharingBand::find,
                                          .timeline = timeline ? TimelineKept::all : TimelineKept::none});
        if (!result) return failure_of(result.error());
        return *std::move(result);
      });
}

/// Returns the program of a schedule or of a program file. The program of a schedule has no SENDs and RECVs;
/// a program file may have them.
std::variant<Program, Failure> generate_call(const std::vector<std::string>& arguments,
                                             const std::string& text) {
  return outside_python(text, [arguments](PredictionArguments& parser) -> std::variant<Program, Failure> {
    const auto scenario = parser.scenario(arguments);
    if (!scenario) return failure_of(scenario.error());
    if (scenario->program) return *scenario->program;
    auto experiment = prepared(*scenario);
    if (!experiment) return failure_of(experiment.error());
    Program program = std::move(experiment->program);
    for (std::vector<Action>& actions : program.ranks)
      std::erase_if(actions, [](const Action& action) { return is_transfer(action.kind); });
    return program;
  });
}

/// Returns the JSON text that `penstock check --json` prints.
std::variant<std::string, Failure> check_call(const std::vector<std::string>& arguments,
                                              const std::string& text) {
  return outside_python(text, [arguments](PredictionArguments& parser) -> std::variant<std::string, Failure> {
    const auto scenario = parser.scenario(arguments);
    if (!scenario) return failure_of(scenario.error());
    const auto verdict = verdict_of(*scenario);
    if (!verdict) return failure_of(verdict.error());
    return to_json(*verdict);
  });
}

// The functions below are short, so Ctrl-C waits for them. They release Python's global lock.

std::variant<Program, Failure> program_of_text(const std::string& text, const std::string& name) {
  const nb::gil_scoped_release released;
  auto program = parse_program(text, name);
  if (!program) return failure_of({.message = program.error()});
  return *std::move(program);
}

std::variant<Program, Failure> program_of_csv(const std::string& text, const std::string& name,
                                              const std::string& dialect) {
  const nb::gil_scoped_release released;
  const auto known = csv_dialect_of_text(dialect);
  if (!known)
    return failure_of({.message = "dialect: expected torch-2.4, torch-2.5 or torch-2.6, got " + dialect});
  auto program = parse_pytorch_csv(text, name, *known);
  if (!program) return failure_of({.message = program.error()});
  return *std::move(program);
}

std::variant<std::string, Failure> csv_of_program(const Program& program) {
  const nb::gil_scoped_release released;
  auto text = to_pytorch_csv(program);
  if (!text) return bad_program(text.error());
  return *std::move(text);
}

std::variant<Program, Failure> program_with_messages(const Program& program) {
  const nb::gil_scoped_release released;
  auto with_messages = validate(program).and_then([&] { return lower(program); });
  if (!with_messages) return bad_program(with_messages.error());
  return *std::move(with_messages);
}

/// Returns the smallest program that fails as `program` does, or None if it does not fail.
std::optional<Program> shrunk(const Program& program) {
  const nb::gil_scoped_release released;
  auto smallest = smallest_counterexample(program, {.model = program.channel}, unit_costs(program));
  if (!smallest) return std::nullopt;
  return std::move(smallest->program);
}

std::vector<std::vector<std::string>> lists_of(const Program& program) {
  const nb::gil_scoped_release released;
  std::vector<std::vector<std::string>> lists;
  for (const std::vector<Action>& actions : program.ranks) {
    std::vector<std::string>& list = lists.emplace_back();
    for (const Action& action : actions) list.push_back(to_text(action));
  }
  return lists;
}

/// Moves `values` into a numpy array and returns the array. Python deletes the values together with the
/// array.
template <class Value>
nb::object numpy_array(std::vector<Value> values) {
  auto* const owned = new std::vector<Value>(std::move(values));  // NOLINT: the capsule deletes it
  const nb::capsule owner(owned, [](void* held) noexcept { delete static_cast<std::vector<Value>*>(held); });
  return nb::cast(nb::ndarray<nb::numpy, Value, nb::ndim<1>>(owned->data(), {owned->size()}, owner));
}

/// Returns the spans as a dict with one array for each field. `kind` has a number for each action kind;
/// kind_words() has the word for each number.
nb::dict timeline_columns(const Result& result) {
  const std::vector<Span>& spans = result.timeline.spans;
  const auto column = [&]<class Value>(Value (*value)(const Span&)) {
    std::vector<Value> values;
    values.reserve(spans.size());
    for (const Span& span : spans) values.push_back(value(span));
    return numpy_array(std::move(values));
  };
  nb::dict columns;
  columns["rank"] = column(+[](const Span& span) { return span.rank; });
  columns["kind"] = column(+[](const Span& span) { return static_cast<std::int8_t>(span.action.kind); });
  columns["stage"] = column(+[](const Span& span) { return span.action.stage; });
  columns["microbatch"] = column(+[](const Span& span) { return span.action.microbatch; });
  columns["weight_version"] = column(+[](const Span& span) { return span.action.weight_version; });
  columns["replica"] = column(+[](const Span& span) { return span.replica; });
  columns["start_ns"] = column(+[](const Span& span) { return span.start_ns; });
  columns["end_ns"] = column(+[](const Span& span) { return span.end_ns; });
  return columns;
}

/// Returns the words of all action kinds. The index of a word is the number that timeline_columns() uses for
/// the kind.
std::vector<std::string> kind_words() {
  std::vector<std::string> words;
  for (std::size_t kind = 0; kind < kActionKindCount; ++kind)
    words.emplace_back(letters(static_cast<ActionKind>(kind)));
  return words;
}

/// Returns the highest peak of a rank, or 0 if the result counts memory in activations.
Bytes peak_bytes(const Result& result) {
  const bool has_sizes = result.ranks.empty() || result.ranks.front().memory.unit == MemoryUnit::bytes;
  return has_sizes ? highest_peak_bytes(result) : 0;
}

int run_main(const std::vector<std::string>& arguments) {
  std::vector<const char*> words;
  words.reserve(arguments.size());
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  const nb::gil_scoped_release released;
  return program_main(static_cast<int>(words.size()), words.data(), AddressSpace::bounded_by_memory, {});
}

}  // namespace
}  // namespace penstock

NB_MODULE(_core, module) {
  using namespace penstock;
  module.doc() = "The compiled part of penstock_sim; import penstock_sim instead.";

  nb::class_<Failure>(module, "Failure")
      .def_prop_ro("kind", [](const Failure& failure) { return static_cast<int>(failure.kind); })
      .def_ro("message", &Failure::message)
      .def_ro("cycle", &Failure::cycle);

  nb::class_<Result>(module, "Result")
      .def_ro("makespan_ns", &Result::makespan_ns)
      .def_prop_ro("bubble", [](const Result& result) { return result.bubble.idle_over_total; })
      .def_prop_ro("peak_bytes", &peak_bytes)
      .def_prop_ro("samples_per_second",
                   [](const Result& result) { return result.throughput.samples_per_second; })
      .def_prop_ro("out_of_memory", [](const Result& result) { return any_out_of_memory(result); })
      .def_prop_ro("schedule", [](const Result& result) { return result.program.schedule; })
      .def_ro("notes", &Result::notes)
      .def("json",
           [](const Result& result, bool timeline) {
             const nb::gil_scoped_release released;
             return result_to_json(result, {.timeline = timeline, .memory = timeline});
           })
      .def("svg",
           [](const Result& result, std::int32_t width) {
             const nb::gil_scoped_release released;
             return timeline_to_svg(result.timeline, {.width = width});
           })
      .def("html",
           [](const Result& result) {
             const nb::gil_scoped_release released;
             const auto why = explanation_for_page(result);
             return result_to_html(result, why ? &*why : nullptr);
           })
      .def("timeline_columns", &timeline_columns);

  nb::class_<Program>(module, "Program")
      .def_ro("schedule", &Program::schedule)
      .def_ro("microbatches", &Program::microbatches)
      .def_prop_ro("ranks", &Program::rank_count)
      .def_prop_ro("stages", &Program::stage_count)
      .def("lists", &lists_of)
      .def("text",
           [](const Program& program) {
             const nb::gil_scoped_release released;
             return to_text(program);
           })
      .def("csv", &csv_of_program)
      .def("lower", &program_with_messages)
      .def("shrink", &shrunk)
      .def("__eq__", [](const Program& one, const Program& other) { return one == other; });

  module.def("simulate", &simulate_call, nb::arg("arguments"), nb::arg("text"), nb::arg("timeline"));
  module.def("generate", &generate_call, nb::arg("arguments"), nb::arg("text"));
  module.def("check", &check_call, nb::arg("arguments"), nb::arg("text"));
  module.def("program_of_text", &program_of_text, nb::arg("text"), nb::arg("name"));
  module.def("program_of_csv", &program_of_csv, nb::arg("text"), nb::arg("name"), nb::arg("dialect"));
  module.def("kind_words", &kind_words);
  module.def("main", &run_main, nb::arg("arguments"));
}
