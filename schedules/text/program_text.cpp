// Writes the text form that program_parser.cpp reads: a line for each setting and stage, then a line of
// actions for each rank. Settings with default values are left out, and the order of lines is fixed.
// Therefore equal programs give equal texts, and reading a text gives an equal program. Numbers are written
// directly into one string, because a program may have millions of them. Tested by program_text_test.cpp.

#include "schedules/text/program_text.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/text/program_words.hpp"

namespace penstock {
namespace {

/// Writes the text form of a program. Each line writes the line break before it, so that a setting that is
/// left out leaves no empty line.
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

  std::string text_;
};

std::string ProgramWriter::write(const Program& program) {
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
}

void ProgramWriter::add_edges(const std::vector<StageEdge>& edges) {
  if (edges.empty()) return;
  add("\nedges");
  for (const StageEdge& edge : edges) {
    add(" ");
    add(edge.from);
    add(">");
    add(edge.to);
  }
}

void ProgramWriter::add_stage(const StagePlacement& stage) {
  add(stage.ranks.size() == 1 ? ": rank" : ": ranks");
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
    if (in_group && !action.overlaps_next) add(")OVERLAP_F_B");
    in_group = action.overlaps_next;
  }
  if (in_group) add(")OVERLAP_F_B");  // a group without its last action is invalid, but the text must show it
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

std::string to_text(const Program& program) { return ProgramWriter().write(program); }

}  // namespace penstock
