"""From measurements to medians, ratios, the tables on the terminal and docs/benchmarks.md."""

import os
import statistics

# key, heading, unit, factor
METRICS = (
    ("library_load_ms", "library load", "ms", 1),
    ("load_ms", "load", "ms", 1),
    ("first_run_ms", "first run", "ms", 1),
    ("latency_min_ms", "run, min", "ms", 1),
    ("latency_p50_ms", "run, median", "ms", 1),
    ("latency_p99_ms", "run, p99", "ms", 1),
    ("start_to_output_ms", "start to output", "ms", 1),
    ("resident_bytes", "resident", "MB", 1e-6),
    ("private_bytes", "private", "MB", 1e-6),
    ("file_bytes", "files", "MB", 1e-6),
    ("compile_ms", "compile", "s", 1e-3),
)
RATIO_METRICS = tuple(row for row in METRICS if row[0] not in ("library_load_ms", "compile_ms"))
NOISE_WARNING = 0.2
WORSE_FACTOR = 1.05


def flatten(measurement):
    flat = {key: value for key, value in measurement.items() if isinstance(value, (int, float))}
    flat.update({f"latency_{key}_ms": value for key, value in measurement["latency_ms"].items()})
    return flat


def medians(rounds):
    """Medians over rounds (of the fastest run: the fastest), and how far the rounds' median latencies differ."""
    flat = [flatten(measurement) for measurement in rounds]
    result = {key: statistics.median(values[key] for values in flat) for key in flat[0] if all(key in v for v in flat)}
    result["latency_min_ms"] = min(values["latency_min_ms"] for values in flat)
    latencies = [values["latency_p50_ms"] for values in flat]
    result["spread"] = (max(latencies) - min(latencies)) / statistics.median(latencies)
    return result


def ratios(results, peer):
    """{model: {metric: ctxgen / peer}} for the models that both ran."""
    table = {}
    for name, row in results["models"].items():
        mine, theirs = row.get("ctxgen", {}), row.get(peer, {})
        if "load_ms" in mine and "load_ms" in theirs:
            table[name] = {
                key: mine[key] / theirs[key] for key, *_ in RATIO_METRICS if mine.get(key) is not None and theirs.get(key)
            }
    return table


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else float("nan")


# ---- tables -------------------------------------------------------------------------------------------------------------


def aligned(rows):
    """Plain text; the first column left, the others right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        for row in rows
    )


def markdown(rows):
    head, *body = rows
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *body])


def ratio_rows(results, peer):
    table = ratios(results, peer)
    rows = [["ctxgen / peer", *(heading for _, heading, *_ in RATIO_METRICS)]]
    for name, row in table.items():
        rows.append([name, *(f"{row[key]:.2f}" if key in row else "-" for key, *_ in RATIO_METRICS)])
    if len(table) > 1:
        means = [geometric_mean([row[key] for row in table.values() if row.get(key)]) for key, *_ in RATIO_METRICS]
        rows.append(["geometric mean", *(f"{mean:.2f}" for mean in means)])
    return rows if table else None


def absolute_rows(results, name):
    rows = [["", *(f"{heading}, {unit}" for _, heading, unit, _ in METRICS)]]
    for key, row in results["models"][name].items():
        if key not in results["contestants"] or "load_ms" not in row:
            continue
        values = [f"{row[metric] * factor:.1f}" if row.get(metric) is not None else "-" for metric, _, _, factor in METRICS]
        rows.append([results["contestants"][key], *values])
    return rows


def notes(results):
    lines = []
    for name, row in results["models"].items():
        mine = row.get("ctxgen", {})
        if mine.get("primitive_creation_ms"):
            factor = mine["load_ms"] / mine["primitive_creation_ms"]
            lines.append(
                f"{name}: ctxgen loads in {mine['load_ms']:.1f} ms; creating its oneDNN primitives alone takes "
                f"{mine['primitive_creation_ms']:.1f} ms (factor {factor:.2f})"
            )
        for key, values in row.items():
            title = results["contestants"].get(key, key)
            if "error" in values:
                lines.append(f"{name}: {title} did not run: {values['error']}")
            elif values.get("spread", 0) > NOISE_WARNING:
                lines.append(f"{name}: {title}: noisy, rounds differ by {values['spread']:.0%}")
            if values.get("difference") is not None:
                lines.append(f"{name}: largest difference from {results['reference']}: {values['difference']:.1e} of the peak")
    return lines


def sections(results):
    """(heading, rows) in the order in which they are shown: ratios first."""
    for key, title in results["contestants"].items():
        rows = ratio_rows(results, key) if key != "ctxgen" else None
        if rows:
            yield f"ctxgen as a share of {title} (below 1: ctxgen is better)", rows
    for name in results["models"]:
        rows = absolute_rows(results, name)
        if len(rows) > 1:
            yield name, rows


def terminal(results):
    parts = [f"{heading}\n\n{aligned(rows)}" for heading, rows in sections(results)]
    return "\n\n".join([*parts, "\n".join(notes(results))])


def document(results):
    setup = results["setup"]
    parts = [
        "# Benchmarks",
        "Written by `./dev bench --write-docs`; not edited by hand.",
        f"Machine: {setup['cpu']}, {setup['cores']} cores. Threads: {setup['threads']}. {setup['rounds']} interleaved rounds of "
        f"{setup['iterations']} runs; every number is the "
        f"median over rounds (for *run, min* the least) of measurements by separate processes. "
        f"{setup['ctxgen']}.",
        "*load* is the creation of the session, *start to output* the whole life of a process that loads, runs once and ends. "
        "*private* is anonymous memory (RssAnon); *resident* counts mapped files too. Models come from `bench/models`: real "
        "architectures, seeded weights.",
    ]
    for heading, rows in sections(results):
        parts += [f"## {heading}", markdown(rows)]
    remarks = notes(results)
    if remarks:
        parts += ["## Notes", "\n".join(f"- {line}" for line in remarks)]
    return "\n\n".join(parts) + "\n"


# ---- comparison with an earlier run -------------------------------------------------------------------------------------


def against(results, baseline):
    """(table, number of metrics that are worse). Ratios to the same peer cancel what the machine does to both."""
    rows, worse = [["now / baseline", *(heading for _, heading, *_ in RATIO_METRICS)]], 0
    peer = results["reference_key"]
    now, then = ratios(results, peer), ratios(baseline, peer)
    for name in now.keys() & then.keys():
        cells = []
        for key, *_ in RATIO_METRICS:
            if now[name].get(key) is None or not then[name].get(key):
                cells.append("-")
                continue
            change = now[name][key] / then[name][key]
            worse += change > WORSE_FACTOR
            cells.append(f"{change:.2f}" + ("!" if change > WORSE_FACTOR else " "))
        rows.append([name, *cells])
    rows[1:] = sorted(rows[1:])
    return aligned(rows), worse


def cpu_name():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return "unknown CPU"


def setup(settings, rounds, version):
    return {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": settings.threads,
        "iterations": settings.iterations,
        "rounds": rounds,
        "ctxgen": version,
    }
