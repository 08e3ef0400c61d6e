// Tests timelines and charts as SVG: they are well-formed, complete and of limited size. golden() compares
// them with the files in tests/report/golden.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "report/pages/html_report.hpp"
#include "report/print/chart_svg.hpp"
#include "report/print/palette.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "tests/report/markup.hpp"
#include "tests/report/sample_result.hpp"
#include "tests/test_files.hpp"

namespace penstock::sample {

/// Returns the content of the golden file `name`, or a sentence if the file cannot be read. If the
/// environment variable PENSTOCK_UPDATE_GOLDENS is 1, `actual` is written to the file first.
std::string golden(std::string_view name, std::string_view actual);

std::string golden(std::string_view name, std::string_view actual) {
  const std::string path = source_path("tests/report/golden/") + std::string(name);
  const char* const update = std::getenv("PENSTOCK_UPDATE_GOLDENS");
  if (update != nullptr && std::string_view(update) == "1") std::ofstream(path, std::ios::binary) << actual;
  std::ifstream file(path, std::ios::binary);
  if (!file) return "cannot read " + path + "; run the test with PENSTOCK_UPDATE_GOLDENS=1 to write it";
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace penstock::sample

namespace penstock {

namespace {

using sample::markup_fault;
using sample::occurrences;
using sample::pipeline;

/// Returns a box of stage 0 that is not a pair.
ComputeBox box(std::int32_t microbatch, Ns start_ns, Ns end_ns, ActionKind kind = ActionKind::forward) {
  return {{.kind = kind, .stage = 0, .microbatch = microbatch}, {}, start_ns, end_ns};
}

/// Returns the number of elements that are opened.
std::size_t elements(const std::string& svg) { return occurrences(svg, "<") - occurrences(svg, "</"); }

TEST(MarkupCheck, FindsFaults) {
  EXPECT_EQ(markup_fault("<a><b x=\"1\"/>&amp;</a>"), "");
  EXPECT_NE(markup_fault("<a><b></a>"), "");
  EXPECT_NE(markup_fault("<a>"), "");
  EXPECT_NE(markup_fault("<a x=1/>"), "");
  EXPECT_NE(markup_fault("<a x=\"1\" x=\"2\"/>"), "");
  EXPECT_NE(markup_fault("<a>x & y</a>"), "");
  EXPECT_NE(markup_fault("<a>1 < 2</a>"), "");
}

TEST(TimelineSvg, LooksAsTheGolden) {
  const std::string svg = timeline_to_svg(pipeline({.ranks = 2, .microbatches = 2, .transfer_ns = 500'000}),
                                          {.title = "1F1B", .width = 600, .communication = true});
  EXPECT_EQ(svg, sample::golden("timeline_1f1b.svg", svg));
}

TEST(TimelineSvg, DrawsEveryActionWithItsMicrobatchAndTooltip) {
  const std::string svg = timeline_to_svg(pipeline({.ranks = 4, .microbatches = 8}));
  EXPECT_EQ(markup_fault(svg), "");
  EXPECT_EQ(occurrences(svg, "weight version 0</title>"), 4U * 8 * 2);
  EXPECT_EQ(occurrences(svg, ">7</text>"), 4U * 2);
  EXPECT_NE(svg.find("<title>0F0, 0 ns to 1.000 ms (1.000 ms), weight version 0</title>"), std::string::npos);
}

TEST(TimelineSvg, DropsNumbersThatDoNotFitButKeepsTheBoxes) {
  const std::string svg = timeline_to_svg(pipeline({.ranks = 2, .microbatches = 150}), {.width = 1000});
  EXPECT_EQ(occurrences(svg, "</title></rect>"), 600U);
  EXPECT_EQ(occurrences(svg, ">149</text>"), 0U);
}

TEST(TimelineSvg, StaysBoundedForAHundredThousandSpans) {
  const Timeline timeline = pipeline({.ranks = 10, .microbatches = 5000, .transfer_ns = 100'000});
  ASSERT_GT(timeline.spans.size(), 250'000U);
  for (const double least_pixels : {0.8, 0.0}) {
    const std::string svg = timeline_to_svg(timeline, {.communication = true, .least_pixels = least_pixels});
    EXPECT_EQ(markup_fault(svg), "");
    EXPECT_LT(elements(svg), 51'000U);
    EXPECT_GT(elements(svg), 5'000U);
  }
}

TEST(TimelineSvg, EscapesTheTitle) {
  const std::string svg =
      timeline_to_svg(pipeline({.ranks = 1, .microbatches = 1}), {.title = "<a> & \"b\""});
  EXPECT_EQ(markup_fault(svg), "");
  EXPECT_NE(svg.find("&lt;a&gt; &amp; &quot;b&quot;</text>"), std::string::npos);
}

TEST(TimelineSvg, AnEmptyTimelineAndOneWithoutDurationAreDrawn) {
  EXPECT_EQ(markup_fault(timeline_to_svg({})), "");
  EXPECT_EQ(markup_fault(timeline_to_svg({3, 0, {}})), "");
  const std::string svg =
      timeline_to_svg(pipeline({.ranks = 2, .microbatches = 1, .forward_ns = 0, .backward_ns = 0}));
  EXPECT_EQ(markup_fault(svg), "");
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(TimelineSvg, APairSharesItsBoxAndSeveralStagesHaveShades) {
  Timeline timeline = {1, 10, {}};
  timeline.spans = {
      sample::span_of(0, {.kind = ActionKind::forward, .overlaps_next = true, .stage = 0, .microbatch = 5}, 0,
                      4),
      sample::span_of(0, {.kind = ActionKind::backward, .stage = 3, .microbatch = 2}, 0, 4)};
  const std::string svg = timeline_to_svg(timeline);
  EXPECT_EQ(
      occurrences(svg, "<title>(0F5;3B2)OVERLAP_F_B, 0 ns to 4 ns (4 ns), weight version 0 and 0</title>"),
      2U);
  EXPECT_EQ(occurrences(svg, "height=\"12.00\""), 2U);
  const std::string forward = "height=\"12.00\" fill=\"" + to_hex(colour_of(ActionKind::forward));
  EXPECT_EQ(occurrences(svg, forward), 1U);
  EXPECT_EQ(
      occurrences(svg, "height=\"12.00\" fill=\"" + to_hex(lightened(colour_of(ActionKind::backward), 0.5))),
      1U);
  EXPECT_NE(svg.find("paler: later stage of the rank"), std::string::npos);
}

TEST(TimelineSvg, StepsThatTakeNoTimeAreDrawnOverTheBoxesThatFollow) {
  Timeline timeline = {1, 30, {}};
  timeline.spans = {sample::span_of(0, {.kind = ActionKind::backward, .stage = 0, .microbatch = 0}, 0, 10),
                    sample::span_of(0, {.kind = ActionKind::step, .stage = 0}, 10, 10),
                    sample::span_of(0, {.kind = ActionKind::backward, .stage = 0, .microbatch = 1}, 10, 30),
                    sample::span_of(0, {.kind = ActionKind::step, .stage = 0}, 30, 30)};
  const std::string svg = timeline_to_svg(timeline, {.width = 277});
  const std::size_t first = svg.find("<line x1=\"66.67\"");
  ASSERT_NE(first, std::string::npos);
  EXPECT_GT(first, svg.rfind("</title></rect>"));
  EXPECT_NE(svg.find("<title>0STEP, at 10 ns, weight version 0</title></line>"), std::string::npos);
  // The last line is at the edge of the plot.
  EXPECT_NE(svg.find("<line x1=\"200.00\""), std::string::npos);
}

TEST(TimelineSvg, StepsOfOneInstantShareAMarkAndManyStepsLeaveTheBoxesVisible) {
  Timeline timeline = {1, 400, {}};
  for (Ns time = 0; time < 400; time += 2) {
    timeline.spans.push_back(
        sample::span_of(0, {.kind = ActionKind::forward, .stage = 0, .microbatch = 0}, time, time + 2));
    for (const std::int32_t stage : {0, 4}) {
      timeline.spans.push_back(
          sample::span_of(0, {.kind = ActionKind::step, .stage = stage}, time + 2, time + 2));
    }
  }
  const std::string svg = timeline_to_svg(timeline, {.width = 477});
  EXPECT_EQ(occurrences(svg, "STEP to 4STEP, 2 actions, at "), 200U);
  // The lines are 2 pixels apart.
  EXPECT_EQ(occurrences(svg, "stroke-width=\"0.5\"><title>"), 200U);
}

TEST(TimelineSvg, AStepThatTakesTimeIsABox) {
  Timeline timeline = {1, 20, {}};
  timeline.spans = {sample::span_of(0, {.kind = ActionKind::step, .stage = 0}, 10, 20)};
  const std::string svg = timeline_to_svg(timeline, {.width = 277});
  EXPECT_NE(svg.find("<rect x=\"100.00\" y=\"30.00\" width=\"100.00\" height=\"24.00\" fill=\"#222222\""),
            std::string::npos)
      << svg;
}

TEST(TimelineSvg, SeveralActionsInOneBoxAreHatchedAndInTheLegend) {
  const Timeline timeline = pipeline({.ranks = 2, .microbatches = 1000});
  const std::string svg = timeline_to_svg(timeline, {.width = 400});
  EXPECT_EQ(markup_fault(svg), "");
  EXPECT_EQ(occurrences(svg, ">several actions, too narrow to draw</text>"), 1U);
  EXPECT_GT(occurrences(svg, "fill=\"url(#penstock-several)\""), 2U);
  EXPECT_EQ(occurrences(svg, "height=\"12.00\""), 0U);  // no box looks like an overlapped pair
  const std::string wide = timeline_to_svg(pipeline({.ranks = 2, .microbatches = 4}));
  EXPECT_EQ(wide.find("several actions"), std::string::npos);
}

TEST(TimelineSvg, APictureWithoutTooltipsIsSmallAndJoinsWhatLooksTheSame) {
  const Timeline timeline = pipeline({.ranks = 8, .microbatches = 500});
  const std::string svg =
      timeline_to_svg(timeline, {.least_pixels = 0, .most_elements = 8'000, .tooltips = false});
  EXPECT_EQ(markup_fault(svg), "");
  EXPECT_EQ(occurrences(svg, "<title>"), 0U);
  EXPECT_LT(occurrences(svg, "z"), 4'000U) << "a z ends each box of a path";
  EXPECT_LT(svg.size(), 40'000U);
  const std::string wide = timeline_to_svg(pipeline({.ranks = 2, .microbatches = 4}), {.tooltips = false});
  EXPECT_EQ(occurrences(wide, "v24h"), 2U + 2U * 4 * 2) << "the background of each rank, and its actions";
  EXPECT_EQ(occurrences(wide, ">3</text>"), 2U * 2);
}

TEST(TimelineSvg, TransfersThatTakeNoTimeLeaveNoEmptyRow) {
  Timeline timeline = pipeline({.ranks = 2, .microbatches = 2});
  const std::string without = timeline_to_svg(timeline, {.communication = true});
  Span send = sample::span_of(0, {.kind = ActionKind::send_forward, .stage = 0, .microbatch = 0, .peer = 1},
                              1'000'000, 1'000'000);
  timeline.spans.insert(timeline.spans.begin(), send);
  EXPECT_EQ(timeline_to_svg(timeline, {.communication = true}), without);
}

TEST(BoxSvg, ABoxEndsWhereTheNextOneBeginsToTheLastDigit) {
  BoxText text(true);
  text.add_merged({}, {.x = 1.004, .y = 0, .width = 1.004, .height = 9}, "");  // this box ends at 2.008
  EXPECT_NE(text.boxes().find("<rect x=\"1.00\" y=\"0.00\" width=\"1.01\""), std::string::npos)
      << text.boxes();
}

TEST(BoxSvg, MixesColoursByTheirShareOfTheTime) {
  const Colour forward = colour_of(ActionKind::forward);
  EXPECT_EQ(mixed_colour({{ActionKind::forward, 7}}), forward);
  EXPECT_EQ(to_hex(mixed_colour({{ActionKind::forward, 1}, {ActionKind::backward, 2}})), "#00897b");
  EXPECT_EQ(mixed_colour({}), Colour{});
}

TEST(TimelineSvg, TheLegendHasEveryKindHoweverNarrowThePicture) {
  const Timeline timeline = pipeline({.ranks = 2, .microbatches = 2, .transfer_ns = 500'000});
  for (const std::int32_t width : {200, 400, 2000}) {
    const std::string svg = timeline_to_svg(timeline, {.width = width, .communication = true});
    for (const char* const entry : {">forward<", ">receive gradient<", ">idle<"})
      EXPECT_EQ(occurrences(svg, entry), 1U);
  }
}

TEST(TimelineSvg, CommunicationIsDrawnOnlyWhenAskedFor) {
  const Timeline timeline = pipeline({.ranks = 2, .microbatches = 2, .transfer_ns = 500'000});
  EXPECT_EQ(timeline_to_svg(timeline).find("SEND_F"), std::string::npos);
  EXPECT_EQ(occurrences(timeline_to_svg(timeline, {.communication = true}), "SEND_F"), 2U);
}

TEST(TimelineBoxes, MergesNarrowNeighboursOnly) {
  const auto merged = merge_narrow({box(0, 0, 1), box(1, 1, 2, ActionKind::backward), box(2, 2, 3),
                                    box(3, 12, 13), box(4, 13, 40), box(5, 40, 41)},
                                   10);
  ASSERT_EQ(merged.size(), 4U);
  EXPECT_EQ(merged[0].count, 3U);
  EXPECT_EQ(merged[0].end_ns, 3);
  ASSERT_EQ(merged[0].shares.size(), 2U);
  EXPECT_EQ(merged[0].shares[0].time_ns, 2);
  EXPECT_EQ(merged[0].shares[1].kind, ActionKind::backward);
  EXPECT_EQ(tooltip_of(merged[0]), "0F0 to 0F2, 3 actions, 0 ns to 3 ns (3 ns)");
  EXPECT_EQ(merged[1].count, 1U);
  EXPECT_EQ(merged[2].count, 1U);
  EXPECT_EQ(merged[3].count, 1U);
}

TEST(TimelineBoxes, ARunOfNarrowBoxesBecomesManyRectanglesAndNotOne) {
  std::vector<ComputeBox> boxes;
  for (std::int32_t i = 0; i < 1000; ++i) boxes.push_back(box(i, i, i + 1));
  EXPECT_EQ(merge_narrow(boxes, 10).size(), 100U);
}

TEST(TimelineBoxes, HugeTimesDoNotOverflow) {
  constexpr Ns kLatest = std::numeric_limits<Ns>::max();
  const auto rows =
      drawn_rows({{box(0, 0, kLatest / 2), box(1, kLatest / 2, kLatest)}}, {.most_elements = 1});
  EXPECT_EQ(rows.size(), 1U);
}

TEST(Palette, LighteningMixesWithWhite) {
  EXPECT_EQ(to_hex(lightened({0, 100, 200}, 0.5)), "#80b2e4");
  EXPECT_EQ(to_hex(lightened({0, 100, 200}, 0)), "#0064c8");
  EXPECT_EQ(to_hex(lightened({0, 100, 200}, 1)), "#ffffff");
}

TEST(Palette, NumbersAreWhiteOnDarkColoursAndDarkOnLightOnes) {
  EXPECT_EQ(to_hex(text_colour_on(colour_of(ActionKind::forward))), "#ffffff");
  EXPECT_EQ(to_hex(text_colour_on(colour_of(ActionKind::backward_weight))), "#1a1a1a");
}

TEST(ChartSvg, LooksAsTheGolden) {
  Chart chart;
  chart.title = "Throughput & more";
  chart.x_label = "microbatches M";
  chart.x_scale = AxisScale::log2;
  chart.curves = {{.label = "K = 2",
                   .colour = curve_colour(0, 1),
                   .dots = true,
                   .points = {{1, 100}, {2, 150}, {8, 180, true}}},
                  {.colour = curve_colour(0, 1), .dashed = true, .points = {{1, 110}, {8, 200}}}};
  const std::string svg = chart_to_svg(chart);
  EXPECT_EQ(markup_fault(svg), "");
  EXPECT_EQ(svg, sample::golden("chart.svg", svg));
}

TEST(ChartSvg, HasNoNanWithoutPointsWithOnePointOrWithPointsThatAreNotFinite) {
  Chart chart;
  chart.x_scale = AxisScale::log2;
  EXPECT_EQ(markup_fault(chart_to_svg(chart)), "");
  chart.curves = {{.label = "one", .points = {{4, 0}}}};
  EXPECT_EQ(chart_to_svg(chart).find("nan"), std::string::npos);
  chart.curves[0].points.push_back({8, std::numeric_limits<double>::quiet_NaN()});
  chart.curves[0].points.push_back({16, std::numeric_limits<double>::infinity()});
  EXPECT_EQ(chart_to_svg(chart).find("nan"), std::string::npos);
  EXPECT_EQ(chart_to_svg(chart).find("inf"), std::string::npos);
}

// Twenty dots lie at nearly the same place, and two far away. The marks near each other are on both sides and
// in several lines, and the marks for which there is no place are left out.
TEST(ChartSvg, NoMarkCoversAnother) {
  Chart chart;
  ChartCurve dots{.colour = curve_colour(0, 1), .dots = true};
  for (int i = 0; i < 20; ++i)
    dots.points.push_back({.x = 5 + 0.001 * i, .y = 50, .name = "", .mark = fmt::format("near{}", i)});
  dots.points.push_back({.x = 1, .y = 90, .name = "", .mark = "first"});
  dots.points.push_back({.x = 10, .y = 90, .name = "", .mark = "last"});
  chart.curves = {dots};
  const std::string svg = chart_to_svg(chart);
  EXPECT_EQ(markup_fault(svg), "");
  std::set<std::string> places;
  const std::regex mark("<text (x=\"[0-9.]+\" y=\"[0-9.]+\")[^>]*>(near[0-9]+|first|last)<");
  std::set<std::string> names;
  for (std::sregex_iterator it(svg.begin(), svg.end(), mark); it != std::sregex_iterator(); ++it) {
    names.insert((*it)[2]);
    places.insert(std::regex_replace((*it)[1].str(), std::regex("\\.[0-9]+"), ""));
  }
  EXPECT_TRUE(names.contains("first") && names.contains("last") && names.contains("near0"));
  EXPECT_GE(names.size(), 6U);
  EXPECT_LT(names.size(), 22U);
  EXPECT_EQ(places.size(), names.size());
}

// A factor of two has the same height everywhere, and an area is a polygon behind the curves.
TEST(ChartSvg, ALogarithmicAxisHasTheSameDistanceForEachFactor) {
  Chart chart;
  chart.x_scale = AxisScale::log2;
  chart.y_scale = AxisScale::log2;
  chart.areas = {{.label = "10 %", .corners = {{1, 1}, {8, 8}, {8, 4}}}};
  chart.curves = {{.label = "equal", .dots = true, .points = {{1, 1}, {2, 2}, {4, 4}, {8, 8}}}};
  const std::string svg = chart_to_svg(chart);
  EXPECT_EQ(markup_fault(svg), "");
  EXPECT_LT(svg.find("<polygon"), svg.find("<circle"));
  std::vector<double> heights;
  for (std::size_t at = svg.find("cy=\""); at != std::string::npos; at = svg.find("cy=\"", at + 1))
    heights.push_back(std::stod(svg.substr(at + 4)));
  ASSERT_EQ(heights.size(), 4U);
  for (std::size_t i = 1; i + 1 < heights.size(); ++i)
    EXPECT_NEAR(heights[i - 1] - heights[i], heights[i] - heights[i + 1], 0.02);
  EXPECT_GT(heights[0], heights[1]);
  EXPECT_NE(svg.find("text-anchor=\"end\">4</text>"), std::string::npos) << "ticks are powers of two";
  EXPECT_EQ(svg.find("text-anchor=\"end\">0</text>"), std::string::npos) << "the axis has no 0";
}

TEST(MemorySamples, ThinningKeepsThePeakAndTheLastSampleOfEachSlot) {
  std::vector<MemorySample> samples;
  for (Ns time = 0; time < 1000; ++time) samples.push_back({time, {time == 500 ? 99 : time % 7}});
  const auto thin = thinned(samples, 1000, 10);
  ASSERT_EQ(thin.size(), 20U);
  EXPECT_EQ(thin[10].bytes[0], 99);
  EXPECT_EQ(thin.back(), samples.back());
}

}  // namespace
}  // namespace penstock
