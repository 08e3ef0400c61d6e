// Tests that logs of training runs become rows of measured runs. The tests cover the four formats of lines,
// all spellings of arguments, the warm-up, and values that a log or a user does not state. The logs in
// tests/sim/logs have the form of Megatron-LM's logs, but their times are invented.

#include "sim/hold/training_log.hpp"

#include <cstdint>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/hold/measured_runs.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

TrainingLog log_of(const std::string& text) {
  std::istringstream stream(text);
  return read_training_log(stream, "train.log").value();
}

TrainingLog megatron_log() {
  return read_training_log(source_path("tests/sim/logs/llama-8b-tensor-2.log")).value();
}

/// Returns a log of Megatron-LM with a line for each time. `first` is the number of the first step, and each
/// line covers `interval` steps.
std::string megatron_lines(const std::vector<double>& milliseconds, int first = 1, int interval = 1) {
  std::string text;
  int step = first;
  for (const double time : milliseconds) {
    text += " iteration " + std::to_string(step) +
            "/ 500 | consumed samples: 64 | elapsed time per iteration (ms): " + std::to_string(time) +
            " | learning rate: 1.4E-05 | global batch size:   128 | lm loss: 1.8E+00 |\n";
    step += interval;
  }
  return text;
}

// --- lines ------------------------------------------------------------------------------------------------

TEST(TrainingLog, MegatronsStepsArgumentsAndPeakAreRead) {
  const TrainingLog log = megatron_log();
  EXPECT_EQ(log.format, LogFormat::megatron);
  ASSERT_EQ(log.lines.size(), 24U);
  EXPECT_EQ(log.lines[1].last, 2);
  EXPECT_NEAR(log.lines[1].figure, 2.111, 1e-9);
  EXPECT_EQ(log.arguments.at("tensor_model_parallel_size"), "2");
  EXPECT_EQ(log.arguments.at("world_size"), "8");
  EXPECT_EQ(log.arguments.at("cp_comm_type"), "['p2p']");
  EXPECT_NEAR(*log.peak_gib, 53900.2 / 1024, 1e-9) << "the largest of all ranks";
}

TEST(TrainingLog, NemosLinesAndProgressBarsAreRead) {
  const TrainingLog lines = log_of(
      "Training epoch 0, iteration 0/249 | lr: 1.9e-06 | global_batch_size: 128 | global_step: 0 | "
      "reduced_train_loss: 1.315 | train_step_timing in s: 7.126\n"
      "Training epoch 0, iteration 1/249 | lr: 3.9e-06 | global_batch_size: 128 | global_step: 1 | "
      "reduced_train_loss: 1.653 | train_step_timing in s: 2.505 | consumed_samples: 256\n");
  EXPECT_EQ(lines.format, LogFormat::nemo);
  ASSERT_EQ(lines.lines.size(), 2U);
  EXPECT_EQ(lines.lines[1].last, 1);
  EXPECT_EQ(lines.lines[1].figure, 2.505);

  const TrainingLog bar = log_of(
      "Epoch 0: :   4%|4| 4/100 [00:30<12:07, global_step=3.000, consumed_samples=1024.0, train_step_timing "
      "in "
      "s=5.700]\r"
      "Epoch 0: :   4%|4| 4/100 [00:31<12:07, global_step=3.000, consumed_samples=1024.0, train_step_timing "
      "in "
      "s=5.700]\r"
      "Epoch 0: :   5%|5| 5/100 [00:36<12:07, global_step=4.000, consumed_samples=1280.0, train_step_timing "
      "in "
      "s=5.600]\n");
  ASSERT_EQ(bar.lines.size(), 2U) << "a progress bar prints step 3 twice";
  EXPECT_EQ(bar.lines[1].figure, 5.6);
}

// 8 sequences of 8192 tokens in 1.1566 s are 7 082 tokens a second on each of 8 devices.
TEST(TrainingLog, TorchtitansRateBecomesATime) {
  const TrainingLog log = log_of(
      "[rank0]:2025-02-13 11:33:16 - root - INFO - CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB "
      "memory\n"
      "[rank0]:2025-02-13 11:33:16 - root - INFO - Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]\n"
      "[rank0]:2025-02-13 11:33:29 - root - INFO - Applied selective activation checkpointing to the model\n"
      "[rank0]:2025-02-13 11:33:29 - root - INFO - Training starts at step 1, with local batch size 2, "
      "global "
      "batch size 8, sequence length 8192, total steps 100 (warmup 200)\n"
      "[rank0]:2025-02-13 11:33:35 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.2  \x1b[33mmemory: "
      "42.08GiB(30.10%)  \x1b[34mtps: 1,478  mfu: 8.65%\x1b[0m\n"
      "[rank0]:2025-02-13 11:33:45 - root - INFO - step: 10  loss:  9.8  memory: 49.59GiB(35.46%)  tps: "
      "7,026\n"
      "[rank1]:2025-02-13 11:33:45 - root - INFO - step: 10  loss:  9.8  memory: 49.59GiB(35.46%)  tps: "
      "7,026\n"
      "[rank0]:2025-02-13 11:33:57 - root - INFO - step: 20  loss:  8.3  memory: 49.59GiB(35.46%)  tps: "
      "7,082\n");
  EXPECT_EQ(log.format, LogFormat::torchtitan);
  ASSERT_EQ(log.lines.size(), 3U) << "two ranks print step 10";
  const StepTimes times = step_times(log, {.samples = 8, .tokens_per_sample = 8192, .devices = 8});
  EXPECT_EQ(times.steps, 10) << "steps 11 to 20";
  EXPECT_EQ(times.dropped, 10);
  EXPECT_NEAR(times.median, 8192.0 / 7082, 1e-9);
  EXPECT_FALSE(log.peak_gib) << "reserved memory is more than the allocator's peak";

  const RunCells cells = cells_of(log.arguments, log.format);
  EXPECT_EQ(cells.at("device"), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(cells.at("devices"), "8");
  EXPECT_EQ(cells.at("tensor"), "2");
  EXPECT_EQ(cells.at("micro_batch_size"), "2");
  EXPECT_EQ(cells.at("global_batch_size"), "8");
  EXPECT_EQ(cells.at("sequence"), "8192");
  EXPECT_EQ(cells.at("recompute"), "selective");
  EXPECT_EQ(cells.at("sharding"), "3");
  EXPECT_EQ(cells.at("framework"), "torchtitan");
}

std::string event(const std::string& key, const std::string& value, std::int64_t step) {
  return "0: :::MLLOG {\"namespace\": \"\", \"time_ms\": 1760033997670, \"event_type\": \"POINT_IN_TIME\", "
         "\"key\": \"" +
         key + "\", \"value\": " + value +
         ", \"metadata\": {\"file\": \"/workspace/code/src/callbacks.py\", " +
         "\"lineno\": 350, \"step\": " + std::to_string(step) + "}}\n";
}

TEST(TrainingLog, MlperfCountsSamples) {
  const TrainingLog log =
      log_of(event("global_batch_size", "32", 0) + event("max_sequence_length", "8192", 0) +
             event("tracked_stats", "{\"throughput\": 20.0}", 12'288) +
             event("tracked_stats", "{\"throughput\": 30.0}", 24'576) +
             event("tracked_stats", "{\"throughput\": 32.0}", 36'864));
  EXPECT_EQ(log.format, LogFormat::mlperf);
  EXPECT_EQ(log.arguments.at("global_batch_size"), "32");
  EXPECT_EQ(log.arguments.at("seq_length"), "8192");
  const StepTimes times = step_times(log, {.samples = 32, .tokens_per_sample = 8192, .devices = 8});
  EXPECT_EQ(times.dropped, 384) << "the first block has the first ten steps";
  EXPECT_EQ(times.steps, 768);
  EXPECT_NEAR(times.median, (32.0 / 30 + 1) / 2, 1e-9);
}

// The published run of GPT-3 on 10 752 H100 has 2 688 sequences of 2 048 tokens in each step.
TEST(TrainingLog, MlperfCountsTokensOfGpt3) {
  const TrainingLog log =
      log_of(event("tracked_stats", "{\"train_epoch_timing\": 234.9}", 1'211'105'280) +
             event("tracked_stats", "{\"throughput\": 5154997.267404211}", 1'211'105'280));
  const StepTimes times = step_times(log, {.samples = 2688, .tokens_per_sample = 2048, .devices = 10'752});
  EXPECT_NEAR(times.median, 1.0679, 1e-4);
}

TEST(TrainingLog, ALogWithoutStepsNamesWhatWasLookedFor) {
  std::istringstream text("loss 1.2\niteration 3\n");
  const auto log = read_training_log(text, "slurm-7.out");
  ASSERT_FALSE(log);
  EXPECT_THAT(log.error(), HasSubstr("slurm-7.out: expected lines with the time of a step, found none"));
  for (const char* looked_for :
       {"elapsed time per iteration (ms)", "train_step_timing in s", "tps", "tracked_stats"})
    EXPECT_THAT(log.error(), HasSubstr(looked_for));
  EXPECT_THAT(read_training_log("no-such.log").error(),
              HasSubstr("no-such.log: expected a log that can be read"));
}

// --- times ------------------------------------------------------------------------------------------------

TEST(StepTimes, TheFirstTenStepsDoNotCount) {
  std::vector<double> times(10, 9000);
  for (const double time : {1000, 1010, 990, 1020, 980}) times.push_back(time);
  const StepTimes found = step_times(log_of(megatron_lines(times)), {});
  EXPECT_EQ(found.dropped, 10);
  EXPECT_EQ(found.steps, 5);
  EXPECT_NEAR(found.median, 1.0, 1e-9);
  EXPECT_NEAR(found.low, 0.984, 1e-9);
  EXPECT_NEAR(found.high, 1.016, 1e-9);
  EXPECT_EQ(found.note, "");
}

TEST(StepTimes, ALineCoversTheStepsSinceThePreviousOne) {
  const StepTimes found = step_times(log_of(megatron_lines({9000, 1000, 1000}, 5, 5)), {});
  EXPECT_EQ(found.dropped, 10) << "two lines of five steps";
  EXPECT_EQ(found.steps, 5);
}

TEST(StepTimes, ARestartWarmsUpAgain) {
  const std::vector<double> cold(10, 9000);
  std::vector<double> once = cold;
  once.insert(once.end(), {1000, 1000});
  const StepTimes found = step_times(log_of(megatron_lines(once) + megatron_lines(once, 5)), {});
  EXPECT_EQ(found.dropped, 20);
  EXPECT_EQ(found.median, 1);
}

TEST(StepTimes, AShortLogSaysSo) {
  const StepTimes found = step_times(log_of(megatron_lines({9000, 1000, 1100})), {});
  EXPECT_EQ(found.steps, 2);
  EXPECT_EQ(found.dropped, 1);
  EXPECT_NEAR(found.median, 1.05, 1e-9);
  EXPECT_THAT(found.note, HasSubstr("train.log: no line begins after the first 10 steps, so only 1 of 3"));
}

// --- arguments --------------------------------------------------------------------------------------------

TEST(TrainingArguments, AScriptYamlAndTomlStateTheSame) {
  const std::vector<std::string> texts = {
      "torchrun pretrain_gpt.py \\\n  --tensor-model-parallel-size 4 \\\n  --seq-length 8192 \\\n"
      "  --overlap-grad-reduce \\\n  --bf16\n",
      "model:\n  tensor_model_parallel_size: 4\n  encoder_seq_length: 8192\n  overlap_grad_sync: True\n"
      "  bf16: true\n",
      "[training]\nseq_len = 8192\n[parallelism]\ntensor_parallel_degree = 4\noverlap_grad_reduce = true\n"
      "bf16 = true\n"};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    const RunCells cells = cells_of(arguments_of(text), LogFormat::megatron);
    EXPECT_EQ(cells.at("tensor"), "4");
    EXPECT_EQ(cells.at("sequence"), "8192");
    EXPECT_EQ(cells.at("data_overlap"), "yes");
    EXPECT_EQ(cells.at("precision"), "bf16");
  }
}

TEST(TrainingArguments, ChunksOrderAndRecomputationBecomeCells) {
  const RunCells cells = cells_of(
      arguments_of(
          "--num-layers 80 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 5 "
          "--use-tp-pp-dp-mapping --recompute-granularity selective --recompute-modules mlp "
          "--grad-reduce-in-bf16 --fp8-format hybrid\n"),
      LogFormat::megatron);
  EXPECT_EQ(cells.at("virtual_stages"), "4");
  EXPECT_EQ(cells.at("order"), "tp-cp-ep-pp-dp");
  EXPECT_EQ(cells.at("recompute"), "mlp");
  EXPECT_EQ(cells.at("gradient_bytes"), "2");
  EXPECT_EQ(cells.at("precision"), "fp8");
}

// --- rows -------------------------------------------------------------------------------------------------

TEST(LoggedRun, MegatronsLogIsARowOfMeasuredRuns) {
  const LoggedRun run = logged_run(megatron_log(), {{"device", "h100"}}).value();
  EXPECT_EQ(run.times.steps, 14);
  const std::string csv = logged_runs_csv(std::vector{run}, ".");
  const auto no_file = [](const std::string& model) -> tl::expected<std::string, std::string> {
    return tl::unexpected("asked for " + model);
  };
  const MeasuredRuns runs = parse_measured_runs(csv, "rows.csv", no_file).value();
  ASSERT_EQ(runs.runs.size(), 1U);
  const MeasuredRun& row = runs.runs.front();
  EXPECT_EQ(row.id, "llama-8b-tensor-2");
  EXPECT_EQ(model_name(row.model), "model-32x4096");
  EXPECT_NEAR(row.step_seconds, 1.83, 0.01);
  EXPECT_EQ(row.scenario.batch.microbatches, 4) << "16 samples, 4 copies";
  const auto& model = std::get<DeviceModel>(row.scenario.model);
  EXPECT_EQ(model.work.parallel.data, 4);
  EXPECT_FALSE(model.work.parallel.tensor_overlap);
  // The sizes in the log are those of the model's config.json. Only the name differs.
  const auto known = read_text_file(source_path("scenarios/library/models/llama-3.1-8b.json"), "");
  const auto same = parse_measured_runs(
      logged_runs_csv(
          std::vector{logged_run(megatron_log(), {{"device", "h100"}, {"model", "8b.json"}}).value()}, "."),
      "rows.csv", [&](const std::string&) { return known; });
  EXPECT_EQ(std::get<DeviceModel>(same->runs.front().scenario.model).work.model, model.work.model);
}

TEST(LoggedRun, WhatNobodyStatesIsListedWithTheFlagThatStatesIt) {
  const auto run = logged_run(log_of(megatron_lines({1000, 1000})), {});
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error(), HasSubstr("train.log: the log has times of steps, but"));
  EXPECT_THAT(run.error(), HasSubstr("device (looked for CUDA capacity; --device NAME states it)"));
  EXPECT_THAT(run.error(), HasSubstr("sequence (looked for seq_length"));
  EXPECT_THAT(run.error(), Not(HasSubstr("global_batch_size (looked"))) << "each line states the batch";
}

TEST(LoggedRun, AScenarioStatesWhatTheLogDoesNot) {
  const Scenario scenario = load_scenario(source_path("scenarios/library/llama-70b-h100.yaml")).value();
  const RunCells stated = cells_of(scenario, source_path("scenarios/library/models/llama-3.1-70b.json"));
  const LoggedRun run = logged_run(log_of(megatron_lines({16'000, 15'500})), stated).value();
  EXPECT_EQ(run.cells.at("devices"), "64");
  EXPECT_EQ(run.cells.at("stages"), "4");
  EXPECT_EQ(run.cells.at("microbatches"), "64");
  EXPECT_EQ(run.cells.at("data"), "2");
}

TEST(LoggedRun, TheLogCountsAndANoteNamesTheDifference) {
  const LoggedRun run = logged_run(megatron_log(), {{"device", "h100"}, {"tensor", "4"}}).value();
  EXPECT_EQ(run.cells.at("tensor"), "2");
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_THAT(run.notes.front(), HasSubstr("tensor 2 (not 4)"));
}

TEST(LoggedRun, RefusesAModelOfAnotherWidthAndABatchThatDoesNotDivide) {
  EXPECT_THAT(logged_run(megatron_log(), {{"device", "h100"}, {"hidden", "8192"}}).error(),
              HasSubstr("the log trains a model of width 4096, and the stated model has 8192"));
  TrainingLog log = megatron_log();
  log.arguments["global_batch_size"] = "18";
  EXPECT_THAT(
      logged_run(log, {{"device", "h100"}}).error(),
      HasSubstr("expected a global batch that is a multiple of copies x micro_batch_size = 4, got 18"));
}

}  // namespace
}  // namespace penstock
