#!/usr/bin/env python3
"""Opens pages of penstock in headless Chromium, and checks that they show the run.

    viewer_test.py PENSTOCK [--screenshots FOLDER]

The test reads the actions back from the page and compares them with the JSON timeline. It points at an idle
box and compares the text with that of `penstock explain`. It measures the size of the page, the time to the
first picture and the time of a drawing. Exit status 77 means that the machine has no Chromium.
"""

import base64
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

LARGE = ["--schedule", "1f1b", "--pp-size", "64", "--num-microbatches", "512"]
SMALL = ["--schedule", "1f1b", "--pp-size", "4", "--num-microbatches", "8", "--set",
         "model.stages.forward=[1 ms, 1 ms, 1.5 ms, 1 ms]", "--set", "model.stages.backward=[2 ms, 2 ms, 3 ms, 2 ms]"]


class Browser:
    """A headless Chromium that takes commands of the DevTools protocol over two pipes."""

    def __init__(self, chromium, folder):
        to_browser, self.output = os.pipe()
        self.input, from_browser = os.pipe()

        def connect():  # the browser reads commands from descriptor 3 and writes answers to 4
            commands, answers = os.dup(to_browser), os.dup(from_browser)
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self.process = subprocess.Popen(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={folder}/profile", "about:blank"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.pending = b""
        self.number = 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read_message()
            if answer.get("id") != self.number:
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def read_message(self):
        while b"\0" not in self.pending:
            piece = os.read(self.input, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium ended")
            self.pending += piece
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def open(self, page, hash_text=""):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=pathlib.Path(page).resolve().as_uri() + hash_text)
        self.evaluate("""new Promise(done => {
          const wait = () => window.penstock || document.readyState === 'complete' ? done() : setTimeout(wait, 5);
          wait();
        })""")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", str(answer)))
        return answer["result"].get("value")

    def thread_time(self):
        """Returns the seconds of processor time that the page's thread has used."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "ThreadTime")

    def screenshot(self, file, width, height, dark=False, media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.evaluate("new Promise(done => setTimeout(done, 300))")
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(file).write_bytes(base64.b64decode(picture))

    def close(self):
        self.process.kill()
        self.process.wait()


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def source(path):
    """Returns the path of a file of the source tree."""
    return str(pathlib.Path(__file__).resolve().parent.parent.parent / path)


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def varied_scenario(folder, ranks=64, microbatches=512):
    """Writes a scenario in which no two actions take equally long, so that nothing repeats itself."""
    varied = random.Random(1)

    def times(mean):
        return [[f"{round(mean * varied.uniform(0.95, 1.05))} ns" for _ in range(microbatches)] for _ in range(ranks)]

    scenario = {"model": {"stages": {"forward": times(1e6), "backward": times(2e6), "activation": ["14 MB"] * ranks}},
                "cluster": {"preset": "uniform", "devices": ranks, "bandwidth": "50 GB/s", "latency": "20 us"},
                "schedule": {"name": "1f1b", "stages": ranks, "microbatches": microbatches}}
    file = pathlib.Path(folder) / "varied.json"
    file.write_text(json.dumps(scenario))
    return str(file)


def linked_scenario(folder, schedule, ranks=4, microbatches=16):
    """Writes a scenario whose messages take time, and returns its path."""
    chunks = 2 if schedule == "interleaved" else 1
    stages = ranks * chunks
    times = {key: ["1 ms"] * stages for key in ["forward", "backward_input", "backward_weight"]}
    scenario = {"model": {"stages": {**times, "activation": ["1 MB"] * stages}},
                "cluster": {"preset": "uniform", "devices": 2 * ranks, "bandwidth": "10 GB/s", "latency": "50 us"},
                "schedule": {"name": schedule, "stages": ranks, "microbatches": microbatches}}
    if chunks > 1:
        scenario["schedule"]["virtual_stages"] = chunks
    file = pathlib.Path(folder) / f"{schedule}.json"
    file.write_text(json.dumps(scenario))
    return str(file)


def memory_of(browser, page):
    """Returns the memory of each rank of a page, as a list of times with the amounts of all categories."""
    browser.open(page)
    return browser.evaluate("""penstock.ready.then(([viewer]) => viewer.memory.ranks.map(
      rank => [...rank.time].map((time, i) => [time, rank.amounts.map(list => list[i])])))""")


def check_memory(browser, penstock, folder, arguments):
    """Compares the highest memory of each rank on a page, and its time, with the JSON result."""
    page, result = f"{folder}/memory.html", f"{folder}/memory.json"
    run(penstock, "simulate", *arguments, "-o", page, "-o", result)
    ranks = json.loads(pathlib.Path(result).read_text())["ranks"]
    shown = memory_of(browser, page)
    expect(len(shown) == len(ranks), f"{arguments}: the page has the memory of {len(shown)} ranks")
    for rank, steps in zip(ranks, shown):
        peak = max(sum(amounts) for _, amounts in steps)
        time = next(time for time, amounts in steps if sum(amounts) == peak)
        wanted = sum(rank["memory"]["at_peak"].values()), rank["memory"]["peak_time_ns"]
        expect((peak, time) == wanted, f"{arguments}: rank {rank['rank']} has the peak {peak} at {time}, not {wanted}")


def check_actions(browser, penstock, folder, arguments, name="run"):
    """Compares the actions that the page holds with those of the JSON timeline."""
    page, timeline = f"{folder}/{name}.html", f"{folder}/{name}-timeline.json"
    run(penstock, "simulate", *arguments, "--timeline", "-o", page, "-o", timeline)
    browser.open(page)
    shown = browser.evaluate("penstock.ready.then(viewers => viewers[0].actions()[0])")
    wanted = [[span["rank"], span["action"], span["start_ns"], span["end_ns"]]
              for span in json.loads(pathlib.Path(timeline).read_text())["timeline"]]
    expect(len(shown) == len(wanted), f"{arguments}: the page has {len(shown)} actions, the timeline {len(wanted)}")
    for got, expected in zip(shown, wanted):
        expect(got == expected, f"{arguments}: the page has {got}, the timeline {expected}")
    return page


def check_hover(browser, penstock, folder):
    """Points at the idle time before 0B0 of a small run, and compares the text with the explanation."""
    page, why = f"{folder}/why.html", f"{folder}/why.json"
    run(penstock, "explain", *SMALL, "-o", page, "-o", why)
    explanation = json.loads(pathlib.Path(why).read_text())
    wait = next(i for i in explanation["intervals"] if i["rank"] == 0 and i["before"] == "0B0")
    browser.open(page)
    browser.evaluate(f"""penstock.ready.then(([viewer]) => {{
      viewer.canvas.scrollIntoView();
      const frame = viewer.canvas.getBoundingClientRect(), lane = viewer.lanes[0];
      viewer.canvas.dispatchEvent(new PointerEvent('pointermove', {{pointerId: 1,
        clientX: frame.left + viewer.x({(wait["start_ns"] + wait["end_ns"]) / 2}),
        clientY: frame.top + lane.top + viewer.laneHeight / 2}}));
    }})""")
    text = browser.evaluate("document.querySelector('.tip').textContent")
    ms = lambda ns: f"{ns / 1e6:.3f} ms"
    expect(text.startswith(f"rank 0 idle {ms(wait['end_ns'] - wait['start_ns'])} before 0B0\n"), text)
    computes = [link for link in wait["chain"] if link["what"] == "compute" and link["rank"] != 0]
    expect(f"waits for {computes[-1]['name']} of rank {computes[-1]['rank']} (until {ms(computes[-1]['to_ns'])})" in text, text)
    for cause, ns in wait["causes"].items():
        expect((f"{cause} {ms(ns)}" if ns > 0 else f"less {ms(-ns)} of {cause}") in text, f"{cause} {ns} in {text}")
    for link in wait["chain"][-8:]:
        expect(f"{ms(link['from_ns'])} to {ms(link['to_ns'])}: {link['name']}" in text, f"{link} in {text}")
    buttons = browser.evaluate("[...document.querySelectorAll('.causes button')].map(button => button.textContent)")
    expect("imbalance" in buttons and "fill" in buttons, f"causes that are buttons: {buttons}")
    browser.evaluate("[...document.querySelectorAll('.causes button')].find(b => b.textContent === 'imbalance').click()")
    expect(browser.evaluate("penstock.ready.then(([viewer]) => viewer.cause)") == "cause0", "a click chooses a cause")
    return page


def check_chains(browser, penstock, folder, arguments):
    """Compares the text of each idle interval of a page with the explanation's chain of causes."""
    page, why = f"{folder}/chains.html", f"{folder}/chains.json"
    run(penstock, "explain", *arguments, "--levers", "0", "-o", page, "-o", why)
    browser.open(page)
    texts = browser.evaluate("""penstock.ready.then(([viewer]) => viewer.lanes.map(
      lane => lane.rank.intervals.start.map((_, interval) => viewer.textOf({lane, interval}))))""")
    shown = [text for lane in texts for text in lane]
    intervals = [one for one in json.loads(pathlib.Path(why).read_text())["intervals"] if one["end_ns"] > one["start_ns"]]
    expect(len(shown) == len(intervals), f"{arguments}: the page has {len(shown)} idle intervals, not {len(intervals)}")
    ms = lambda ns: f"{ns / 1e6:.3f} ms"
    for text, interval in zip(shown, intervals):
        chain = interval["chain"]
        lines = [f"{ms(link['from_ns'])} to {ms(link['to_ns'])}: {link['name']} " for link in chain[-8:]]
        for line in lines:
            expect(line in text, f"{arguments}: {line} is not in\n{text}")
        expect(len(chain) <= 8 or f"{len(chain) - 8} earlier steps" in text, f"{arguments}: {len(chain)} steps, not\n{text}")


def check_svg(browser, page):
    """Checks that the SVG of the view has a box for each compute action, and that long tables are folded."""
    browser.open(page)
    boxes, computes = browser.evaluate("""penstock.ready.then(([viewer]) => {
      const picture = new DOMParser().parseFromString(viewer.svg(), 'image/svg+xml'), run = viewer.runs[0];
      if (picture.querySelector('parsererror')) throw new Error(picture.documentElement.textContent);
      return [picture.querySelectorAll('g rect').length, run.ranks.reduce((sum, rank) => sum + rank.groups.length, 0)];
    })""")
    expect(boxes == computes, f"the SVG has {boxes} boxes, the run {computes} compute actions")


def check_folding(browser, page, ranks):
    """Checks that a table with more than fifty rows shows fifty, and all after a click."""
    browser.open(page)
    shown = """[...document.querySelectorAll('table.figures')].map(
      table => [...table.tBodies[0].rows].filter(row => row.offsetParent).length)"""
    expect(max(browser.evaluate(shown)) == 50, "a long table shows fifty rows")
    browser.evaluate("document.querySelectorAll('button.unfold').forEach(button => button.click())")
    expect(max(browser.evaluate(shown)) >= ranks, "a click shows all rows")


def check_comparison(browser, penstock, folder):
    """Checks that the page of a comparison has two rows for each rank, and names the other run's times."""
    shape = ["--schedule", "gpipe", "--pp-size", "2", "--num-microbatches", "3"]
    predicted, measured, page = (f"{folder}/{name}" for name in ["predicted.json", "measured.json", "compare.html"])
    run(penstock, "simulate", *shape, "--timeline", "-o", predicted)
    run(penstock, "run", *shape, "--backend", "cpu-thread", "--time-scale", "5", "--timeline", "-o", measured)
    subprocess.run([penstock, "compare", predicted, measured, "-o", page], stdout=subprocess.DEVNULL, check=False)
    browser.open(page)
    labels = browser.evaluate("penstock.ready.then(([viewer]) => viewer.lanes.map(lane => lane.label))")
    expect(labels == ["rank 0 predicted", "measured", "rank 1 predicted", "measured"], f"rows: {labels}")
    text = browser.evaluate("""penstock.ready.then(([viewer]) => {
      const lane = viewer.lanes[0];
      return viewer.textOf({lane, action: lane.rank.groups[1]});
    })""")
    spans = {(kind, span["action"]): span for kind, file in [("predicted", predicted), ("measured", measured)]
             for span in json.loads(pathlib.Path(file).read_text())["timeline"] if span["rank"] == 0}
    ms = lambda ns: f"{ns / 1e6:.3f} ms"
    for kind, action in [("predicted", "0F1"), ("measured", "0F1")]:
        span = spans[kind, action]
        expect(f"{ms(span['start_ns'])} to {ms(span['end_ns'])}" in text, f"{kind} {span} in {text}")
    late = spans["measured", "0F1"]["start_ns"] - spans["predicted", "0F1"]["start_ns"]
    expect(f"measured minus predicted: start {'+' if late > 0 else ''}{ms(late)}" in text, text)
    return page


def check_speed(browser, page, most_bytes):
    """Checks the size of a page, its first picture, and 240 drawings from the whole run to single actions.

    Other processes may use the machine. So the processor time of the page's thread must meet the limit of the first
    picture, the time on the clock five times this limit, and of each slow drawing the quickest of six counts.
    """
    size = os.path.getsize(page)
    browser.call("Performance.enable", timeDomain="threadTicks")
    firsts, walls = [], []
    for _ in range(3):
        before = browser.thread_time()
        browser.open(page)
        walls.append(browser.evaluate("penstock.ready.then(() => performance.now())"))
        after = browser.thread_time()
        firsts.append(1000 * (after - before if after > before else after))
    first, wall = min(firsts), min(walls)
    times, worst = browser.evaluate("""penstock.ready.then(([viewer]) => {
      const end = viewer.makespan;
      const drawn = i => {
        const length = end * Math.pow(1e-4, i % 60 / 60), from = (end - length) * (i / 240);
        viewer.from = from;
        viewer.to = from + length;
        return viewer.draw();
      };
      const times = [...Array(240).keys()].map(i => [drawn(i), i]).sort((a, b) => a[0] - b[0]);
      const again = times.slice(-5).map(([time, i]) => Math.min(time, ...[1, 2, 3, 4, 5].map(() => drawn(i))));
      return [times.map(([time]) => time), Math.max(...again)];
    })""")
    print(f"{size} bytes, first picture after {wall:.0f} ms ({first:.0f} ms of its thread), drawing {times[120]:.1f} ms (median), {worst:.1f} ms at worst")
    expect(size <= most_bytes, f"the page has {size} bytes, more than {most_bytes}")
    expect(first < 1000, f"the first picture took {first:.0f} ms of processor time")
    expect(wall < 5000, f"the first picture took {wall:.0f} ms")
    expect(worst < 120, f"a drawing took {worst:.1f} ms at its quickest")
    expect(times[120] < 16, f"half of the drawings took more than {times[120]:.1f} ms")


def check_sizes(penstock, folder, most_bytes):
    """Checks the size of the page of schedules with 64 ranks and 512 microbatches, without and with links."""
    too_large = []
    times = [f"--set=model.stages.{key}=1 ms" for key in ["forward", "backward_input", "backward_weight"]]
    links = [*times, "--set=model.stages.activation=1.3 MB",
             "--set=cluster={preset: uniform, devices: 64, bandwidth: 7 GB/s, latency: 3 us}"]
    for schedule, options in [("naive", []), ("gems", []), ("zb-h1", []), ("hanayo", []), ("1f1b-vocab-1", []), ("1f1b", links),
                              ("interleaved", links), ("1f1b-vocab-1", links), ("1f1b-encoder-first", links), ("1f1b-v", links),
                              ("dualpipe-v", links)]:
        page = f"{folder}/size.html"
        run(penstock, "simulate", "--schedule", schedule, "--pp-size", "64", "--num-microbatches", "512", *options, "-o", page)
        size = os.path.getsize(page)
        print(f"{schedule}{' with links' if options else ''}: {size} bytes")
        if size > most_bytes:
            too_large.append(f"{schedule} {size}")
    expect(not too_large, f"pages that are too large: {too_large}")


def check_widths(browser, pages, folder):
    """Checks that no page is wider than its screen, and saves pictures if a folder is given."""
    for page in pages:
        name = pathlib.Path(page).stem
        browser.open(page)
        for form, width, dark, media in [("light", 1240, False, ""), ("dark", 1240, True, ""), ("phone", 390, False, ""),
                                         ("print", 800, True, "print")]:
            file = f"{folder}/{name}-{form}.png"
            browser.screenshot(file, width, 1000, dark, media)
            wide = browser.evaluate("document.documentElement.scrollWidth")
            expect(wide <= width, f"{name}, {form}: the page is {wide} pixels wide, its screen {width}")


def check_answers(browser, pages):
    """Checks that each page begins with its answer."""
    for page in pages:
        name = pathlib.Path(page).stem
        browser.open(page)
        place = browser.evaluate("[...document.body.children].findIndex(one => one.classList.contains('answer'))")
        expect(1 <= place <= 2, f"{name}: the answer is element {place} of the page")


def check_prints(browser, pages):
    """Checks that each page prints on at most four sheets, and that the paper cuts nothing off."""
    paper = 718  # the pixels between the margins of A4
    for page in pages:
        name = pathlib.Path(page).stem
        browser.open(page)
        browser.call("Emulation.setDeviceMetricsOverride", width=paper, height=1000, deviceScaleFactor=1, mobile=False)
        browser.call("Emulation.setEmulatedMedia", media="print")
        cut = browser.evaluate("""[...document.querySelectorAll('.scroll, pre, table, svg, canvas')].filter(
          one => one.offsetParent && (one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right > innerWidth + 1)).map(
          one => `${one.tagName} ${one.scrollWidth} > ${one.clientWidth}: ${(one.innerText ?? '').slice(0, 40)}`)""")
        expect(not cut, f"{name}: the paper cuts off {cut}")
        names = browser.evaluate("[...document.querySelectorAll('.causes tbody td:first-child')].map(cell => cell.innerText)")
        expect(all(names), f"{name}: printed causes without names: {names}")
        browser.call("Emulation.clearDeviceMetricsOverride")
        browser.call("Emulation.setEmulatedMedia", media="")
        printed = base64.b64decode(browser.call("Page.printToPDF")["data"])
        count = len(re.findall(rb"/Type\s*/Page[^s]", printed))
        print(f"{name}: {count} printed sheets")
        expect(1 <= count <= 4, f"{name}: {count} printed sheets")


def check_runs_chart(browser, page):
    """Checks that the chart of runs has the band of 10 %, logarithmic axes, and a name at each dot."""
    browser.open(page)
    titles = browser.evaluate("[...document.querySelectorAll('svg.penstock-chart title')].map(title => title.textContent)")
    expect(any(title == "within 10 %" for title in titles), "the chart has the band of 10 %")
    rows = browser.evaluate("[...document.querySelectorAll('table.figures')].at(-1).tBodies[0].rows.length")
    named = [title for title in titles if ", " in title and not title.startswith(",")]
    expect(len(named) >= rows, f"{len(named)} named dots of {rows} rows")
    ticks = browser.evaluate("[...document.querySelectorAll('svg.penstock-chart text[text-anchor=middle]')].map(text => +text.textContent)")
    ticks = [tick for tick in ticks if tick]  # names of axes are no numbers
    expect(len(ticks) > 2 and all(b == 2 * a or b == 4 * a for a, b in zip(ticks, ticks[1:])), f"ticks of powers of two: {ticks}")


def main():
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("skipped: no chromium and no google-chrome in PATH")
        return 77
    penstock = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        pictures = sys.argv[3] if len(sys.argv) > 3 and sys.argv[2] == "--screenshots" else folder
        browser = Browser(chromium, folder)
        try:
            for schedule in ["gpipe", "interleaved", "zb-h1", "dualpipe", "pipedream-2bw"]:
                shape = ["--schedule", schedule, "--pp-size", "4", "--num-microbatches", "8"]
                check_actions(browser, penstock, folder, shape)
            small = check_hover(browser, penstock, folder)
            for schedule, options in [("1f1b", []), ("naive", []), ("interleaved", []), ("dualpipe", []), ("zb-h1", ["--iterations", "2"]),
                                      ("1f1b", ["--set", "host.launch_overhead=0.4ms"]), ("1f1b", ["--blocking", "--data-parallel", "2"])]:
                arguments = [linked_scenario(folder, schedule), *options]
                check_actions(browser, penstock, folder, arguments)
                check_chains(browser, penstock, folder, arguments)
                check_memory(browser, penstock, folder, arguments)
            check_svg(browser, small)
            twins = check_comparison(browser, penstock, folder)
            large = check_actions(browser, penstock, folder, LARGE, "large")
            check_speed(browser, large, 100_000)
            check_folding(browser, large, 64)
            check_sizes(penstock, folder, 100_000)
            varied = check_actions(browser, penstock, folder, [varied_scenario(folder)], "varied")
            check_speed(browser, varied, 2_000_000)
            sweep, tune = f"{folder}/sweep.html", f"{folder}/tune.html"
            run(penstock, "sweep", "--schedule", "gpipe,1f1b,zb-h1", "--pp-size", "2..8", "--num-microbatches", "8,16,32", "-o", sweep)
            run(penstock, "tune", source("scenarios/library/llama-70b-h100.yaml"), "--schedule", "1f1b", "-o", tune)
            run(penstock, "sweep", "--schedule", "gpipe,1f1b,zb-h1,zb-h2,eager-1f1b", "--pp-size", "2..8",
                "--num-microbatches", "8,16,32,64", "-o", long_sweep := f"{folder}/long-sweep.html")
            run(penstock, "runs", source("scenarios/library/runs/training_steps.csv"), "-o", runs := f"{folder}/runs.html")
            run(penstock, "sweep", "--schedule", "gpipe,1f1b,zb-h1,zb-h2,eager-1f1b,interleaved,looped-bfs,dualpipe,chimera,hanayo,"
                "zbv-zero-bubble,kfkb", "--pp-size", "2..16", "--num-microbatches", "8,16,32,64,128",
                "-o", wide_sweep := f"{folder}/wide-sweep.html")
            answers = [sweep, long_sweep, wide_sweep, tune, runs]
            check_answers(browser, answers)
            check_prints(browser, [small, twins, large, varied, *answers])
            for page in [sweep, tune]:
                text = pathlib.Path(page).read_text()
                expect("<td>drain</td>" in text and "<td>makespan</td>" in text, f"{page} has no bill")
            expect("torchrun --nnodes" in pathlib.Path(tune).read_text(), "the page of tune has no command")
            check_runs_chart(browser, runs)
            check_widths(browser, [small, twins, large, sweep, tune, runs], pictures)
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
