"""What scripts/figures.sh runs: prints one page of figures from report.json and report.txt of `hive bench`.

Always: every figure is from the report; a part that was not measured is named as such by the report's own notes.
"""
import json
import sys

COLUMNS = [("rate", "op/s"), ("p50_ms", "p50 ms"), ("p75_ms", "p75"), ("p95_ms", "p95"), ("p99_ms", "p99"), ("p999_ms", "p999"),
           ("server_cpu_us_per_operation", "srv µs"), ("client_cpu_us_per_operation", "cli µs")]
# The first words of lines of report.txt that this page shows as a table, or as lists of its own.
SHOWN = ("suite ", "note: ", "failover: ", "FAILED: ")


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def runs_of(one):
    return " and ".join(number(run.get("rate")) for run in one["runs"]) if len(one["runs"]) > 1 else ""


def main(folder, commit, load):
    report = json.load(open(f"{folder}/report.json"))
    machine = report["machine"]
    print(f"# Figures of {report['date'][:10]}, {commit}\n")
    print(f"{machine['cores']} cores of {machine['processor']}, {machine['memory']}, Linux {machine['kernel']}; load at the end {load}.")
    print(f"`{report['command']}`\n")
    if report["measurements"]:
        print(f"| suite | system | operation | clients | {' | '.join(head for _, head in COLUMNS)} | errors | op/s of each run |")
        print("|" + "---|" * (len(COLUMNS) + 6))
    for one in report["measurements"]:
        figures = " | ".join(number(one["mean"].get(field)) for field, _ in COLUMNS)
        print(f"| {one['suite']} | {one['system']} | {one['operation']} | {one['clients']} | {figures} | {one['errors']} | {runs_of(one)} |")
    if report["failovers"]:
        gaps = ", ".join(str(round(one["gap_ms"])) for one in report["failovers"])
        print(f"\n**Failover**, kill -9 of the leader, longest gap between acknowledged writes: {gaps} ms.")
    measured = tuple(f"{one['suite']:<10} {one['system']:<7} {one['operation']}" for one in report["measurements"])
    text = [line for line in open(f"{folder}/report.txt").read().splitlines() if not line.startswith(SHOWN + measured)]
    if any(text):
        print("\n```text\n" + "\n".join(text).strip("\n") + "\n```")
    for failure in report["failures"]:
        print(f"\n**FAILED**: {failure}")
    print()
    for note in report["notes"]:
        print(f"- {note}")


main(*sys.argv[1:])
