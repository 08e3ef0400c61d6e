"""Tests of the Python package. scripts/wheel.sh runs them with the wheel that it has made."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
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

    def test_false_of_a_dotted_name_is_a_value(self):
        model = dict(model="llama-3.1-8b", device="h100-sxm", sequence=4096, tensor_parallel=4, pp_size=2, global_batch_size=16)
        times = {
            value: ps.simulate(**model, **{"parallel.tensor_overlap": value}).makespan_ns
            for value in (None, True, False, "off")
        }
        self.assertEqual(times[True], times[None])
        self.assertEqual(times[False], times["off"])
        self.assertGreater(times[False], times[True])

    def test_true_of_a_dotted_name_is_a_value(self):
        flag = ps.simulate(schedule="1f1b", pp_size=2, num_microbatches=4, forward_only=True)
        key = ps.simulate(schedule="1f1b", pp_size=2, num_microbatches=4, **{"schedule.forward_only": True})
        self.assertEqual(key.makespan_ns, flag.makespan_ns)

    def test_numbers_of_numpy_are_numbers(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        schedule = {"name": "1f1b", "stages": numpy.int64(4), "microbatches": numpy.int32(8)}
        stages = {"forward": numpy.array(["1 ms"] * 4), "backward": "2 ms"}
        self.assertEqual(ps.simulate({"schedule": schedule, "model": {"stages": stages}}).makespan_ns, 33_000_000)
        self.assertEqual(ps.simulate(schedule="1f1b", pp_size=numpy.int64(4), num_microbatches=8).makespan_ns, 33_000_000)

    def test_without_sizes_there_is_no_peak(self):
        result = ps.simulate(schedule="1f1b", pp_size=4, num_microbatches=8)
        self.assertEqual(result.peak, 0)
        self.assertGreater(ps.simulate(LAYERS).peak, 0)

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

    def test_the_place_of_an_error_is_found_in_every_form_of_a_message(self):
        places = {}
        for name, call in {
            "set": lambda: ps.simulate(LAYERS, set={"nope": 1}),
            "file": lambda: ps.simulate("nothere.yaml"),
            "rows": lambda: ps.Program.from_rows([["0F0", "0B0"], ["1F0", "1Z0"]]),
            "flag": lambda: ps.simulate(schedule="1f1b", pp_size=0, num_microbatches=8),
        }.items():
            with self.assertRaises(ps.ScenarioError) as caught:
                call()
            places[name] = (caught.exception.file, caught.exception.line, caught.exception.key)
        self.assertEqual(
            places,
            {
                "set": (None, None, "nope"),
                "file": ("nothere.yaml", None, None),
                "rows": ("rows", 2, None),
                "flag": (None, None, None),
            },
        )

    def test_a_value_that_no_scenario_can_hold_is_named(self):
        with self.assertRaisesRegex(ps.ScenarioError, "expected dicts, lists, texts and numbers in a scenario, got"):
            ps.simulate({"schedule": {"name": object()}})
        with self.assertRaisesRegex(ps.ScenarioError, "a function is no scenario"):
            ps.check(fill_drain)

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

    def test_a_function_replaces_the_schedule_of_a_scenario(self):
        keys = {"schedule": fill_drain, "pp_size": 4, "num_microbatches": 8}
        gpipe = ps.simulate({**LAYERS, "schedule": {"name": "gpipe", "stages": 4, "microbatches": 8}})
        self.assertEqual(ps.simulate(LAYERS, **keys).makespan_ns, gpipe.makespan_ns)
        text = json.dumps(LAYERS)
        self.assertEqual(ps.simulate(text, **keys).svg(), ps.simulate(LAYERS, **keys).svg())

    def test_check_explain_and_show_take_functions(self):
        keys = {"schedule": fill_drain, "pp_size": 4, "num_microbatches": 8}
        self.assertTrue(ps.check(**keys))
        self.assertTrue(ps.check(LAYERS, channel="pair", **keys))
        self.assertTrue(ps.check(schedule="1f1b", pp_size=4, num_microbatches=8))
        program = ps.Program.from_order(fill_drain, 4, 8)
        for scenario in (None, LAYERS):
            why = ps.explain(scenario, **keys)
            self.assertEqual(why["makespan_ns"], ps.simulate(scenario, **keys).makespan_ns)
            self.assertEqual(why["makespan_ns"], ps.explain(scenario, program=program)["makespan_ns"])
            picture = ps.show(scenario, width=80, **keys)
            self.assertIn("4 ranks, 4 stages, 8 microbatches", picture)
            self.assertEqual(picture, ps.show(scenario, width=80, program=program))

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

    def test_a_hang_of_a_command_names_its_waits(self):
        program = ps.Program.from_rows(RECEIVES_FIRST)
        with self.assertRaises(ps.Hang) as simulated:
            ps.simulate(program=program, channel="rank")
        with self.assertRaises(ps.Hang) as explained:
            ps.explain(program=program, channel="rank")
        self.assertGreaterEqual(len(simulated.exception.cycle), 2)
        self.assertEqual(explained.exception.cycle, simulated.exception.cycle)

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

    def test_functions_files_and_names_are_one_table(self):
        with tempfile.TemporaryDirectory() as folder:
            mine = os.path.join(folder, "mine.psched")
            Path(mine).write_text(ps.Program.generate("zb-h1", 2, 4).to_text())
            keys = {"schedule": ["1f1b", fill_drain, mine], "num_microbatches": "4,8"}
            table = ps.sweep({**LAYERS, "schedule": {"stages": 2}}, **keys)
        self.assertEqual(
            [(Path(name).name, m, status) for name, m, status in table[["schedule", "microbatches", "status"]].values],
            [
                ("1f1b", 4, "ok"),
                ("1f1b", 8, "ok"),
                ("mine.psched", 4, "ok"),
                ("mine.psched", 8, "skipped"),
                ("fill_drain", 4, "ok"),
                ("fill_drain", 8, "ok"),
            ],
        )
        self.assertEqual(table["reason"][3], "the program has 4 microbatches, and this point M = 8")

    def test_a_function_that_makes_no_valid_program_is_a_row(self):
        def late(rank, K, M):
            yield from (("B", 0), ("F", 0)) if rank else (("F", 0), ("B", 0))

        table = ps.sweep(schedule=["1f1b", late], pp_size=2, num_microbatches=1)
        self.assertEqual(list(table["schedule"]), ["1f1b", "late"])
        self.assertEqual(list(table["status"]), ["ok", "failed"])
        self.assertIn("1B0 comes before 1F0", table["reason"][1])

    def test_workers_of_dask_compute_the_same_rows(self):
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            self.skipTest("dask.distributed is not installed")
        keys = {"schedule": ["gpipe", "zb-h1", fill_drain], "pp_size": [2, 4], "num_microbatches": [4, 8, 16]}
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            shared = ps.sweep(LAYERS, client=client, **keys)
        self.assertEqual(shared.to_csv(), ps.sweep(LAYERS, **keys).to_csv())

    def test_lists_of_vary_are_values_of_a_sweep(self):
        texts = ps.sweep(LAYERS, vary={"cluster.latency": "4us,8us"})
        self.assertEqual(len(texts), 2)
        self.assertEqual(ps.sweep(LAYERS, vary={"cluster.latency": ["4us", "8us"]}).to_csv(), texts.to_csv())

    def test_errors_of_commands_are_exceptions(self):
        with self.assertRaisesRegex(ps.ScenarioError, "unknown schedule"):
            ps.sweep(schedule=["1f1bb"], pp_size=[2], num_microbatches=[4])


class Threads(unittest.TestCase):
    def test_ctrl_c_ends_a_long_prediction(self):
        # A shell starts its background jobs with SIGINT ignored, so the program sets Python's own handler.
        program = """
import signal
import penstock_sim as ps
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begins", flush=True)
try:
    ps.simulate(schedule="1f1b", pp_size=64, num_microbatches=16384, engine="event")
except KeyboardInterrupt:
    print("interrupted", flush=True)
    print(ps.simulate(schedule="1f1b", pp_size=4, num_microbatches=8).makespan_ns, flush=True)
    raise SystemExit(7)
"""
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "begins\n")
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        interrupted = time.monotonic()
        output, _ = process.communicate(timeout=50)
        # The next call is answered, and the process ends with its own code beside the work that goes on.
        self.assertEqual((output, process.returncode), ("interrupted\n33000000\n", 7))
        self.assertLess(time.monotonic() - interrupted, 20)

    def test_other_threads_run_during_a_long_call(self):
        result = ps.simulate(schedule="1f1b", pp_size=64, num_microbatches=1024)
        result.svg()  # stores the timeline
        program = ps.Program.generate("1f1b", 64, 1024)
        for call in (result.svg, result.to_html, program.lower):
            turns, is_done = [], threading.Event()

            def watch():
                while not is_done.wait(0.001):
                    turns.append(1)

            watcher = threading.Thread(target=watch)
            watcher.start()
            call()
            count = len(turns)
            is_done.set()
            watcher.join()
            self.assertGreater(count, 4, call)


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
