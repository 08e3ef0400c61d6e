#pragma once
// Reads the arguments of a training run from a shell script, or from flags that a user pasted.

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/settings.hpp"

namespace penstock {

/// The command of a script that has the most arguments, after its variables are replaced.
struct ShellCommand {
  std::vector<std::string> words;
  /// Resources that the script asks of a batch system, such as {"#SBATCH --nodes", "4"}.
  std::vector<ImportedKey> resources;
  /// Parts of the script that were not evaluated, with their lines.
  std::vector<std::string> notes;
};

/// Reads a script: assignments, arrays, quotes, continued lines, $NAME, ${NAME:-default}, ${NAME[@]},
/// $((1 + 2)), and conditions that compare texts or numbers. A variable that the script does not set, or sets
/// under a condition that cannot be decided, stays in the words as ${NAME}. Text that starts with a flag is a
/// command, too.
ShellCommand read_shell(std::string_view text);

/// Adds the flags of a command: `--name value value`, `--name=value` and `--switch`. Words before the first
/// flag, and a program's name among the words, are no values.
void add_flags(Settings& settings, const std::vector<std::string>& words);

}  // namespace penstock
