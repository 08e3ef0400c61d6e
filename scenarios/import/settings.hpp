#pragma once
// The settings of a configuration of another program, as one flat list of keys. An importer takes, ignores or
// refuses each of them, so that no key is dropped without a word.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/document.hpp"
#include "text/enum_words.hpp"

namespace penstock {

/// The decision of an importer about one key.
enum class Fate : std::uint8_t {
  taken,    // the key became a key of the scenario
  ignored,  // the key does not change the prediction, or has no counterpart; the reason says which
  refused,  // the prediction would be wrong without the key
};
template <>
inline constexpr auto kEnumWords<Fate> = std::to_array<EnumWord<Fate>>(
    {{Fate::taken, "taken"}, {Fate::ignored, "ignored"}, {Fate::refused, "refused"}});

/// One key of a configuration, with the decision about it.
struct ImportedKey {
  std::string key;    ///< the key as the file spells it, such as "--num-layers" or "parallelism.pp"
  std::string value;  ///< the value as text; "true" for a switch without a value
  Fate fate = Fate::ignored;
  /// The key of the scenario for a taken key, and the reason for every other key.
  std::string text;

  friend bool operator==(const ImportedKey&, const ImportedKey&) = default;
};

/// Returns true for values that mean "not set": null, None, an empty text.
bool is_null_value(std::string_view value);
/// Returns true for values that mean "off": false, no, off, 0, none, and all values of is_null_value().
bool is_off_value(std::string_view value);

/// Rows that settle keys without a counterpart: names separated by blanks, and the reason.
struct SettledRow {
  std::string_view names;
  Fate fate = Fate::ignored;
  std::string_view reason;
};

/// The keys of a configuration. Names are compared without dashes, underscores and case. If a key occurs more
/// than once, the last value counts, and the earlier ones are listed as ignored.
class Settings {
 public:
  /// Adds a key. A key with a null value is settled as ignored at once.
  void add(std::string key, std::string value);
  /// Adds every scalar and every list of a document. The keys of nested mappings are joined by points. The
  /// items of a list are joined by blanks, and mappings in a list have their index as a key. `prefix` comes
  /// before every key.
  void add_document(const Node& node, const std::string& prefix = {});

  /// Compares only the last parts of names from now on: "model.seq_length" is found as "seq_length".
  void compare_last_parts();

  /// Compares names that begin with `from` as if they began with `to`. Reports still show the file's names.
  void rename(std::string_view from, std::string_view to);

  /// Returns the value of a key, or null. Does not settle the key.
  const std::string* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Returns the value and settles the key as taken for the scenario's key `target`.
  std::optional<std::string> word(std::string_view name, std::string_view target);
  /// Returns a whole number of at least `least` and settles the key as taken. Refuses any other value. A
  /// decimal such as 4.0 or 1e6 is accepted if it is whole.
  std::optional<std::int64_t> number(std::string_view name, std::string_view target, std::int64_t least = 1);
  /// Returns true if the key is present and not off. Settles it as taken, or as ignored if it is off.
  bool is_on(std::string_view name, std::string_view target);

  /// Settle a key, if it exists. A later decision replaces an earlier one.
  void take(std::string_view name, std::string_view target);
  void ignore(std::string_view name, std::string_view reason);
  void refuse(std::string_view name, std::string_view reason);
  /// Settles all keys of a table that no importer has settled. A key whose value is off is ignored, even if
  /// its row refuses it. A name that ends in * matches every key that begins with it.
  void settle(std::span<const SettledRow> rows);

  /// Returns all keys in the order of the file. Keys that are not settled are ignored as unknown. A refused
  /// key that is one of `left_out` is ignored, because the user asked for that.
  std::vector<ImportedKey> report(std::span<const std::string> left_out) const;

 private:
  struct Entry {
    ImportedKey key;
    std::string plain;  ///< the name in the form in which names are compared
    bool is_settled = false;
  };
  Entry* entry_of(std::string_view name);
  void decide(std::string_view name, Fate fate, std::string_view text);

  std::vector<Entry> entries_;
};

}  // namespace penstock
