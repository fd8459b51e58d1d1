"""./dev bench --decode PROMPT,STEPS: steps of decoders after a prompt, whose caches stay from step to step, side by side.

ctxgen keeps a state, ONNX Runtime has its caches bound by IO binding (one buffer as past and present where GroupQueryAttention takes it), llama.cpp
its own. Next to them, where several threads decode, threads take their steps that do nothing but spin and wait for each other: what the machine does to
those, it does to any program.
"""

import dataclasses
import statistics

import contestants
import report

HEADINGS = ("prompt, ms", "step, min, ms", "median", "p99", "largest", "largest / median", f"above {contestants.SLOW} medians", "ctxgen / this")


@dataclasses.dataclass(frozen=True)
class Decode:
    prompt: int
    steps: int

    @staticmethod
    def parse(text):
        """ValueError: it is not PROMPT,STEPS."""
        prompt, steps = (int(word) for word in text.split(","))
        if prompt < 1 or steps < 3:
            raise ValueError(text)
        return Decode(prompt, steps)

    def __str__(self):
        return f"{self.prompt},{self.steps}"


class SpinningThreads:
    """Takes part next to two threads and more, with steps as long as ctxgen's."""

    key, title = "spin", "threads that only spin"
    PARTS = 50  # of a step, about as many as a decoder has operators on several threads

    def __init__(self, program):
        self.program = program

    def decode(self, settings, decode, step_ms):
        command = [self.program, settings.threads, f"{step_ms:.6f}", decode.steps, self.PARTS]
        return contestants.step_summary(contestants.json_of(command, settings.threads)["steps_ms"])


def over_rounds(rounds):
    """The medians over rounds, of the fastest step the fastest; of slow steps and the largest one all that there were."""
    merged = {"prefill_ms": None, "step_ms": {}, "slow_steps": None, "steps": sum(one["steps"] for one in rounds)}
    if all(one["slow_steps"] is not None for one in rounds):
        merged["slow_steps"] = sum(one["slow_steps"] for one in rounds)
    prompts = [one["prefill_ms"] for one in rounds if one["prefill_ms"] is not None]
    if prompts:
        merged["prefill_ms"] = statistics.median(prompts)
    for key, over in (("min", min), ("p50", statistics.median), ("p99", statistics.median), ("max", max)):
        merged["step_ms"][key] = over(one["step_ms"][key] for one in rounds)
    return merged


def measure(model, everyone, spin, all_settings, rounds, decode, say):
    """{threads: {contestant: row}}, all in turn in every round."""
    found = {str(settings.threads): {} for settings in all_settings}
    lanes = [(settings, contestant) for settings in all_settings for contestant in everyone]
    taken = {}
    for settings, contestant in lanes:
        try:
            contestant.prepare(model, settings)
            taken[settings.threads, contestant.key] = []
        except contestants.Failed as error:
            found[str(settings.threads)][contestant.key] = {"error": str(error)}
    for index in range(rounds):
        for settings, contestant in lanes:
            if (settings.threads, contestant.key) not in taken:
                continue
            say(f"bench: {model.name}: {contestant.title}, threads {settings.threads}: round {index + 1}")
            try:
                taken[settings.threads, contestant.key].append(contestant.decode(model, settings, decode))
            except contestants.Failed as error:
                found[str(settings.threads)][contestant.key] = {"error": str(error)}
                del taken[settings.threads, contestant.key]
                continue
            if spin and contestant is everyone[0] and settings.threads > 1:
                step_ms = taken[settings.threads, contestant.key][-1]["step_ms"]["p50"]
                taken.setdefault((settings.threads, spin.key), []).append(spin.decode(settings, decode, step_ms))
    for (threads, key), all_rounds in taken.items():
        found[str(threads)][key] = over_rounds(all_rounds)
    return found


def spread_cells(row):
    step = row["step_ms"]
    return [f"{step['p99']:.2f}", f"{step['max']:.2f}", f"{step['max'] / step['p50']:.2f}", f"{row['slow_steps']} of {row['steps']}"]


def rows_of(results, name, threads):
    rows = [["", *HEADINGS]]
    measured = results["models"][name][threads]
    mine = measured.get("ctxgen", {}).get("step_ms")
    for key, title in results["contestants"].items():
        row = measured.get(key)
        if row is None or "error" in row:
            continue
        step = row["step_ms"]
        rows.append([
            title,
            report.shown(row["prefill_ms"], ".1f"),
            *(f"{step[one]:.2f}" for one in ("min", "p50")),
            *(["-"] * 4 if row["slow_steps"] is None else spread_cells(row)),
            f"{mine['p50'] / step['p50']:.2f}" if mine and key not in ("ctxgen", SpinningThreads.key) else "-",
        ])  # fmt: skip
    return rows


def terminal(results):
    parts = []
    for name, by_threads in results["models"].items():
        for threads, measured in by_threads.items():
            heading = f"{name}: prompt and steps {results['decode']}, threads {threads}"
            parts.append(f"{heading}\n\n{report.aligned(rows_of(results, name, threads))}")
            parts += [f"{results['contestants'][key]}: {row['error']}" for key, row in measured.items() if "error" in row]
    return "\n\n".join(parts)


def failures(results):
    for name, by_threads in results["models"].items():
        for threads, measured in by_threads.items():
            if "error" in measured.get("ctxgen", {}):
                yield f"{name}, threads {threads}: {measured['ctxgen']['error']}"
