# SPDX-License-Identifier: MIT
"""A section for RESULTS.md of what witness.py found; and figures in words."""
from results_section import head


def how(ns):
    """"spin 93 %, poll 7 %" of {"spin_ns": ...}."""
    total = sum(ns.values())
    shares = sorted(((count / total, key[:-3]) for key, count in ns.items() if count), reverse=True) if total else []
    return ", ".join(f"{key} {100 * share:.1f} %" for share, key in shares if share >= 0.001) or "not blocked"


def percent(share):
    """Never 100 % of what is less."""
    return "nothing" if share is None else "100 %" if share == 1 else f"{min(100 * share, 99.999):.3f} %"


def where(found):
    lines = ["### Where the probes lie", "",
             f"`{found['library']}`: {found['exported']} functions exported, {found['default_exported']} of them in the default set "
             f"({found['default']} names); {found['probed']} had a probe in memory while watched, none was left afterwards."
             if not found["left"] else f"Probes left behind: {', '.join(found['left'])}.", "",
             "| first instruction | default set | begin with | all exports |", "|---|---|---|---|"]
    for kind in dict.fromkeys([*found["kinds"], *found["all_kinds"]]):
        row = found["kinds"].get(kind, {"functions": [], "begin": {}})
        begins = sorted(row["begin"].items(), key=lambda item: -item[1])
        shown = ", ".join(f"`{begin}` {count}" for begin, count in begins[:4]) + (f" and {len(begins) - 4} more" if len(begins) > 4 else "")
        lines.append(f"| {kind} | {len(row['functions'])} | {shown} | {len(found['all_kinds'].get(kind, {'functions': []})['functions'])} |")
    cannot = ", ".join(f"{name} (`{code}`)" for name, code in found["cannot"].items())
    lines += ["", f"Cannot be probed: {cannot or 'none'}. Single-stepped and frequent, so not watched unless named: {', '.join(found['skipped']) or 'none'}.", ""]
    return lines


def cost(rows):
    lines = ["### A probed call, entry and return together", "", "| first instruction | kind | ns | ns as `slipstream attach` watches (16 frames, by caller) |",
             "|---|---|---|---|"]
    return lines + [f"| {row['site']} | {row['kind']} | {row['ns']:.0f} | {row['attach_ns']:.0f} |" for row in rows] + [""]


def attach(found, overhead):
    if "step_ms" not in found:
        return []
    steps = found["step_ms"]
    same = {True: "the same as without", False: "NOT the same as without", None: "not compared"}[found.get("same_output")]
    lines = [
        f"### `slipstream attach` to a running {found['program']}", "",
        f"{found['probed']} probes; in after {found['start_ms']:.0f} ms. Detaching took {', '.join(f'{ms:.1f}' for ms in found['detach_ms'])} ms. Median step before "
        f"{steps['before']:.3f} ms, while watched {steps['while']:.3f} ms, after {steps['after']:.3f} ms (slowest {found['slowest_ms']['before']:.1f}, "
        f"{found['slowest_ms']['while']:.1f}, {found['slowest_ms']['after']:.1f} ms; while the probes went {found['detaching_step_ms']:.1f} ms). Output {same}.", "",
        "| function | calls | blocked ms | how the thread waited |", "|---|---|---|---|",
    ]
    lines += [f"| {row['function']} | {row['calls']} | {row['blocked_ns'] / 1e6:.1f} | {how(row['how'])} |" for row in found["functions"][:12]] + [""]
    if overhead:
        lines += [f"Overhead of an attached watch with the default set, {len(overhead['pairs'])} pairs of {overhead['seconds']:.1f} s in one run: median of the paired "
                  f"differences {overhead['median']:+.2f} % ({100 * overhead['sure']:.0f} %: {overhead['low']:+.2f} to {overhead['high']:+.2f}), step {overhead['without_ms']:.3f} ms. The last "
                  f"probe was gone {max(overhead['gone_ms']):.0f} ms after the word at most.", ""]
    return lines


def counts(rows):
    lines = ["### Counts, the kernel's and the library's", "",
             "| program | same output | functions | calls seen, counted | different | escaped | unknown | claims contradicted | proven | lost | processes |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        different = ", ".join(f"{name}: {kernel}, {shim}" for name, kernel, shim in row["different"]) or "none"
        escaped = ", ".join(f"{item['function']} {item['calls']}" for item in row["escapes"])
        contradicted = ", ".join(f"{item['function']} ({item['claim']}) {item['calls']}" for item in row["contradicted"])
        calls = f"{row['kernel']}, {row['shim']}" if row["functions"] else ""
        lines.append(
            f"| {row['program']} | {'yes' if row['same_output'] else 'NO'} | {row['functions'] or ''} | {calls} | {different if calls else ''} | {row['escaped']} {escaped} | "
            f"{row['unknown']} | {len(row['contradicted'])} of {row['claims']} {contradicted} | {percent(row['proven'])} | {sum(row['lost'].values())} | {row['processes']} |")
    return lines + [""]


def section(results):
    lines = head({"machine": results["machine"], "counts": results["passed"]})
    if "where" in results and "kinds" in results["where"]:
        lines += where(results["where"])
    if results.get("cost"):
        lines += cost(results["cost"])
    if "attach" in results:
        lines += attach(results["attach"], results.get("overhead"))
    if results.get("counts"):
        lines += counts(results["counts"])
    return "\n".join(lines)
