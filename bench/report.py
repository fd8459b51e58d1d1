"""From measurements to medians, ratios, the tables on the terminal and the pages of docs/benchmarks."""

import math
import os
import re
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
BEFORE_FACTOR = 1.02  # of a run next to the same program before a change
NEAR_PEAK = 0.88  # of the FMA peak: where the reference is above, little can be won


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


def rows_of(results):
    """(model, threads, {contestant: row}) of all that was measured."""
    for name, model in results["models"].items():
        for threads, row in model["threads"].items():
            yield name, int(threads), row


def thread_counts(results):
    return sorted({threads for _, threads, _ in rows_of(results)})


def ratios(results, peer, threads):
    """{model: {metric: ctxgen / peer}} for the models that both ran."""
    table = {}
    for name, count, row in rows_of(results):
        mine, theirs = row.get("ctxgen", {}), row.get(peer, {})
        if count == threads and "latency_min_ms" in mine and "latency_min_ms" in theirs:
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


def ratio_rows(results, peer, threads):
    table = ratios(results, peer, threads)
    rows = [["ctxgen / peer", *(heading for _, heading, *_ in RATIO_METRICS)]]
    for name, row in table.items():
        rows.append([name, *(f"{row[key]:.2f}" if key in row else "-" for key, *_ in RATIO_METRICS)])
    if len(table) > 1:
        means = [geometric_mean([row[key] for row in table.values() if row.get(key)]) for key, *_ in RATIO_METRICS]
        rows.append(["geometric mean", *("-" if math.isnan(mean) else f"{mean:.2f}" for mean in means)])
    return rows if table else None


def absolute_rows(results, name):
    """At the first number of threads, which the ratios are for."""
    rows = [["", *(f"{heading}, {unit}" for _, heading, unit, _ in METRICS)]]
    for key, row in results["models"][name]["threads"].get(str(first_threads(results)), {}).items():
        if key not in results["contestants"] or "latency_min_ms" not in row:
            continue
        values = [f"{row[metric] * factor:.1f}" if row.get(metric) is not None else "-" for metric, _, _, factor in METRICS]
        rows.append([results["contestants"][key], *values])
    return rows


# ---- operations and shares of the peak ----------------------------------------------------------------------------------


def first_threads(results):
    return results["setup"]["threads"][0]


def peaks(results):
    """{threads: the highest peak that was measured next to any model, in GFLOP/s}"""
    found = {}
    for _, threads, row in rows_of(results):
        found[threads] = max(found.get(threads, 0.0), row.get("ctxgen", {}).get("peak_gflops_per_second") or 0.0)
    return found


def rate(results, name, threads, key):
    """GFLOP/s of the fastest run; None if it is not known."""
    row = results["models"][name]["threads"].get(str(threads), {}).get(key, {})
    flops = results["models"][name].get("flops")
    return flops / row["latency_min_ms"] / 1e6 if flops and row.get("latency_min_ms") else None


def share_of_peak(results, name, threads, key):
    reached, peak = rate(results, name, threads, key), peaks(results).get(threads)
    return reached / peak if reached and peak else None


def shown(value, form):
    return "-" if value is None else format(value, form)


def throughput_cells(results, name, key, threads):
    row = results["models"][name]["threads"].get(str(threads), {}).get(key, {})
    return [
        shown(row.get("latency_min_ms"), ".2f"),
        shown(rate(results, name, threads, key), ".1f"),
        shown(share_of_peak(results, name, threads, key), ".2f"),
        shown(row.get("outside_share"), ".2f"),
    ]


def scaling(results, name, key):
    """How many times as fast as with the least threads the run is with the most."""
    counts = thread_counts(results)
    times = [results["models"][name]["threads"].get(str(count), {}).get(key, {}).get("latency_min_ms") for count in (counts[0], counts[-1])]
    return times[0] / times[1] if len(counts) > 1 and all(times) else None


def throughput_rows(results):
    """Of ctxgen and the reference: rates, shares of the peak, and the time outside of products."""
    counts = thread_counts(results)
    heads = [f"{what}, {count} thr." for count in counts for what in ("run, ms", "GFLOP/s", "of peak", "outside")]
    rows = [["", "GFLOP", *heads, *(["scaling"] if len(counts) > 1 else [])]]
    for name, model in results["models"].items():
        for key in filter(None, ("ctxgen", results["reference_key"])):
            if key != "ctxgen" and not any("latency_min_ms" in row.get(key, {}) for row in model["threads"].values()):
                continue
            operations = shown(model["flops"] / 1e9 if model.get("flops") else None, ".2f") if key == "ctxgen" else ""
            cells = [cell for count in counts for cell in throughput_cells(results, name, key, count)]
            last = [shown(scaling(results, name, key), ".2f")] if len(counts) > 1 else []
            rows.append([name if key == "ctxgen" else results["reference"], operations, *cells, *last])
    return rows


def run_ratio_rows(results, peer):
    """Of the fastest runs; the mean over the models in which the peer is near the peak apart. Marks what got slower since `before`."""
    title, counts = results["contestants"][peer], thread_counts(results)
    marked = BEFORE_FACTOR if peer == "before" else math.inf
    tables = {count: ratios(results, peer, count) for count in counts}
    rows = [["run, min: ctxgen / " + title, *(f"{count} thr." for count in counts)]]
    names = [name for name in results["models"] if any(name in table for table in tables.values())]
    for name in names:
        values = [tables[count].get(name, {}).get("latency_min_ms") for count in counts]
        rows.append([name, *(shown(value, ".2f") + ("!" if value and value > marked else "") for value in values)])
    for near, bound in ((False, "below"), (True, "at least")):
        means = []
        for count in counts:
            chosen = [
                row["latency_min_ms"] for name, row in tables[count].items()
                if ((share_of_peak(results, name, count, peer) or 0) >= NEAR_PEAK) == near
            ]  # fmt: skip
            means.append(f"{geometric_mean(chosen):.2f} ({len(chosen)})" if chosen else "-")
        if any(mean != "-" for mean in means):
            rows.append([f"geometric mean where {title} has {bound} {NEAR_PEAK} of the peak (models)", *means])
    return rows if names else None


def load_rows(results):
    """One file with several numbers of threads, as shares of the first one's load and memory."""
    counts = list(dict.fromkeys(count for model in results["models"].values() for count in model.get("loads", {}) if count != "error"))
    heads = [head for count in counts for head in (f"load, {count} thr.", "private", "repacked", "check")]
    rows = [["", *heads]]
    for name, model in results["models"].items():
        loads = model.get("loads", {})
        if not counts or counts[0] not in loads:
            continue
        first, cells = loads[counts[0]], []
        for row in (loads[count] for count in counts):
            shares = [f"{row[key] / first[key]:.2f}" for key in ("load_ms", "private_bytes")]
            cells += [*shares, str(row["repacked_weights"]), row["verdict"]]
        rows.append([name, *cells])
    return rows if len(rows) > 1 else None


def weight_rows(results):
    """Of models with matrices of few bits: how fast each contestant reads them, in bytes of its own form, and how long it takes next to
    ctxgen, per run and per byte."""
    counts = thread_counts(results)
    heads = [f"{what}, {count} thr." for count in counts for what in ("run, ms", "GB/s", "of a plain read", "ctxgen / it", "per byte")]
    rows = [["", "weights, MB", *heads]]
    for name, model in results["models"].items():
        for key, title in results["contestants"].items():
            taken = [model["threads"].get(str(count), {}).get(key, {}) for count in counts]
            size = next((row["weight_bytes"] for row in taken if row.get("weight_bytes")), model.get("weight_bytes"))
            if not size or not any("latency_min_ms" in row for row in taken):
                continue
            cells = [cell for count in counts for cell in weight_cells(model, key, str(count), size)]
            rows.append([f"{name}: {title}", f"{size / 1e6:.1f}", *cells])
    return rows if len(rows) > 1 else None


def weight_cells(model, key, threads, size):
    row, mine = (model["threads"].get(threads, {}).get(which, {}) for which in (key, "ctxgen"))
    took, ours, read = row.get("latency_min_ms"), mine.get("latency_min_ms"), mine.get("read_gbytes_per_second")
    rate = size / took / 1e6 if took else None
    ratio = ours / took if took and ours and key != "ctxgen" else None
    per_byte = ratio * size / model["weight_bytes"] if ratio else None
    return [shown(took, ".2f"), shown(rate, ".1f"), shown(rate / read if rate and read else None, ".2f"), shown(ratio, ".2f"), shown(per_byte, ".2f")]


# ---- all of it ----------------------------------------------------------------------------------------------------------


def notes(results):
    lines = []
    for name, threads, row in rows_of(results):
        lines += notes_of_ctxgen(results, name, row.get("ctxgen", {})) if threads == first_threads(results) else []
        for key, values in row.items():
            title = f"{name}: {results['contestants'].get(key, key)}, {threads} thr."
            if "error" in values:
                lines.append(f"{title}: did not run: {values['error']}")
            elif values.get("spread", 0) > NOISE_WARNING:
                lines.append(f"{title}: noisy, rounds differ by {values['spread']:.0%}")
    return lines


def notes_of_ctxgen(results, name, mine):
    if mine.get("primitive_creation_ms"):
        factor = mine["load_ms"] / mine["primitive_creation_ms"]
        yield (
            f"{name}: ctxgen loads in {mine['load_ms']:.1f} ms; creating its oneDNN primitives alone takes "
            f"{mine['primitive_creation_ms']:.1f} ms (factor {factor:.2f})"
        )
    if mine.get("difference") is not None:
        yield f"{name}: largest difference from {results['reference']}: {mine['difference']:.1e} of the peak"


def sections(results):
    """(heading, rows) in the order in which they are shown: ratios first."""
    first = first_threads(results)
    for key in dict.fromkeys((results["reference_key"], "before")):
        if key in results["contestants"] and (rows := run_ratio_rows(results, key)):
            yield f"Run, next to {results['contestants'][key]} (below 1: ctxgen is better)", rows
    yield "Operations per second and the machine's peak", throughput_rows(results)
    if rows := weight_rows(results):
        yield "Weights of few bits", rows
    if rows := load_rows(results):
        yield "One file with other numbers of threads", rows
    for key, title in results["contestants"].items():
        rows = ratio_rows(results, key, first) if key != "ctxgen" else None
        if rows:
            yield f"ctxgen as a share of {title} (below 1: ctxgen is better)", rows
    for name in results["models"]:
        rows = absolute_rows(results, name)
        if len(rows) > 1:
            yield name, rows


def terminal(results):
    parts = [f"{heading}\n\n{aligned(rows)}" for heading, rows in sections(results)]
    return "\n\n".join([*parts, "\n".join(notes(results))])


def introduction(results):
    setup, peak = results["setup"], peaks(results)
    counts = " and ".join(str(count) for count in setup["threads"])
    limited = ", to which all are limited on a processor that has more" if setup.get("limited") else ""
    measured = ", ".join(f"{peak[count]:.1f} GFLOP/s with {count} thread{'s' if count > 1 else ''}" for count in sorted(peak))
    yield (
        f"Machine: {setup['cpu']}, {setup['cores']} cores; instruction set: {setup['isa']}{limited}. Threads: {counts}; tables without a number of "
        f"threads are for {setup['threads'][0]}. {setup['rounds']} interleaved rounds of {setup['iterations']} runs; every number is the "
        f"median over rounds (for *run, min* the least) of measurements by separate processes. {setup['ctxgen']}."
    )
    yield (
        "*load* is the creation of the session, *start to output* the whole life of a process that loads, runs once and ends. "
        "*private* is anonymous memory (RssAnon); *resident* counts mapped files too. Models come from `bench/models`: real "
        "architectures, seeded weights."
    )
    yield (
        f"*of peak* is a share of {measured}: independent f32 multiply-adds in registers, the highest rate measured next to any of the "
        "models. *GFLOP* counts the products, convolutions and recurrent layers of the ONNX graph, two per multiply-add; where their sizes "
        "cannot be inferred from it, what ctxgen's products have. *outside* is the share of the time that is spent in anything else, from "
        "each runtime's own profile, which includes its overhead per operator."
    )


def document(results):
    parts = [f"# Benchmarks: {results['setup']['isa']}", "Written by `./dev bench --write-docs`; not edited by hand.", *introduction(results)]
    parts += contents([heading for heading, _ in sections(results)])
    for heading, rows in sections(results):
        parts += [f"## {heading}", markdown(rows)]
    remarks = notes(results)
    if remarks:
        parts += ["## Notes", "\n".join(f"- {line}" for line in remarks)]
    return "\n\n".join(parts) + "\n"


def anchor(heading):
    """As GitHub and GitLab make them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def contents(headings):
    return ["\n".join(f"- [{heading}](#{anchor(heading)})" for heading in [*headings, "Notes"])]


# ---- comparison with an earlier run -------------------------------------------------------------------------------------


def against(results, baseline):
    """(table, number of metrics that are worse). Ratios to the same peer cancel what the machine does to both."""
    rows, worse = [["now / baseline", *(heading for _, heading, *_ in RATIO_METRICS)]], 0
    peer = results["reference_key"]
    now, then = ratios(results, peer, first_threads(results)), ratios(baseline, peer, first_threads(baseline))
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


# ---- several files of results ---------------------------------------------------------------------------------------------


def joined(parts):
    """One result per instruction set, with the models and contestants of all its parts; of two rows for one model the later."""
    whole = {}
    for part in parts:
        isa = part["setup"]["isa"]
        if isa not in whole:
            whole[isa] = part
            continue
        known = whole[isa]
        known["contestants"] |= part["contestants"]
        for key in ("threads", "ctxgen"):
            if part["setup"][key] != known["setup"][key]:
                raise ValueError(f"{isa}: parts differ in {key}: {known['setup'][key]} and {part['setup'][key]}")
        known["models"] |= part["models"]
    return list(whole.values())


def cpu_name():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return "unknown CPU"


def setup(all_settings, rounds, mine):
    return {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "isa": mine.instruction_set(all_settings[0].isa),
        "limited": all_settings[0].isa is not None,
        "threads": [settings.threads for settings in all_settings],
        "iterations": all_settings[0].iterations,
        "rounds": rounds,
        "ctxgen": mine.version(),
    }
