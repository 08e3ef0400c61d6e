#pragma once
// What failures leave of a cluster's time when work is saved now and then.

namespace penstock {

/// A job on devices that fail at random, each at a constant rate and on its own. Seconds.
struct Failures {
  double device_mtbf = 0;  ///< > 0: mean time between two failures of one device
  double devices = 1;      ///< >= 1; any failure ends the job's attempt
  double save = 0;         ///< >= 0: of one checkpoint, during which no work is done
  double restart = 0;      ///< >= 0: from a failure until work goes on behind the last checkpoint
};

/// Part of the time that becomes work which is kept, with a checkpoint after every `interval` seconds of work
/// (>= 0): t / (M e^(R/M) (e^((t+C)/M) - 1)) for the cluster's mean time between failures M, save C and
/// restart R, 0 the limit where saving is free; failures may strike while saving and restarting, too (Daly,
/// FGCS 22, 2006, section 3).
double goodput(const Failures& failures, double interval);

/// The interval with the highest goodput, to a millionth part. About sqrt(2 C M) where C is much smaller than
/// M (Young, CACM 17, 1974). 0 where saving costs nothing.
double best_interval(const Failures& failures);

}  // namespace penstock
