#include "sim/reproduce.hpp"

#include <array>
#include <cmath>
#include <span>

namespace penstock {
namespace {

constexpr std::array kReproductions = {
    Reproduction{.name = "pipedream-figures",
                 .source = "PipeDream (SOSP'19), figures 2, 3, 4 and 8",
                 .setting = "F takes 1 unit, B 2 (figure 8: 2 and 2 on the replicated stage, 1 and 1 on the "
                            "other); links are free; no reduction "
                            "among replicas",
                 .run = reproduce_pipedream_figures},
    Reproduction{
        .name = "zero-bubble-table-5",
        .source = "Zero Bubble Pipeline Parallelism (ICLR'24), table 5",
        .setting = "the profiled times of its table 9; bubble rate of the longest rank; zb-1p and zb-2p may "
                   "be better than published; 1F1B-I by its formula (K-1)(f+b+w)/v + (2Kv-K-2)c",
        .run = reproduce_zero_bubble_table_5},
};

}  // namespace

bool ReproducedFigure::holds() const {
  switch (claim) {
    case Claim::equal:
      return std::abs(predicted - published) <= tolerance;
    case Claim::at_most:
      return predicted <= published + tolerance;
  }
  return false;
}

std::span<const Reproduction> reproduction_table() { return kReproductions; }

}  // namespace penstock
