// Writes the text form that program_parser.cpp reads: a line for each setting and stage, then a line of
// actions for each rank. Settings with default values are left out, and the order of lines is fixed.
// Therefore equal programs give equal texts, and reading a text gives an equal program. Numbers are written
// directly into one string, because a program may have millions of them. Tested by program_text_test.cpp.

#include "schedules/text/program_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

namespace {

/// Returns the passes that the stages run if all stages run the same ones. Otherwise returns Passes::both.
Passes common_passes(const Program& program) {
  const std::vector<StagePlacement>& stages = program.placement.stages;
  const bool differ = std::ranges::any_of(
      stages, [&](const StagePlacement& stage) { return stage.passes != stages.front().passes; });
  return stages.empty() || differ ? Passes::both : stages.front().passes;
}

/// A writer of the text form of a program. Each line is written with the line break in front of it, so a
/// setting that is left out leaves no empty line.
class ProgramWriter {
 public:
  std::string write(const Program& program);

 private:
  void add(std::string_view text) { text_ += text; }
  void add(std::int32_t number);
  void add_options(const Program& program);
  void add_edges(const std::vector<StageEdge>& edges);
  void add_stage(const StagePlacement& stage);
  void add_actions(const std::vector<Action>& actions);
  void add_action(const Action& action);
  void add_group_end(const Action& last);

  Passes common_ = Passes::both;  // the passes of all stages, if all have the same
  std::string text_;
};

std::string ProgramWriter::write(const Program& program) {
  common_ = common_passes(program);
  add(kProgramHeader);
  add_options(program);
  add_edges(program.edges);
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    add("\nstage ");
    add(stage);
    add_stage(program.placement.stages[static_cast<std::size_t>(stage)]);
  }
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    add("\nrank ");
    add(rank);
    add(":");
    add_actions(program.ranks[static_cast<std::size_t>(rank)]);
  }
  add("\n");
  return std::move(text_);
}

void ProgramWriter::add(std::int32_t number) {
  // A number has at most ten digits and a sign, so to_chars() never fails.
  std::array<char, 12> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  text_.append(digits.data(), end);
}

void ProgramWriter::add_options(const Program& program) {
  const Program defaults;
  add("\nschedule ");
  add(program.schedule);
  add("\nmicrobatches ");
  add(program.microbatches);
  if (program.iterations != defaults.iterations) {
    add("\niterations ");
    add(program.iterations);
  }
  if (program.slices != defaults.slices) {
    add("\nslices ");
    add(program.slices);
  }
  if (program.barrier) add("\nbarrier");
  if (program.mixed_versions) add("\nversions mixed");
  if (program.update != defaults.update) {
    add("\nupdate ");
    add(to_text(program.update));
  }
  if (program.recompute != defaults.recompute) {
    add("\nrecompute ");
    add(to_text(program.recompute));
  }
  if (program.sharding != defaults.sharding) {
    add("\nsharding ");
    add(program.sharding);
  }
  if (program.channel != defaults.channel) {
    add("\nchannel ");
    add(to_text(program.channel));
  }
  if (common_ != Passes::both) {
    add("\nforward_only");
    if (common_ == Passes::forward_kv) add(" kv");
  }
}

void ProgramWriter::add_edges(const std::vector<StageEdge>& edges) {
  if (edges.empty()) return;
  add("\nedges");
  for (const StageEdge& edge : edges) {
    add(" ");
    add(to_text(edge));
  }
}

/// Writes the line of a stage. If all stages run the same passes, they are left out here, because the
/// header states them.
void ProgramWriter::add_stage(const StagePlacement& stage) {
  add(":");
  if (stage.is_forward_only() && stage.passes != common_)
    add(stage.passes == Passes::forward_kv ? " forward kv" : " forward");
  add(stage.ranks.size() == 1 ? " rank" : " ranks");
  for (const std::int32_t rank : stage.ranks) {
    add(" ");
    add(rank);
  }
  // The route of replicas is always written, because the reader has no default value for it.
  if (stage.ranks.size() == 1 && stage.route == StagePlacement{}.route) return;
  add(" route");
  for (const std::int32_t replica : stage.route) {
    add(" ");
    add(replica);
  }
}

void ProgramWriter::add_actions(const std::vector<Action>& actions) {
  bool in_group = false;
  for (const Action& action : actions) {
    if (in_group) {
      add(";");
    } else {
      add(action.overlaps_next ? " (" : " ");
    }
    add_action(action);
    if (in_group && !action.overlaps_next) add_group_end(action);
    in_group = action.overlaps_next;
  }
  if (in_group)
    add_group_end(actions.back());  // a group without its last action is invalid, but the text must show it
}

void ProgramWriter::add_group_end(const Action& last) {
  add(")");
  add(group_word(last));
}

void ProgramWriter::add_action(const Action& action) {
  add(action.stage);
  add(letters(action.kind));
  if (has_microbatch(action.kind)) add(action.microbatch);
  if (const auto neighbour = chain_peer(action.kind, action.stage); neighbour && action.peer != *neighbour) {
    add(is_send(action.kind) ? ">" : "<");
    add(action.peer);
  }
  if (action.weight_version != 0) {
    add("@");
    add(action.weight_version);
  }
}

}  // namespace

std::string to_text(const StageEdge& edge) {
  return fmt::format("{}{}{}{}", edge.from, edge.flows == EdgeFlows::gradient ? '<' : '>', edge.to,
                     edge.flows == EdgeFlows::both ? "" : "!");
}

std::string to_text(const Program& program) { return ProgramWriter().write(program); }

// Draws the steps around a fault, for error messages:
//
//   step  rank 0  rank 1
//      2  0F2     1B0 <-- here
//      3  0B0     1F1
//
// The table has only a few steps before and after the fault, and a few neighbouring ranks. In a large table
// the fault would be hard to find. Tested by validate_test.cpp.

namespace {

constexpr const char* kMark = "<-- here";

/// Returns the texts of at most `count` entries of a rank's list, from entry `first` on. A group is one
/// entry, such as "(0F5;3B2)".
std::vector<std::string> cells(const std::vector<Action>& actions, std::size_t first, std::size_t count) {
  std::vector<std::string> texts;
  std::size_t step = 0;
  for (std::size_t at = 0; at < actions.size() && step < first + count; ++step) {
    std::string text = to_text(actions[at]);
    const bool group = actions[at].overlaps_next;
    while (actions[at].overlaps_next && at + 1 < actions.size())
      text += fmt::format(";{}", to_text(actions[++at]));
    ++at;
    if (step >= first) texts.push_back(group ? fmt::format("({})", text) : text);
  }
  return texts;
}

/// Returns the number of the entry that contains the action at `position`. A group is one entry. Therefore
/// an action that overlaps the next action is not counted.
std::size_t step_of(const std::vector<Action>& actions, std::size_t position) {
  const auto until = actions.begin() + static_cast<std::ptrdiff_t>(std::min(position, actions.size()));
  return position - static_cast<std::size_t>(std::count_if(
                        actions.begin(), until, [](const Action& action) { return action.overlaps_next; }));
}

/// Returns the first of `count` consecutive numbers below `all`. If possible, `middle` is in the middle of
/// these numbers.
std::size_t window(std::size_t middle, std::size_t count, std::size_t all) {
  const std::size_t first = middle > count / 2 ? middle - count / 2 : 0;
  return all > count ? std::min(first, all - count) : 0;
}

std::string padded(const std::string& text, std::size_t width) { return fmt::format("{:<{}}", text, width); }

std::string without_blanks_at_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string schedule_grid(const Program& program, const ProgramPlace& marked, const GridSize& size) {
  const auto marked_rank = static_cast<std::size_t>(marked.rank);
  const std::size_t ranks = program.ranks.size();
  const std::size_t first_rank = window(marked_rank, size.ranks, ranks);
  const std::size_t last_rank = std::min(first_rank + size.ranks, ranks);
  const std::size_t marked_step = step_of(program.ranks[marked_rank], marked.position);
  // All columns must have the same number of rows, although the lists have different lengths. Rows that are
  // empty on all ranks are removed below.
  const std::size_t first_step = marked_step > size.steps / 2 ? marked_step - size.steps / 2 : 0;

  std::vector<std::string> lines{"step  "};
  for (std::size_t row = 0; row < size.steps; ++row)
    lines.push_back(fmt::format("{:>4}  ", first_step + row));
  // The marked row is drawn even if it is after the end of all lists.
  std::size_t used_rows = marked_step - first_step + 1;
  for (std::size_t rank = first_rank; rank < last_rank; ++rank) {
    std::vector<std::string> column = cells(program.ranks[rank], first_step, size.steps);
    used_rows = std::max(used_rows, column.size());
    column.resize(size.steps);
    if (rank == marked_rank) {
      std::string& cell = column[marked_step - first_step];
      cell += cell.empty() ? kMark : std::string(" ") + kMark;
    }
    column.insert(column.begin(), fmt::format("rank {}", rank));
    const std::size_t width = std::ranges::max_element(column, {}, &std::string::size)->size() + 2;
    for (std::size_t row = 0; row < column.size(); ++row) lines[row] += padded(column[row], width);
  }
  lines.resize(used_rows + 1);
  std::string grid;
  for (std::string& line : lines) grid += without_blanks_at_end(std::move(line)) + "\n";
  grid.pop_back();
  return grid;
}

}  // namespace penstock
