// Checks the OFFLOADs and RELOADs of each rank's list. Between the two, the activation of the microbatch is
// in the memory of the host, so no action may use it there:
//
//   0F0 0OFFLOAD0 0F1 ... 0RELOAD0 0F4 0B0          F, OFFLOAD, RELOAD, B or I: in this order, each once
//
// A rank reaches a RELOAD before the B that waits for it, and copies wait only for earlier copies of their
// rank. So no program hangs because of its copies. Tested by offload_test.cpp of tests/sim/.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/check/validate_parts.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// The positions of the copies of one activation.
struct Copies {
  std::optional<std::size_t> offload;
  std::optional<std::size_t> reload;
};

/// A walk over the list of one rank.
class CopyCheck {
 public:
  CopyCheck(const Program& program, const UnitTable& table, std::int32_t rank)
      : program_(program), table_(table), rank_(rank) {}

  Checked run() {
    const std::vector<Action>& actions = program_.ranks[index(rank_)];
    for (std::size_t position = 0; position < actions.size(); ++position) {
      const Action& action = actions[position];
      if (!is_host_copy(action.kind)) continue;
      Copies& copies = copies_[{action.stage, action.microbatch}];
      const std::string broken = action.kind == ActionKind::offload ? broken_offload(action, position, copies)
                                                                    : broken_reload(action, position, copies);
      if (!broken.empty()) return broken_at(program_, rank_, position, action, broken);
    }
    for (const auto& [unit, copies] : copies_) {
      if (copies.reload) continue;
      const Placed user = table_.worker(unit.first, unit.second, Flow::gradient);
      return broken_at(
          program_, rank_, *copies.offload, actions[*copies.offload],
          fmt::format("is not followed by {}RELOAD{}, but {} (position {}) needs the activation; "
                      "put {}RELOAD{} between the two",
                      unit.first, unit.second, to_text(user.action), user.position, unit.first, unit.second));
    }
    return {};
  }

 private:
  static std::string twice(std::size_t first) {
    return fmt::format("comes a second time, must come once (before at position {}); delete one", first);
  }

  std::string broken_offload(const Action& action, std::size_t position, Copies& copies) const {
    if (copies.offload) return twice(*copies.offload);
    copies.offload = position;
    const std::int32_t recompute = table_.at(action.stage, action.microbatch).recompute;
    if (recompute != UnitTable::kAbsent) {
      return fmt::format(
          "moves what F keeps, but {}R{} (position {}) computes it again; delete the OFFLOAD and its RELOAD, "
          "or the R",
          action.stage, action.microbatch, recompute);
    }
    const Placed made = table_.worker(action.stage, action.microbatch, Flow::activation);
    if (std::cmp_greater_equal(made.position, position)) {
      return fmt::format("must come after {} (position {}), which makes the activation; move it behind it",
                         to_text(made.action), made.position);
    }
    return broken_by_use(action, position);
  }

  std::string broken_reload(const Action& action, std::size_t position, Copies& copies) const {
    if (copies.reload) return twice(*copies.reload);
    if (!copies.offload) {
      return fmt::format(
          "must come after {0}OFFLOAD{1}, but there is none before it; add {0}OFFLOAD{1}, or delete the "
          "RELOAD",
          action.stage, action.microbatch);
    }
    copies.reload = position;
    return broken_by_use(action, position);
  }

  /// Returns the fault if the B or I of the microbatch comes before the copy, or an empty text.
  std::string broken_by_use(const Action& copy, std::size_t position) const {
    const Placed user = table_.worker(copy.stage, copy.microbatch, Flow::gradient);
    if (std::cmp_greater(user.position, position)) return "";
    if (copy.kind == ActionKind::reload) {
      return fmt::format(
          "must come before {} (position {}), which needs the activation from the host; move it there",
          to_text(user.action), user.position);
    }
    return fmt::format("must come before {} (position {}), which uses the activation; move it there",
                       to_text(user.action), user.position);
  }

  const Program& program_;
  const UnitTable& table_;
  std::int32_t rank_;
  std::map<std::pair<std::int32_t, std::int32_t>, Copies> copies_;  // by stage and unit
};

}  // namespace

Checked check_host_copies(const Program& program, const UnitTable& table) {
  const auto is_copy = [](const Action& action) { return is_host_copy(action.kind); };
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    if (std::ranges::none_of(program.ranks[index(rank)], is_copy)) continue;
    if (Checked checked = CopyCheck(program, table, rank).run(); !checked) return checked;
  }
  return {};
}

}  // namespace penstock
