#pragma once
// What a scenario file may hold: one row a key. The load_*.cpp files have the rows of their parts. A
// MappingReader takes the known keys, their ranges and their words from them, and the pages
// docs/reference/scenario.md and docs/reference/scenario.schema.json are made of them.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/numbers.hpp"

namespace penstock {

/// The form of a key's value.
enum class KeyKind : std::uint8_t {
  duration,   // "5 us"
  bytes,      // "16 MiB"
  limit,      // bytes, or "unlimited"
  bandwidth,  // "25 GB/s", or "unlimited"
  speed,      // a bandwidth without "unlimited"
  rate,       // floating-point operations a second: "312 TFLOP/s"
  factor,     // a number above 0 and at most `range.most`
  number,     // a number of at least 0
  integer,    // a whole number of `range`
  count,      // a whole number of `range`, or "unlimited"
  flag,       // true or false
  word,       // one of `words`
  name,       // a text that the file chooses
  names,      // a list of them
  file,       // the name of a file
  mapping,    // keys of their own
  mappings,   // a list of such mappings
  other,      // what `form` says
};

/// How many values a key takes.
enum class KeyValues : std::uint8_t {
  one,
  stages,        // one for all stages, or a list of one a stage
  microbatches,  // the same, where the place of a stage may hold a list of one a microbatch
  list,          // a list of any length
};

/// One key of a mapping in a scenario.
struct Key {
  std::string_view name{};
  KeyKind kind = KeyKind::other;
  std::string_view meaning{};  ///< one sentence
  std::string_view usual{};    ///< the value of a key that is left out, in words; "required": none
  Range range{.least = 1};     ///< of integer, count and factor
  std::span<const std::string_view> words{};  ///< of word
  KeyValues values = KeyValues::one;
  std::string_view form{};    ///< of other, as the page shows it
  std::string_view schema{};  ///< of other, the JSON Schema of the value
};

/// The keys of one mapping in one of its forms.
struct KeyGroup {
  std::string_view path{};  ///< "" for the file itself, "cluster", "model.layers[]" for entries of a list
  std::string_view
      form{};  ///< what makes the mapping this one of several: "`preset: uniform`"; empty: one form
  std::string_view about{};  ///< paragraphs in Markdown; empty: the keys say everything
  std::vector<Key> keys{};
};

/// Returns all keys of a scenario, a mapping before those that lie in it.
std::vector<KeyGroup> scenario_keys();

/// Returns the keys of all lists, one after the other.
inline std::vector<Key> joined_keys(std::span<const std::span<const Key>> lists) {
  std::vector<Key> keys;
  for (const std::span<const Key> list : lists) keys.insert(keys.end(), list.begin(), list.end());
  return keys;
}

}  // namespace penstock
