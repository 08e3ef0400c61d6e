// The table of reproductions. A row has a name, the source with its section, the setting and the function.
// The setting states every choice that the paper leaves open. A figure that agrees only with unstated
// choices is not reproduced. A published number to which a constant was fitted has the category
// FigureClass::fitted.

#include "sim/published/reproduce.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {
namespace {

// Settings that several reproductions share.
constexpr std::string_view kOnClusters =
    "16 workers (A: 4 servers of 4, 10 Gb/s; B: 2 of 8, 25 Gb/s); minibatches of 64 (VGG-16, GNMT-8), 256 "
    "(AlexNet) and 128 (ResNet-50) a worker, times and bytes in proportion to the profiles'; SGD with "
    "momentum, GNMT-8 with Adam; data parallelism reduces eight buckets beside the backward pass; plans by "
    "the recurrence (maximum) within 16 GiB a worker, ResNet-50 without a limit, for every layer's output "
    "counts as kept and even data parallelism needs 18 GiB so; released: msr-fiddle/pipedream, commit "
    "7db6a1c3, cut before the first fully connected layer";
constexpr std::string_view kOnAServer =
    "one server of cluster A, 4 V100 on PCIe of 12 GB/s each; the released configurations 3-1 (VGG-16, "
    "AlexNet; cut before the first fully connected layer) and straight (GNMT-8, balanced), depth NOAM; "
    "batches and optimizers as on 16 workers";

constexpr std::string_view kTable1 =
    "the models whose profiles are released, batches and optimizers as above; first with the links' full "
    "bandwidth, then with one efficiency of data parallelism's collectives (NCCL), fitted on VGG-16 on A, "
    "then with one of the pipelines' messages and reductions (Gloo), too, fitted on AlexNet on B: what they "
    "were fitted on is no test; rows that are data parallelism themselves (ResNet-50, GNMT-8 on B: 1.00) and "
    "models without released profiles (GNMT-16, AWD LM, S2VT) are left out";

// Each reason for a difference has one tolerance. A figure states only a reason, so that no tolerance can be
// chosen for a single figure.
constexpr std::array kTolerances = {
    ToleranceKind{Tolerance::exact, "exact", 1e-9,
                  "nothing is rounded but the last bits of binary fractions"},
    ToleranceKind{Tolerance::nanoseconds, "nanoseconds", 1e-4,
                  "each action of a run is rounded to whole nanoseconds, the closed form is not"},
    ToleranceKind{Tolerance::rounding, "rounding", 0, "half a unit of the last digit that is printed"},
    ToleranceKind{
        Tolerance::size, "size", 0.01,
        "sizes and operations of models whose smaller terms (biases, norms, padding) are not printed"},
    ToleranceKind{Tolerance::ratio, "ratio", 0.05,
                  "measured speeds against others of the same table: noise between runs, as in `compare`"},
    ToleranceKind{Tolerance::step, "step", 0.1,
                  "measured steps by constants of other runs: two releases of one framework measure the same "
                  "configuration up to 9 % apart"},
};

constexpr std::array kReproductions = {
    Reproduction{.name = "pipedream-figures",
                 .source = "PipeDream (SOSP'19), figures 2, 3, 4 and 8; PipeDream-2BW (ICML'21), figure 3",
                 .setting = "F takes 1 unit, B 2 (figure 8: 2 and 2 on the replicated stage, 1 and 1 on the "
                            "other); links are free; no reduction among replicas",
                 .run = reproduce_pipedream_figures},
    Reproduction{.name = "schedule-memory",
                 .source = "GPipe, section 2.3; PipeDream (SOSP'19), sections 3.2 and 3.3, and its released "
                           "runtime (repository msr-fiddle/pipedream, commit 7db6a1c3)",
                 .setting = "each microbatch leaves 1 byte at a stage's boundary and 10 inside it",
                 .run = reproduce_schedule_memory},
    Reproduction{.name = "megatron-schedule",
                 .source = "Megatron-LM (SC'21, arXiv 2104.04473), section 2.2",
                 .setting = "F of a whole device takes 1 unit, B 2; a chunk takes its part; links are free",
                 .run = reproduce_megatron_schedule},
    Reproduction{.name = "pipedream-depth",
                 .source = "PipeDream (SOSP'19), figure 18 and section 5.4; GNMT-8 by its released profile",
                 .setting = "4 stages, F takes 1 unit, B 2; GNMT-8's times are those of its released profile",
                 .run = reproduce_pipedream_depth},
    Reproduction{.name = "pipedream-plans",
                 .source =
                     "PipeDream's released partitioner (repository msr-fiddle/pipedream, commit 7db6a1c3) "
                     "on its released profiles",
                 .setting = "its sum of compute and reduction; periods in seconds a minibatch of the profile",
                 .run = reproduce_pipedream_plans},
    Reproduction{.name = "pipedream-traffic",
                 .source = "PipeDream (SOSP'19), section 5.2 and figure 17, by its released profiles",
                 .setting = "MB a sample on 4 devices, decimal",
                 .run = reproduce_pipedream_traffic},
    Reproduction{.name = "pipedream-cluster-a",
                 .source = "PipeDream (SOSP'19), section 5.2, by its released profiles",
                 .setting = kOnClusters,
                 .run = reproduce_pipedream_cluster_a},
    Reproduction{.name = "pipedream-cluster-b",
                 .source = "PipeDream (SOSP'19), section 5.2, by its released profiles",
                 .setting = kOnClusters,
                 .run = reproduce_pipedream_cluster_b},
    Reproduction{.name = "pipedream-table-1",
                 .source =
                     "PipeDream (SOSP'19), table 1: speed-ups over data parallelism, epoch time, by its "
                     "released profiles",
                 .setting = kTable1,
                 .run = reproduce_pipedream_table_1},
    Reproduction{.name = "pipedream-server",
                 .source = "PipeDream (SOSP'19), section 5.2, by its released profiles",
                 .setting = kOnAServer,
                 .run = reproduce_pipedream_server},
    Reproduction{.name = "pipedream-memory",
                 .source = "PipeDream (SOSP'19), figure 16, by its released profiles",
                 .setting = kOnAServer,
                 .run = reproduce_pipedream_memory},
    Reproduction{.name = "pipedream-in-flight",
                 .source = "PipeDream (SOSP'19), figure 18: GNMT-8 on 4 workers, by its released profile",
                 .setting =
                     "a straight, balanced pipeline with stashed weights and Adam; stage s of 4 runs "
                     "(depth-1)(3-s)/3 forwards, rounded down, before its first backward; on one server "
                     "of cluster A, and on one worker of each of its four servers; the paper shows "
                     "curves, so what is claimed is that they rise",
                 .run = reproduce_pipedream_in_flight},
    Reproduction{.name = "flexflow",
                 .source = "PipeDream (SOSP'19), figure 14, by its released profiles",
                 .setting = kOnAServer,
                 .run = reproduce_flexflow},
    Reproduction{
        .name = "tf-replicator",
        .source = "TF-Replicator (arXiv 1902.00465): weak scaling on a TPUv3 torus of up to 512 cores",
        .setting = "ResNet-50 by PipeDream's profile with 4 samples a core, 2048 at 512 cores; "
                   "gradients in eight buckets, reduced by dimension beside the backward pass; links of "
                   "80 GB/s and 1 us are assumed; the paper's curve has no numbers, so reductions are held "
                   "against closed forms",
        .run = reproduce_replicator},
    Reproduction{.name = "gpipe-schedule",
                 .source = "GPipe (NeurIPS'19), sections 2.2 and 2.3",
                 .setting = "equal stages unless stated, links are free; published: the closed forms",
                 .run = reproduce_gpipe_schedule},
    Reproduction{.name = "gpipe-speed",
                 .source = "GPipe (NeurIPS'19), tables 2 and 3",
                 .setting =
                     "ratios of throughput; equal stages without overhead, so that AmoebaNet, whose stages "
                     "are uneven, must stay below the prediction",
                 .run = reproduce_gpipe_speed},
    Reproduction{.name = "gpipe-memory",
                 .source = "GPipe (NeurIPS'19), table 1",
                 .setting =
                     "vocabulary 32k, width 2048, inner width 8192; RMSProp with 12 bytes a parameter; "
                     "16 GiB a device; 3.9 GiB of activations a layer without and 0.492 GiB with "
                     "re-materialisation, both from the table",
                 .run = reproduce_gpipe_memory},
    Reproduction{.name = "torchgpipe",
                 .source = "torchgpipe's benchmarks (repository kakaobrain/torchgpipe, commit a1b4ee25)",
                 .setting = "equal stages, F takes 1 unit, B 2, R 1; bounds leave out the stages' imbalance",
                 .run = reproduce_torchgpipe},
    Reproduction{
        .name = "horovod",
        .source =
            "Horovod's published benchmark (repository horovod/horovod, docs/benchmarks): 128 servers of "
            "4 Pascal GPUs, 25 Gb/s",
        .setting = "VGG-16 by PipeDream's profile of a V100, 64 samples a GPU; PCIe of 12 GB/s inside a "
                   "server, 5 us by "
                   "RDMA between servers; "
                   "gradients in eight buckets, reduced in one ring beside the backward pass",
        .run = reproduce_horovod},
    Reproduction{.name = "data-parallelism",
                 .source = "ring all-reduce as Horovod has it (arXiv 1802.05799, section 3)",
                 .setting = "n equal links of 10 GB/s and 5 us; published: 2(n-1)/n bytes/B + 2(n-1)a, in ms",
                 .run = reproduce_data_parallelism},
    Reproduction{.name = "zero-memory",
                 .source = "ZeRO (DeepSpeed; SC'20), figure 1, sections 3 and 7",
                 .setting =
                     "mixed-precision Adam: 2 bytes of weights, 2 of gradients and 12 of optimizer state a "
                     "parameter, in 1000 buckets, of which some are whole at a time; decimal GB a device",
                 .run = reproduce_zero},
    Reproduction{
        .name = "zero-bubble-table-5",
        .source = "Zero Bubble Pipeline Parallelism (ICLR'24), table 5",
        .setting = "the profiled times of its table 9; bubble rate of the longest rank; zb-1p and zb-2p may "
                   "be better than published; 1F1B-I by its formula (K-1)(f+b+w)/v + (2Kv-K-2)c",
        .run = reproduce_zero_bubble_table_5},
    Reproduction{
        .name = "zero-bubble-memory",
        .source = "the authors' bubbles under a limit on memory, published beside the code of Zero Bubble",
        .setting =
            "their times and bytes of transformers of 9.6, 21 and 38.5 G parameters; bubble rate of the "
            "longest rank; synthesized, 200 passes, may be better than published",
        .run = reproduce_zero_bubble_memory},
    Reproduction{
        .name = "megatron-sc21",
        .source = "Megatron-LM (SC'21, arXiv 2104.04473), tables 1 and 2; MT-NLG 530B (arXiv 2201.11990), "
                  "section 2.4",
        .setting = "analytic transformers, full recomputation, tensor degree 8, 1F1B with one sequence a "
                   "microbatch on free links; the efficiency is that of each model's smallest run, whose own "
                   "speed is therefore no figure; reductions of gradients and the optimizer are left out",
        .run = reproduce_megatron_sc21},
    Reproduction{.name = "recomputation",
                 .source = "Reducing Activation Recomputation in Large Transformer Models (MLSys'23, arXiv "
                           "2205.05198), tables 4 and 5",
                 .setting =
                     "analytic transformers, tensor degree 8 (what sequence parallelism saves is left out); "
                     "table 4 in proportion to its 19.6 ms without recomputation",
                 .run = reproduce_recomputation},
    Reproduction{
        .name = "stage-times",
        .source = "Vocabulary Parallelism (repository sail-sg/VocabularyParallelism, March 2025): GPTs "
                  "on 8 A100, 8 stages, 128 microbatches, vocabularies of 32k to 256k",
        .setting = "F and B of every stage as measured there, 1F1B on free links; the optimizer and "
                   "reductions are left out; base: even layers, redis: layers moved away from the "
                   "ends; vocab and synctwice: 1f1b-vocab-2 and -1, S and T are eighths of what the ends "
                   "of base take longer than its other stages, and the exchanges between all ranks are "
                   "left out",
        .run = reproduce_stage_times},
    Reproduction{.name = "measured-runs",
                 .source = "training steps of MLPerf, Megatron Bridge and SimuMax on up to 8192 GPUs "
                           "(scenarios/library/runs/README.md)",
                 .setting =
                     "seconds of a step; each model's rows with constants fitted on the other models' rows "
                     "of their source, device and precision; where there are none the device's own, which "
                     "for H100 to GB300 are priors out of these very rows; GiB: the fullest device's peak",
                 .run = reproduce_measured_runs},
};

}  // namespace

const ToleranceKind& kind_of(Tolerance tolerance) {
  return kTolerances.at(static_cast<std::size_t>(tolerance));
}

std::span<const ToleranceKind> tolerance_table() { return kTolerances; }

bool ReproducedFigure::is_held() const {
  return figure_class != FigureClass::fitted && figure_class != FigureClass::shown;
}

bool ReproducedFigure::is_printed() const {
  return figure_class == FigureClass::equal || figure_class == FigureClass::missed;
}

double ReproducedFigure::tolerance() const {
  // Binary fractions are not exact, so a small difference is allowed. For example, 50.25 - 50.2 differs from
  // 0.05 in the last bit.
  constexpr double kBinary = 1e-9;
  const double against = std::abs(bound ? *bound : published.value_or(0));
  if (tolerance_kind == Tolerance::rounding) return 0.5 * std::pow(10, -decimals) + kBinary * against;
  return kind_of(tolerance_kind).part * against;
}

bool ReproducedFigure::holds() const {
  if (!is_held()) return true;
  const std::optional<double> against = bound ? bound : published;
  // A claim without a number is an error in the table of reproductions, so it counts as not met.
  if (!against) return false;
  if (figure_class != FigureClass::bound) return std::abs(predicted - *against) <= tolerance();
  return side == BoundSide::at_most ? predicted <= *against + tolerance()
                                    : predicted >= *against - tolerance();
}

std::optional<double> ReproducedFigure::relative_error() const {
  if (!published || *published == 0) return std::nullopt;
  return (predicted - *published) / std::abs(*published);
}

ReproducedFigure equal(Tolerance kind, std::string what, double published, double predicted) {
  return {.what = std::move(what), .published = published, .predicted = predicted, .tolerance_kind = kind};
}

ReproducedFigure rounded(int decimals, std::string what, double published, double predicted) {
  return with_decimals(decimals, equal(Tolerance::rounding, std::move(what), published, predicted));
}

ReproducedFigure formula(std::string what, double published, double predicted, Tolerance kind) {
  return {.what = std::move(what),
          .figure_class = FigureClass::formula,
          .published = published,
          .predicted = predicted,
          .tolerance_kind = kind};
}

ReproducedFigure at_least(std::string what, double published, double predicted) {
  return {.what = std::move(what),
          .figure_class = FigureClass::bound,
          .published = published,
          .predicted = predicted,
          .side = BoundSide::at_least};
}

ReproducedFigure at_most(std::string what, double published, double predicted) {
  return {.what = std::move(what),
          .figure_class = FigureClass::bound,
          .published = published,
          .predicted = predicted,
          .side = BoundSide::at_most};
}

ReproducedFigure no_less(std::string what, double predicted, double bound) {
  return {.what = std::move(what),
          .figure_class = FigureClass::bound,
          .predicted = predicted,
          .side = BoundSide::at_least,
          .bound = bound};
}

ReproducedFigure no_more(std::string what, double predicted, double bound) {
  return {.what = std::move(what),
          .figure_class = FigureClass::bound,
          .predicted = predicted,
          .side = BoundSide::at_most,
          .bound = bound};
}

ReproducedFigure missed(Tolerance kind, std::string what, double published, double predicted,
                        std::string note) {
  return {.what = std::move(what),
          .figure_class = FigureClass::missed,
          .published = published,
          .predicted = predicted,
          .tolerance_kind = kind,
          .note = std::move(note)};
}

ReproducedFigure fitted(std::string what, double published, double predicted, std::string note) {
  return {.what = std::move(what),
          .figure_class = FigureClass::fitted,
          .published = published,
          .predicted = predicted,
          .note = std::move(note)};
}

ReproducedFigure shown(std::string what, double predicted) {
  return {.what = std::move(what), .figure_class = FigureClass::shown, .predicted = predicted};
}

ReproducedFigure noted(ReproducedFigure figure, std::string note) {
  figure.note = std::move(note);
  return figure;
}

ReproducedFigure with_decimals(int decimals, ReproducedFigure figure) {
  figure.tolerance_kind = Tolerance::rounding;
  figure.decimals = decimals;
  return figure;
}

std::span<const Reproduction> reproduction_table() { return kReproductions; }

}  // namespace penstock
