// One function for each reader. Files that a scenario names are searched in a folder that does not exist, so
// that the result depends only on the bytes.

#include "tests/fuzz/targets.hpp"

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/socket_transport.hpp"
#include "cli/flags.hpp"
#include "report/result/result_json.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/architecture/architecture.hpp"
#include "scenarios/import/importers.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/quantities.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/hold/baseline.hpp"
#include "sim/hold/fit_iterations.hpp"
#include "sim/hold/measured_runs.hpp"
#include "tests/backend/execution.hpp"
#include "tests/fuzz/socket_targets.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

using FuzzBytes = std::span<const std::uint8_t>;

std::string_view text_of(FuzzBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void require(bool holds, const char* sentence) {
  if (!holds) throw std::logic_error(sentence);
}

/// Returns 1f1b with three ranks and four microbatches.
const FlatProgram& small_program() {
  static const FlatProgram flat = [] {
    const Program program = lowered(*generate("1f1b", {.stages = 3, .microbatches = 4}));
    return flatten(program, free_costs(program), {.channels = {}, .iterations = 1});
  }();
  return flat;
}

void read_control_message(FuzzBytes bytes) {
  static const ProgramSizes sizes(small_program());
  const Frame frame(bytes.begin(), bytes.end());
  const auto message = decoded(frame, sizes);
  if (message) require(encoded(*message) == frame, "a message is written as it was read");
  if (message) require(frame.size() <= most_bytes_of(frame, sizes), "a message is no longer than it may be");
}

void read_data_frame(FuzzBytes bytes) {
  static const LinkPace pace;
  const SteadyClock clock(1, std::chrono::steady_clock::now());
  SocketTransport transport({.flat = small_program(),
                             .pace = pace,
                             .clock = clock,
                             .codec = nullptr,
                             .rank = 1,
                             .run = 0,
                             .send = [](std::int32_t, const Frame&) {}});
  for (const std::int32_t peer : {0, 2}) transport.receive(peer, Frame(bytes.begin(), bytes.end()));
}

void read_program(FuzzBytes bytes) {
  const auto program = parse_program(text_of(bytes), "fuzz");
  if (!program || !validate(*program)) return;
  const auto again = parse_program(to_text(*program), "again");
  require(again && *again == *program, "a valid program is read as it was written");
}

void read_csv(FuzzBytes bytes) {
  const auto program = parse_pytorch_csv(text_of(bytes), "fuzz");
  if (!program) return;
  const auto text = to_pytorch_csv(*program);
  require(!text || parse_pytorch_csv(*text, "again").has_value(), "a CSV that was written is read");
}

void read_scenario(FuzzBytes bytes) {
  const auto source = std::make_shared<const Source>(
      Source{.name = "fuzz", .directory = "/nowhere/at/all", .override_key = ""});
  if (const auto document = parse_document(text_of(bytes), source)) {
    const std::string text = document_to_yaml(*document);
    const auto again = parse_document(text, source);
    // Bytes that are not UTF-8 are replaced by a longer character in quotes, so a name may become too long.
    const bool is_replaced = text.find("\xEF\xBF\xBD") != std::string::npos;
    require(is_replaced || (again && document_to_yaml(*again) == text),
            "a document is read as it was written");
  }
  static_cast<void>(parse_scenario(text_of(bytes), "fuzz", "/nowhere/at/all"));
}

void read_model(FuzzBytes bytes) {
  const auto part = load_architecture({.config = "fuzz", .text = std::string(text_of(bytes))});
  if (!part) return;
  const std::int64_t count = parameters(part->architecture);
  require(count > 0 && count <= std::int64_t{1} << 58, "a model has a number of parameters");
}

void read_products(FuzzBytes bytes) { static_cast<void>(ProductTable::parse(text_of(bytes))); }

/// Checks a result of a kernel table. It must be a number for every content of the table.
void require_a_number(const std::optional<double>& figure) {
  require(!figure || (std::isfinite(*figure) && *figure >= 0), "a table answers with a number");
}

void read_gemms(FuzzBytes bytes) {
  KernelTables tables;
  if (!tables.read_gemms(text_of(bytes), {})) return;
  for (const GemmPrecision precision : {GemmPrecision::bf16, GemmPrecision::fp8, GemmPrecision::fp4}) {
    for (const double size : {1.0, 700.0, 1e6})
      require_a_number(tables.gemm_seconds(precision, {.m = size, .n = 4096, .k = size}, {}));
  }
}

void read_attention(FuzzBytes bytes) {
  KernelTables tables;
  if (!tables.read_attention(text_of(bytes))) return;
  for (const double size : {1.0, 48.0, 1e6}) {
    require_a_number(
        tables.attention_rate({.head_dim = 128, .heads = size, .kv_heads = 1, .batch = 2, .sequence = size}));
  }
}

void read_collectives(FuzzBytes bytes) {
  KernelTables tables;
  if (!tables.read_collectives(text_of(bytes))) return;
  for (std::size_t operation = 0; operation < kGroupOperationCount; ++operation) {
    for (const std::int32_t devices : {2, 6, 1024})
      require_a_number(tables.collective_seconds(static_cast<GroupOperation>(operation), devices, 1e6));
  }
}

void read_sweep_point(FuzzBytes bytes) {
  const auto point = sweep_point_of_json(text_of(bytes));
  if (!point) return;
  const std::string line = sweep_point_json(point->first, point->second);
  const auto again = sweep_point_of_json(line);
  require(again && sweep_point_json(again->first, again->second) == line,
          "a point is read as it was written");
}

void read_progress(FuzzBytes bytes) {
  std::istringstream text{std::string(text_of(bytes))};
  const auto part = read_sweep_part(text, "fuzz");
  if (!part) return;
  std::string whole = sweep_progress_head(part->head);
  for (const auto& [number, point] : part->points) whole += sweep_point_json(number, point);
  std::istringstream again(whole);
  require(read_sweep_part(again, "again", &part->head).has_value(), "a part that was written is read");
}

void read_override(FuzzBytes bytes) {
  const auto change = parse_override(text_of(bytes));
  if (change) static_cast<void>(parse_scenario("{}", "fuzz", "/nowhere/at/all", {&*change, 1}));
}

void read_result(FuzzBytes bytes) {
  const auto result = result_from_json(text_of(bytes), "fuzz");
  if (!result) return;
  const auto again = result_from_json(result_to_json(*result), "again");
  require(again.has_value(), "a result that was written is read");
}

void read_baseline_file(FuzzBytes bytes) {
  const auto baseline = parse_baseline(std::string(text_of(bytes)), "fuzz");
  if (!baseline) return;
  const auto again = parse_baseline(to_json(*baseline), "again");
  require(again.has_value(), "a baseline that was written is read");
}

void read_runs(FuzzBytes bytes) {
  static_cast<void>(parse_measured_runs(text_of(bytes), "fuzz", [](const std::string&) {
    return tl::expected<std::string, std::string>(tl::unexpect, "no such model");
  }));
}

/// A file with the bytes, for readers that need the name of a file. The destructor removes it.
class FileOfBytes {
 public:
  explicit FileOfBytes(FuzzBytes bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "a file in memory can be made");
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t written = write(descriptor_, bytes.data() + at, bytes.size() - at);
      require(written > 0, "a file in memory takes some bytes");
      at += static_cast<std::size_t>(written);
    }
  }
  FileOfBytes(const FileOfBytes&) = delete;
  FileOfBytes& operator=(const FileOfBytes&) = delete;
  ~FileOfBytes() { close(descriptor_); }

  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

void read_iterations_of_a_machine(FuzzBytes bytes) {
  static_cast<void>(read_iterations(FileOfBytes(bytes).path()));
}

/// Checks that costs are unchanged after they are written and read again.
void read_fitted_costs(FuzzBytes bytes) {
  const FileOfBytes file(bytes);
  const auto costs = load_iteration_costs(file.path(), "fuzz");
  if (!costs) return;
  const std::string written = iteration_costs_to_json(*costs);
  const std::span<const char> again(written);
  const FileOfBytes second({reinterpret_cast<const std::uint8_t*>(again.data()), again.size()});
  const auto read = load_iteration_costs(second.path(), "fuzz");
  require(read.has_value(), "fitted costs that were written are read");
  require(iteration_costs_to_json(*read) == written, "fitted costs are the same behind a file");
}

void read_microbatches(FuzzBytes bytes) {
  const FileOfBytes file(bytes);
  const std::string text = fmt::format("model: {{stages: {{forward: {{file: {}, unit: ms}}}}}}", file.path());
  const auto document = parse_document(
      text, std::make_shared<Source>(Source{.name = "fuzz", .directory = {}, .override_key = {}}));
  require(document.has_value(), "a document that names a file is read");
  static_cast<void>(with_microbatch_files(*document));
}

void read_import(FuzzBytes bytes) {
  if (bytes.empty()) return;  // An empty text is the name of a recipe.
  for (const char* device : {"", "h100-sxm"}) {
    ImportRequest request;
    request.inputs = {{.name = "fuzz", .text = std::string(text_of(bytes))}};
    request.device = device;
    static_cast<void>(import_configuration(request));
  }
}

void read_profile(FuzzBytes bytes) { static_cast<void>(parse_pipedream_profile(text_of(bytes), "fuzz")); }

void read_words(FuzzBytes bytes) {
  const std::string_view text = text_of(bytes);
  static_cast<void>(parse_duration(text));
  static_cast<void>(parse_bytes(text));
  static_cast<void>(parse_bandwidth(text));
  static_cast<void>(parse_flops(text));
  static_cast<void>(parse_layer_split(std::string(text)));
  static_cast<void>(path_step_of_text(std::string(text)));
  static_cast<void>(parse_number_list(text));
}

void write_words(FuzzBytes bytes) {
  const std::string shown = shown_text(text_of(bytes));
  require(shown_text(shown) == shown, "what is shown is text");
  const std::string name = shown_name(text_of(bytes));
  require(shown_name(name) == name, "a name that is shown is shown as it is");
  require(
      std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }),
      "a name that is shown has no control character");
  const std::string markdown = markdown_escaped(text_of(bytes));
  require(markdown.find_first_of("|<`*\\\n\r") == std::string::npos, "Markdown has no marks of a name");
  const std::string xml = xml_escaped(text_of(bytes));
  require(xml.find('<') == std::string::npos, "what is escaped has no tag");
  const std::string field = csv_field(text_of(bytes));
  require(field.empty() || std::string_view("=@").find(field.front()) == std::string_view::npos,
          "no field is a formula");
}

}  // namespace

const std::vector<FuzzTarget>& fuzz_targets() {
  static const std::vector<FuzzTarget> targets = {
      {"control-message", read_control_message, {}, ""},
      {"data-frame", read_data_frame, {}, ""},
      {"socket-frames", read_socket_frames, {}, ""},
      {"stranger", meet_stranger, {}, ""},
      {"program", read_program, {"tests/schedules/must_fail"}, ".psched"},
      {"csv", read_csv, {"tests/schedules/must_fail"}, ".csv"},
      {"scenario", read_scenario, {"scenarios/library", "tests/scenarios/must_fail"}, ".yaml"},
      {"model", read_model, {"scenarios/library/models"}, ".json"},
      {"gemms", read_gemms, {}, ""},
      {"attention", read_attention, {}, ""},
      {"collectives", read_collectives, {"scenarios/library/kernels/collectives_A100.csv"}, ".csv"},
      {"products", read_products, {}, ""},
      {"sweep-point", read_sweep_point, {}, ""},
      {"sweep-progress", read_progress, {}, ""},
      {"override", read_override, {}, ""},
      {"result", read_result, {}, ""},
      {"baseline", read_baseline_file, {"scenarios/library/baseline.json"}, ".json"},
      {"runs", read_runs, {"scenarios/library/runs"}, ".csv"},
      {"iterations", read_iterations_of_a_machine, {"scenarios/library/runs/vtrain_iterations.csv"}, ".csv"},
      {"fitted", read_fitted_costs, {"scenarios/library/runs/vtrain_costs.json"}, ".json"},
      {"microbatches", read_microbatches, {}, ""},
      {"import", read_import, {}, ""},
      {"profile", read_profile, {"tests/scenarios/must_fail/parts"}, ".txt"},
      {"words", read_words, {}, ""},
      {"text", write_words, {}, ""},
  };
  return targets;
}

}  // namespace penstock
