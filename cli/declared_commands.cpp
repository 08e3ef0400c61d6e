// Reads CLI11's tree of commands and flags into plain structs, and writes them for shells and for man(1).
// Each shell has its own rules of quoting: bash gets words without quotes, zsh texts in which ':' and
// brackets are escaped, and fish texts in single quotes. roff treats '.' at the start of a line and every
// '\' as its own.
//
// Tests: tests/cli/declared_commands_test.cpp.

#include "cli/declared_commands.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/subcommand.hpp"

namespace penstock {
namespace {

/// Returns the words that a flag accepts, as Flag::words() has listed them. CLI11 shows the end of its
/// checks only by an exception.
std::vector<std::string> listed_words(CLI::Option& option) {
  std::vector<std::string> words;
  try {
    for (int i = 0;; ++i) {
      const std::string name = option.get_validator(i)->get_name();
      if (!name.starts_with(kWordsPrefix)) continue;
      std::istringstream stream(name.substr(kWordsPrefix.size()));
      for (std::string word; stream >> word;) words.push_back(word);
    }
  } catch (const CLI::OptionNotFound&) {
    return words;
  }
}

/// Returns the text with one blank in place of each line break.
std::string in_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

DeclaredFlag declared_flag(CLI::Option& option) {
  DeclaredFlag flag{.description = in_one_line(option.get_description()), .group = option.get_group()};
  flag.is_positional = option.nonpositional() == false;
  const bool takes_value = option.get_items_expected_max() > 0;
  if (takes_value) flag.type = option.get_type_name();
  flag.is_repeated = option.get_items_expected_max() > 1;
  flag.words = listed_words(option);
  if (flag.is_positional) {
    flag.names = {option.get_name()};
  } else {
    for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  }
  return flag;
}

DeclaredCommand declared_command(CLI::App& app, std::string name) {
  DeclaredCommand command{
      .name = std::move(name), .description = in_one_line(app.get_description()), .footer = app.get_footer()};
  for (CLI::Option* option : app.get_options()) {
    // The help does not list flags without a group, such as old names.
    if (!option->get_group().empty()) command.flags.push_back(declared_flag(*option));
  }
  return command;
}

/// Returns the beginning of a description that is short enough for a list of flags: its first clause,
/// without a full stop.
std::string summary_of(const std::string& description) {
  const std::size_t end = std::min({description.find(';'), description.find(" ("), description.find(": ")});
  std::string text = description.substr(0, end);
  constexpr std::size_t kMost = 70;
  if (text.size() > kMost) text = text.substr(0, text.rfind(' ', kMost)) + " ...";
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string with_escapes(std::string_view text, std::string_view special, std::string_view escape) {
  std::string escaped;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) escaped += escape;
    escaped += c;
  }
  return escaped;
}

/// Returns the text in single quotes, as bash and zsh read them.
std::string quoted_for_sh(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string quoted_for_fish(std::string_view text) { return "'" + with_escapes(text, "\\'", "\\") + "'"; }

/// Returns the description of a flag's value for zsh, such as "FILE:_files", "NAME:(a b)" or "N: ".
std::string zsh_value(const DeclaredFlag& flag) {
  const std::string type = with_escapes(flag.type, ":", "\\");
  if (flag.takes_file() && !flag.words.empty()) {
    return fmt::format(":{}:{{_alternative 'files:file:_files' 'words:name:({})'}}", type,
                       fmt::join(flag.words, " "));
  }
  if (flag.takes_file()) return fmt::format(":{}:_files", type);
  if (!flag.words.empty()) return fmt::format(":{}:({})", type, fmt::join(flag.words, " "));
  return fmt::format(":{}: ", type);
}

std::vector<std::string> flag_names(const DeclaredCommand& command) {
  std::vector<std::string> names;
  for (const DeclaredFlag& flag : command.flags) {
    if (!flag.is_positional) names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

/// Returns the words that a shell offers for the positional arguments of a command.
std::vector<std::string> positional_words(const DeclaredCommand& command) {
  std::vector<std::string> words;
  for (const DeclaredFlag& flag : command.flags) {
    if (flag.is_positional) words.insert(words.end(), flag.words.begin(), flag.words.end());
  }
  return words;
}

bool has_positional_file(const DeclaredCommand& command) {
  return std::ranges::any_of(
      command.flags, [](const DeclaredFlag& flag) { return flag.is_positional && flag.takes_file(); });
}

// --- bash -----------------------------------------------------------------------------------------------

/// Returns the branch for one command in the `case $command in` of bash's script.
std::string bash_branch(const DeclaredCommand& command) {
  std::string text = fmt::format("    {})\n      flags={}\n", command.name,
                                 quoted_for_sh(fmt::format("{}", fmt::join(flag_names(command), " "))));
  text += fmt::format("      words={}\n      files={}\n",
                      quoted_for_sh(fmt::format("{}", fmt::join(positional_words(command), " "))),
                      has_positional_file(command) ? "yes" : "");
  std::string values;
  for (const DeclaredFlag& flag : command.flags) {
    if (flag.is_positional || flag.type.empty()) continue;
    values += fmt::format("        {}) is_value=yes words={} files={} ;;\n", fmt::join(flag.names, "|"),
                          quoted_for_sh(fmt::format("{}", fmt::join(flag.words, " "))),
                          flag.takes_file() ? "yes" : "");
  }
  if (!values.empty()) text += "      case $before in\n" + values + "      esac\n";
  return text + "      ;;\n";
}

std::string bash_script(const std::vector<DeclaredCommand>& commands) {
  std::vector<std::string> first = flag_names(commands.front());
  std::string branches;
  for (std::size_t i = 1; i < commands.size(); ++i) {
    first.push_back(commands[i].name);
    branches += bash_branch(commands[i]);
  }
  return fmt::format(R"(# Completion of penstock for bash. `penstock completion bash` makes it.
_penstock() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command= flags= words= files= is_value= word head=
  # bash splits --flag=value into three words.
  if [[ $current == = ]]; then current=; elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    if [[ $word != -* ]]; then command=$word && break; fi
  done
  COMPREPLY=()
  case $command in
    '')
      flags={}
      words=$flags
      ;;
{}  esac
  if [[ -z $is_value && $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
    return
  fi
  # The words of a list are separated by commas.
  if [[ $current == *,* ]]; then head=${{current%,*}},; fi
  COMPREPLY=($(compgen -P "$head" -W "$words" -- "${{current##*,}}"))
  if [[ $files == yes ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}}
complete -F _penstock penstock
)",
                     quoted_for_sh(fmt::format("{}", fmt::join(first, " "))), branches);
}

// --- zsh ------------------------------------------------------------------------------------------------

/// Returns the arguments of zsh's `_arguments` for a flag, one for each of its names.
std::string zsh_specs(const DeclaredFlag& flag) {
  const std::string summary = with_escapes(summary_of(flag.description), "[]:\\", "\\");
  const std::string value = flag.type.empty() ? "" : zsh_value(flag);
  if (flag.is_positional) return fmt::format(" \\\n        {}", quoted_for_sh("*" + zsh_value(flag)));
  std::string specs;
  for (const std::string& name : flag.names) {
    const std::string repeat = flag.is_repeated ? "*" : "";
    specs += fmt::format(" \\\n        {}",
                         quoted_for_sh(fmt::format("{}{}[{}]{}", repeat, name, summary, value)));
  }
  return specs;
}

std::string zsh_script(const std::vector<DeclaredCommand>& commands) {
  std::string names;
  std::string branches;
  for (std::size_t i = 1; i < commands.size(); ++i) {
    const DeclaredCommand& command = commands[i];
    names += fmt::format("    {}\n",
                         quoted_for_sh(command.name + ":" + with_escapes(command.description, ":", "\\")));
    std::string specs;
    for (const DeclaredFlag& flag : command.flags) specs += zsh_specs(flag);
    branches += fmt::format("        {})\n          _arguments{}\n          ;;\n", command.name, specs);
  }
  std::string own;
  for (const DeclaredFlag& flag : commands.front().flags) own += zsh_specs(flag);
  return fmt::format(R"(#compdef penstock
# Completion of penstock for zsh. `penstock completion zsh` makes it.
_penstock() {{
  local context state state_descr line
  typeset -A opt_args
  local -a commands
  commands=(
{}  )
  _arguments -C{} \
        '1: :->command' '*:: :->argument'
  case $state in
    command) _describe command commands ;;
    argument)
      case $line[1] in
{}      esac
      ;;
  esac
}}
# The file is sourced, or it is in a folder of $fpath.
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _penstock "$@"; else compdef _penstock penstock; fi
)",
                     names, own, branches);
}

// --- fish -----------------------------------------------------------------------------------------------

/// Returns the lines of fish's script for one flag. `when` is the condition under which the flag is
/// offered.
std::string fish_lines(const DeclaredFlag& flag, const std::string& when) {
  std::string line = "complete -c penstock" + when;
  if (flag.is_positional) {
    if (flag.words.empty() && !flag.takes_file()) return "";
    if (flag.takes_file()) line += " -F";
    if (!flag.words.empty()) line += " -a " + quoted_for_fish(fmt::format("{}", fmt::join(flag.words, " ")));
    return line + "\n";
  }
  for (const std::string& name : flag.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  // -r: the flag takes a value; -f: it is not a file.
  if (!flag.type.empty()) line += flag.takes_file() ? " -r -F" : " -r -f";
  if (!flag.words.empty()) line += " -a " + quoted_for_fish(fmt::format("{}", fmt::join(flag.words, " ")));
  return line + " -d " + quoted_for_fish(summary_of(flag.description)) + "\n";
}

std::string fish_script(const std::vector<DeclaredCommand>& commands) {
  std::string text =
      "# Completion of penstock for fish. `penstock completion fish` makes it.\n"
      "complete -c penstock -f\n";
  for (const DeclaredFlag& flag : commands.front().flags)
    text += fish_lines(flag, " -n __fish_use_subcommand");
  for (std::size_t i = 1; i < commands.size(); ++i) {
    text += fmt::format("complete -c penstock -n __fish_use_subcommand -a {} -d {}\n", commands[i].name,
                        quoted_for_fish(summary_of(commands[i].description)));
  }
  for (std::size_t i = 1; i < commands.size(); ++i) {
    const std::string when = fmt::format(" -n '__fish_seen_subcommand_from {}'", commands[i].name);
    for (const DeclaredFlag& flag : commands[i].flags) text += fish_lines(flag, when);
  }
  return text;
}

// --- man pages ------------------------------------------------------------------------------------------

/// Returns a line of text for roff. A hyphen is written as a minus, so that readers can copy flags.
std::string roff(std::string_view text) {
  std::string escaped;
  if (text.starts_with('.') || text.starts_with('\'')) escaped += "\\&";
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string flag_entry(const DeclaredFlag& flag) {
  std::string names;
  for (const std::string& name : flag.names) {
    names += fmt::format("{}{}{}{}", names.empty() ? "" : ", ", flag.is_positional ? "\\fI" : "\\fB",
                         roff(name), "\\fR");
  }
  if (!flag.is_positional && !flag.type.empty()) names += fmt::format(" \\fI{}\\fR", roff(flag.type));
  return fmt::format(".TP\n{}\n{}\n", names, roff(flag.description));
}

/// Returns the flags of a command under the headings of its help, in the order in which they are declared.
std::string flag_sections(const DeclaredCommand& command) {
  std::string text;
  std::set<std::string> written;
  for (const DeclaredFlag& first : command.flags) {
    const std::string heading = first.is_positional ? "Arguments" : first.group;
    if (!written.insert(heading).second) continue;
    text += fmt::format(".SS {}\n", roff(heading));
    for (const DeclaredFlag& flag : command.flags) {
      if ((flag.is_positional ? "Arguments" : flag.group) == heading) text += flag_entry(flag);
    }
  }
  return text;
}

/// Returns the text at the end of a command's help as roff, with its line breaks.
std::string footer_section(const std::string& footer) {
  if (footer.empty()) return "";
  std::string text;
  std::istringstream lines(footer);
  bool in_examples = footer.starts_with("Example");
  text += in_examples ? ".SH EXAMPLES\n.nf\n" : ".SH NOTES\n.nf\n";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Example")) {
      if (!in_examples) text += ".fi\n.SH EXAMPLES\n.nf\n";
      in_examples = true;
    } else {
      text += roff(line) + "\n";
    }
  }
  return text + ".fi\n";
}

/// Returns the arguments of a command in one line, such as "[OPTIONS] [INPUT]".
std::string synopsis(const DeclaredCommand& command) {
  std::string text = " [\\fIOPTIONS\\fR]";
  for (const DeclaredFlag& flag : command.flags) {
    if (flag.is_positional)
      text += fmt::format(" [\\fI{}\\fR{}]", roff(flag.names.front()), flag.is_repeated ? "..." : "");
  }
  return command.name.empty() ? " \\fICOMMAND\\fR" + text : text;
}

}  // namespace

std::vector<DeclaredCommand> declared_commands(CLI::App& root) {
  std::vector<DeclaredCommand> commands = {declared_command(root, "")};
  for (CLI::App* app : root.get_subcommands({})) commands.push_back(declared_command(*app, app->get_name()));
  return commands;
}

std::string completion_script(const std::vector<DeclaredCommand>& commands, Shell shell) {
  switch (shell) {
    case Shell::bash:
      return bash_script(commands);
    case Shell::zsh:
      return zsh_script(commands);
    case Shell::fish:
      return fish_script(commands);
  }
  return {};
}

std::string page_name(const DeclaredCommand& command) {
  return command.name.empty() ? "penstock" : "penstock-" + command.name;
}

std::string man_page(const DeclaredCommand& command, const std::vector<DeclaredCommand>& commands,
                     std::string_view version) {
  const std::string name = page_name(command);
  std::string text =
      fmt::format(".\\\" Made by `penstock man`.\n.TH {} 1 \"\" \"Penstock {}\" \"Penstock\"\n",
                  roff(in_capitals(name)), version);
  std::string summary = command.description;
  if (summary.ends_with('.')) summary.pop_back();
  text += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n\\fB{}\\fR{}\n.SH OPTIONS\n{}", roff(name),
                      roff(summary), command.name.empty() ? "penstock" : "penstock " + command.name,
                      synopsis(command), flag_sections(command));
  if (command.name.empty()) {
    text += ".SH COMMANDS\n";
    for (const DeclaredCommand& one : commands) {
      if (!one.name.empty())
        text += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(page_name(one)), roff(one.description));
    }
  }
  text += footer_section(command.footer);
  return text + (command.name.empty() ? "" : ".SH SEE ALSO\n\\fBpenstock\\fR(1)\n");
}

}  // namespace penstock
