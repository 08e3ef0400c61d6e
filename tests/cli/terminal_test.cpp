// What the environment says of a terminal, as terminals and users set it.

#include "cli/terminal.hpp"

#include <gtest/gtest.h>

#include "report/print/palette.hpp"

namespace penstock {
namespace {

TEST(Terminal, ShowsTheColoursThatItAnnounces) {
  EXPECT_EQ(colours_of({.term = "xterm-256color", .colorterm = "truecolor"}), TerminalColours::true_colour);
  EXPECT_EQ(colours_of({.term = "xterm", .colorterm = "24bit"}), TerminalColours::true_colour);
  EXPECT_EQ(colours_of({.term = "xterm-direct", .colorterm = ""}), TerminalColours::true_colour);
  EXPECT_EQ(colours_of({.term = "screen-256color", .colorterm = ""}), TerminalColours::indexed);
  EXPECT_EQ(colours_of({.term = "xterm", .colorterm = ""}), TerminalColours::basic);
  EXPECT_EQ(colours_of({.term = "linux", .colorterm = "yes"}), TerminalColours::basic);
}

TEST(Terminal, ADumbOneShowsNone) {
  EXPECT_EQ(colours_of({.term = "dumb", .colorterm = "truecolor"}), TerminalColours::none);
  EXPECT_EQ(colours_of({.term = "", .colorterm = ""}), TerminalColours::none);
}

}  // namespace
}  // namespace penstock
