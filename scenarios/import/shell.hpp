#pragma once
// Reads the arguments of a training run from a shell script, or from flags that the user pasted.

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/settings.hpp"

namespace penstock {

/// The command of a script that has the most arguments. Variables in it are replaced by their values.
struct ShellCommand {
  std::vector<std::string> words;
  /// Resources that the script requests from a batch system, such as {"#SBATCH --nodes", "4"}.
  std::vector<ImportedKey> resources;
  /// Parts of the script that were not evaluated, with their lines.
  std::vector<std::string> notes;
};

/// Reads a shell script and returns its longest command. Evaluates assignments, arrays, quotes, continued
/// lines, $NAME, ${NAME:-default}, ${NAME[@]}, $((1 + 2)), and conditions that compare texts or numbers. A
/// variable without a known value stays in the words as ${NAME}. This happens if the script does not set
/// it, or sets it under a condition that cannot be decided. A text that starts with a flag is read as a
/// command, too.
ShellCommand read_shell(std::string_view text);

/// Adds the flags of a command to `settings`: `--name value value`, `--name=value` and `--switch`. Ignores
/// words before the first flag, and a program's name among the words.
void add_flags(Settings& settings, const std::vector<std::string>& words);

}  // namespace penstock
