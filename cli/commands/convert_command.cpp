// penstock convert: writes a program in Penstock's own format or as PyTorch's CSV. Passes run in a fixed
// order, which does not depend on the order of the flags. The gathers of sharding are added first, because
// messages are placed around them.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/text/program_text.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

struct ConvertFlags {
  InputFlags input;
  OutputFlags output;
  std::string format = "psched";
  std::string dialect = "torch-2.6";  // the dialect of CSV files to write
  bool lower = false;
  bool fsdp = false;
  std::optional<std::int64_t> max_active_stages;
  std::vector<std::string> lookahead;  // full, auto, or a number for each rank
  bool without_reduce_grad = false;
  bool defer_receives = false;
  std::string group;  // a word of Posting; empty if no groups are asked for
  ChannelFlags channels;
};

using Text = tl::expected<std::string, std::string>;

/// Returns true if a list has an action for which `wanted` is true.
bool has_actions(const Program& program, bool (*wanted)(ActionKind)) {
  return std::ranges::any_of(program.ranks, [wanted](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, wanted, &Action::kind);
  });
}

bool is_sharded(const Program& program) { return has_actions(program, gathers_or_drops); }

bool reduces_gradients(const Program& program) {
  return has_actions(program, [](ActionKind kind) { return kind == ActionKind::reduce_grad; });
}

/// Returns the program without SENDs and RECVs. This is the program as it was before lower(), because
/// lower() only adds messages.
Program without_transfers(Program lowered) {
  for (std::vector<Action>& actions : lowered.ranks) {
    std::erase_if(actions,
                  [](const Action& action) { return is_transfer(action.kind) || is_send_wait(action.kind); });
  }
  return lowered;
}

/// Returns the options for inserting UNSHARDs that --fsdp states. Returns an error if the lookahead is
/// neither a number nor a known word, or if it has a wrong number of entries.
tl::expected<UnshardOptions, UserError> unshard_options(const ConvertFlags& flags, std::int32_t ranks) {
  UnshardOptions options;
  // The flag's check limits the number to 31 bits.
  if (flags.max_active_stages)
    options.max_active_stages = static_cast<std::int32_t>(*flags.max_active_stages);
  const std::vector<std::string>& words = flags.lookahead;
  if (words.empty() || (words.size() == 1 && words.front() == "full")) return options;
  if (words.size() == 1 && words.front() == "auto") {
    options.lookahead = automatic_lookahead(ranks, options.max_active_stages);
    return options;
  }
  if (std::ssize(words) != ranks) {
    return bad_input(
        fmt::format("--lookahead: expected full, auto, or {} numbers, one for each rank, got {} word{}",
                    ranks, words.size(), words.size() == 1 ? "" : "s"));
  }
  for (const std::string& word : words) {
    const auto number = whole_number(word, {.least = 1, .most = options.max_active_stages});
    if (!number) return bad_input("--lookahead: " + number.error());
    options.lookahead.push_back(static_cast<std::int32_t>(*number));
  }
  return options;
}

/// Returns the program before any transformation that the flags request. The program of a file is returned
/// unchanged. The program of a schedule is returned without messages.
tl::expected<Program, UserError> untransformed(const Scenario& scenario) {
  if (scenario.program) {
    if (auto valid = validate(*scenario.program); !valid) {
      return user_error(ErrorKind::check_failed, fmt::format("{}: {}", scenario.file, valid.error()));
    }
    return *scenario.program;
  }
  auto experiment = prepared(scenario);
  if (!experiment) return tl::unexpected(experiment.error());
  return without_transfers(std::move(experiment->program));
}

/// Returns the program after all transformations that the flags request. --defer-receives and --group also
/// lower the program, because they change where messages are posted.
tl::expected<Program, UserError> program_of(const ConvertFlags& flags) {
  const auto scenario = scenario_of(flags.input, flags.channels);
  if (!scenario) return tl::unexpected(scenario.error());
  write_reading_notes(*scenario, flags.output);
  auto program = untransformed(*scenario);
  if (!program) return program;
  if (!scenario->shape.buckets.empty()) {
    // Neither file format can express gradient buckets.
    write_notes(
        {fmt::format("each bucket is one of the {} stages of this program: give it a model of as many, "
                     "or each takes as long as a whole stage",
                     program->stage_count())},
        flags.output);
  }
  if (!flags.fsdp && (flags.max_active_stages || !flags.lookahead.empty())) {
    return bad_input(fmt::format("{} says how --fsdp gathers: expected --fsdp as well",
                                 flags.max_active_stages ? "--max-active-stages" : "--lookahead"));
  }
  if (flags.fsdp) {
    // The program already has gathers or messages, so it is too late for this pass.
    if (is_sharded(*program) || has_transfers(*program)) {
      return bad_input("--fsdp comes first: expected a program without SEND, RECV, UNSHARD and RESHARD");
    }
    const auto options = unshard_options(flags, program->rank_count());
    if (!options) return tl::unexpected(options.error());
    program = insert_reduce_grad(insert_unshard_reshard(*program, *options));
    if (auto runs = validate(*program).and_then([&] { return lower(*program); }); !runs) {
      return user_error(
          ErrorKind::check_failed,
          fmt::format("--fsdp: PyTorch inserts UNSHARD and RESHARD rank by rank, and here ranks hold stages "
                      "together; take --sharding 3 --gather step instead: {}",
                      runs.error()));
    }
  }
  const auto posting = enum_of_text<Posting>(flags.group);
  if (!flags.lower && !flags.defer_receives && !posting) return program;
  ChannelOptions channels = scenario->channels;
  if (posting) channels.blocking = Blocking::batched;
  auto lowered = lower(*program, channels);
  if (!lowered) return user_error(ErrorKind::check_failed, lowered.error());
  if (flags.defer_receives) lowered = defer_receives(*lowered, channels, unit_costs(*lowered));
  return posting ? group_transfers(*std::move(lowered), *posting) : *std::move(lowered);
}

/// Returns a JSON document that contains the program's text and its numbers of ranks, stages and
/// microbatches.
std::string program_json(const Program& program, std::string_view format, const std::string& text) {
  const nlohmann::ordered_json document = {{"schema_version", 1},
                                           {"kind", "program"},
                                           {"schedule", program.schedule},
                                           {"ranks", program.rank_count()},
                                           {"stages", program.stage_count()},
                                           {"microbatches", program.microbatches},
                                           {"format", format},
                                           {"text", text}};
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

bool has_messages(const Program& program, const ConvertFlags& flags) {
  return flags.lower || flags.defer_receives || !flags.group.empty() || has_transfers(program);
}

/// Returns true if the CSV must contain REDUCE_GRAD. If a file contains messages, PyTorch reduces gradients
/// only at the REDUCE_GRAD actions of the file. Older releases do not have REDUCE_GRAD.
bool wants_reduce_grad(const Program& program, CsvDialect dialect, const ConvertFlags& flags) {
  return has_messages(program, flags) && dialect == CsvDialect::torch_2_6;
}

/// Returns the program without the REDUCE_GRAD actions that a program file may contain, and without the WAITs
/// for them.
Program without_reduce_grad(Program program) {
  for (std::vector<Action>& actions : program.ranks) {
    std::erase_if(actions, [](const Action& action) {
      return action.kind == ActionKind::reduce_grad || action.kind == ActionKind::wait_reduce_grad;
    });
  }
  return program;
}

/// Returns the program as PyTorch's CSV. Returns an error if the CSV cannot express a property of the
/// program.
Text csv_of(const Program& program, const ConvertFlags& flags) {
  const CsvDialect dialect = csv_dialect_of_text(flags.dialect).value_or(CsvDialect::torch_2_6);
  if (flags.without_reduce_grad) return to_pytorch_csv(without_reduce_grad(program), dialect);
  return to_pytorch_csv(wants_reduce_grad(program, dialect, flags) ? insert_reduce_grad(program) : program,
                        dialect);
}

/// Returns true if the output includes a CSV.
bool writes_csv(const ConvertFlags& flags) {
  const bool prints = flags.output.files.empty() || flags.output.json;
  return (prints && flags.format == "csv") ||
         std::ranges::any_of(flags.output.files, [](const auto& file) { return has_suffix(file, ".csv"); });
}

/// Returns an error if --without-reduce-grad is given but no CSV with messages is written. In this case the
/// flag would have no effect, and the user would not notice it.
tl::expected<void, UserError> check_bare_form(const Program& program, const ConvertFlags& flags) {
  if (!flags.without_reduce_grad) return {};
  if (flags.fsdp) return bad_input("--without-reduce-grad: --fsdp puts REDUCE_GRAD in place; leave out one");
  if (!has_messages(program, flags)) {
    return bad_input(
        "--without-reduce-grad is for a .csv with messages: expected --lower; without messages PyTorch "
        "places REDUCE_GRAD itself");
  }
  if (!writes_csv(flags)) return bad_input("--without-reduce-grad: expected -o FILE.csv or --format csv");
  return {};
}

/// Returns the text for standard output. If -o is given, the text is empty, unless the user also asks for
/// JSON.
Text printed(const Program& program, const ConvertFlags& flags) {
  if (!flags.output.files.empty() && !flags.output.json) return "";
  Text text = flags.format == "csv" ? csv_of(program, flags) : Text(to_text(program));
  if (!text || !flags.output.json) return text;
  return program_json(program, flags.format, *text);
}

/// Returns a note that names the PyTorch call that loads the CSV. torchtitan expects only compute actions and
/// adds messages itself. If it loaded a lowered file, each message would be sent twice.
std::string loader_note(const Program& program, const ConvertFlags& flags) {
  constexpr std::string_view kComplete = "_load_csv(FILE, format=\"compute_comms\")";
  if (!flags.group.empty() && enum_of_text<Posting>(flags.group) != Posting::megatron_overlap) {
    return fmt::format(
        "this .csv has groups of transfers (GROUP), which PyTorch does not read; with --lower in place of "
        "--group it is for {}",
        kComplete);
  }
  if (has_actions(program, is_host_copy)) {
    return "this .csv has OFFLOAD and RELOAD actions, which PyTorch does not read; without "
           "schedule.offload (--offload) it would";
  }
  if (has_actions(program, is_wait)) {
    return fmt::format(
        "this .csv has WAIT actions, which PyTorch 2.11 and older do not read; newer releases load it by {}",
        kComplete);
  }
  const auto is_backward = [](ActionKind kind) {
    return kind == ActionKind::backward || kind == ActionKind::backward_input;
  };
  if (!has_actions(program, is_backward)) {
    return "this .csv has no backwards, which PyTorch 2.11 and older check for when they load it "
           "(_load_csv); "
           "without that check their runtime runs it by eval()";
  }
  if (has_messages(program, flags)) {
    return fmt::format(
        "this .csv has its messages: PyTorch loads it by {}; torchtitan's pipeline_parallel_schedule_csv "
        "would "
        "send every message twice: for it leave --lower out",
        kComplete);
  }
  if (is_sharded(program) || reduces_gradients(program)) {
    return fmt::format(
        "this .csv has collectives and no messages, and torchtitan and _load_csv(FILE) would place its "
        "collectives a second time: add --lower, for {}",
        kComplete);
  }
  return fmt::format(
      "this .csv has only compute actions: torchtitan's pipeline_parallel_schedule_csv and PyTorch's "
      "_load_csv(FILE) place the messages; with --lower it is for {}",
      kComplete);
}

Outcome run_convert(const ConvertFlags& flags) {
  if (auto known = check_output_files(flags.output.files, {".psched", ".csv"}, inputs_of(flags.input));
      !known) {
    return tl::unexpected(known.error());
  }
  const auto program = program_of(flags);
  if (!program) return tl::unexpected(program.error());
  if (auto fits = check_bare_form(*program, flags); !fits) return tl::unexpected(fits.error());
  const std::vector<OutputForm> forms = {{".psched", [&] { return Text(to_text(*program)); }},
                                         {".csv", [&] { return csv_of(*program, flags); }}};
  const Text text = printed(*program, flags);
  if (!text) return bad_input(text.error());
  if (auto written = write_answer(flags.output, forms, *text); !written)
    return tl::unexpected(written.error());
  if (writes_csv(flags)) write_notes({loader_note(*program, flags)}, flags.output);
  return ExitCode::ok;
}

}  // namespace

Command convert_command(CLI::App& root) {
  Subcommand app(root, "convert", "Write a program as .psched or as PyTorch's CSV.");
  const auto flags = std::make_shared<ConvertFlags>();
  add_input_file(app, flags->input.file);
  add_shape_flags(app, flags->input);
  add_search_flags(app, flags->input);
  app.add_flag(
         "--lower", flags->lower,
         "with every SEND and RECV in place; a .csv also with REDUCE_GRAD, for PyTorch's _load_csv(FILE, "
         "format=\"compute_comms\"); torchtitan takes a .csv without it")
      .group("Passes");
  app.add_flag("--fsdp", flags->fsdp, "with UNSHARD, RESHARD and REDUCE_GRAD as PyTorch inserts them")
      .group("Passes");
  app.add_option("--max-active-stages", flags->max_active_stages,
                 "with --fsdp: stages of a rank that stay gathered (default 3)")
      .range(std::int64_t{1}, std::int64_t{std::numeric_limits<std::int32_t>::max()})
      .group("Passes")
      .type_name("N");
  app.add_words(
         "--lookahead", flags->lookahead,
         "with --fsdp: next stages that are gathered, full (all that stay; default), auto, or a number "
         "for each rank")
      .group("Passes")
      .type_name("WORDS");
  app.add_flag(
         "--without-reduce-grad", flags->without_reduce_grad,
         "a lowered .csv as torch before 2.10 loads it, which averages gradients over the microbatches by "
         "itself; 2.10 and later do so only at each REDUCE_GRAD, and with such a file their gradients are "
         "too "
         "large by the number of microbatches")
      .group("Passes");
  app.add_flag("--defer-receives", flags->defer_receives,
               "lowered, with each RECV as late as the channels below allow without a hang")
      .group("Passes");
  add_choice(
      app, "--group", flags->group,
      {.words = enum_choices<Posting>(),
       .help =
           "lowered, with groups of transfers: megatron, those that Megatron-LM posts together, or "
           "batched, all between two actions; megatron-overlap: no groups, but the order of Megatron-LM's "
           "overlap_p2p_comm, in which odd ranks receive first",
       .group = "Passes",
       .type_name = "WORD"});
  add_channel_flags(app, flags->channels);
  add_transport_flag(app, flags->channels);
  add_choice(app, "--format", flags->format,
             {.words = {"psched", "csv"},
              .help = "what is printed without -o: psched or csv (default psched)",
              .group = "Output",
              .type_name = "FORM"});
  add_choice(
      app, "--output-dialect", flags->dialect,
      {.words = enum_choices<CsvDialect>(),
       .help = "for which torch a .csv is written: torch-2.4, torch-2.5 or torch-2.6 and later (default)",
       .group = "Output",
       .type_name = "RELEASE"});
  add_output_flags(app, flags->output, ".psched .csv");
  app.footer(
      "Examples:\n"
      "  penstock convert --schedule interleaved --pp-size 4 --num-microbatches 8 --virtual-stages 2 -o "
      "plan.csv\n"
      "  penstock convert plan.csv --lower\n"
      "  penstock convert --schedule 1f1b --pp-size 4 --num-microbatches 8 --group megatron -o posts.psched\n"
      "  penstock convert plan.csv --defer-receives --channel pair -o late.psched\n"
      "  penstock convert --schedule zb-h1 --pp-size 4 --num-microbatches 8 --output-dialect torch-2.5 -o "
      "old.csv\n"
      "  penstock convert old.csv --dialect torch-2.5");
  return {app, [flags] { return run_convert(*flags); }};
}

}  // namespace penstock
