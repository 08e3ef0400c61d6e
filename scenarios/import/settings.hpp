#pragma once
// The settings of another tool's configuration, as one flat list of keys. An importer must use, ignore or
// refuse each key, so that no key is dropped silently.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"
#include "text/enum_words.hpp"

namespace penstock {

/// The decision of an importer about one key of the configuration.
enum class Fate : std::uint8_t {
  taken,    // the importer has set a key of the scenario from it
  ignored,  // the key does not change the prediction, or has no counterpart; the text states the reason
  refused,  // the prediction would be wrong if the key were ignored
};
template <>
inline constexpr auto kEnumWords<Fate> = std::to_array<EnumWord<Fate>>(
    {{Fate::taken, "taken"}, {Fate::ignored, "ignored"}, {Fate::refused, "refused"}});

/// One key of a configuration, with the decision about it.
struct ImportedKey {
  std::string key;    ///< the key as the file spells it, such as "--num-layers" or "parallelism.pp"
  std::string value;  ///< the value as text; "true" for a switch without a value
  Fate fate = Fate::ignored;
  /// For a taken key, the key of the scenario that was set from it. For all other keys, the reason for the
  /// decision.
  std::string text;

  friend bool operator==(const ImportedKey&, const ImportedKey&) = default;
};

/// Returns true for values that mean "not set": null, None, an empty text.
bool is_null_value(std::string_view value);
/// Returns true for values that mean "off": false, no, off, 0, none, and all values of is_null_value().
bool is_off_value(std::string_view value);

/// A decision about keys that have no counterpart in a scenario. `names` holds the keys, separated by
/// blanks.
struct SettledRow {
  std::string_view names;
  Fate fate = Fate::ignored;
  std::string_view reason;
};

/// The keys of a configuration, with the importer's decision about each. Names are compared without regard
/// to dashes, underscores and case. If a key occurs more than once, the last value counts, and the earlier
/// ones are listed as ignored.
class Settings {
 public:
  /// Adds a key. If its value means "not set", the key is ignored at once.
  void add(std::string key, std::string value);
  /// Adds every scalar and every list of a document as a key. The keys of nested mappings are joined by
  /// points. The items of a list are joined by blanks. A mapping inside a list has its index as its key.
  /// `prefix` is put before every key.
  void add_document(const Node& node, const std::string& prefix = {});

  /// Makes later look-ups compare only the last part of names. For example, "seq_length" then finds
  /// "model.seq_length".
  void compare_last_parts();

  /// Makes look-ups treat names that begin with `from` as if they began with `to`. Reports still show the
  /// names as the file spells them.
  void rename(std::string_view from, std::string_view to);

  /// Returns the value of a key, or null if it is absent. Does not count as a decision about the key.
  const std::string* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Returns true if the file states a key with this name or with this last part, also without a value.
  bool states(std::string_view name) const;

  /// Returns the value of a key, or nothing if it is absent. Marks the key as taken for the scenario's key
  /// `target`.
  std::optional<std::string> word(std::string_view name, std::string_view target);
  /// Returns the value of a key as a whole number of at least `least`, and marks the key as taken. Marks
  /// the key as refused if it has any other value. A number such as 4.0 or 1e6 is accepted because it is
  /// whole.
  std::optional<std::int64_t> number(std::string_view name, std::string_view target, std::int64_t least = 1);
  /// Returns true if the key is present and its value does not mean "off". Marks the key as taken, or as
  /// ignored if it is off.
  bool is_on(std::string_view name, std::string_view target);

  /// take(), ignore() and refuse() record the importer's decision about a key. They have no effect if the key
  /// does not exist. A later decision replaces an earlier one.
  void take(std::string_view name, std::string_view target);
  void ignore(std::string_view name, std::string_view reason);
  void refuse(std::string_view name, std::string_view reason);
  /// Applies the rows of a table to all keys that have no decision yet. A key whose value means "off" is
  /// ignored, even if its row refuses it. A name that ends in * matches every key with this beginning. A row
  /// that has the whole name comes before rows with such a beginning.
  void settle(std::span<const SettledRow> rows);

  /// Returns all keys in the order of the file. Keys without a decision are reported as ignored because
  /// they are unknown, with the known name that they resemble. Refused keys that `left_out` names are
  /// reported as ignored, because the user asked to leave them out.
  std::vector<ImportedKey> report(std::span<const std::string> left_out) const;

 private:
  struct Entry {
    ImportedKey key;
    std::string plain;  ///< the name in the form of plain_name(), in which names are compared
    std::string name;   ///< the same name with its underscores, for names that end in *
    bool is_settled = false;
  };
  /// Returns the index of the key in entries_, or their number if the key is absent or has no value.
  std::size_t index_of(std::string_view name) const;
  void decide(std::string_view name, Fate fate, std::string_view text);

  std::vector<Entry> entries_;
  /// The names that the importer has looked up. An unknown key may be a misspelled one of them.
  mutable std::set<std::string, std::less<>> known_;
};

// Reads TOML. Only toml.cpp includes the library toml++, because its header is slow to compile.

/// Adds all keys of a TOML document to `settings`. The keys of tables are joined by points, and the items
/// of a list by blanks. Returns a syntax error in the form "LINE:COLUMN: text".
tl::expected<void, std::string> add_toml(Settings& settings, std::string_view text);

// Reads the arguments of a training run from a shell script, or from flags that the user pasted.

/// The command of a script that has the most arguments. Variables in it are replaced by their values.
struct ShellCommand {
  std::vector<std::string> words;
  /// Resources that the script requests from a batch system, such as {"#SBATCH --nodes", "4"}.
  std::vector<ImportedKey> resources;
  /// Parts of the script that were not evaluated, with their lines.
  std::vector<std::string> notes;
  /// The reason why the script cannot be read, as "line N: ..."; empty if it was read.
  std::string error;
};

/// Reads a shell script and returns its longest command. Evaluates assignments, arrays, quotes, continued
/// lines, $NAME, ${NAME:-default}, ${NAME[@]}, $((N > 1 ? 1 : 0)), and conditions that compare texts or
/// numbers. Without a command, returns the variable that has the most flags. A
/// variable without a known value stays in the words as ${NAME}. This happens if the script does not set
/// it, sets it to the output of a command, or sets it under a condition that cannot be decided. A text that
/// starts with a flag is read as a command, too. Values of variables that insert more than 16 MiB are an
/// error.
ShellCommand read_shell(std::string_view text);

/// Adds the flags of a command to `settings`: `--name value value`, `--name=value` and `--switch`. Ignores
/// words before the first flag, and a program's name among the words. Refuses a variable without a known
/// value that stands where flags may stand, and a flag whose name contains one.
void add_flags(Settings& settings, const std::vector<std::string>& words);

}  // namespace penstock
