#pragma once
// Makes texts from the declared commands and flags: scripts that complete words in a shell, and man pages.
// The texts always agree with the program, because they are read from the tree that parses the arguments.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace penstock {

/// A flag or a positional argument of a command.
struct DeclaredFlag {
  std::vector<std::string> names{};  ///< "-o" and "--output", or the name of a positional argument
  std::string type{};                ///< the word for the value, such as "FILE"; empty for a switch
  std::string description{};
  std::string group{};               ///< the heading in the help
  std::vector<std::string> words{};  ///< values that a shell completes; empty if there is no list
  bool is_positional = false;
  bool is_repeated = false;

  bool takes_file() const { return type == "FILE" || type == "PART"; }
};

struct DeclaredCommand {
  std::string name{};  ///< empty for the program itself
  std::string description{};
  std::vector<DeclaredFlag> flags{};
  std::string footer{};
};

/// Returns the declarations of the program and of its commands, in the order of `penstock --help`.
std::vector<DeclaredCommand> declared_commands(CLI::App& root);

/// The shells for which Penstock can write a completion script.
enum class Shell : std::uint8_t { bash, zsh, fish };
template <>
inline constexpr auto kEnumWords<Shell> =
    std::to_array<EnumWord<Shell>>({{Shell::bash, "bash"}, {Shell::zsh, "zsh"}, {Shell::fish, "fish"}});

/// Returns a script for the shell. With this script, the shell completes commands, flags, the values of
/// flags, and file names.
std::string completion_script(const std::vector<DeclaredCommand>& commands, Shell shell);

/// Returns the man page of `command` in roff. The page of the program itself lists all of `commands`.
std::string man_page(const DeclaredCommand& command, const std::vector<DeclaredCommand>& commands,
                     std::string_view version);

/// Returns the name of a man page: "penstock" for the program itself, or "penstock-COMMAND".
std::string page_name(const DeclaredCommand& command);

}  // namespace penstock
