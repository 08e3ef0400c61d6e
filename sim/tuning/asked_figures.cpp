// The work runs on threads that are abandoned when the search is stopped. So it owns all its data: the
// configurations with their prices, and a share of the program library.

#include "sim/tuning/asked_figures.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "sim/engines/parallel_loop.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"
#include "sim/tuning/stoppable_work.hpp"

namespace penstock {
namespace {

/// Groups the indices of configurations by program, in the order in which the programs first appear.
std::vector<std::vector<std::size_t>> by_program(const std::vector<AskedConfiguration>& asked) {
  std::map<ProgramLibrary::Key, std::size_t> place;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto [known, fresh] =
        place.try_emplace(ProgramLibrary::key_of(asked[i].configuration), groups.size());
    if (fresh) groups.emplace_back();
    groups[known->second].push_back(i);
  }
  return groups;
}

/// The figures, or the error.
struct FoundFigures {
  std::vector<std::int64_t> figures{};  // empty if the work was stopped
  std::string error{};
};

/// Computes the figures of the configurations of one program, which is generated here if it is not cached.
FoundFigures figures_of_group(const std::vector<AskedConfiguration>& asked,
                              const std::vector<std::size_t>& group, ProgramLibrary& programs,
                              FiguresOfProgram figures_of) {
  const auto program = programs.program(asked[group.front()].configuration);
  if (!program) return {.error = program.error()};
  std::vector<PricedConfiguration> priced;
  priced.reserve(group.size());
  for (const std::size_t place : group) priced.push_back(asked[place].priced);
  return {.figures = figures_of(**program, priced)};
}

FoundFigures found_figures(const std::vector<AskedConfiguration>& asked, ProgramLibrary& programs,
                           FiguresOfProgram figures_of, const std::function<bool()>& stopped) {
  const auto groups = by_program(asked);
  std::vector<FoundFigures> of_groups(groups.size());
  parallel_loop(groups.size(), [&](std::size_t g) {
    if (!stopped || !stopped()) of_groups[g] = figures_of_group(asked, groups[g], programs, figures_of);
  });
  FoundFigures all{.figures = std::vector<std::int64_t>(asked.size())};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    // If one group was stopped or its program hangs, the whole call has no figures.
    if (of_groups[g].figures.empty()) return std::move(of_groups[g]);
    for (std::size_t i = 0; i < groups[g].size(); ++i) all.figures[groups[g][i]] = of_groups[g].figures[i];
  }
  return all;
}

}  // namespace

tl::expected<std::vector<std::int64_t>, std::string> figures_of_all(std::vector<AskedConfiguration> asked,
                                                                    std::shared_ptr<ProgramLibrary> programs,
                                                                    FiguresOfProgram figures_of,
                                                                    const std::function<bool()>& stopped) {
  auto figures =
      done_unless(stopped, [asked = std::move(asked), programs = std::move(programs), figures_of, stopped] {
        return found_figures(asked, *programs, figures_of, stopped);
      });
  if (!figures) return std::vector<std::int64_t>();
  if (!figures->error.empty()) return tl::unexpected(std::move(figures->error));
  return std::move(figures->figures);
}

}  // namespace penstock
