// Implements penstock model, which describes a Hugging Face configuration. It prints the number of
// parameters, how many of them one token uses, the layers, and the times of the layers on a device.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/model_account.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "topology/device_types.hpp"

namespace penstock {
namespace {

const std::vector<std::string_view> kModelFiles = {".json", ".txt"};

struct ModelQuestion {
  ArchitectureRequest request;
  OutputFlags output;
  std::string device;
  std::string precision = "bf16";
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t micro_batch_size = 1;
};

tl::expected<GemmPrecision, std::string> precision_of(const std::string& word) {
  if (const auto precision = enum_of_text<GemmPrecision>(word)) return *precision;
  return tl::unexpected(fmt::format("--precision: expected bf16, fp8 or fp4, got \"{}\"", word));
}

/// Returns the workload that the flags describe, or nothing if no device is given.
tl::expected<std::optional<Workload>, std::string> workload_of(const ModelQuestion& flags) {
  const auto precision = precision_of(flags.precision);
  if (!precision) return tl::unexpected(precision.error());
  if (flags.device.empty()) return std::nullopt;
  const DeviceType* device = find_device_type(flags.device);
  if (device == nullptr) {
    return tl::unexpected(
        fmt::format("--device: expected one of {}, got \"{}\"", device_type_names(), flags.device));
  }
  Workload work;
  work.device = *device;
  work.precision = *precision;
  work.micro_batch_size = flags.micro_batch_size;
  work.parallel.tensor = static_cast<std::int32_t>(flags.tensor);
  work.parallel.context = static_cast<std::int32_t>(flags.context);
  work.parallel.expert = static_cast<std::int32_t>(flags.expert);
  // Experts are divided among data-parallel copies, so there must be as many copies as expert ranks.
  work.parallel.data = work.parallel.expert;
  return work;
}

Outcome run_model(const ModelQuestion& flags) {
  if (auto known = check_output_files(flags.output.files, kModelFiles, {{"the input", flags.request.config}});
      !known)
    return tl::unexpected(known.error());
  auto part = load_architecture(flags.request);
  if (!part) return bad_input(part.error());
  auto work = workload_of(flags);
  if (!work) return bad_input(work.error());
  const auto account = account_of(*std::move(part), *std::move(work));
  if (!account) return bad_input(account.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return model_json(*account); }},
                                         {".txt", [&] { return model_text(*account); }}};
  const std::string text = flags.output.json ? model_json(*account) : model_text(*account);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command model_command(CLI::App& root) {
  Subcommand app(root, "model",
                 "Count a model's parameters, layer by layer, and price its layers on a device.");
  const auto flags = std::make_shared<ModelQuestion>();
  const std::string group = "Model";
  app.add_option("CONFIG", flags->request.config, "a config.json of Hugging Face")
      .required()
      .type_name("FILE");
  app.add_option("--ignore", flags->request.ignore,
                 "a key of it to leave out, such as vision_config, to price the rest; may be repeated")
      .group(group)
      .one_value_each()
      .type_name("KEY");
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  app.add_option("--layers", flags->request.layers, "its first N layers only")
      .range(std::int64_t{1}, kMost)
      .group(group)
      .type_name("N");
  app.add_option("--multi-token", flags->request.multi_token,
                 "with N layers of multi-token prediction, which no count of parameters holds")
      .range(std::int64_t{0}, std::int64_t{64})
      .group(group)
      .type_name("N");
  app.add_option("--sequence", flags->request.sequence,
                 "tokens of a sample, for its floating-point operations")
      .range(std::int64_t{1}, kMost)
      .group(group)
      .type_name("N");
  const std::string on_device = "On a device (takes --sequence)";
  app.add_option("--device", flags->device, "a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300 or gb300")
      .group(on_device)
      .type_name("NAME");
  app.add_option("--precision", flags->precision, "of matrix products: bf16 (default), fp8 or fp4")
      .group(on_device)
      .type_name("WORD");
  const auto add_degree = [&](const std::string& name, std::int64_t& degree, const std::string& help) {
    app.add_option(name, degree, help)
        .range(std::int64_t{1}, std::int64_t{1} << 20)
        .group(on_device)
        .type_name("N");
  };
  add_degree("--tensor-parallel", flags->tensor, "devices that share each layer (default 1)");
  add_degree("--context-parallel", flags->context, "devices that share each sequence (default 1)");
  add_degree("--expert-parallel", flags->expert, "devices that share the experts of a layer (default 1)");
  add_degree("--micro-batch-size", flags->micro_batch_size, "samples of a microbatch (default 1)");
  add_output_flags(app, flags->output, ".json .txt");
  app.footer(
      "Examples:\n"
      "  penstock model scenarios/library/models/llama-3.1-8b.json\n"
      "  penstock model scenarios/library/models/llama-3.1-70b.json --sequence 8192 --device h100-sxm "
      "--tensor-parallel 8\n"
      "  penstock model scenarios/library/models/mixtral-8x7b.json --sequence 8192 --json | jq "
      ".active_parameters");
  return {app, [flags] { return run_model(*flags); }};
}

}  // namespace penstock
