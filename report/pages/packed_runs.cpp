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

// The largest size in bytes of the compressed memory samples of all ranks. If they would be larger, some
// samples are left out.
constexpr std::size_t kMostMemoryBytes = std::size_t{256} * 1024;
constexpr std::size_t kMemorySlots = 300;
constexpr std::int32_t kNoSpan = -1;
// The number in place of a ChainKind that ends a chain of causes.
constexpr std::int64_t kEndOfChain = kEnumWords<ChainKind>.size();

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
  rank_codes,
  code,
  microbatch,
  version,
  start,
  duration,
  release,
  has_send,
  interval_at,
  interval_mask,
  interval_part,
  ready,
  chain_known,
  chain_what,
  chain_span,
  chain_from,
  memory_at,
  memory_time,
  memory_mask,
  memory_amount,
};
constexpr std::array<std::string_view, 20> kColumnNames = {
    "rankCodes", "code",       "microbatch",   "version",      "start",      "duration",    "release",
    "hasSend",   "intervalAt", "intervalMask", "intervalPart", "ready",      "chainKnown",  "chainWhat",
    "chainSpan", "chainFrom",  "memoryAt",     "memoryTime",   "memoryMask", "memoryAmount"};

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

/// The fields of a Code as numbers.
using PackedCode = std::array<std::int32_t, 5>;

/// The values of the last span on a rank that has a given code. The next span with this code is stored as the
/// differences to these values.
struct LastOfCode {
  std::int32_t number = 0;
  std::int32_t microbatch = -1;
  std::int32_t version = 0;
  Ns duration = 0;
  Ns hold = 0;
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
      if (is_send(action.kind)) sends_.try_emplace(message_key(action), i);
    }
    PackedJson ranks = PackedJson::array();
    std::size_t next = 0;
    for (std::int32_t number = 0; number < timeline_.rank_count; ++number) {
      Rank& rank = ranks_[index(number)];
      rank.first = next;
      while (next < held_.spans.size() && held_.spans[next].rank == number) ++next;
      rank.end = next;
      const std::vector<PackedCode> codes = pack_rank(rank);
      pack_codes(codes);
      ranks.push_back({{"name", fmt::format("rank {}", number)},
                       {"device", device_of(number)},
                       {"spans", rank.end - rank.first},
                       {"codes", codes.size()}});
    }
    return ranks;
  }

  /// Writes the codes of a rank as differences to those of the rank before, which usually has the same codes
  /// for other stages.
  void pack_codes(const std::vector<PackedCode>& codes) {
    codes_before_.resize(std::max(codes_before_.size(), codes.size()));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      for (std::size_t k = 0; k < codes[i].size(); ++k)
        columns_.put_signed(Column::rank_codes, codes[i][k] - codes_before_[i][k]);
      codes_before_[i] = codes[i];
    }
  }

  std::string device_of(std::int32_t rank) const {
    return index(rank) < run_.result->ranks.size() ? run_.result->ranks[index(rank)].device : "";
  }

  /// Writes the spans of a rank. Returns the rank's codes in the order of their numbers.
  std::vector<PackedCode> pack_rank(Rank& rank) {
    std::vector<PackedCode> codes;
    std::map<Code, LastOfCode> lasts;
    const Span* group = nullptr;  // the last compute span
    for (std::size_t i = rank.first; i < rank.end; ++i) {
      const Span& span = held_.spans[i];
      const auto [entry, is_new] = lasts.try_emplace(code_of(span));
      LastOfCode& last = entry->second;
      if (is_new) {
        last.number = static_cast<std::int32_t>(codes.size());
        codes.push_back({static_cast<std::int32_t>(span.action.kind), span.action.stage, span.action.peer,
                         span.replica, span.action.overlaps_next ? 1 : 0});
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
    return codes;
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
    columns_.put(Column::has_send, sent == sends_.end() ? 0 : 1);
    if (sent == sends_.end()) {
      pack_times(span, last, group);
      return;
    }
    const Span& send = held_.spans[sent->second];
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
    pack_chain(run_.why->critical_path, 0, kNoSpan);
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
    pack_chain(interval.chain, interval.start_ns, group < groups.size() ? groups[group] : kNoSpan);
  }

  Ns makespan() const { return timeline_.makespan_ns; }

  /// A link of a chain of causes as the page stores it: its kind, as a number, and its span.
  struct PackedLink {
    std::int64_t what = static_cast<std::int64_t>(ChainKind::compute);
    std::int32_t span = kNoSpan;
    Ns late_ns = 0;  // start of the link, less the start that viewer.js expects

    friend bool operator==(const PackedLink&, const PackedLink&) = default;
  };

  /// Writes a chain of causes from its latest link to its earliest one. `after` is the span for which the
  /// rank waits, or kNoSpan at the end of the run.
  ///
  /// An event waits for the same events in all chains that contain it. So the step from a link to the link
  /// before it is stored once, and later chains follow it. A chain is written as 0 if all its steps are
  /// known. Otherwise it is written as one more than the number of steps that are known, the next link, and
  /// so on.
  void pack_chain(const std::vector<ChainLink>& chain, Ns from_ns, std::int32_t after) {
    PackedLink later{.span = after};
    std::int64_t known = 0;
    for (const PackedLink& link : packed_links(chain, from_ns)) {
      const auto step = steps_.find(step_key(later));
      if (step != steps_.end() && step->second == link) {
        ++known;
      } else {
        columns_.put(Column::chain_known, known + 1);
        known = 0;
        pack_link(link, later);
        if (link.late_ns == 0 && link.span != kNoSpan && later.span != kNoSpan)
          steps_.try_emplace(step_key(later), link);
      }
      later = link;
    }
    if (known > 0) columns_.put(Column::chain_known, 0);
  }

  static std::int64_t step_key(const PackedLink& link) {
    return std::int64_t{link.span} * (kEndOfChain + 1) + link.what;
  }

  /// Writes a link of a chain behind the later link `later`. The distance of their spans is usually that of
  /// the last two such links with the same codes.
  void pack_link(const PackedLink& link, const PackedLink& later) {
    columns_.put(Column::chain_what, link.what);
    if (link.what == kEndOfChain) return;
    const bool has_later = later.span != kNoSpan;
    const Span& span = held_.spans[has_later ? index(later.span) : 0];
    std::int32_t& last = distances_[{later.what, has_later ? span.rank : -1, code_of(span)}];
    const std::int32_t distance = link.span - later.span;
    columns_.put_signed(Column::chain_span, distance - last);
    columns_.put_signed(Column::chain_from, link.late_ns);
    last = distance;
  }

  /// Returns the links of a chain, the latest first. If the start of the earliest link does not show that the
  /// chain ends there, the last element says so.
  std::vector<PackedLink> packed_links(const std::vector<ChainLink>& chain, Ns from_ns) const {
    std::vector<PackedLink> links;
    Ns expected = from_ns;
    bool shows_end = false;
    for (const ChainLink& link : chain) {
      const std::int32_t number = span_named(link.rank, link.name, link.from_ns, link.to_ns);
      if (number == kNoSpan) continue;
      const Span& span = held_.spans[index(number)];
      if (links.empty()) shows_end = link.what != ChainKind::launch && link.from_ns == from_ns;
      if (link.what == ChainKind::latency) {
        expected = std::max({span.start_ns, span.released_ns, from_ns});
      } else if (link.what != ChainKind::launch) {
        expected = std::max(span.start_ns, from_ns);
      }
      links.push_back({static_cast<std::int64_t>(link.what), number, link.from_ns - expected});
      expected = end_of(link, span);
    }
    if (!shows_end) links.insert(links.begin(), {.what = kEndOfChain});
    std::ranges::reverse(links);
    return links;
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
    constexpr auto kColumns =
        std::to_array({Column::memory_at, Column::memory_time, Column::memory_mask, Column::memory_amount});
    std::string all;
    for (const Column column : kColumns) all += columns_.of(column);
    if (deflated(all).size() > kMostMemoryBytes) {
      for (const Column column : kColumns) columns_.of(column).clear();
      pack_samples(memory, used, true);
    }
    header["memory"] = std::move(memory);
  }

  /// Returns the starts and the ends of a rank's compute groups in the order of time. Most changes of memory
  /// are at one of these times.
  std::vector<Ns> bounds_of(std::size_t rank) const {
    std::vector<Ns> bounds;
    if (rank >= ranks_.size()) return bounds;
    for (const std::int32_t group : ranks_[rank].groups) {
      bounds.push_back(held_.spans[index(group)].start_ns);
      bounds.push_back(held_.spans[index(group)].end_ns);
    }
    std::ranges::sort(bounds);
    return bounds;
  }

  void pack_samples(PackedJson& memory, const std::vector<MemoryCategory>& used, bool thin) {
    memory["ranks"] = PackedJson::array();
    for (std::size_t number = 0; number < run_.result->ranks.size(); ++number) {
      const RankReport& rank = run_.result->ranks[number];
      const std::vector<MemorySample> samples =
          thin ? thinned(rank.memory.samples, makespan(), kMemorySlots) : rank.memory.samples;
      const auto usable = rank.memory.usable();
      memory["ranks"].push_back({{"samples", samples.size()},
                                 {"peak", rank.memory.peak_bytes},
                                 {"usable", usable ? PackedJson(*usable) : PackedJson(nullptr)}});
      MemorySample last{};
      const std::vector<Ns> bounds = bounds_of(number);
      auto bound = bounds.begin();
      for (const MemorySample& sample : samples) {
        const auto next = std::lower_bound(bound, bounds.end(), sample.time_ns);
        if (next != bounds.end() && *next == sample.time_ns) {
          columns_.put(Column::memory_at, next - bound + 1);
          bound = next;
        } else {
          columns_.put(Column::memory_at, 0);
          columns_.put_signed(Column::memory_time, sample.time_ns - last.time_ns);
        }
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

  const ViewedRun& run_;
  const Timeline& timeline_;
  HeldSpans held_;
  std::vector<Rank> ranks_;
  PackedColumns columns_;
  std::vector<PackedCode> codes_before_;  // of the rank before, by number
  std::map<MessageKey, std::size_t> sends_;
  std::unordered_map<std::string, std::vector<std::int32_t>> named_;
  std::unordered_map<std::int64_t, PackedLink> steps_;  // by step_key() of the later link
  // By the kind of a link in a chain, and by the rank and the code of its span: the distance from this span
  // to the span of the link before it, when such links were last written.
  std::map<std::tuple<std::int64_t, std::int32_t, Code>, std::int32_t> distances_;
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
