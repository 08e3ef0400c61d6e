#pragma once
// The part of a cluster's time that becomes useful work if devices fail and checkpoints are saved.

namespace penstock {

/// A job on devices that fail at random. Each device fails independently and at a constant rate. All times
/// are in seconds.
struct Failures {
  double device_mtbf = 0;  ///< mean time between two failures of one device; > 0
  double devices = 1;      ///< number of devices, >= 1; a failure of any one stops the job
  double save = 0;         ///< time to save one checkpoint, during which no work is done; >= 0
  double restart = 0;      ///< time from a failure until the job continues from the last checkpoint; >= 0
};

/// Returns the part of the time that becomes retained work, with a checkpoint after every `interval` seconds
/// of work (>= 0). Let t = interval, M = the cluster's mean time between failures, C = save and R = restart.
/// Then the part is t / (M e^(R/M) (e^((t+C)/M) - 1)). If saving takes no time, an interval of 0 gives the
/// limit of the formula. Failures may also happen during saving and restarting (Daly, FGCS 22, 2006, section
/// 3).
double goodput(const Failures& failures, double interval);

/// Returns the interval with the highest goodput, to a relative precision of 1e-6. It is about sqrt(2 C M) if
/// C is much smaller than M (Young, CACM 17, 1974), and 0 if saving takes no time.
double best_interval(const Failures& failures);

}  // namespace penstock
