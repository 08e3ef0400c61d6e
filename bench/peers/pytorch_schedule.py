#!/usr/bin/env python3
"""PyTorch's pipelining simulator on a schedule's compute lists: a dry run that places SEND and RECV and steps all
ranks through their lists until they end or nothing moves. It knows no durations: a step is one action a rank.

Usage: pytorch_schedule.py LISTS.csv STAGES. Prints, separated by blanks: milliseconds of processor time to place,
the same to step, and the steps. Least of several runs each."""

import csv
import sys
import time

from torch.distributed.pipelining.schedules import _Action, _add_send_recv, _simulate_comms_compute


def compute_lists(name):
    with open(name, newline="", encoding="utf-8") as lists:
        return {rank: [_Action.from_str(text) for text in row if text] for rank, row in enumerate(csv.reader(lists))}


def least_ms(runs, work):
    """And what the last run returned."""
    least = float("inf")
    for _ in range(runs):
        begin = time.process_time()
        result = work()
        least = min(least, time.process_time() - begin)
    return 1e3 * least, result


def main():
    lists, stages = compute_lists(sys.argv[1]), int(sys.argv[2])
    ranks = len(lists)

    def rank_of(stage):
        return stage % ranks

    def own_lists():  # placing empties its argument
        return {rank: list(actions) for rank, actions in lists.items()}

    place_ms, placed = least_ms(5, lambda: _add_send_recv(own_lists(), rank_of, stages))
    step_ms, steps = least_ms(5, lambda: _simulate_comms_compute(placed, rank_of, stages))
    print(f"{place_ms:.3f} {step_ms:.3f} {max(len(row) for row in steps.values())}")


if __name__ == "__main__":
    main()
