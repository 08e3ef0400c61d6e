#pragma once
// Defines the words for the values of an enum. They are written once, below the enum:
//
//   enum class Routing : std::uint8_t { global, runtime };
//   template <>
//   inline constexpr auto kEnumWords<Routing> =
//       std::to_array<EnumWord<Routing>>({{Routing::global, "global"}, {Routing::runtime, "runtime"}});
//
//   to_text(Routing::global)             "global"
//   enum_of_text<Routing>("runtime")     Routing::runtime
//   words_of<Routing>()                  {"global", "runtime"}, for help and messages
//
// Tests: tests/text/enum_words_test.cpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace penstock {

/// A value of an enum, and the word that stands for it in files, flags and results.
template <typename Enum>
struct EnumWord {
  Enum value;
  std::string_view word;
};

/// The table of the words of an enum. Error messages list the words in this order. The value is `false` for
/// an enum without words.
template <typename Enum>
inline constexpr auto kEnumWords = false;

/// An enum that has a table of words.
template <typename Enum>
concept EnumWithWords =
    std::is_enum_v<Enum> && !std::is_same_v<std::remove_cv_t<decltype(kEnumWords<Enum>)>, bool>;

/// Returns true if `value` is a declared enumerator of its enum. It uses that the compiler writes an
/// enumerator as "Routing::global" in __PRETTY_FUNCTION__, and any other value as "(Routing)7".
template <auto value>
consteval bool is_enumerator() {
  return std::string_view(__PRETTY_FUNCTION__).find("= (") == std::string_view::npos;
}

/// Returns true if the enum's table has a word for each enumerator. Requires that the enumerators are
/// numbered 0, 1, 2, ...
template <EnumWithWords Enum>
consteval bool names_all_values() {
  constexpr std::size_t kCount = kEnumWords<Enum>.size();
  std::array<bool, kCount> is_named{};
  for (const EnumWord<Enum>& row : kEnumWords<Enum>) {
    if (static_cast<std::size_t>(row.value) < kCount) is_named[static_cast<std::size_t>(row.value)] = true;
  }
  return std::ranges::all_of(is_named, std::identity{}) && !is_enumerator<static_cast<Enum>(kCount)>();
}

/// Returns the word for a value.
template <EnumWithWords Enum>
constexpr std::string_view to_text(Enum value) {
  static_assert(names_all_values<Enum>(), "a value of the enum has no word");
  for (const EnumWord<Enum>& row : kEnumWords<Enum>) {
    if (row.value == value) return row.word;
  }
  return "";
}

/// Returns the value of an enum that has this word. Returns nothing if the enum's table does not have the
/// word.
template <EnumWithWords Enum>
constexpr std::optional<Enum> enum_of_text(std::string_view word) {
  for (const EnumWord<Enum>& row : kEnumWords<Enum>) {
    if (row.word == word) return row.value;
  }
  return std::nullopt;
}

/// The words of an enum's table, without the values.
template <EnumWithWords Enum>
inline constexpr auto kWordList = [] {
  std::array<std::string_view, kEnumWords<Enum>.size()> words;
  std::ranges::transform(kEnumWords<Enum>, words.begin(), &EnumWord<Enum>::word);
  return words;
}();

/// Returns all words of an enum in the order of its table.
template <EnumWithWords Enum>
constexpr std::span<const std::string_view> words_of() {
  return kWordList<Enum>;
}

// Suggests the name that a user probably meant when a name is mistyped ("did you mean ...?").

/// Returns the name of `known` with the spelling closest to `typed`, or the first of several that are
/// equally close. Case is ignored. Returns nothing if more than a third of the name's letters would have to
/// change, because a wrong hint is worse than no hint. `typed` may also be one or more whole words of a
/// name, such as "bandwidth" for "intra_bandwidth".
std::optional<std::string_view> likely_name(std::string_view typed, std::span<const std::string_view> known);

/// Returns a hint such as "; did you mean stages?" for a message about `typed`, or an empty text if
/// likely_name() returns nothing.
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> known);

/// Returns the name in lower case and without dashes and underscores. Names that may be spelled in several
/// ways are compared in this form.
std::string plain_name(std::string_view name);

}  // namespace penstock
