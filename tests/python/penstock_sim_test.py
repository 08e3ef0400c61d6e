"""Tests of the Python package. CTest runs them with the module that the build made, and scripts/wheel.sh with the wheel."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import penstock_sim as ps

LAYERS = {
    "model": {"stages": {"forward": "1 ms", "backward": "2 ms", "activation": "1 MB"}},
    "cluster": {"preset": "uniform", "devices": 4, "bandwidth": "10 GB/s", "latency": "50 us"},
    "schedule": {"name": "1f1b", "stages": 4, "microbatches": 8},
    "training": {"micro_batch_size": 1},
}

# Rank 0 posts its RECV before the SEND whose answer it is. On one queue for each rank this hangs.
RECEIVES_FIRST = [["0F0", "0RECV_B0", "0SEND_F0", "0B0"], ["1RECV_F0", "1F0", "1B0", "1SEND_B0"]]


def fill_drain(rank, ranks, microbatches):
    for microbatch in range(microbatches):
        yield "F", microbatch
    for microbatch in range(microbatches):
        yield "B", microbatch


class Import(unittest.TestCase):
    def test_a_prediction_loads_no_module_that_only_other_calls_need(self):
        program = """
import sys
before = set(sys.modules)
import penstock_sim
penstock_sim.simulate(schedule="1f1b", pp_size=4, num_microbatches=8).makespan
heavy = {"collections", "contextlib", "dataclasses", "enum", "functools", "json", "pandas", "re", "subprocess", "tempfile", "typing"}
print(sorted(heavy & (set(sys.modules) - before)))
"""
        folder = str(Path(ps.__file__).parent.parent)
        # Without -S the module site may have loaded some of them before.
        printed = subprocess.run(
            [sys.executable, "-S", "-c", program],
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
        )
        self.assertEqual(printed.stdout, "[]\n", printed.stderr)

    def test_the_type_of_a_schedule_is_there_for_those_who_name_it(self):
        self.assertIn("Order", ps.__all__)
        self.assertIn("Callable", repr(ps.Order))
        with self.assertRaises(AttributeError):
            ps.no_such_name


class Simulate(unittest.TestCase):
    def test_arguments_are_the_flags_of_the_command(self):
        result = ps.simulate(schedule="1f1b", pp_size=4, num_microbatches=8)
        # (M + K - 1) x (F + B) = 11 x 3 ms
        self.assertEqual(result.makespan_ns, 33_000_000)
        self.assertEqual(result.makespan, 0.033)
        self.assertAlmostEqual(result.bubble, 3 / 11)
        self.assertEqual([rank["busy_ns"] for rank in result.ranks()], [24_000_000] * 4)

    def test_a_dict_a_text_and_a_file_give_the_same_document(self):
        text = json.dumps(LAYERS)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "x.yaml"
            file.write_text(text)
            documents = [ps.simulate(given).to_dict() for given in (LAYERS, text, str(file), file)]
        for document in documents:
            document["scenario"] = ""
        self.assertEqual(documents[0]["makespan_ns"], 35_400_000)
        self.assertTrue(all(document == documents[0] for document in documents))

    def test_dotted_names_change_keys_of_the_scenario(self):
        slow = ps.simulate(LAYERS, **{"cluster.latency": "1 ms"})
        self.assertGreater(slow.makespan_ns, ps.simulate(LAYERS).makespan_ns)

    def test_the_command_line_prints_the_same(self):
        flags = ["simulate", "-", "--json"]
        printed = subprocess.run(
            [sys.executable, "-m", "penstock_sim", *flags], input=json.dumps(LAYERS), capture_output=True, text=True
        )
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertEqual(json.loads(printed.stdout), ps.simulate(LAYERS).to_dict())

    def test_the_timeline_is_a_table_of_all_actions(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        table = ps.simulate(schedule="gpipe", pp_size=2, num_microbatches=3).timeline()
        self.assertIsInstance(table, pandas.DataFrame)
        forwards = table[(table["kind"] == "F") & (table["rank"] == 1)]
        self.assertEqual(list(forwards["start_ns"]), [1_000_000, 2_000_000, 3_000_000])
        self.assertEqual(list(forwards["microbatch"]), [0, 1, 2])

    def test_pictures_and_pages(self):
        result = ps.simulate(schedule="gpipe", pp_size=2, num_microbatches=3)
        self.assertTrue(result.svg().startswith("<svg"))
        self.assertIn("<html", result.to_html())
        self.assertIn("<svg", result._repr_html_())


class Errors(unittest.TestCase):
    def test_a_wrong_key_names_its_file_line_and_key(self):
        with self.assertRaises(ps.ScenarioError) as caught:
            ps.simulate("schedule:\n  name: 1f1b\n  stagse: 2\n")
        self.assertEqual((caught.exception.file, caught.exception.line), ("-", 3))
        self.assertEqual(caught.exception.key, "schedule.stagse")
        self.assertIn("did you mean stages", str(caught.exception))

    def test_a_wrong_value_of_a_dotted_name_names_the_key(self):
        with self.assertRaises(ps.ScenarioError) as caught:
            ps.simulate(LAYERS, **{"cluster.latency": "soon"})
        self.assertEqual(caught.exception.key, "cluster.latency")

    def test_an_unknown_argument_is_an_error_with_a_suggestion(self):
        with self.assertRaisesRegex(ps.ScenarioError, "num-microbatches"):
            ps.simulate(schedule="1f1b", pp_size=4, num_microbatchs=8)

    def test_a_number_out_of_its_range_is_an_error(self):
        with self.assertRaisesRegex(ps.ScenarioError, "--pp-size"):
            ps.simulate(schedule="1f1b", pp_size=0, num_microbatches=8)

    def test_a_hang_has_its_cycle(self):
        with self.assertRaises(ps.Hang) as caught:
            ps.simulate(program=ps.Program.from_rows(RECEIVES_FIRST), channel="rank")
        self.assertGreaterEqual(len(caught.exception.cycle), 2)
        self.assertIn("rank 0", " ".join(caught.exception.cycle))

    def test_a_call_after_an_error_starts_from_the_defaults(self):
        before = ps.simulate(schedule="1f1b", pp_size=4, num_microbatches=8).makespan_ns
        with self.assertRaises(ps.ScenarioError):
            ps.simulate(schedule="1f1b", pp_size=4, num_microbatches=8, data_parallel=0)
        ps.simulate(schedule="interleaved", pp_size=2, num_microbatches=8, virtual_stages=3)
        self.assertEqual(ps.simulate(schedule="1f1b", pp_size=4, num_microbatches=8).makespan_ns, before)


class Programs(unittest.TestCase):
    def test_a_function_is_a_schedule(self):
        result = ps.simulate(schedule=fill_drain, pp_size=4, num_microbatches=8)
        self.assertEqual(result.makespan_ns, ps.simulate(schedule="gpipe", pp_size=4, num_microbatches=8).makespan_ns)
        self.assertTrue(ps.check(ps.Program.from_order(fill_drain, 4, 8)))

    def test_a_function_with_costs_of_a_scenario(self):
        program = ps.Program.from_order(fill_drain, 4, 8)
        own = {**LAYERS, "schedule": {"name": "gpipe", "stages": 4, "microbatches": 8}}
        costs = {key: value for key, value in LAYERS.items() if key != "schedule"}
        self.assertEqual(ps.simulate(costs, program=program).makespan_ns, ps.simulate(own).makespan_ns)

    def test_chunks_are_placed_round_the_ranks(self):
        def two_chunks(rank, ranks, microbatches):
            for stage in (rank, rank + ranks):
                yield "F", 0, stage
            for stage in (rank + ranks, rank):
                yield "B", 0, stage

        program = ps.Program.from_order(two_chunks, 2, 1)
        self.assertEqual(program.lists(), [["0F0", "2F0", "2B0", "0B0", "0STEP", "2STEP"],
                                           ["1F0", "3F0", "3B0", "1B0", "1STEP", "3STEP"]])

    def test_a_function_that_waits_for_itself_hangs(self):
        def backward_first(rank, ranks, microbatches):
            yield "B", 0
            yield "F", 0

        verdict = ps.check(ps.Program.from_order(backward_first, 2, 1))
        self.assertFalse(verdict)
        self.assertFalse(verdict.valid)
        with self.assertRaises(ps.Hang):
            ps.simulate(schedule=backward_first, pp_size=2, num_microbatches=1)

    def test_csv_round_trip(self):
        program = ps.Program.generate("1f1b", 4, 8)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "x.csv"
            text = program.to_csv(file)
            again = ps.Program.from_csv(file)
        self.assertEqual(again.lists(), program.lists())
        self.assertEqual(ps.Program.from_rows([row.split(",") for row in text.splitlines()]).lists(), program.lists())
        self.assertEqual(ps.Program.from_text(program.to_text()), program)
        self.assertIn("0SEND_F0", program.lower().lists()[0])

    def test_the_verdict_depends_on_the_channel(self):
        program = ps.Program.from_rows(RECEIVES_FIRST)
        self.assertTrue(ps.check(program, channel="directed"))
        verdict = ps.check(program, channel="rank")
        self.assertTrue(verdict.valid and verdict.hangs and not verdict)
        self.assertEqual({wait["rank"] for wait in verdict.cycle}, {0, 1})

    def test_the_smallest_failing_program(self):
        self.assertIsNone(ps.Program.generate("1f1b", 4, 8).shrink())
        lists = ps.Program.generate("gpipe", 3, 4).lists()
        rows = [[cell for cell in row if "STEP" not in cell] for row in lists]
        rows[2].reverse()  # The last rank runs its backward passes first.
        smallest = ps.Program.from_rows(rows).shrink()
        self.assertEqual((smallest.ranks, smallest.microbatches), (1, 1))


class Commands(unittest.TestCase):
    def setUp(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")

    def test_a_sweep_is_a_table(self):
        table = ps.sweep(schedule=["gpipe", "1f1b"], pp_size=[2, 4], num_microbatches=8)
        self.assertEqual(len(table), 4)
        self.assertEqual(set(table["schedule"]), {"gpipe", "1f1b"})

    def test_functions_are_schedules_of_a_sweep(self):
        table = ps.sweep(schedule=["gpipe", fill_drain], pp_size=[2, 4], num_microbatches=[4, 8])
        times = table.groupby("schedule")["makespan_ns"].apply(list)
        self.assertEqual(times["gpipe"], times["fill_drain"])

    def test_workers_of_dask_compute_the_same_rows(self):
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            self.skipTest("dask.distributed is not installed")
        keys = {"schedule": ["gpipe", "1f1b", "zb-h1"], "pp_size": [2, 4], "num_microbatches": [4, 8, 16]}
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            shared = ps.sweep(LAYERS, client=client, **keys)
        self.assertEqual(shared.to_csv(), ps.sweep(LAYERS, **keys).to_csv())

    def test_errors_of_commands_are_exceptions(self):
        with self.assertRaisesRegex(ps.ScenarioError, "unknown schedule"):
            ps.sweep(schedule=["1f1bb"], pp_size=[2], num_microbatches=[4])


class Guide(unittest.TestCase):
    """Runs the code of docs/guide/python.md. A comment behind a print says what it prints."""

    def test_the_guide_prints_what_it_shows(self):
        guide = os.environ.get("PENSTOCK_PYTHON_GUIDE")
        if not guide:
            self.skipTest("PENSTOCK_PYTHON_GUIDE does not name the page")
        blocks = re.findall(r"```python\n(.*?)```", Path(guide).read_text(), re.DOTALL)
        self.assertGreater(len(blocks), 3)
        code = "\n".join(blocks)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {})
        self.assertEqual(printed.getvalue().splitlines(), re.findall(r"^# (.*)$", code, re.MULTILINE))


if __name__ == "__main__":
    unittest.main()
