// A result that breaks one of these has come out of arithmetic that went wrong: it must not be printed,
// written or held against anything.

#include "report/result/result_invariants.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

struct Range {
  double least = 0;
  double most = 0;
};

/// The first that does not hold: what comes after it is often its consequence.
class Invariants {
 public:
  void not_negative(std::string_view what, std::int64_t amount) {
    if (amount < 0) set(fmt::format("{} is {}, below 0", what, amount));
  }
  /// Also not NaN.
  void within(std::string_view what, double figure, Range range) {
    if (!(figure >= range.least && figure <= range.most))
      set(fmt::format("{} is {}, not in [{}, {}]", what, figure, range.least, range.most));
  }
  void set(std::string fault) {
    if (!fault_) fault_ = std::move(fault);
  }
  const std::optional<std::string>& fault() const { return fault_; }

 private:
  std::optional<std::string> fault_;
};

void check_rank(Invariants& all, const RankReport& rank, const Result& result) {
  // A measurement's times may come from several clocks, which agree up to an error.
  const auto slack = result.kind == ResultKind::measured ? result.makespan_ns / 1000 + 1 : 0;
  // Taken off on this side, since the sum might pass 64 bits.
  if (rank.busy_ns < 0 || rank.busy_ns - slack > result.makespan_ns) {
    all.set(fmt::format("rank {} is busy for {} ns of a makespan of {} ns", rank.rank, rank.busy_ns,
                        result.makespan_ns));
  }
  all.not_negative("exposed communication", rank.exposed_communication_ns);
  all.not_negative("live activations", rank.peak_live_activations);
  all.not_negative("sent bytes", rank.sent_bytes);
  all.not_negative("received bytes", rank.received_bytes);
  all.not_negative("peak bytes", rank.memory.peak_bytes);
  for (const Bytes bytes : rank.memory.at_peak) all.not_negative("memory at the peak", bytes);
  for (const Bytes bytes : rank.memory.peaks) all.not_negative("a category's peak", bytes);
}

}  // namespace

std::optional<std::string> broken_invariant(const Result& result) {
  const double slack = result.kind == ResultKind::measured ? 1e-3 : 1e-9;  // of clocks, or of rounding
  const Range part = {.least = -slack, .most = 1 + slack};
  Invariants all;
  all.not_negative("the makespan", result.makespan_ns);
  for (const RankReport& rank : result.ranks) check_rank(all, rank, result);
  all.within("idle over total", result.bubble.idle_over_total, part);
  all.within("idle of the longest span", result.bubble.longest_span_rate, part);
  for (const LinkTraffic& link : result.links) all.not_negative("bytes of a link", link.bytes);
  return all.fault();
}

}  // namespace penstock
