// Tests the packed runs of a page: their size, the part of a long run that they hold, and the colours.
// tests/web/viewer_test.py reads the packed actions back in a browser.

#include "report/pages/html_report.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/pages/packed_columns.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "tests/report/sample_result.hpp"

namespace penstock {
namespace {

using nlohmann::json;

std::string inflated(const std::string& text) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    if (letter == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(letters.find(letter));
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  std::string out(64 << 20, '\0');
  z_stream stream{};
  inflateInit2(&stream, -MAX_WBITS);
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

/// Returns the JSON object in front of the columns.
json header_of(const std::string& packed) {
  const std::string bytes = inflated(packed);
  std::size_t length = 0;
  std::size_t at = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    length |= std::size_t{byte & 127U} << shift;
    if (byte < 128) break;
  }
  return json::parse(bytes.substr(at, length));
}

Result sample_run(const sample::Shape& shape) {
  return sample::result_of(sample::timeline_of(sample::one_f_one_b(shape), shape), shape);
}

TEST(PackedRuns, ARegularScheduleNeedsLessThanAByteAnAction) {
  Result result = sample_run({.ranks = 64, .microbatches = 512, .transfer_ns = 10'000});
  ASSERT_GT(result.timeline.spans.size(), 190'000U);
  EXPECT_LT(packed_runs({{.result = &result}}).size(), 10'000U);
}

TEST(PackedRuns, TimesThatFollowFromTheProgramNeedNoBytes) {
  // Messages that take time make ranks wait, and these waits differ from rank to rank.
  const Result quick = sample_run({.ranks = 64, .microbatches = 64, .transfer_ns = 0});
  const Result slow = sample_run({.ranks = 64, .microbatches = 64, .transfer_ns = 123'456});
  const json columns = header_of(packed_runs({{.result = &slow}}))["runs"][0]["columns"];
  EXPECT_LT(columns["start"].get<int>(), 16);
  EXPECT_LT(columns["duration"].get<int>(), 64);
  EXPECT_LT(packed_runs({{.result = &slow}}).size(), packed_runs({{.result = &quick}}).size() + 100);
}

TEST(PackedRuns, NumbersOfColumnsAreShortWhereTheyRepeatZero) {
  PackedColumns columns;
  for (int i = 0; i < 1000; ++i) columns.put(Column::start, 0);
  columns.put_signed(Column::start, -1);
  columns.put(Column::start, 0);
  // A 0, the number of the zeros behind it (999 in two bytes), -1, and a 0 without zeros behind it.
  EXPECT_EQ(columns.bytes(Column::start), std::string("\0\xe7\x07\x01\0\0", 6));
  EXPECT_EQ(columns.bytes(Column::duration), "");
  EXPECT_EQ(columns.lengths()["start"], 6);
}

TEST(PackedRuns, HaveEachNameAsItIs) {
  Result result = sample_run({.ranks = 2, .microbatches = 2});
  result.ranks[0].device = "</script><b>\"\xff";
  const std::string packed = packed_runs({{.name = "measured", .result = &result}});
  EXPECT_EQ(packed.find_first_of("<>&\""), std::string::npos);
  const json run = header_of(packed)["runs"][0];
  EXPECT_EQ(run["name"], "measured");
  EXPECT_EQ(run["ranks"][0]["device"], "</script><b>\"\xEF\xBF\xBD") << "what is not UTF-8 becomes U+FFFD";
}

TEST(PackedRuns, OfALongRunTheyHoldTheBeginningAndTheEnd) {
  const Result result = sample_run({.ranks = 2, .microbatches = 100});
  EXPECT_FALSE(header_of(packed_runs({{.result = &result}}, 400))["runs"][0].contains("leftOut"));
  const json run = header_of(packed_runs({{.result = &result}}, 100))["runs"][0];
  const Ns from = run["leftOut"][0];
  const Ns to = run["leftOut"][1];
  EXPECT_GT(from, result.makespan_ns / 10);
  EXPECT_LT(to, result.makespan_ns * 9 / 10);
  std::size_t shown = 0;
  for (const Span& span : result.timeline.spans)
    shown += span.start_ns < from || span.start_ns >= to ? 1U : 0U;
  EXPECT_EQ(run["ranks"][0]["spans"].get<std::size_t>() + run["ranks"][1]["spans"].get<std::size_t>(), shown);
  EXPECT_EQ(run["explained"], false);
}

// --- colours
// -------------------------------------------------------------------------------------------------

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

Vector product(const Matrix& matrix, const Vector& vector) {
  Vector result{};
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t i = 0; i < 3; ++i) result[row] += matrix[row][i] * vector[i];
  }
  return result;
}

/// Returns a colour of linear RGB in CIELAB (D65).
Vector lab_of(const Vector& linear) {
  constexpr Matrix kToXyz = {{{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}};
  Vector xyz = product(kToXyz, linear);
  xyz[0] /= 0.95047;
  xyz[2] /= 1.08883;
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  return {116 * f(xyz[1]) - 16, 500 * (f(xyz[0]) - f(xyz[1])), 200 * (f(xyz[1]) - f(xyz[2]))};
}

/// Returns the least distance of two colours for readers who see all colours, and for those who see no red,
/// no green or no blue (Machado, Oliveira and Fernandes, IEEE TVCG 15, 2009, severity 1).
double least_distance(const std::vector<std::string>& colours) {
  constexpr std::array<Matrix, 4> kViews = {
      {{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
       {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}},
       {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}},
       {{{1.255528, -0.076749, -0.178779},
         {-0.078411, 0.930809, 0.147602},
         {0.004733, 0.691367, 0.303900}}}}};
  double least = 1000;
  for (const Matrix& view : kViews) {
    std::vector<Vector> seen;
    for (const std::string& colour : colours) {
      Vector linear{};
      for (std::size_t i = 0; i < 3; ++i) {
        const double part = std::stoi(colour.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
        linear[i] = part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
      }
      linear = product(view, linear);
      for (double& part : linear) part = std::clamp(part, 0.0, 1.0);
      seen.push_back(lab_of(linear));
    }
    for (std::size_t i = 0; i < seen.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j)
        least = std::min(
            least, std::hypot(seen[i][0] - seen[j][0], seen[i][1] - seen[j][1], seen[i][2] - seen[j][2]));
    }
  }
  return least;
}

TEST(PackedRuns, ColoursOfKindsAndOfCausesCanBeToldApart) {
  const Result result = sample_run({.ranks = 1, .microbatches = 1});
  const json header = header_of(packed_runs({{.result = &result}}));
  std::vector<std::string> kinds;
  for (const json& kind : header["kinds"]) {
    // A WAIT takes no time, so no box has its colour.
    if (!kind["letters"].get<std::string>().starts_with("WAIT")) kinds.push_back(kind["colour"]);
  }
  std::vector<std::string> causes;
  for (const json& phase : header["phases"]) causes.push_back(phase["colour"]);
  for (const json& cause : header["causes"]) causes.push_back(cause["colour"]);
  EXPECT_GE(least_distance(kinds), 16);
  EXPECT_GE(least_distance(causes), 12);
}

}  // namespace
}  // namespace penstock
