// Packs runs into a short text for the viewer of a page. A run becomes columns of integers of variable
// length. Most columns hold differences to what is expected, so that the columns of a regular schedule are
// nearly all zeros and ones:
//
//   rank 0     F0      F1      B0         expected: a start at the end of the action before, the duration of
//   the start      0       0       6 ms       last action of the same kind and stage, and the next microbatch
//   duration   1 ms    0       2 ms
//
// All columns together are compressed (raw deflate, RFC 1951) and written in base64. In front of them is a
// JSON object with the names and the lengths of the columns. Names are inside the compressed text, so no name
// can break the page. report/web/viewer.js reads the columns in the same order. Tests: viewer_test.cpp, and
// tests/web/viewer_test.py, which reads the packed actions in a browser.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/pages/html_report.hpp"
#include "report/print/html_page.hpp"
#include "report/print/memory_category.hpp"
#include "report/print/palette.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/timeline/timeline.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

using PackedJson = nlohmann::ordered_json;

// The largest number of links in a chain of causes that the page stores. If a chain is longer, its earliest
// links are left out.
constexpr std::size_t kMostChainLinks = 64;
// The largest size in bytes of the compressed memory samples of all ranks. If they would be larger, some
// samples are left out.
constexpr std::size_t kMostMemoryBytes = std::size_t{256} * 1024;
constexpr std::size_t kMemorySlots = 300;
constexpr std::int32_t kNoSpan = -1;

// The colours of causes and phases differ by at least 12 in CIELAB, also for readers who see no red, no green
// or no blue (tests/report/viewer_test.cpp).
constexpr std::array<std::string_view, kIdleCauses> kCauseColours = {
    "#d55e00",  // imbalance
    "#cc79a7",  // slow rank
    "#e69f00",  // variation
    "#0175b6",  // bandwidth
    "#56b4e9",  // shared link
    "#009e73",  // latency
    "#f0e442",  // queue
    "#8d564a",  // collective
    "#555555",  // step
    "#734393",  // launch
    "#1a0f4a",  // offload
};
constexpr std::array<std::string_view, kIdlePhases> kPhaseColours = {
    "#bcbcbc",  // fill
    "#93abca",  // order
    "#e0e0e2",  // drain
};

/// The columns of numbers into which a run is packed for viewer.js.
enum class Column : std::uint8_t {
  code,
  microbatch,
  version,
  start,
  duration,
  release,
  link,
  interval_at,
  interval_mask,
  interval_part,
  ready,
  chain_length,
  chain_what,
  chain_span,
  chain_from,
  memory_time,
  memory_mask,
  memory_amount,
};
constexpr std::array<std::string_view, 18> kColumnNames = {
    "code",      "microbatch", "version",      "start",        "duration",   "release",
    "link",      "intervalAt", "intervalMask", "intervalPart", "ready",      "chainLength",
    "chainWhat", "chainSpan",  "chainFrom",    "memoryTime",   "memoryMask", "memoryAmount"};

void put_number(std::string& bytes, std::uint64_t number) {
  for (; number >= 128; number >>= 7) bytes += static_cast<char>(number | 128);
  bytes += static_cast<char>(number);
}

class PackedColumns {
 public:
  void put(Column column, std::int64_t number) {
    put_number(bytes_[static_cast<std::size_t>(column)], static_cast<std::uint64_t>(number));
  }
  /// Adds a number that may be negative to a column. Numbers near 0 are short: 0, -1, 1, -2 become 0, 1, 2,
  /// 3.
  void put_signed(Column column, std::int64_t number) {
    const auto bits = static_cast<std::uint64_t>(number);
    put_number(bytes_[static_cast<std::size_t>(column)], number < 0 ? ~(bits << 1) : bits << 1);
  }
  std::string& of(Column column) { return bytes_[static_cast<std::size_t>(column)]; }
  PackedJson lengths() const {
    PackedJson lengths = PackedJson::object();
    for (std::size_t c = 0; c < bytes_.size(); ++c) lengths[std::string(kColumnNames[c])] = bytes_[c].size();
    return lengths;
  }
  std::string all() const {
    std::string all;
    for (const std::string& bytes : bytes_) all += bytes;
    return all;
  }

 private:
  std::array<std::string, kColumnNames.size()> bytes_;
};

// --- the spans of a run
// --------------------------------------------------------------------------------------

/// All fields of an action except its microbatch and its times. Many actions of a rank have the same code.
/// The page therefore numbers the codes of each rank, and stores only these numbers.
using Code = std::tuple<ActionKind, std::int32_t, std::int32_t, std::int32_t, bool>;

Code code_of(const Span& span) {
  return {span.action.kind, span.action.stage, span.action.peer, span.replica, span.action.overlaps_next};
}

/// The values of the last span on a rank that has a given code. The next span with this code is stored as the
/// differences to these values.
struct LastOfCode {
  std::int32_t number = 0;
  std::int32_t microbatch = -1;
  std::int32_t version = 0;
  Ns duration = 0;
  Ns hold = 0;
  std::int32_t link = 0;
};

/// The key by which the SEND of a message is found: direction, sending stage, receiving stage and
/// microbatch.
using MessageKey = std::tuple<bool, std::int32_t, std::int32_t, std::int32_t>;

MessageKey message_key(const Action& action) {
  const bool forward = action.kind == ActionKind::send_forward || action.kind == ActionKind::recv_forward;
  const bool sends = is_send(action.kind);
  return {forward, sends ? action.stage : action.peer, sends ? action.peer : action.stage, action.microbatch};
}

/// The spans (actions and messages with their times) that a page holds. If the run is long, these are the
/// first and the last spans.
struct HeldSpans {
  std::vector<Span> spans;
  std::optional<std::pair<Ns, Ns>> left_out;  ///< the time whose spans are left out
};

HeldSpans held_spans(const Timeline& timeline, std::size_t most_actions) {
  std::vector<Ns> starts;
  for (const Span& span : timeline.spans) {
    if (is_compute(span.action.kind)) starts.push_back(span.start_ns);
  }
  if (starts.size() <= most_actions) return {timeline.spans, std::nullopt};
  std::ranges::sort(starts);
  const Ns from = starts[most_actions / 2];
  const Ns to = starts[starts.size() - most_actions / 2];
  HeldSpans held{.spans = {}, .left_out = std::pair(from, to)};
  for (const Span& span : timeline.spans) {
    if (span.start_ns < from || span.start_ns >= to) held.spans.push_back(span);
  }
  return held;
}

/// Writes the columns of numbers into which one run is packed.
class RunPacker {
 public:
  RunPacker(const ViewedRun& run, std::size_t most_actions)
      : run_(run),
        timeline_(run.result->timeline),
        held_(held_spans(timeline_, most_actions)),
        ranks_(index(timeline_.rank_count)) {}

  PackedJson pack() {
    PackedJson header = {{"name", run_.name}, {"makespan", timeline_.makespan_ns}};
    if (held_.left_out) header["leftOut"] = {held_.left_out->first, held_.left_out->second};
    header["ranks"] = pack_spans();
    header["explained"] = run_.why != nullptr && !held_.left_out;
    if (header["explained"]) pack_explanation(header);
    pack_memory(header);
    header["columns"] = columns_.lengths();
    return header;
  }
  std::string bytes() const { return columns_.all(); }

 private:
  /// The spans of one rank: the number of the first span, the number after the last one, and the first
  /// spans of its compute groups.
  struct Rank {
    std::size_t first = 0;
    std::size_t end = 0;
    std::vector<std::int32_t> groups;
  };

  PackedJson pack_spans() {
    for (std::size_t i = 0; i < held_.spans.size(); ++i) {
      const Action& action = held_.spans[i].action;
      if (is_send(action.kind))
        sends_.try_emplace(message_key(action), Send{i, static_cast<std::int32_t>(sends_.size())});
    }
    PackedJson ranks = PackedJson::array();
    std::size_t next = 0;
    for (std::int32_t number = 0; number < timeline_.rank_count; ++number) {
      Rank& rank = ranks_[index(number)];
      rank.first = next;
      while (next < held_.spans.size() && held_.spans[next].rank == number) ++next;
      rank.end = next;
      PackedJson codes = PackedJson::array();
      pack_rank(rank, codes);
      ranks.push_back({{"name", fmt::format("rank {}", number)},
                       {"device", device_of(number)},
                       {"spans", rank.end - rank.first},
                       {"codes", std::move(codes)}});
    }
    return ranks;
  }

  std::string device_of(std::int32_t rank) const {
    return index(rank) < run_.result->ranks.size() ? run_.result->ranks[index(rank)].device : "";
  }

  void pack_rank(Rank& rank, PackedJson& codes) {
    std::map<Code, LastOfCode> lasts;
    // Codes are stored as differences to the previous code, because the stages of a rank often follow each
    // other.
    std::array<std::int32_t, 5> last_code{};
    const Span* group = nullptr;  // the last compute span
    for (std::size_t i = rank.first; i < rank.end; ++i) {
      const Span& span = held_.spans[i];
      const auto [entry, is_new] = lasts.try_emplace(code_of(span));
      LastOfCode& last = entry->second;
      if (is_new) {
        last.number = static_cast<std::int32_t>(codes.size());
        const std::array<std::int32_t, 5> code = {static_cast<std::int32_t>(span.action.kind),
                                                  span.action.stage, span.action.peer, span.replica,
                                                  span.action.overlaps_next ? 1 : 0};
        PackedJson differences = PackedJson::array();
        for (std::size_t k = 0; k < code.size(); ++k) differences.push_back(code[k] - last_code[k]);
        codes.push_back(std::move(differences));
        last_code = code;
      }
      columns_.put(Column::code, last.number);
      if (has_microbatch(span.action.kind)) {
        columns_.put_signed(Column::microbatch, span.action.microbatch - last.microbatch - 1);
        last.microbatch = span.action.microbatch;
      }
      columns_.put_signed(Column::version, span.action.weight_version - last.version);
      last.version = span.action.weight_version;
      if (is_recv(span.action.kind)) {
        pack_receive(span, last, group);
      } else {
        pack_times(span, last, group);
      }
      if (!is_compute(span.action.kind)) continue;
      if (group == nullptr || !group->action.overlaps_next)
        rank.groups.push_back(static_cast<std::int32_t>(i));
      group = &span;
    }
  }

  /// Returns the time at which a span is expected to start. It is the end of the last compute span, or the
  /// start of the other half of its overlapped pair.
  static Ns expected_start(const Span& span, const Span* group) {
    if (group == nullptr) return 0;
    return is_compute(span.action.kind) && group->action.overlaps_next ? group->start_ns : group->end_ns;
  }

  void pack_times(const Span& span, LastOfCode& last, const Span* group) {
    columns_.put_signed(Column::start, span.start_ns - expected_start(span, group));
    const Ns duration = span.end_ns - span.start_ns;
    columns_.put_signed(Column::duration, duration - last.duration);
    last.duration = duration;
    if (!is_send(span.action.kind)) return;
    const Ns hold = span.released_ns == kNotReleased ? -1 : span.released_ns - span.start_ns;
    columns_.put_signed(Column::release, hold - last.hold);
    last.hold = hold;
  }

  /// Writes the times of a RECV as differences to the times of its SEND, which are usually equal.
  void pack_receive(const Span& span, LastOfCode& last, const Span* group) {
    const auto sent = sends_.find(message_key(span.action));
    if (sent == sends_.end()) {
      columns_.put(Column::link, 0);
      pack_times(span, last, group);
      return;
    }
    // The value 0 means that there is no SEND. The differences 0, -1 and 1 are therefore stored as 1, 2
    // and 3.
    const std::int32_t difference = sent->second.number - last.link;
    columns_.put(Column::link,
                 difference < 0 ? -2 * std::int64_t{difference} : 2 * std::int64_t{difference} + 1);
    last.link = sent->second.number;
    const Span& send = held_.spans[sent->second.span];
    columns_.put_signed(Column::start, span.start_ns - send.start_ns);
    columns_.put_signed(Column::duration, span.end_ns - send.end_ns);
  }

  // --- the explanation
  // ---------------------------------------------------------------------------------------

  void pack_explanation(PackedJson& header) {
    find_names();
    PackedJson counts = PackedJson::array();
    std::size_t next = 0;
    const std::vector<IdleInterval>& intervals = run_.why->intervals;
    for (std::int32_t rank = 0; rank < timeline_.rank_count; ++rank) {
      std::int64_t count = 0;
      std::size_t last = 0;
      std::size_t group = 0;
      for (; next < intervals.size() && intervals[next].rank == rank; ++next) {
        const IdleInterval& interval = intervals[next];
        if (interval.end_ns == interval.start_ns) continue;
        group = group_after(rank, group, interval);
        columns_.put_signed(Column::interval_at,
                            static_cast<std::int64_t>(group) - static_cast<std::int64_t>(last));
        last = group;
        pack_interval(interval, rank, group);
        ++count;
      }
      counts.push_back(count);
    }
    header["intervals"] = std::move(counts);
    std::vector<std::int32_t> none;
    pack_chain(run_.why->critical_path, 0, run_.why->critical_path.size(), none);
  }

  /// Returns the number of the rank's compute group that follows the idle interval. For the interval at the
  /// end of the run, returns the number of groups. The search starts at `group`.
  std::size_t group_after(std::int32_t rank, std::size_t group, const IdleInterval& interval) const {
    const std::vector<std::int32_t>& groups = ranks_[index(rank)].groups;
    if (interval.before.empty()) return groups.size();
    while (group < groups.size() && held_.spans[index(groups[group])].start_ns < interval.end_ns) ++group;
    return group;
  }

  /// Writes how an idle interval is divided among causes. It writes a mask of the parts that are not 0, and
  /// then these parts except the last one. The last part is known, because all parts together are the
  /// length of the interval.
  void pack_interval(const IdleInterval& interval, std::int32_t rank, std::size_t group) {
    std::vector<Ns> parts;
    std::int64_t mask = 0;
    const auto add = [&](std::size_t bit, Ns part) {
      if (part == 0) return;
      mask |= std::int64_t{1} << bit;
      parts.push_back(part);
    };
    add(0, interval.ideal_ns);
    for (std::size_t c = 0; c < kIdleCauses; ++c) add(c + 1, interval.causes[c]);
    columns_.put(Column::interval_mask,
                 mask * std::int64_t{kIdlePhases} + static_cast<std::int64_t>(interval.phase));
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) columns_.put_signed(Column::interval_part, parts[i]);
    const std::int32_t ready =
        interval.ready ? span_named(rank, interval.ready->action, interval.end_ns, makespan()) : kNoSpan;
    const std::vector<std::int32_t>& groups = ranks_[index(rank)].groups;
    const std::int32_t base = group < groups.size() ? groups[group] : 0;
    columns_.put(Column::ready, ready > base ? ready - base : 0);
    // The interval at the end of a rank's run has no action after it. Its key is a code that no action has.
    const Code before = group < groups.size() ? code_of(held_.spans[index(groups[group])])
                                              : Code{ActionKind::forward, -1, 0, 0, false};
    pack_chain(interval.chain, interval.start_ns, kMostChainLinks, last_chains_[{rank, before}]);
  }

  Ns makespan() const { return timeline_.makespan_ns; }

  /// Writes a chain of causes as spans of the run. Usually, the same ranks were in the previous chain before
  /// an action with the same code. Each span then has almost the same distance from the span at the same
  /// place in that chain. So only changes of the distance are written, which are mostly 0. The argument
  /// `last` has the spans of that chain, and then gets those of this chain.
  void pack_chain(const std::vector<ChainLink>& chain, Ns from_ns, std::size_t most_links,
                  std::vector<std::int32_t>& last) {
    std::vector<std::pair<const ChainLink*, std::int32_t>> links;
    for (std::size_t i = chain.size() > most_links ? chain.size() - most_links : 0; i < chain.size(); ++i) {
      const std::int32_t span = span_named(chain[i].rank, chain[i].name, chain[i].from_ns, chain[i].to_ns);
      if (span != kNoSpan) links.emplace_back(&chain[i], span);
    }
    columns_.put(Column::chain_length, static_cast<std::int64_t>(links.size()));
    Ns expected = from_ns;
    std::int32_t distance = 0;
    std::vector<std::int32_t> numbers;
    numbers.reserve(links.size());
    for (const auto& [link, number] : links) {
      const Span& span = held_.spans[index(number)];
      columns_.put(Column::chain_what, static_cast<std::int64_t>(link->what));
      if (numbers.size() < last.size()) {
        const std::int32_t now = number - last[numbers.size()];
        columns_.put_signed(Column::chain_span, now - distance);
        distance = now;
      } else {
        columns_.put_signed(Column::chain_span, number - last_linked_);
      }
      numbers.push_back(number);
      if (link->what == ChainKind::latency) {
        expected = std::max(span.start_ns, span.released_ns);
      } else if (link->what != ChainKind::launch) {
        expected = std::max(span.start_ns, from_ns);
      }
      columns_.put_signed(Column::chain_from, link->from_ns - expected);
      expected = end_of(*link, span);
      last_linked_ = number;
    }
    last = std::move(numbers);
  }

  /// Returns the time at which a link in a chain of causes is expected to end. If the next link is a
  /// launch, it begins at this time.
  static Ns end_of(const ChainLink& link, const Span& span) {
    switch (link.what) {
      case ChainKind::compute:
      case ChainKind::latency:
      case ChainKind::collective:
      case ChainKind::offload:
        return span.end_ns;
      case ChainKind::transfer:
      case ChainKind::queue:
        return std::max(link.from_ns, span.released_ns);
      case ChainKind::launch:
        break;
    }
    return link.from_ns;
  }

  void find_names() {
    for (const Rank& rank : ranks_) {
      for (std::size_t i = rank.first; i < rank.end; ++i) {
        if (is_recv(held_.spans[i].action.kind)) continue;
        const std::size_t first = i;
        std::string name = to_text(held_.spans[i].action);
        while (held_.spans[i].action.overlaps_next && i + 1 < rank.end)
          name += fmt::format(";{}", to_text(held_.spans[++i].action));
        named_[fmt::format("{} {}", held_.spans[first].rank, name)].push_back(
            static_cast<std::int32_t>(first));
      }
    }
  }

  /// Returns the number of the rank's span that has this name and overlaps the given time. If no span with
  /// this name overlaps the time, returns the last one. Returns kNoSpan if no span has the name.
  std::int32_t span_named(std::int32_t rank, const std::string& name, Ns from_ns, Ns to_ns) const {
    const auto found = named_.find(fmt::format("{} {}", rank, name));
    if (found == named_.end()) return kNoSpan;
    // Several spans may have one name. For example, the name of an optimizer step is equal in all iterations.
    for (const std::int32_t span : found->second) {
      if (held_.spans[index(span)].end_ns >= from_ns && held_.spans[index(span)].start_ns <= to_ns)
        return span;
    }
    return found->second.back();
  }

  // --- memory
  // ------------------------------------------------------------------------------------------------

  void pack_memory(PackedJson& header) {
    const std::vector<MemoryCategory> used = used_categories(*run_.result);
    const auto has_samples = [](const RankReport& rank) { return !rank.memory.samples.empty(); };
    if (used.empty() || held_.left_out || !std::ranges::any_of(run_.result->ranks, has_samples)) return;
    PackedJson memory = PackedJson::object();
    const bool in_bytes = run_.result->ranks.front().memory.unit == MemoryUnit::bytes;
    memory["parts"] = in_bytes ? 1 : kActivationParts;
    memory["unit"] = in_bytes ? "bytes" : "activations";
    memory["categories"] = PackedJson::array();
    for (const MemoryCategory category : used) {
      std::string name(to_text(category));
      std::ranges::replace(name, '_', ' ');
      memory["categories"].push_back({{"name", name}, {"colour", to_hex(colour_of(category))}});
    }
    pack_samples(memory, used, false);
    std::string all;
    for (const Column column : {Column::memory_time, Column::memory_mask, Column::memory_amount})
      all += columns_.of(column);
    if (deflated(all).size() > kMostMemoryBytes) {
      for (const Column column : {Column::memory_time, Column::memory_mask, Column::memory_amount})
        columns_.of(column).clear();
      pack_samples(memory, used, true);
    }
    header["memory"] = std::move(memory);
  }

  void pack_samples(PackedJson& memory, const std::vector<MemoryCategory>& used, bool thin) {
    memory["ranks"] = PackedJson::array();
    for (const RankReport& rank : run_.result->ranks) {
      const std::vector<MemorySample> samples =
          thin ? thinned(rank.memory.samples, makespan(), kMemorySlots) : rank.memory.samples;
      const auto usable = rank.memory.usable();
      memory["ranks"].push_back({{"samples", samples.size()},
                                 {"peak", rank.memory.peak_bytes},
                                 {"usable", usable ? PackedJson(*usable) : PackedJson(nullptr)}});
      MemorySample last{};
      for (const MemorySample& sample : samples) {
        columns_.put_signed(Column::memory_time, sample.time_ns - last.time_ns);
        std::int64_t mask = 0;
        for (std::size_t c = 0; c < used.size(); ++c) {
          const auto category = static_cast<std::size_t>(used[c]);
          const Bytes change = sample.bytes[category] - last.bytes[category];
          if (change == 0) continue;
          mask |= std::int64_t{1} << c;
          columns_.put_signed(Column::memory_amount, change);
        }
        columns_.put(Column::memory_mask, mask);
        last = sample;
      }
    }
  }

  /// A SEND: its span, and its number among the SENDs.
  struct Send {
    std::size_t span = 0;
    std::int32_t number = 0;
  };

  const ViewedRun& run_;
  const Timeline& timeline_;
  HeldSpans held_;
  std::vector<Rank> ranks_;
  PackedColumns columns_;
  std::map<MessageKey, Send> sends_;
  std::unordered_map<std::string, std::vector<std::int32_t>> named_;
  std::int32_t last_linked_ = 0;  // number of the span for which the last link to a SEND was written
  // The key is a rank and the code of the action after an idle interval. The value has the spans of the
  // latest chain before such an action.
  std::map<std::pair<std::int32_t, Code>, std::vector<std::int32_t>> last_chains_;
};

/// Returns a legend for the viewer: the words and the colours that it shows.
PackedJson legend_json() {
  PackedJson kinds = PackedJson::array();
  for (std::size_t k = 0; k < kActionKindCount; ++k) {
    const auto kind = static_cast<ActionKind>(k);
    kinds.push_back({{"letters", letters(kind)},
                     {"name", description_of(kind)},
                     {"colour", to_hex(colour_of(kind))},
                     {"compute", is_compute(kind)},
                     {"send", is_send(kind)},
                     {"receive", is_recv(kind)},
                     {"microbatch", has_microbatch(kind)}});
  }
  PackedJson phases = PackedJson::array();
  for (std::size_t p = 0; p < kIdlePhases; ++p)
    phases.push_back({{"name", to_text(static_cast<IdlePhase>(p))}, {"colour", kPhaseColours[p]}});
  PackedJson causes = PackedJson::array();
  for (std::size_t c = 0; c < kIdleCauses; ++c)
    causes.push_back({{"name", to_text(static_cast<IdleCause>(c))}, {"colour", kCauseColours[c]}});
  PackedJson stages = PackedJson::array();
  for (std::size_t s = 0; s < 8; ++s) stages.push_back(to_hex(curve_colour(s, 8)));
  return {{"kinds", std::move(kinds)},
          {"phases", std::move(phases)},
          {"causes", std::move(causes)},
          {"stages", std::move(stages)}};
}

}  // namespace

std::string packed_runs(const std::vector<ViewedRun>& runs, std::size_t most_actions) {
  PackedJson header = legend_json();
  header["runs"] = PackedJson::array();
  std::string columns;
  for (const ViewedRun& run : runs) {
    RunPacker packer(run, most_actions);
    header["runs"].push_back(packer.pack());
    columns += packer.bytes();
  }
  const std::string text = header.dump(-1, ' ', false, PackedJson::error_handler_t::replace);
  std::string all;
  put_number(all, text.size());
  return base64(deflated(all + text + columns));
}

}  // namespace penstock
