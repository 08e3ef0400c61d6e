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
#include "report/pages/packed_columns.hpp"
#include "report/pages/packed_spans.hpp"
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

/// Writes the columns of numbers into which one run is packed.
class RunPacker {
 public:
  RunPacker(const ViewedRun& run, std::size_t most_actions)
      : run_(run),
        timeline_(run.result->timeline),
        held_(held_spans(timeline_, most_actions)),
        spans_(held_.spans, timeline_.rank_count, columns_) {}

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
  PackedJson pack_spans() {
    ranks_ = spans_.pack();
    PackedJson ranks = PackedJson::array();
    for (std::int32_t number = 0; number < timeline_.rank_count; ++number) {
      const PackedRank& rank = ranks_[index(number)];
      ranks.push_back({{"name", fmt::format("rank {}", number)},
                       {"device", device_of(number)},
                       {"spans", rank.end - rank.first},
                       {"codes", rank.codes}});
    }
    return ranks;
  }

  std::string device_of(std::int32_t rank) const {
    return index(rank) < run_.result->ranks.size() ? run_.result->ranks[index(rank)].device : "";
  }

  // --- the explanation
  // ---------------------------------------------------------------------------------------

  void pack_explanation(PackedJson& header) {
    find_names();
    find_neighbours();
    PackedJson counts = PackedJson::array();
    std::size_t next = 0;
    const std::vector<IdleInterval>& intervals = run_.why->intervals;
    for (std::int32_t rank = 0; rank < timeline_.rank_count; ++rank) {
      std::int64_t count = 0;
      std::size_t group = 0;
      std::size_t expected = 0;  // the group after the next idle time
      for (; next < intervals.size() && intervals[next].rank == rank; ++next) {
        const IdleInterval& interval = intervals[next];
        if (interval.end_ns == interval.start_ns) continue;
        group = group_after(rank, group, interval);
        expected = group_after_gap(rank, expected);
        columns_.put_signed(Column::interval_at,
                            static_cast<std::int64_t>(group) - static_cast<std::int64_t>(expected));
        expected = group + 1;
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

  /// Returns the number of the first group from `group` on that does not start at the end of the group before
  /// it. Returns the number of groups if there is none.
  std::size_t group_after_gap(std::int32_t rank, std::size_t group) const {
    const std::vector<std::int32_t>& groups = ranks_[index(rank)].groups;
    const auto end_before = [&](std::size_t g) {
      return g > 0 ? held_.spans[index(groups[g - 1])].end_ns : 0;
    };
    while (group < groups.size() && held_.spans[index(groups[group])].start_ns <= end_before(group)) ++group;
    return group;
  }

  /// The last interval before a group with a given code. The next one is expected to have the same mask, and
  /// the parts of the last one with its mask.
  struct LastInterval {
    std::int64_t mask = 0;
    std::map<std::int64_t, std::vector<Ns>> parts{};  // by mask
    std::int32_t ready = 0;
  };

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
    const std::vector<std::int32_t>& groups = ranks_[index(rank)].groups;
    const bool is_last = group == groups.size();
    LastInterval& last = intervals_[{rank, is_last ? -1 : spans_.code_number(index(groups[group]))}];
    const std::int64_t code =
        1 + mask * std::int64_t{kIdlePhases} + static_cast<std::int64_t>(interval.phase);
    columns_.put(Column::interval_mask, last.mask == code ? 0 : code);
    last.mask = code;
    std::vector<Ns>& expected = last.parts.try_emplace(code, parts.size()).first->second;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i)
      columns_.put_signed(Column::interval_part, parts[i] - expected[i]);
    expected = std::move(parts);
    const std::int32_t found =
        interval.ready ? span_named(rank, interval.ready->action, interval.end_ns, makespan()) : kNoSpan;
    const std::int32_t base = is_last ? 0 : groups[group];
    const std::int32_t ready = found > base ? found - base : 0;
    columns_.put_signed(Column::ready, ready - last.ready);
    last.ready = ready;
    pack_chain(interval.chain, interval.start_ns, is_last ? kNoSpan : groups[group]);
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
  /// Most steps from a link to the link before it follow from the times of the run (likely_link()). An event
  /// waits for the same events in all chains that contain it. So another step is stored once, and later
  /// chains follow it. A chain is written as 0 if all its steps are known. Otherwise it is written as one
  /// more than the number of steps that are known, the next link, and so on.
  void pack_chain(const std::vector<ChainLink>& chain, Ns from_ns, std::int32_t after) {
    PackedLink later{.span = after};
    std::int64_t known = 0;
    for (const PackedLink& link : packed_links(chain, from_ns)) {
      const auto step = steps_.find(step_key(later));
      if (link == (step != steps_.end() ? step->second : likely_link(later))) {
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

  /// Returns the link that comes before `later` in a chain if times alone decide: the action or the message
  /// that ended when the event of `later` began. Returns the end of a chain if there is none.
  PackedLink likely_link(const PackedLink& later) const {
    if (later.span == kNoSpan || later.what == kEndOfChain) return {.what = kEndOfChain};
    const std::size_t i = index(later.span);
    const Span& span = held_.spans[i];
    if (!is_send(span.action.kind)) return link_before_group(i);
    if (later.what == static_cast<std::int64_t>(ChainKind::latency) && span.released_ns > span.start_ns)
      return link_of(ChainKind::transfer, later.span);
    const std::int32_t producer = spans_.input(i);
    if (producer != kNoSpan && held_.spans[index(producer)].end_ns == span.start_ns)
      return link_of(ChainKind::compute, group_[index(producer)]);
    const std::int32_t before = before_[i];
    if (before != kNoSpan && held_.spans[index(before)].released_ns == span.start_ns)
      return link_of(ChainKind::queue, before);
    return {.what = kEndOfChain};
  }

  static PackedLink link_of(ChainKind what, std::int32_t span) {
    return {.what = static_cast<std::int64_t>(what), .span = span};
  }

  PackedLink link_before_group(std::size_t group) const {
    const Ns start = held_.spans[group].start_ns;
    const std::int32_t before = before_[group];
    if (before != kNoSpan && held_.spans[index(before)].end_ns == start)
      return link_of(ChainKind::compute, before);
    for (std::size_t leaf = group; leaf < held_.spans.size(); ++leaf) {
      const std::int32_t input = spans_.input(leaf);
      const std::int32_t send = input != kNoSpan ? spans_.link(index(input)) : kNoSpan;
      if (send != kNoSpan && held_.spans[index(input)].end_ns == start) {
        const Span& sent = held_.spans[index(send)];
        return link_of(sent.end_ns > sent.released_ns ? ChainKind::latency : ChainKind::transfer, send);
      }
      if (!held_.spans[leaf].action.overlaps_next) break;
    }
    return {.what = kEndOfChain};
  }

  /// Finds the compute group of each compute span, the group before each group, and the SEND before each SEND
  /// in its channel.
  void find_neighbours() {
    group_.assign(held_.spans.size(), kNoSpan);
    before_.assign(held_.spans.size(), kNoSpan);
    std::unordered_map<std::int64_t, std::int32_t> sent;  // by channel, the last SEND
    for (const PackedRank& rank : ranks_) {
      std::int32_t last = kNoSpan;  // the last compute span
      for (std::size_t i = rank.first; i < rank.end; ++i) {
        const ActionKind kind = held_.spans[i].action.kind;
        const auto number = static_cast<std::int32_t>(i);
        if (is_send(kind)) {
          const auto [entry, is_new] = sent.try_emplace(spans_.channel_of(i), number);
          if (!is_new) before_[i] = std::exchange(entry->second, number);
        } else if (is_compute(kind)) {
          const bool opens = last == kNoSpan || !held_.spans[index(last)].action.overlaps_next;
          group_[i] = opens ? number : group_[index(last)];
          if (opens && last != kNoSpan) before_[i] = group_[index(last)];
          last = number;
        }
      }
    }
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
    for (const PackedRank& rank : ranks_) {
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
        std::to_array({Column::memory_between, Column::memory_time, Column::memory_change,
                       Column::memory_mask, Column::memory_amount});
    std::string all;
    for (const Column column : kColumns) all += columns_.bytes(column);
    if (deflated(all).size() > kMostMemoryBytes) {
      for (const Column column : kColumns) columns_.clear(column);
      pack_samples(memory, used, true);
    }
    header["memory"] = std::move(memory);
  }

  /// A time at which something starts or ends on a rank, so that its memory may change.
  struct Moment {
    Ns time_ns = 0;
    std::uint32_t key = 0;  // the sum of the numbers of all events at this time
  };

  /// Returns the times at which a rank's actions start and end and its messages leave and arrive, in their
  /// order. Each time occurs once.
  std::vector<Moment> moments_of(std::size_t rank) const {
    std::vector<Moment> moments;
    if (rank >= ranks_.size()) return moments;
    const auto add = [&](Ns time, std::size_t span, std::uint32_t event) {
      const auto code = static_cast<std::uint32_t>(spans_.code_number(span));
      moments.push_back({time, (4 * code + event) * 0x9E3779B1U});
    };
    for (std::size_t i = ranks_[rank].first; i < ranks_[rank].end; ++i) {
      const Span& span = held_.spans[i];
      add(span.start_ns, i, 1);
      add(span.end_ns, i, 2);
      if (span.released_ns != kNotReleased) add(span.released_ns, i, 3);
    }
    std::ranges::sort(moments, {}, &Moment::time_ns);
    std::size_t count = 0;
    for (const Moment& moment : moments) {
      if (count > 0 && moments[count - 1].time_ns == moment.time_ns) {
        moments[count - 1].key += moment.key;
      } else {
        moments[count++] = moment;
      }
    }
    moments.resize(count);
    return moments;
  }

  /// Writes the memory samples of all ranks. At each moment, the memory is expected to change as it changed
  /// at the last moment with the same events.
  void pack_samples(PackedJson& memory, const std::vector<MemoryCategory>& used, bool thin) {
    memory["thin"] = thin;
    memory["ranks"] = PackedJson::array();
    changes_.clear();
    for (std::size_t number = 0; number < run_.result->ranks.size(); ++number) {
      const RankReport& rank = run_.result->ranks[number];
      const auto usable = rank.memory.usable();
      memory["ranks"].push_back(
          {{"peak", rank.memory.peak_bytes}, {"usable", usable ? PackedJson(*usable) : PackedJson(nullptr)}});
      const std::vector<MemorySample> samples =
          thin ? thinned(rank.memory.samples, makespan(), kMemorySlots) : rank.memory.samples;
      pack_rank_samples(samples, used, thin ? std::vector<Moment>() : moments_of(number));
    }
  }

  void pack_rank_samples(const std::vector<MemorySample>& samples, const std::vector<MemoryCategory>& used,
                         const std::vector<Moment>& moments) {
    MemorySample last{};
    Ns time = 0;  // of the last moment or sample
    auto sample = samples.begin();
    const auto change_to = [&](const MemorySample& next) {
      std::vector<Bytes> change(used.size());
      std::ranges::transform(used, change.begin(), [&](MemoryCategory category) {
        return next.bytes[index_of(category)] - last.bytes[index_of(category)];
      });
      last = next;
      return change;
    };
    const auto put_until = [&](std::vector<MemorySample>::const_iterator end) {
      columns_.put(Column::memory_between, end - sample);
      for (; sample != end; ++sample) {
        columns_.put_signed(Column::memory_time, sample->time_ns - time);
        time = sample->time_ns;
        put_change(change_to(*sample));
      }
    };
    for (const Moment& moment : moments) {
      put_until(std::ranges::lower_bound(sample, samples.end(), moment.time_ns, {}, &MemorySample::time_ns));
      std::vector<Bytes> change(used.size());
      if (sample != samples.end() && sample->time_ns == moment.time_ns) change = change_to(*sample++);
      std::vector<Bytes>& expected = changes_.try_emplace(moment.key, used.size()).first->second;
      columns_.put(Column::memory_change, change == expected ? 0 : 1);
      if (change != expected) put_change(change);
      expected = std::move(change);
      time = moment.time_ns;
    }
    put_until(samples.end());
  }

  static std::size_t index_of(MemoryCategory category) { return static_cast<std::size_t>(category); }

  /// Writes by how many bytes each category changes: a mask of those that change, and their changes.
  void put_change(const std::vector<Bytes>& change) {
    std::int64_t mask = 0;
    for (std::size_t c = 0; c < change.size(); ++c) {
      if (change[c] == 0) continue;
      mask |= std::int64_t{1} << c;
      columns_.put_signed(Column::memory_amount, change[c]);
    }
    columns_.put(Column::memory_mask, mask);
  }

  const ViewedRun& run_;
  const Timeline& timeline_;
  HeldSpans held_;
  PackedColumns columns_;
  SpanPacker spans_;
  std::vector<PackedRank> ranks_;
  std::unordered_map<std::string, std::vector<std::int32_t>> named_;
  std::vector<std::int32_t> group_;   // of each compute span, the first span of its group
  std::vector<std::int32_t> before_;  // of each group the group before it, of each SEND that of its channel
  // By the rank and the number of the code of the group that ends the interval, which is -1 at the end.
  std::map<std::pair<std::int32_t, std::int32_t>, LastInterval> intervals_;
  std::unordered_map<std::uint32_t, std::vector<Bytes>> changes_;  // by Moment::key
  std::unordered_map<std::int64_t, PackedLink> steps_;             // by step_key() of the later link
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
