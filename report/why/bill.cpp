// Rounds the parts of a time, and compares the bills of two runs line by line. A bill divides a makespan
// into the causes of its time. Both bills add up to their makespans, so the changes of their lines add up
// to the change of the makespan. Tests: tests/sim/why_test.cpp.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

std::vector<Ns> rounded_parts(std::vector<double> parts, Ns sum) {
  std::vector<Ns> whole(parts.size(), 0);
  if (parts.empty()) return whole;
  const auto largest = std::ranges::max_element(parts, {}, [](double part) { return std::abs(part); });
  *largest += static_cast<double>(sum) - std::accumulate(parts.begin(), parts.end(), 0.0);
  Ns missing = sum;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    whole[i] = static_cast<Ns>(std::floor(parts[i]));
    missing -= whole[i];
  }
  std::vector<std::size_t> by_fraction(parts.size());
  std::iota(by_fraction.begin(), by_fraction.end(), 0);
  std::ranges::stable_sort(by_fraction, std::greater<>(),
                           [&](std::size_t i) { return parts[i] - std::floor(parts[i]); });
  // Normally, each part changes by at most 1. Because of rounding errors in doubles, `missing` may exceed the
  // number of parts by 1, so the loops can start again at the first part.
  for (std::size_t i = 0; missing > 0; i = (i + 1) % parts.size(), --missing) ++whole[by_fraction[i]];
  for (std::size_t i = parts.size() - 1; missing < 0; i = i == 0 ? parts.size() - 1 : i - 1, ++missing)
    --whole[by_fraction[i]];
  return whole;
}

MeanBill mean_bill(const Explanation& explanation) {
  std::vector<double> means = {static_cast<double>(explanation.busy_ns) / explanation.ranks};
  for (const BillLine& line : explanation.bill)
    means.push_back(static_cast<double>(line.idle_ns) / explanation.ranks);
  const std::vector<Ns> whole = rounded_parts(std::move(means), explanation.makespan_ns);
  MeanBill bill{.makespan_ns = explanation.makespan_ns, .lines = {{"work", whole.front()}}};
  for (std::size_t i = 0; i < explanation.bill.size(); ++i)
    bill.lines.push_back({explanation.bill[i].cause, whole[i + 1]});
  return bill;
}

std::vector<BillChange> changes_of(const MeanBill& before, const MeanBill& after) {
  std::vector<BillChange> changes;
  changes.reserve(before.lines.size() + after.lines.size());
  for (const MeanLine& line : before.lines) changes.push_back({line.cause, line.mean_ns, 0});
  for (const MeanLine& line : after.lines) {
    const auto known = std::ranges::find(changes, line.cause, &BillChange::cause);
    if (known == changes.end()) {
      changes.push_back({line.cause, 0, line.mean_ns});
    } else {
      known->after_ns = line.mean_ns;
    }
  }
  std::erase_if(changes, [](const BillChange& change) { return change.before_ns == change.after_ns; });
  std::ranges::stable_sort(changes, std::ranges::greater{}, [](const BillChange& change) {
    return std::abs(change.after_ns - change.before_ns);
  });
  return changes;
}

std::vector<std::string> change_lines(const MeanBill& before, const MeanBill& after) {
  const auto with_plus = [](Ns ns) {
    return fmt::format("{}{}", ns < 0 ? "-" : "+", format_duration(std::abs(ns)));
  };
  const auto signed_text = [](Ns ns) {
    return fmt::format("{}{}", ns < 0 ? "-" : "", format_duration(std::abs(ns)));
  };
  std::vector<std::string> lines = {fmt::format("the makespan changes by {}, of which a rank has on average:",
                                                with_plus(after.makespan_ns - before.makespan_ns))};
  for (const BillChange& change : changes_of(before, after)) {
    lines.push_back(fmt::format("  {:>12}  {}: {} -> {}", with_plus(change.after_ns - change.before_ns),
                                change.cause, signed_text(change.before_ns), signed_text(change.after_ns)));
  }
  return lines;
}

}  // namespace penstock
