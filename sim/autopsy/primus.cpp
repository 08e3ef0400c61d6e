// Reads the schedule dumps that Primus writes. An iteration in a rank's dump lists its passes in the order
// in which they ran:
//
//   {"1": {"total": 140.0, "memory": 40.0, "fwd_start": [0, 10, 68], "fwd_end": [10, 20, 78], "bwd_start":
//   [..], ..}}
//
// Pass k belongs to microbatch k. If the dump has fwd_minibatch and fwd_chunk, it belongs to microbatch
// fwd_minibatch[k] and chunk fwd_chunk[k]. If the dump has `wgrad_start`, backward passes are split. Tests:
// tests/sim/traces_test.cpp.

#include "sim/autopsy/trace_formats.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/print/units.hpp"
#include "report/result/result_json.hpp"
#include "schedules/ir/action.hpp"
#include "sim/autopsy/recording.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

using DumpJson = nlohmann::json;
using Fault = tl::unexpected<std::string>;

/// The layout of the job's ranks and stages, from config.json.
struct PrimusLayout {
  std::int64_t stages = 0;  // number of ranks of a pipeline; 0 means the number of dumps
  std::int64_t chunks = 1;
  std::int64_t world = 0;
};

std::int64_t whole_at(const DumpJson& object, const char* key, std::int64_t otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return otherwise;
  const auto value = found->get<std::int64_t>();
  return value >= 1 && value <= kMostNumber ? value : otherwise;
}

/// A reader of the lists in one iteration of a dump.
class RecordedIterationReader {
 public:
  RecordedIterationReader(const DumpJson& iteration, const PrimusLayout& layout, std::int64_t rank)
      : iteration_(iteration), layout_(layout), rank_(rank) {}

  tl::expected<void, std::string> read(std::int64_t step, std::vector<RecordedRow>& rows) const {
    const auto weights = iteration_.find("wgrad_start");
    const bool is_split = weights != iteration_.end() && weights->is_array() && !weights->empty();
    if (auto read = read_passes("fwd", ActionKind::forward, step, rows); !read) return read;
    const ActionKind backward = is_split ? ActionKind::backward_input : ActionKind::backward;
    if (auto read = read_passes("bwd", backward, step, rows); !read) return read;
    if (!is_split) return {};
    return read_passes("wgrad", ActionKind::backward_weight, step, rows);
  }

 private:
  tl::expected<void, std::string> read_passes(const std::string& prefix, ActionKind kind, std::int64_t step,
                                              std::vector<RecordedRow>& rows) const {
    const auto starts = numbers(prefix + "_start");
    const auto ends = numbers(prefix + "_end");
    if (!starts) return Fault(starts.error());
    if (!ends) return Fault(ends.error());
    if (starts->size() != ends->size()) {
      return Fault(fmt::format("expected as many {0}_end as {0}_start, got {1} and {2}", prefix, ends->size(),
                               starts->size()));
    }
    const auto microbatches = optional_numbers(prefix + "_minibatch", starts->size());
    const auto chunks = optional_numbers(prefix + "_chunk", starts->size());
    if (!microbatches) return Fault(microbatches.error());
    if (!chunks) return Fault(chunks.error());
    if (chunks->empty() && layout_.chunks > 1)
      return Fault(fmt::format("expected {}_chunk, because vp_size is {}, got none", prefix, layout_.chunks));
    for (std::size_t i = 0; i < starts->size(); ++i) {
      const double microbatch = microbatches->empty() ? static_cast<double>(i) : (*microbatches)[i];
      const double chunk = chunks->empty() ? 0 : (*chunks)[i];
      if (microbatch < 0 || microbatch >= kMostNumber || chunk < 0 ||
          chunk >= static_cast<double>(layout_.chunks) || (*ends)[i] < (*starts)[i]) {
        return Fault(
            fmt::format("{}: expected a microbatch, a chunk and an end behind its start at entry {}, got "
                        "others",
                        prefix, i));
      }
      const std::int64_t copies = layout_.world / layout_.stages;
      const std::int64_t stage = static_cast<std::int64_t>(chunk) * layout_.stages + rank_ / copies;
      RecordedRow row{.step = step,
                      .copy = rank_ % copies,
                      .rank = rank_ / copies,
                      .actions = {{.kind = kind,
                                   .stage = static_cast<std::int32_t>(stage),
                                   .microbatch = static_cast<std::int32_t>(microbatch)}},
                      .start_ns = std::llround((*starts)[i] * 1e6),
                      .end_ns = std::llround((*ends)[i] * 1e6)};
      rows.push_back(std::move(row));
    }
    return {};
  }

  tl::expected<std::vector<double>, std::string> numbers(const std::string& key) const {
    const auto found = iteration_.find(key);
    if (found == iteration_.end() || !found->is_array())
      return Fault(fmt::format("expected a list {}, got none", key));
    std::vector<double> values;
    for (const DumpJson& value : *found) {
      if (!value.is_number() || std::abs(value.get<double>()) > 1e12)
        return Fault(fmt::format("{}: expected times in milliseconds, got {}", key, shown_json(value)));
      values.push_back(value.get<double>());
    }
    return values;
  }
  tl::expected<std::vector<double>, std::string> optional_numbers(const std::string& key,
                                                                  std::size_t size) const {
    if (!iteration_.contains(key) || iteration_[key].empty()) return std::vector<double>{};
    auto values = numbers(key);
    if (values && values->size() != size)
      return Fault(fmt::format("{}: expected {} entries, got {}", key, size, values->size()));
    return values;
  }

  const DumpJson& iteration_;
  const PrimusLayout& layout_;
  std::int64_t rank_;
};

/// The parsed dump of one rank.
struct PrimusDump {
  std::string file;
  std::int64_t rank = 0;
  DumpJson document;
};

tl::expected<void, std::string> read_dump(const PrimusDump& dump, const PrimusLayout& layout,
                                          RecordedRows& recorded, std::vector<std::string>& memory) {
  if (dump.rank >= layout.world)
    return Fault(fmt::format("{}: expected a rank below {}, got {}", dump.file, layout.world, dump.rank));
  std::optional<double> most;
  for (const auto& [name, iteration] : dump.document.items()) {
    const auto step = number_of_text<std::int64_t>(name);
    if (!step || *step < 0 || !iteration.is_object()) {
      return Fault(fmt::format("{}: expected iterations by their numbers, got \"{}\"", dump.file,
                               shown_name(name.substr(0, 60))));
    }
    if (auto read = RecordedIterationReader(iteration, layout, dump.rank).read(*step, recorded.rows); !read)
      return Fault(fmt::format("{}: iteration {}: {}", dump.file, name, read.error()));
    if (const auto held = iteration.find("memory"); held != iteration.end() && held->is_number())
      most = std::max(most.value_or(0), held->get<double>());
  }
  if (most) memory.push_back(fmt::format("rank {} {}", dump.rank, shortest_number(*most)));
  return {};
}

}  // namespace

bool is_primus(std::string_view text) {
  return text.find("\"fwd_start\"") != std::string_view::npos ||
         (text.find("\"pp_size\"") != std::string_view::npos &&
          text.find("\"num_mbs\"") != std::string_view::npos);
}

tl::expected<RecordedRows, std::string> read_primus(const std::vector<NamedText>& files) {
  PrimusLayout layout;
  std::vector<PrimusDump> dumps;
  for (const NamedText& file : files) {
    auto document = json_of<DumpJson>(file.text);
    if (!document) return Fault(fmt::format("{}: {}", file.file, document.error()));
    if (!document->is_object())
      return Fault(fmt::format("{}: expected an object, got another value", file.file));
    if (document->contains("pp_size")) {
      layout.stages = whole_at(*document, "pp_size", 0);
      layout.chunks = whole_at(*document, "vp_size", 1);
      layout.world = whole_at(*document, "world_size", 0);
      continue;
    }
    const auto rank = rank_in_name(file.file);
    if (!rank)
      return Fault(fmt::format("{}: expected a file name such as rank_3.json, got another", file.file));
    dumps.push_back({file.file, *rank, *std::move(document)});
  }
  if (dumps.empty())
    return Fault(std::string("expected rank_N.json beside config.json, got no dump of a rank"));
  const auto found = static_cast<std::int64_t>(dumps.size());
  if (layout.stages == 0) layout.stages = found;
  if (layout.world == 0) layout.world = found;
  if (layout.world % layout.stages != 0) {
    return Fault(fmt::format("expected a world_size that pp_size divides, got {} and {}", layout.world,
                             layout.stages));
  }
  RecordedRows recorded;
  std::vector<std::string> memory;
  for (const PrimusDump& dump : dumps) {
    if (auto read = read_dump(dump, layout, recorded, memory); !read) return Fault(read.error());
  }
  if (memory.size() > 16) memory.resize(16);
  if (!memory.empty())
    recorded.notes.push_back(fmt::format("memory in the unit of the dumps: {}", fmt::join(memory, ", ")));
  return recorded;
}

}  // namespace penstock
