// Tests that one table beside an enum gives its words, its values and the list for messages.

#include "text/enum_words.hpp"

#include <array>
#include <cstdint>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {

enum class Fruit : std::uint8_t { apple, pear, plum };
template <>
inline constexpr auto kEnumWords<Fruit> = std::to_array<EnumWord<Fruit>>(
    {{Fruit::pear, "pear"}, {Fruit::apple, "red-apple"}, {Fruit::plum, "plum"}});

enum class Nut : std::uint8_t { hazel, walnut };
template <>
inline constexpr auto kEnumWords<Nut> = std::to_array<EnumWord<Nut>>({{Nut::hazel, "hazel"}});

enum class Stone : std::uint8_t { granite };

namespace {

using testing::ElementsAre;

TEST(EnumWords, AValueIsWrittenAndReadWithItsWord) {
  EXPECT_EQ(to_text(Fruit::apple), "red-apple");
  EXPECT_EQ(enum_of_text<Fruit>("red-apple"), Fruit::apple);
  EXPECT_EQ(enum_of_text<Fruit>("apple"), std::nullopt);
  EXPECT_EQ(enum_of_text<Fruit>(""), std::nullopt);
}

TEST(EnumWords, WordsAreListedInTheOrderOfTheTable) {
  EXPECT_THAT(words_of<Fruit>(), ElementsAre("pear", "red-apple", "plum"));
}

// For such an enum, to_text() does not compile.
TEST(EnumWords, ATableThatLacksAValueIsSeenByTheCompiler) {
  static_assert(names_all_values<Fruit>());
  static_assert(!names_all_values<Nut>());
  EXPECT_EQ(enum_of_text<Nut>("hazel"), Nut::hazel);
}

TEST(EnumWords, AnEnumWithoutATableHasNoWords) {
  static_assert(EnumWithWords<Fruit>);
  static_assert(!EnumWithWords<Stone>);
}

}  // namespace
}  // namespace penstock
