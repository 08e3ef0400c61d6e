// Tests readable units, the escaping of names, and the ticks of axes.

#include "report/print/units.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/print/palette.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

constexpr Ns kLargest = std::numeric_limits<Ns>::max();

TEST(Units, DurationsChangeTheirUnitAtAThousand) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(999), "999 ns");
  EXPECT_EQ(format_duration(1'000), "1.000 us");
  EXPECT_EQ(format_duration(138'522'000), "138.522 ms");
  EXPECT_EQ(format_duration(1'000'000'000), "1.000 s");
  EXPECT_EQ(format_duration(3'600'000'000'000), "3600.000 s");
}

TEST(Units, ADurationIsRoundedUpIntoTheNextUnitAndNeverTo1000) {
  EXPECT_EQ(format_duration(999'999), "999.999 us");
  EXPECT_EQ(format_duration(999'999'499), "999.999 ms");
  EXPECT_EQ(format_duration(999'999'500), "1.000 s");
}

TEST(Units, DurationsHoldForTheWholeRange) {
  EXPECT_EQ(format_duration(kLargest), "9223372036.855 s");
  EXPECT_EQ(format_duration(-1'500'000), "-1.500 ms");
  EXPECT_EQ(format_duration(std::numeric_limits<Ns>::min()), "-9223372036.855 s");
}

TEST(Units, ShortDurationsDropTrailingZeros) {
  EXPECT_EQ(format_duration_short(0), "0");
  EXPECT_EQ(format_duration_short(5'000'000), "5 ms");
  EXPECT_EQ(format_duration_short(2'500'000), "2.5 ms");
  EXPECT_EQ(format_duration_short(100), "100 ns");
}

TEST(Units, TicksHaveTheUnitOfTheLast) {
  EXPECT_EQ(format_tick(200'000'000, 1'400'000'000), "0.2 s");
  EXPECT_EQ(format_tick(1'000, 900), "1000 ns");
  EXPECT_EQ(format_tick(0, 900), "0");
}

TEST(Units, BytesAreBinary) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(Bytes{3} << 29), "1.50 GiB");
  EXPECT_EQ(format_bytes((Bytes{1} << 30) - 1), "1.00 GiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<Bytes>::max()), "8.00 EiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(format_bytes_short(Bytes{3} << 29), "1.5 GiB");
  EXPECT_EQ(format_bytes_short(0), "0");
  EXPECT_EQ(format_memory(1024, MemoryUnit::bytes), "1.00 KiB");
  EXPECT_EQ(format_memory(1024 * kActivationParts, MemoryUnit::activations), "1024 activations");
  EXPECT_EQ(format_memory(kActivationParts, MemoryUnit::activations), "1 activation");
  EXPECT_EQ(format_memory(11 * kActivationParts / 2, MemoryUnit::activations), "5.5 activations");
  EXPECT_EQ(format_memory(11 * kActivationParts / 3, MemoryUnit::activations), "3.67 activations");
}

TEST(Units, RatesHaveSixDigits) {
  EXPECT_EQ(format_rate(242.4242424), "242.424");
  EXPECT_EQ(format_rate(349.24), "349.240");
  EXPECT_EQ(format_rate(1'234'567.8), "1234568");
  EXPECT_EQ(format_rate(0), "0.00000");
  EXPECT_EQ(format_rate(1.5e-9), "1.5e-09");
  EXPECT_EQ(format_rate(std::nan("")), "n/a");
}

TEST(Units, QuantitiesAndPercent) {
  EXPECT_EQ(format_quantity(32), "32");
  EXPECT_EQ(format_quantity(1'048'576), "1048576");
  EXPECT_EQ(format_quantity(0.25), "0.25");
  EXPECT_EQ(format_percent(3.0 / 11), "27.27 %");
  EXPECT_EQ(format_percent(std::numeric_limits<double>::infinity()), "n/a");
  EXPECT_EQ(format_count(1, "rank"), "1 rank");
  EXPECT_EQ(format_count(0, "rank"), "0 ranks");
}

TEST(Units, TheShortestNumberReadsBackTheSame) {
  for (const double value : {0.1, 1.0 / 3, 1e300, -2.5, 123456789.125}) {
    EXPECT_EQ(std::stod(shortest_number(value)), value);
  }
  EXPECT_EQ(shortest_number(0.1), "0.1");
  EXPECT_EQ(shortest_number(std::nan("")), "");
}

TEST(Axis, StepsAreOneTwoOrFive) {
  EXPECT_DOUBLE_EQ(nice_step(10, 10), 1);
  EXPECT_DOUBLE_EQ(nice_step(11, 10), 2);
  EXPECT_DOUBLE_EQ(nice_step(21, 10), 5);
  EXPECT_DOUBLE_EQ(nice_step(51, 10), 10);
  EXPECT_DOUBLE_EQ(nice_step(0.003, 3), 0.001);
}

TEST(Axis, TimeTicksEndAtOrBeforeTheMakespan) {
  EXPECT_EQ(time_ticks(33, 10), (std::vector<Ns>{0, 5, 10, 15, 20, 25, 30}));
  EXPECT_EQ(time_ticks(0, 10), (std::vector<Ns>{0}));
  EXPECT_EQ(time_ticks(3, 10), (std::vector<Ns>{0, 1, 2, 3}));
  EXPECT_EQ(time_ticks(kLargest, 4).back(), 5'000'000'000'000'000'000);
}

TEST(Axis, ValueTicksCoverTheHighest) {
  EXPECT_EQ(value_ticks(7, 4), (std::vector<double>{0, 2, 4, 6, 8}));
  EXPECT_EQ(value_ticks(0, 4), (std::vector<double>{0, 1}));
  EXPECT_EQ(value_ticks(std::nan(""), 4), (std::vector<double>{0, 1}));
  EXPECT_EQ(byte_ticks(3.0 * 1024 * 1024, 3), (std::vector<double>{0, 1048576, 2097152, 3145728}));
}

TEST(Escaping, XmlHasNoMarkupOfItsOwn) {
  EXPECT_EQ(xml_escaped("a<b> & \"c\" 'd'\x01"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;?");
}

TEST(Escaping, XmlTextHoldsWhatXmlCan) {
  EXPECT_EQ(xml_text("<a>\n\t\x1b\xff"), "<a>\n\t?\xef\xbf\xbd");
  EXPECT_EQ(xml_text("\xef\xbf\xbe"), "\xef\xbf\xbd") << "U+FFFE is no character";
}

TEST(Escaping, MarkdownHasNoMarksOfItsOwn) {
  EXPECT_EQ(markdown_escaped("ranks[0].peak_bytes (was 3)"), "ranks[0].peak_bytes (was 3)");
  EXPECT_EQ(markdown_escaped("a|b\\|c"), "a&#124;b&#92;&#124;c");
  EXPECT_EQ(markdown_escaped("<img> & `x` **y**"), "&lt;img> &amp; &#96;x&#96; &#42;&#42;y&#42;&#42;");
  EXPECT_EQ(markdown_escaped("![x](http://y)"), "![x]&#40;http://y)");
  EXPECT_EQ(markdown_escaped("two\nlines\r"), "two&#92;x0alines&#92;x0d");
}

TEST(Escaping, CsvQuotesOnlyWhereNeeded) {
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("=1+2"), "'=1+2");
  EXPECT_EQ(csv_field("@sum"), "'@sum");
  EXPECT_EQ(csv_field("+cmd|' /C calc'!A0"), "'+cmd|' /C calc'!A0");
  EXPECT_EQ(csv_field("-a,b"), "\"'-a,b\"");
  EXPECT_EQ(csv_field("-0.5"), "-0.5");
  EXPECT_EQ(csv_field("+3e8"), "+3e8");
  EXPECT_EQ(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
  EXPECT_EQ(csv_field("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(csv_field("\xe2\x80\xae=a\xc2\x9b\x1b[31m"), "\\u202e=a\\u009b\\x1b[31m");
  EXPECT_EQ(csv_field("\xff"), "\xef\xbf\xbd");
}

TEST(Escaping, JsonStringsAreQuoted) { EXPECT_EQ(json_quoted("a\"b\n\xff"), "\"a\\\"b\\n\xef\xbf\xbd\""); }

TEST(OneLine, JoinsWhatSeveralLinesSay) {
  EXPECT_EQ(in_one_line("they wait for each other:\n  a waits for b\n  b waits for a"),
            "they wait for each other: a waits for b; b waits for a");
  EXPECT_EQ(in_one_line("0B1 is missing\n  0F0 0F1\n      ^"), "0B1 is missing") << "a picture stays out";
  EXPECT_EQ(in_one_line(""), "");
}

TEST(TerminalColour, IsAsFineAsTheTerminalShowsIt) {
  const Colour white{0xff, 0xff, 0xff};
  const Colour blue{0x3b, 0x6f, 0xb6};
  EXPECT_EQ(ansi_escape(white, blue, TerminalColours::true_colour), "\x1b[38;2;255;255;255;48;2;59;111;182m");
  EXPECT_EQ(ansi_escape(white, blue, TerminalColours::indexed), "\x1b[38;5;231;48;5;61m");
  EXPECT_EQ(ansi_escape(white, {0, 0, 0xff}, TerminalColours::basic), "\x1b[97;44m");
  EXPECT_EQ(ansi_escape(white, blue, TerminalColours::none), "");
}

TEST(TerminalColour, ActionsStayApartInSixteenColours) {
  const auto basic = [](ActionKind kind) { return ansi_escape({}, colour_of(kind), TerminalColours::basic); };
  EXPECT_NE(basic(ActionKind::forward), basic(ActionKind::backward));
  EXPECT_NE(basic(ActionKind::backward_input), basic(ActionKind::backward_weight));
}

TEST(ShownText, WhatIsPlainNeedsNoChange) {
  const std::string line = "  \"rank\": 0, the quick brown fox ~ {}: ; :";
  EXPECT_TRUE(is_plain(""));
  EXPECT_TRUE(is_plain(line + "\n" + line + "\n"));
  for (std::size_t at = 0; at <= line.size(); ++at) {
    for (const char* const special : {"\x1b", "\r", "\t", "\x7f", "\x80", "\xc3\xa4", "::"}) {
      std::string text = line;
      EXPECT_FALSE(is_plain(text.insert(at, special))) << text;
    }
  }
}

TEST(ShownText, ControlCharactersAreShownAndNotSent) {
  EXPECT_EQ(shown_text("plain\ttext\nin lines\r\n"), "plain\ttext\nin lines\r\n");
  EXPECT_EQ(shown_text("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(shown_text("a\rb\b\x7f"), "a\\x0db\\x08\\u007f");
  EXPECT_EQ(shown_text(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(shown_text("\xc2\x9b"
                       "31m"),
            "\\u009b31m")
      << "a control character of two bytes";
  EXPECT_EQ(shown_text("\xe2\x80\xae"
                       "txt.exe"),
            "\\u202etxt.exe")
      << "from right to left";
  EXPECT_EQ(shown_text("\x1b[1;31mred\x1b[0m \x1b[2J"), "\x1b[1;31mred\x1b[0m \\x1b[2J");
}

TEST(ShownText, WhatIsJsonStaysJson) {
  const std::string text = "{\"name\": " + json_quoted("\x1b[31m\n\x7f\xc2\x9b\xe2\x80\xae") + "}";
  EXPECT_EQ(nlohmann::json::parse(shown_text(text)), nlohmann::json::parse(text));
}

TEST(ShownText, AMessageHasLinesAndNoColours) {
  EXPECT_EQ(shown_message("a\tb\n  c\r\n"), "a\tb\n  c\r\n");
  EXPECT_EQ(shown_message("\x1b[8mhidden\x1b[2J"), "\\x1b[8mhidden\\x1b[2J");
}

TEST(ShownText, ANameEndsNoLine) {
  EXPECT_EQ(shown_name("a name"), "a name");
  EXPECT_EQ(shown_name("\xc3\xa9"), "\xc3\xa9");
  EXPECT_EQ(shown_name("a\nb\r\n\tc"), "a\\x0ab\\x0d\\x0a\\x09c");
  EXPECT_EQ(shown_name("\x1b[8mhidden"), "\\x1b[8mhidden");
}

TEST(ShownText, WhatIsNoUtf8IsReplaced) {
  EXPECT_EQ(shown_text("\xc3\xa9\xe2\x94\x80\xf0\x9f\x98\x80"), "\xc3\xa9\xe2\x94\x80\xf0\x9f\x98\x80");
  EXPECT_EQ(shown_text("\xff"
                       "a"),
            "\xef\xbf\xbd"
            "a");
  EXPECT_EQ(shown_text("\xc3"), "\xef\xbf\xbd") << "cut";
  EXPECT_EQ(shown_text("\xc0\x80"), "\xef\xbf\xbd\xef\xbf\xbd") << "longer than needed";
  EXPECT_EQ(shown_text("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd") << "half of a pair";
  EXPECT_EQ(xml_escaped("<\xff>"), "&lt;\xef\xbf\xbd&gt;");
}

}  // namespace
}  // namespace penstock
