// Compares what each generator makes with the picture at the top of its file. picture() draws a program as
// papers do, with one line for each rank and one column for each time slot. Slots are starts and ends of the
// rendezvous walk if all durations are one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/test_files.hpp"

namespace penstock {

/// Returns one line for each rank, such as "rank 0   F0 F1       B0 B1". A pair is drawn as "F2&B0". Stage
/// numbers are shown if ranks hold several stages. STEPs and collectives take no slot and are not drawn.
std::vector<std::string> picture(const Program& compute_program);

std::vector<std::string> picture(const Program& compute_program) {
  const auto lowered = lower(compute_program);
  if (!lowered) throw std::runtime_error(lowered.error());
  const FlatProgram flat = flatten(*lowered, unit_costs(*lowered), {.channels = {}});
  WalkDurations slots{.compute = std::vector<Ns>(flat.ops.size(), 0), .hold = {}, .latency = {}};
  for (std::size_t p = 0; p < flat.ops.size(); ++p) {
    slots.compute[p] = flat.ops[p] == FlatOp::compute && flat.actions[p].kind != ActionKind::step ? 1 : 0;
  }
  const auto times = walk(flat, slots, {});
  const bool several_stages = lowered->stage_count() > lowered->rank_count();
  const auto text_of = [&](std::size_t position) {
    const std::string text = to_text(flat.actions[position]);
    return several_stages ? text : text.substr(text.find_first_not_of("0123456789"));
  };
  std::vector<std::vector<std::string>> cells(flat.rank_begin.size() - 1);  // by rank, then slot
  std::vector<std::size_t> widths;                                          // by slot
  for (std::size_t p = 0; p < flat.ops.size(); ++p) {
    if (slots.compute[p] == 0) continue;
    const auto slot = static_cast<std::size_t>(times->start[p]);
    auto& row = cells[static_cast<std::size_t>(flat.rank_of(static_cast<std::int32_t>(p)))];
    row.resize(slot + 1);
    row[slot] = text_of(p);
    for (std::size_t leaf = p; flat.actions[leaf].overlaps_next; ++leaf) row[slot] += "&" + text_of(leaf + 1);
    if (widths.size() <= slot) widths.resize(slot + 1, several_stages ? 3 : 2);
    widths[slot] = std::max(widths[slot], row[slot].size());
  }
  std::vector<std::string> rows;
  for (std::size_t rank = 0; rank < cells.size(); ++rank) {
    std::string row = fmt::format("rank {}  ", rank);
    for (std::size_t slot = 0; slot < cells[rank].size(); ++slot) {
      row += fmt::format(" {:<{}}", cells[rank][slot], widths[slot]);
    }
    rows.push_back(row.substr(0, row.find_last_not_of(' ') + 1));
  }
  return rows;
}

namespace {

/// A picture and the shape that it shows. The picture is a raw string, so that clang-format does not change
/// its lines.
struct Golden {
  const char* schedule;
  const char* file;
  Shape shape;
  const char* picture;
};

/// Returns the lines of a picture. The first line begins after the line end that follows the opening quote.
std::vector<std::string> rows_of(const Golden& golden) {
  std::istringstream text(golden.picture + 1);
  std::vector<std::string> rows;
  for (std::string row; std::getline(text, row);) rows.push_back(row);
  return rows;
}

const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all = {
      {"naive",
       "gpipe.cpp",
       {.stages = 3, .microbatches = 2},
       R"(
rank 0   F0             B0 F1             B1
rank 1      F0       B0       F1       B1
rank 2         F0 B0             F1 B1
)"},
      {"gpipe",
       "gpipe.cpp",
       {.stages = 3, .microbatches = 4},
       R"(
rank 0   F0 F1 F2 F3             B0 B1 B2 B3
rank 1      F0 F1 F2 F3       B0 B1 B2 B3
rank 2         F0 F1 F2 F3 B0 B1 B2 B3
)"},
      {"1f1b",
       "one_f_one_b.cpp",
       {.stages = 3, .microbatches = 4},
       R"(
rank 0   F0 F1 F2       B0 F3 B1    B2    B3
rank 1      F0 F1    B0 F2 B1 F3 B2    B3
rank 2         F0 B0 F1 B1 F2 B2 F3 B3
)"},
      {"1f1b-rr",
       "one_f_one_b_rr.cpp",
       {.stages = 3, .microbatches = 5},
       R"(
rank 0   F0 F1 F2       B0 F3 B1 F4 B2    B3    B4
rank 1      F0 F1    B0 F2 B1 F3 B2 F4 B3    B4
rank 2         F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
)"},
      {"1f1b",
       "stage_replicas.cpp",
       {.stages = 2, .microbatches = 4, .replicas = {2, 1}},
       R"(
rank 0   F0 F2    B0          B2
rank 1   F1 F3          B1          B3
rank 2      F0 B0 F1 B1 F2 B2 F3 B3
)"},
      {"interleaved",
       "interleaved.cpp",
       {.stages = 2, .microbatches = 2, .virtual_stages = 2},
       R"(
rank 0   0F0 0F1 2F0 2F1     2B0     2B1 0B0 0B1
rank 1       1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
)"},
      {"ep-1f1b",
       "interleaved.cpp",
       {.stages = 2, .microbatches = 2, .virtual_stages = 2},
       R"(
rank 0   0F0 0F1 2F0 2F1         2B0 2B1 0B0 0B1
rank 1       1F0 1F1 3F0 3F1&3B0 3B1 1B0 1B1
)"},
      {"zb-h1",
       "zero_bubble.cpp",
       {.stages = 3, .microbatches = 4},
       R"(
rank 0   F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
)"},
      {"looped-bfs",
       "gpipe.cpp",
       {.stages = 2, .microbatches = 2, .virtual_stages = 2},
       R"(
rank 0   0F0 0F1 2F0 2F1         2B1 2B0 0B1 0B0
rank 1       1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0
)"},
      {"zb-h2",
       "zero_bubble.cpp",
       {.stages = 3, .microbatches = 6},
       R"(
rank 0   F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5
rank 1      F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5
rank 2         F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5
)"},
      {"zb-1p",
       "zero_bubble.cpp",
       {.stages = 3, .microbatches = 4},
       R"(
rank 0   F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
)"},
      {"synthesized",
       "zero_bubble.cpp",
       {.stages = 3, .microbatches = 4},
       R"(
rank 0   F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
)"},
      {"zb-2p",
       "zero_bubble.cpp",
       {.stages = 3, .microbatches = 6},
       R"(
rank 0   F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5
rank 1      F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 I4 W1 W2 I5 W3 W4 W5
rank 2         F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5
)"},
      {"v-half",
       "v_placement.cpp",
       {.stages = 2, .microbatches = 3},
       R"(
rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 0I0 3I1 0W0 3W1 3F2 3I2 0I1 3W2 0I2 0W1 0W2
rank 1       1F0 2F0 1F1 2F1 2I0 1I0 2W0 1F2 1W0 2F2 2I1 1I1 2I2 1I2 2W1 1W1 2W2 1W2
)"},
      {"v-min",
       "v_placement.cpp",
       {.stages = 2, .microbatches = 3},
       R"(
rank 0   0F0 0F1     3F0 3I0 3W0 3F1 0I0 3I1 0W0 0F2 0I1 3W1 3F2 3I2 0W1 3W2 0I2 0W2
rank 1       1F0 2F0 1F1 2F1 2I0 1I0 2W0 1W0 2I1 1I1 1F2 2F2 2W1 1W1 2I2 1I2 2W2 1W2
)"},
      {"1f1b-v",
       "v_placement.cpp",
       {.stages = 2, .microbatches = 3},
       R"(
rank 0   0F0 0F1     3F0 3B0 3F1 0F2 3B1 0B0 3F2 3B2 0B1     0B2
rank 1       1F0 2F0 1F1 2F1 2B0 1B0 1F2 2F2 2B1 1B1 2B2 1B2
)"},
      {"zb-v",
       "v_placement.cpp",
       {.stages = 2, .microbatches = 3},
       R"(
rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 0I1 3W2 0I2 0W1 0W2
rank 1       1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 1I1 2I2 1I2 2W1 1W1 2W2 1W2
)"},
      {"eager-1f1b",
       "one_f_one_b.cpp",
       {.stages = 3, .microbatches = 5},
       R"(
rank 0   F0 F1 F2 F3 F4 B0    B1    B2    B3    B4
rank 1      F0 F1 F2 B0 F3 B1 F4 B2    B3    B4
rank 2         F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
)"},
      {"kfkb",
       "one_f_one_b.cpp",
       {.stages = 3, .microbatches = 6},
       R"(
rank 0   F0 F1 F2 F3 F4 F5 B0 B1       B2 B3       B4 B5
rank 1      F0 F1 F2 F3 B0 B1 F4 F5 B2 B3       B4 B5
rank 2         F0 F1 B0 B1 F2 F3 B2 B3 F4 F5 B4 B5
)"},
      {"seq-1f1b",
       "one_f_one_b.cpp",
       {.stages = 2, .microbatches = 2, .slices = 2},
       R"(
rank 0   F0 F1 F2    B1 F3 B0    B3 B2
rank 1      F0 F1 B1 F2 B0 F3 B3 B2
)"},
      {"interleaved-zero-bubble",
       "interleaved.cpp",
       {.stages = 2, .microbatches = 2, .virtual_stages = 2},
       R"(
rank 0   0F0 0F1 2F0 2F1     2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1
rank 1       1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1
)"},
      {"zbv-zero-bubble",
       "v_placement.cpp",
       {.stages = 2, .microbatches = 3},
       R"(
rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2
rank 1       1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2
)"},
      {"dualpipe",
       "dual_pipe.cpp",
       {.stages = 2, .microbatches = 4},
       R"(
rank 0   F0 F2 F1 B2 F3&B0 B3 I1 W1
rank 1   F2 F0 F3 B0 F1&B2 B1 I3 W3
)"},
      {"dualpipe-v",
       "dual_pipe.cpp",
       {.stages = 2, .microbatches = 4},
       R"(
rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3&3B1 3F2&0B0 3B2     3F3&0B1 3B3 0I2 0W2 0I3 0W3
rank 1       1F0 2F0 1F1 2F1 1F2 2B0 2F2&1B0 1F3&2B1 2F3&1B1 2B2     1B2 2I3 1I3 2W3 1W3
)"},
      {"chimera",
       "both_directions.cpp",
       {.stages = 4, .microbatches = 4},
       R"(
rank 0   F0 F1    F2 B2 F3 B3 B0    B1
rank 1      F0 F2 F1 F3 B2 B0 B3 B1
rank 2      F2 F0 F3 F1 B0 B2 B1 B3
rank 3   F2 F3    F0 B0 F1 B1 B2    B3
)"},
      {"gems",
       "both_directions.cpp",
       {.stages = 3, .microbatches = 3},
       R"(
rank 0   F0             B0 F1 B1 F2             B2
rank 1      F0       B0 F1       B1 F2       B2
rank 2         F0 B0 F1             B1 F2 B2
)"},
      {"pipedream-2bw",
       "one_f_one_b.cpp",
       {.stages = 2, .microbatches = 2, .iterations = 2},
       R"(
rank 0   F0 F1    B0 F2 B1 F3 B2    B3
rank 1      F0 B0 F1 B1 F2 B2 F3 B3
)"},
      {"hanayo",
       "both_directions.cpp",
       {.stages = 2, .microbatches = 2, .virtual_stages = 2},
       R"(
rank 0   0F0 0F1     3F0 3B0 3F1 3B1 0B0     0B1
rank 1       1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1
)"},
      {"1f1b-vocab-1",
       "vocabulary.cpp",
       {.stages = 2, .microbatches = 3},
       R"(
rank 0   0F0     2F0 0F1             2B0 2F1 0F2             2B1 2F2 0B0         2B2     0B1 0B2
rank 1       1F0 3F0     1F1 4F0 4B0 3B0 3F1     1F2 4F1 4B1 3B1 1B0 3F2 4F2 4B2 3B2 1B1 1B2
)"},
      {"1f1b-vocab-2",
       "vocabulary.cpp",
       {.stages = 2, .microbatches = 3},
       R"(
rank 0   0F0     2F0 0F1             2B0 2F1 0F2 0B0         2B1 2F2 0B1         2B2 0B2
rank 1       1F0 3F0     1F1 4F0 4B0 1B0 3B0 3F1 1F2 4F1 4B1 1B1 3B1 3F2 4F2 4B2 1B2 3B2
)"},
      {"1f1b-encoder-first",
       "encoder.cpp",
       {.stages = 3, .microbatches = 4},
       R"(
rank 0   0F0 0F3 1F0 1F1 1F2         1B0 1F3 1B1     1B2     1B3 0B0 0B3
rank 1   0F1         2F0 2F1     2B0 2F2 2B1 2F3 2B2     2B3 0B1
rank 2   0F2             3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 0B2
)"},
      {"1f1b-encoder-bubbles",
       "encoder.cpp",
       {.stages = 3, .microbatches = 4},
       R"(
rank 0   0F0 1F0 1F1 1F2 0F3     1B0 1F3 1B1 0B0 1B2     1B3 0B3
rank 1   0F1     2F0 2F1     2B0 2F2 2B1 2F3 2B2     2B3 0B1
rank 2   0F2         3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 0B2
)"},
      {"data-parallel",
       "gpipe.cpp",
       {.stages = 2, .microbatches = 2},
       R"(
rank 0   F0 F0 B0 B0
rank 1   F1 F1 B1 B1
)"},
  };
  return all;
}

TEST(Picture, EveryScheduleHasOne) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    EXPECT_TRUE(std::ranges::any_of(goldens(), [&](const Golden& g) { return g.schedule == schedule.name; }))
        << schedule.name;
  }
}

TEST(Picture, IsWhatTheGeneratorMakes) {
  for (const Golden& golden : goldens()) {
    const auto program = generate(golden.schedule, golden.shape);
    ASSERT_TRUE(program) << program.error();
    EXPECT_EQ(picture(*program), rows_of(golden)) << golden.schedule;
  }
}

TEST(Picture, StandsAtTheTopOfTheGeneratorsFile) {
  for (const Golden& golden : goldens()) {
    if (std::string(golden.schedule) == "data-parallel") continue;  // its picture also shows reductions
    std::ifstream file(source_path("schedules/rules/") + golden.file);
    std::stringstream text;
    text << file.rdbuf();
    for (const std::string& row : rows_of(golden))
      EXPECT_THAT(text.str(), testing::HasSubstr("//   " + row + "\n")) << golden.file;
  }
}

}  // namespace
}  // namespace penstock
