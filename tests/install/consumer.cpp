// Predicts 1F1B on 4 ranks through the installed headers; exits 1 when the answer is not (M + K - 1) * 3 ms.

#include <iostream>

#include "scenarios/read/scenario.hpp"
#include "sim/runs/simulate.hpp"

int main() {
  penstock::Scenario scenario;
  scenario.schedule = "1f1b";
  scenario.shape.stages = 4;
  scenario.batch.microbatches = 8;
  const auto result = penstock::simulate_scenario(scenario, {});
  if (!result) {
    std::cerr << result.error().message << '\n';
    return 1;
  }
  std::cout << "1f1b, K = 4, M = 8: " << result->makespan_ns << " ns\n";
  return result->makespan_ns == 33'000'000 ? 0 : 1;
}
