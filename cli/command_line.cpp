// Builds the tree of all subcommands for CLI11, and writes the messages about wrong arguments. CLI11 parses
// the arguments. If CLI11's message does not say what was expected, another message replaces it. A misspelt
// command or flag gets a suggestion (enum_words.hpp).
//
// Each subcommand is declared in its own file (cli/commands). Parsing only stores the values of flags. A
// wrong flag is therefore found before any work begins. Tests: tests/cli.

#include "cli/command_line.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/commands/commands.hpp"
#include "cli/executable.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/terminal.hpp"
#include "text/enum_words.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

constexpr std::string_view kFooter =
    R"(Exit status: 0 ok; 1 a check failed (invalid, hanging, crossed messages, over a tolerance, out of
memory with --fail-on-oom); 2 bad input; 3 a fault of penstock itself; 4 a run that failed for want of
a process, peer, device or port; 5 measurements too noisy to tell; 77 a part that is not there.

Examples:
  penstock simulate --schedule 1f1b --pp-size 4 --num-microbatches 8
  penstock show --schedule zb-h1 --pp-size 4 --num-microbatches 8)";

/// Returns `text` with line breaks, so that lines have at most `width` characters. A word that is longer gets
/// a line of its own.
std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string lines;
  std::size_t column = 0;
  for (std::string word; words >> word; column += word.size()) {
    const bool fits = column == 0 || column + 1 + word.size() <= width;
    if (column > 0) lines += fits ? ' ' : '\n';
    column = fits && column > 0 ? column + 1 : 0;
    lines += word;
  }
  return lines;
}

/// Returns the text with line breaks in every paragraph that has a line of more than `width` characters.
/// Lines that begin with a blank, such as examples, stay as they are.
std::string with_paragraphs_wrapped(const std::string& text, std::size_t width) {
  std::string result;
  std::string paragraph;
  std::size_t longest = 0;
  const auto end_paragraph = [&] {
    if (longest > width) paragraph = wrapped(paragraph, width) + '\n';
    result += paragraph;
    paragraph.clear();
    longest = 0;
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_prose = !line.empty() && line.front() != ' ';
    if (!is_prose) end_paragraph();
    (is_prose ? paragraph : result) += line + '\n';
    if (is_prose) longest = std::max(longest, line.size());
  }
  end_paragraph();
  return result.empty() ? result : result.substr(0, result.size() - 1);
}

/// The widths of the two columns of a help text: the names of flags, and their descriptions.
struct HelpColumns {
  std::size_t names = 32;
  std::size_t descriptions = 76;
};

/// Returns the column widths of help texts for a terminal of this width. If no width is given, lines have
/// at most 108 characters.
HelpColumns help_columns(std::optional<std::int32_t> terminal) {
  constexpr std::size_t kLeast = 40;
  constexpr std::size_t kMost = 120;  // the longest line in characters, because longer lines are hard to read
  if (!terminal) return {};
  const std::size_t width = std::clamp<std::size_t>(static_cast<std::size_t>(*terminal), kLeast, kMost);
  const std::size_t names = width < 90 ? 24 : 32;
  return {.names = names, .descriptions = std::max<std::size_t>(width - names, 24) - 1};
}

/// Wraps the help texts of all commands to the width of the terminal. If there is no terminal, uses a width
/// that fits most terminals.
void wrap_descriptions(CLI::App& root) {
  const auto terminal = terminal_columns();
  const HelpColumns columns = help_columns(terminal);
  const std::size_t line = columns.names + columns.descriptions;
  std::vector<CLI::App*> apps = root.get_subcommands({});
  if (terminal) {
    root.footer(with_paragraphs_wrapped(root.get_footer(), line));
    for (CLI::App* app : apps) {
      app->description(wrapped(app->get_description(), columns.descriptions));
      app->footer(with_paragraphs_wrapped(app->get_footer(), line));
    }
  }
  root.get_formatter()->column_width(columns.names);
  for (CLI::App* app : apps) {
    app->get_formatter()->column_width(columns.names);
    for (CLI::Option* option : app->get_options())
      option->description(wrapped(option->get_description(), columns.descriptions));
  }
}

/// Returns the subcommand that the user typed, or the root command if the user typed none.
const CLI::App& app_in_use(const CLI::App& root) {
  const auto chosen = root.get_subcommands();
  return chosen.empty() ? root : *chosen.front();
}

/// Returns all names of a command's flags, with their dashes, such as "--pp-size" and "-o".
std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

/// Returns the first letters of the words of a name, such as "tp" for "tensor-parallel". Some users write
/// these letters instead of the name.
std::string initials_of(std::string_view name) {
  std::string initials;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (i == 0 || name[i - 1] == '-') initials.push_back(name[i]);
  }
  return initials;
}

/// Returns a hint about the flag that the user probably meant. It also finds flags by the start of their
/// name ("--pp") or by their initials ("--tp"). The dashes of flags are not compared, because all flags
/// have them.
std::string hint_for_flag(std::string_view typed, const std::vector<std::string>& known) {
  typed.remove_prefix(std::min(typed.find_first_not_of('-'), typed.size()));
  if (typed.empty()) return "";
  std::vector<std::string> names;
  for (const std::string& flag : known) {
    if (flag.starts_with("--")) names.push_back(flag.substr(2));
  }
  for (const std::string& name : names) {
    if (name.starts_with(std::string(typed) + '-') || initials_of(name) == typed)
      return fmt::format("; did you mean --{}?", name);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto name = likely_name(typed, views);
  return name ? fmt::format("; did you mean --{}?", *name) : "";
}

/// Returns the message about an unknown command. It contains the most similar command, and a list of all
/// commands in the order of `penstock --help`.
std::string unknown_command(const CLI::App& root, std::string_view typed) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : root.get_subcommands({})) names.emplace_back(command->get_name());
  const std::string hint = did_you_mean(typed, names);
  return fmt::format("unknown command \"{}\"{} Commands: {}", typed, hint.empty() ? "." : hint,
                     fmt::join(names, ", "));
}

/// Returns the message about an argument that the command does not accept.
std::string unexpected_arguments(const CLI::App& root) {
  const CLI::App& app = app_in_use(root);
  // Only the first such argument is reported, because later ones are often a consequence.
  for (const std::string& argument : root.remaining(true)) {
    if (!argument.starts_with('-')) {
      return &app == &root ? unknown_command(root, argument)
                           : fmt::format("unexpected argument \"{}\"", argument);
    }
    const std::string flag = argument.substr(0, argument.find('='));
    if (flag == "--") {
      return fmt::format(
          "flags of another program go behind `penstock import --`, as in "
          "penstock import -o - -- FLAGS | penstock {} -",
          app.get_name());
    }
    if (app.get_name() == "import") {
      return fmt::format(
          "unknown flag {0}; the flags of another program go behind --, as in penstock import -- {0}", flag);
    }
    if (const std::string_view advice = advice_on_flag(flag); !advice.empty())
      return fmt::format("unknown flag {}; {}", flag, advice);
    return fmt::format("unknown flag {}{}", flag, hint_for_flag(flag, flags_of(app)));
  }
  return "expected a command";
}

/// Returns the reason of a parse error as CLI11 states it. For a flag with a wrong number of values, it
/// returns a clearer message.
std::string reason_of(const CLI::ParseError& error) {
  std::string text = error.what();
  // CLI11 writes "--pp-size: 1 required N missing" or "--pp-size: At Most 1 required but received 2".
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return text;
  return fmt::format("{}: expected one value", text.substr(0, text.find(": ")));
}

/// Returns the full message about wrong arguments: the command, the reason, and a sentence that says where
/// all names are listed. Unknown arguments are reported first. The reason is that CLI11 answers a misspelt
/// flag only with the message that the correct flag is missing.
std::string message_of(const CLI::App& root, const CLI::ParseError& error) {
  const bool left_over = !root.remaining(true).empty();
  const CLI::App& app = app_in_use(root);
  const std::string where = &app == &root ? "" : " " + app.get_name();
  const bool no_command = &app == &root && !left_over;
  const std::string what = left_over    ? unexpected_arguments(root)
                           : no_command ? "expected a command"
                                        : reason_of(error);
  return fmt::format("penstock{}: {} (`penstock{} --help` lists all)", where, what, where);
}

/// Returns the first argument of the form "--flag=", or an empty text if there is none. CLI11 would take
/// the next argument as the value of such a flag. Arguments after "--" are positional and are not examined.
std::string_view flag_without_value(std::span<const char* const> arguments) {
  for (const std::string_view argument : arguments) {
    if (argument == "--") break;
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) return argument;
  }
  return {};
}

/// Returns the message about the first flag with an empty value, or an empty text if there is none. CLI11
/// itself rejects empty numbers and words. But if the value of a flag is a text, an empty value would count
/// as a flag that was not given.
std::string empty_value(const CLI::App& root) {
  const CLI::App& app = app_in_use(root);
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      const std::string type = option->get_type_name();
      return fmt::format("penstock {0}: {1}: expected {2}, got nothing (`penstock {0} --help` lists all)",
                         app.get_name(), option->get_name(), type.empty() ? "a value" : type);
    }
  }
  return {};
}

/// Rewrites `penstock help COMMAND` as `penstock COMMAND --help`, and `penstock help` as `penstock --help`.
std::vector<const char*> with_help_as_a_flag(std::span<const char* const> arguments) {
  std::vector<const char*> rewritten(arguments.begin(), arguments.end());
  if (rewritten.size() < 2 || std::string_view(rewritten[1]) != "help") return rewritten;
  rewritten.erase(rewritten.begin() + 1);
  rewritten.insert(rewritten.begin() + std::min<std::ptrdiff_t>(2, std::ssize(rewritten)), "--help");
  return rewritten;
}

/// Returns the first argument that is not a flag. It should be a command. Returns an empty text if there is
/// no such argument.
std::string_view first_word(std::span<const char* const> arguments) {
  for (const std::string_view argument : arguments.subspan(std::min<std::size_t>(1, arguments.size()))) {
    if (!argument.starts_with('-')) return argument;
  }
  return {};
}

/// Returns the command with this name, or nullptr if there is none.
const CLI::App* find_command(const CLI::App& root, std::string_view name) {
  const auto commands = root.get_subcommands({});
  const auto found = std::ranges::find(commands, name, [](const CLI::App* app) { return app->get_name(); });
  return found == commands.end() ? nullptr : *found;
}

/// Replaces the flag names of other programs by Penstock's names, if the command has these flags.
std::vector<std::string> in_our_names(const CLI::App& root, std::span<const char* const> arguments) {
  const CLI::App* command = find_command(root, first_word(arguments));
  return with_our_names(arguments, [command](std::string_view flag) {
    return command != nullptr && command->get_option_no_throw(std::string(flag)) != nullptr;
  });
}

/// Returns a message if the user asks for help about an unknown command. Otherwise returns an empty text.
/// Without this message the user would see the general help and would not notice the typing error.
std::string unknown_command_in_help(const CLI::App& root, std::span<const char* const> arguments) {
  const std::string_view word = first_word(arguments);
  if (word.empty() || find_command(root, word) != nullptr) return {};
  return fmt::format("penstock: {} (`penstock --help` lists all)", unknown_command(root, word));
}

using Arguments = std::span<const char* const>;

/// Writes an error to stderr and returns its exit code. All errors of commands are reported here.
ExitCode report(const UserError& failure, Arguments typed) {
  write_stderr("penstock: " + with_names_shown(failure.message, typed));
  return exit_code_of(failure.kind);
}

ExitCode print(std::string_view text) {
  const auto written = write_stdout(text);
  return written ? ExitCode::ok : report(written.error(), {});
}

/// Sets the options of CLI11 that apply to the program and to all of its commands.
void set_up(CLI::App& root) {
  root.set_version_flag("--version", version_text(), "print the version, the commit and the parts built in");
  root.set_help_flag("-h,--help", "print this help");
  root.require_subcommand(1);
  root.footer(std::string(kFooter));
}

/// Adds the commands in the order of `penstock --help`.
std::vector<Command> add_commands(CLI::App& root, const Invocation& invocation) {
  return {simulate_command(root),
          sweep_command(root),
          explain_command(root),
          autopsy_command(root),
          show_command(root),
          figure_command(root),
          check_command(root),
          convert_command(root),
          plan_command(root),
          tune_command(root),
          largest_command(root),
          model_command(root),
          import_command(root),
          run_command(root, invocation),
          calibrate_command(root, invocation),
          validate_command(root, invocation),
          selftest_command(root, invocation),
          profile_command(root, invocation),
          compare_command(root),
          diff_command(root),
          risk_command(root),
          reproduce_command(root),
          runs_command(root),
          fit_command(root),
          schedules_command(root),
          init_command(root),
          completion_command(root),
          man_command(root)};
}

/// Parses the arguments. Returns nothing if a command should run. Otherwise it has printed help, the
/// version or an error, and returns the exit code.
std::optional<ExitCode> parse(CLI::App& root, Arguments typed) {
  const auto refuse = [typed](const std::string& message) {
    write_stderr(with_names_shown(message, typed));
    return ExitCode::bad_input;
  };
  try {
    if (const auto parsed = parse_arguments(root, typed); !parsed) return refuse(parsed.error().message);
  } catch (const CLI::CallForHelp&) {
    const std::string unknown = unknown_command_in_help(root, typed);
    if (!unknown.empty()) return refuse(unknown);
    wrap_descriptions(root);
    return print(root.help());
  } catch (const CLI::CallForVersion& version) {
    return print(version.what());
  }
  return std::nullopt;
}

}  // namespace

tl::expected<void, UserError> parse_arguments(CLI::App& root, std::span<const char* const> arguments) {
  // These checks run before CLI11, because CLI11 has no messages for these errors.
  const std::vector<std::string> translated = in_our_names(root, arguments);
  std::vector<const char*> pointers;
  pointers.reserve(translated.size());
  for (const std::string& argument : translated) pointers.push_back(argument.c_str());
  if (const auto flag = flag_without_value(pointers); !flag.empty()) {
    return bad_input(
        fmt::format("penstock: {}: expected a value after \"=\", got nothing", shown_name(flag)));
  }
  try {
    root.parse(static_cast<int>(pointers.size()), pointers.data());
  } catch (const CLI::Success&) {
    throw;  // help or version, which the caller prints
  } catch (const CLI::ParseError& error) {
    return bad_input(message_of(root, error));
  }
  if (std::string fault = empty_value(root); !fault.empty()) return bad_input(std::move(fault));
  return {};
}

ExitCode run_command_line(int argc, const char* const* argv, Extensions extensions) {
  const Invocation invocation{.arguments = {argv, argv + argc}, .extensions = std::move(extensions)};
  CLI::App root("Predicts the time, memory and traffic of pipeline-parallel training schedules.", "penstock");
  set_up(root);
  const std::vector<Command> commands = add_commands(root, invocation);
  const auto typed = with_help_as_a_flag({argv, static_cast<std::size_t>(argc)});
  if (const auto answered = parse(root, typed)) return *answered;
  // CLI11's require_subcommand(1) guarantees exactly one command.
  const auto chosen =
      std::ranges::find_if(commands, [](const Command& command) { return command.app.parsed(); });
  const Outcome outcome = chosen->run();
  return outcome ? *outcome : report(outcome.error(), typed);
}

}  // namespace penstock
