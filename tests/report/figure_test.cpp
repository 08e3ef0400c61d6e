// Tests pictures for papers: what they contain, their scale, and that SVG, PDF and TikZ are well-formed and
// show the same.

#include "report/figure/figure.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/report/markup.hpp"
#include "tests/report/sample_result.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using sample::markup_fault;
using sample::occurrences;
using testing::HasSubstr;
using testing::StartsWith;

/// Returns GPipe and 1F1B on 4 ranks with 8 microbatches, which take 33 ms each. A rank computes for 24 ms.
std::vector<FigurePanel> two_panels() {
  const sample::Shape shape;
  std::vector<FigurePanel> panels;
  for (const auto& lists : {sample::gpipe(shape), sample::one_f_one_b(shape)})
    panels.push_back(
        {.label = "1f1b", .result = sample::result_of(sample::timeline_of(lists, shape), shape)});
  for (FigurePanel& panel : panels) {
    for (RankReport& rank : panel.result.ranks) rank.busy_ns = 24'000'000;
    panel.result.bubble.idle_over_total = 9.0 / 33;
  }
  panels.front().label = "gpipe";
  return panels;
}

std::vector<FigureText> texts_of(const FigureDrawing& drawing) {
  std::vector<FigureText> texts;
  for (const auto& shape : drawing.shapes)
    if (const auto* text = std::get_if<FigureText>(&shape)) texts.push_back(*text);
  return texts;
}

std::size_t count_of(const FigureDrawing& drawing, const std::string& wanted) {
  return static_cast<std::size_t>(std::ranges::count(texts_of(drawing), wanted, &FigureText::text));
}

/// Returns the last text of the picture that says `wanted`. The axis is drawn last.
FigureText last_text(const FigureDrawing& drawing, const std::string& wanted) {
  FigureText last;
  for (const FigureText& text : texts_of(drawing))
    if (text.text == wanted) last = text;
  EXPECT_EQ(last.text, wanted);
  return last;
}

TEST(Figure, NumbersMicrobatchesFromOne) {
  const FigureOptions options = {.without = {FigurePart::memory, FigurePart::axis}};
  const FigureDrawing drawing = figure_of(two_panels(), options);
  // Each of two panels has 4 ranks, which run F and B of each microbatch.
  EXPECT_EQ(count_of(drawing, "1"), 16U);
  EXPECT_EQ(count_of(drawing, "8"), 16U);
  EXPECT_EQ(count_of(drawing, "0"), 0U);
  FigureOptions from_zero = options;
  from_zero.first_microbatch = 0;
  EXPECT_EQ(count_of(figure_of(two_panels(), from_zero), "0"), 16U);
}

TEST(Figure, TheAxisOfAllPanelsCountsInTheTimeThatARankComputes) {
  const FigureDrawing drawing = figure_of(two_panels(), {});
  const double zero = last_text(drawing, "0").at.x;
  const double one = last_text(drawing, "1").at.x;
  // The bracket of 9 ms begins at 1, where 24 ms are over, and ends at 33 ms.
  const FigureText bubble = last_text(drawing, "bubble 27.27 %");
  const double middle_of_bracket = zero + (one - zero) * (24 + 4.5) / 24;
  EXPECT_NEAR(bubble.at.x, middle_of_bracket, 1e-9);
  EXPECT_EQ(count_of(drawing, "(a) gpipe"), 1U);
  EXPECT_EQ(count_of(drawing, "(b) 1f1b"), 1U);
}

TEST(Figure, TheAxisCountsForwardPassesOrShowsTime) {
  EXPECT_EQ(count_of(figure_of(two_panels(), {.axis = FigureAxis::forward}),
                     "time in units of a forward pass in (a)"),
            1U);
  EXPECT_EQ(count_of(figure_of(two_panels(), {.axis = FigureAxis::time}), "20 ms"), 1U);
}

TEST(Figure, EveryPartCanBeLeftOut) {
  for (const FigurePart part : {FigurePart::legend, FigurePart::captions, FigurePart::ranks,
                                FigurePart::memory, FigurePart::brackets, FigurePart::axis}) {
    EXPECT_LT(figure_of(two_panels(), {.without = {part}}).shapes.size(),
              figure_of(two_panels(), {}).shapes.size())
        << to_text(part);
  }
}

TEST(Figure, GreyPicturesHaveNoColours) {
  for (const auto& shape : figure_of(two_panels(), {.grey = true, .hatches = true}).shapes) {
    const std::vector<Colour> colours = std::visit(
        [](const auto& one) -> std::vector<Colour> {
          if constexpr (requires { one.fill; }) {
            return {one.fill, one.outline.value_or(one.fill)};
          } else {
            return {one.colour};
          }
        },
        shape);
    for (const Colour colour : colours) {
      EXPECT_EQ(colour.red, colour.green);
      EXPECT_EQ(colour.red, colour.blue);
    }
  }
}

TEST(Figure, HatchesLieInsideTheirBoxes) {
  const FigureOptions options = {.width_mm = 85, .row_mm = 3, .without = {FigurePart::memory}};
  FigureOptions hatched = options;
  hatched.hatches = true;
  const FigureDrawing plain = figure_of(two_panels(), options);
  const FigureDrawing drawing = figure_of(two_panels(), hatched);
  EXPECT_GT(drawing.shapes.size(), plain.shapes.size());
  for (const auto& shape : drawing.shapes) {
    const auto* line = std::get_if<FigureLine>(&shape);
    if (line == nullptr) continue;
    for (const FigurePoint& end : {line->from, line->to}) {
      EXPECT_GE(end.x, 0);
      EXPECT_LE(end.x, drawing.width_mm);
      EXPECT_LE(end.y, drawing.height_mm);
    }
  }
}

TEST(Figure, AHundredThousandActionsStayASmallPicture) {
  const sample::Shape shape{.ranks = 8, .microbatches = 6000};
  const Timeline timeline = sample::pipeline(shape);
  ASSERT_GT(timeline.spans.size(), 90'000U);
  std::vector<FigurePanel> panels(1);
  panels.front().result = sample::result_of(timeline, shape);
  EXPECT_LT(figure_of(panels, {.hatches = true}).shapes.size(), 30'000U);
}

TEST(FigureText, ItsWidthIsThatOfTheFont) {
  // "0" has 556 thousandths of the size in Helvetica and 500 in Times.
  EXPECT_NEAR(text_width_mm("00", FigureFont::sans, 10), 2 * 5.56 * kMmPerPoint, 1e-9);
  EXPECT_NEAR(text_width_mm("00", FigureFont::serif, 10), 10 * kMmPerPoint, 1e-9);
}

TEST(FigureDrawing, NamesOfUsersAreSafeInEachLanguage) {
  std::vector<FigurePanel> panels = two_panels();
  panels.back().label = "a<b & 50% \\input{x} (c\xc3\xa9)";
  const FigureDrawing drawing = figure_of(panels, {});
  const std::string svg = drawing_to_svg(drawing);
  EXPECT_EQ(markup_fault(svg), "");
  EXPECT_THAT(svg, HasSubstr("a&lt;b &amp; 50%"));
  EXPECT_THAT(drawing_to_pdf(drawing), HasSubstr("(\\(b\\) a<b & 50% \\\\input{x} \\(c\xe9\\)) Tj"));
  EXPECT_THAT(drawing_to_tikz(drawing),
              HasSubstr("{(b) a\\textless{}b \\& 50\\% \\textbackslash{}input\\{x\\} (c\xc3\xa9)};"));
  EXPECT_THAT(figure_latex(panels), HasSubstr("a\\textless{}b \\& 50\\% \\textbackslash{}input\\{x\\}"));
}

TEST(FigureDrawing, ThePdfListsThePlacesOfItsObjects) {
  const std::string pdf = drawing_to_pdf(figure_of(two_panels(), {.width_mm = 127}));
  EXPECT_THAT(pdf, StartsWith("%PDF-1.4\n"));
  EXPECT_THAT(pdf, HasSubstr("/MediaBox [0 0 360.000 ")) << "127 mm are five inches, 360 points";
  const std::size_t table = std::stoul(pdf.substr(pdf.find("startxref\n") + 10));
  ASSERT_EQ(pdf.substr(table, 7), "xref\n0 ");
  std::size_t line = pdf.find("65535 f \n", table) + 9;
  for (int object = 1; object <= 5; ++object, line += 20) {
    const std::size_t place = std::stoul(pdf.substr(line, 10));
    EXPECT_EQ(pdf.substr(place, 7), std::to_string(object) + " 0 obj");
  }
}

TEST(FigureDrawing, AllLanguagesShowTheSameTexts) {
  const FigureDrawing drawing = figure_of(two_panels(), {});
  const std::size_t texts = texts_of(drawing).size();
  EXPECT_EQ(occurrences(drawing_to_svg(drawing), "<text "), texts);
  EXPECT_EQ(occurrences(drawing_to_pdf(drawing), " Tj ET"), texts);
  EXPECT_EQ(occurrences(drawing_to_tikz(drawing), "\\node["), texts);
}

/// Returns the log of pdflatex for a document, or an empty text if it fails.
std::string latex_log(const ScratchFolder& folder, const std::string& body) {
  folder.write("document.tex",
               fmt::format("\\documentclass{{article}}\n\\usepackage{{tikz}}\n"
                           "\\textwidth=180mm \\parindent=0pt\n\\begin{{document}}\n{}\\end{{document}}\n",
                           body));
  const std::string command = fmt::format(
      "cd '{}' && pdflatex -interaction=nonstopmode -halt-on-error document.tex > /dev/null 2>&1 < /dev/null",
      folder.path().string());
  // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): the command is this test's own.
  if (std::system(command.c_str()) != 0) return "";
  return test::text_of(folder.path() / "document.log");
}

TEST(FigureDrawing, LatexCompilesThePictureAndTheTable) {
  // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe)
  if (std::system("pdflatex --version > /dev/null 2>&1 && kpsewhich tikz.sty > /dev/null") != 0)
    GTEST_SKIP() << "there is no pdflatex with TikZ";
  std::vector<FigurePanel> panels = two_panels();
  panels.front().formula = "3(K-1)";
  panels.back().label = "a<b | c>d -- 50% & $x_1^2$ ~ #{} \\input{x}";
  const FigureDrawing drawing =
      figure_of(panels, {.title = panels.back().label, .text_space = kTikzTextSpace, .hatches = true});
  const std::string log =
      latex_log(ScratchFolder(), drawing_to_tikz(drawing) + "\n\n" + figure_latex(panels));
  EXPECT_THAT(log, HasSubstr("Output written on document.pdf (1 page"));
  EXPECT_THAT(log, testing::Not(HasSubstr("Overfull")));
}

TEST(FigureDrawing, TextsOfTikzHaveRoomForTheFontOfLatex) {
  // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe)
  if (std::system("pdflatex --version > /dev/null 2>&1 && kpsewhich tikz.sty > /dev/null") != 0)
    GTEST_SKIP() << "there is no pdflatex with TikZ";
  constexpr double kMmPerTexPoint = 25.4 / 72.27;
  for (const std::string text :
       {"backward for the weights", "activations on the rank, with their peak", "rank 0"}) {
    const std::string log = latex_log(
        ScratchFolder(),
        fmt::format(
            "\\setbox0\\hbox{{\\fontsize{{7}}{{8.4}}\\selectfont {}}}\\typeout{{penstock:\\the\\wd0}}x\n",
            text));
    const std::size_t place = log.find("penstock:");
    ASSERT_NE(place, std::string::npos) << log;
    EXPECT_LT(std::stod(log.substr(place + std::string("penstock:").size())) * kMmPerTexPoint,
              kTikzTextSpace * text_width_mm(text, FigureFont::sans, 7))
        << text;
  }
}

TEST(FigureTable, HasBubbleFormulaPeakAndSends) {
  std::vector<FigurePanel> panels = two_panels();
  panels.front().formula = "3(K-1)";
  panels.front().formula_bubble = 9.0 / 33;
  EXPECT_THAT(figure_latex(panels), HasSubstr("gpipe & 27.27 \\% & $3(K-1)$ & 27.27 \\% & "));
  const auto json = nlohmann::json::parse(figure_json(panels));
  EXPECT_EQ(json.at("panels").at(0).at("formula"), "3(K-1)");
  EXPECT_TRUE(json.at("panels").at(1).at("formula").is_null());
  EXPECT_EQ(figure_table(panels).rows.size(), 2U);
}

}  // namespace
}  // namespace penstock
