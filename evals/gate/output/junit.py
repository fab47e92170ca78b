"""The gate's result as JUnit XML: a case per task of the job, and one for the gate itself.

A task that passed no attempt is a failure, one that has no attempt that counts an error; one that was never run, as in
a job that ended early, or is quarantined is skipped. So a failing case is what the agent cannot do, and only the last
case, `gate`, says whether that is a regression.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from evals.categories import groups_of
from evals.escape import xml
from evals.gate.judge import GateResult
from evals.gate.output.text import to_text
from evals.gate.output.words import headline
from evals.gate.rule import Verdict
from evals.run import TaskRun


def to_junit(result: GateResult) -> str:
    """A document that JUnit's schema accepts, whatever the tasks are called."""
    cases = [*_cases(result), _gate(result)]
    suite = ET.Element(
        "testsuite",
        name="harness gate",
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time=f"{sum(float(case.get('time', '0')) for case in cases):.3f}",
    )
    suite.extend(cases)
    root = ET.Element("testsuites", name="harness gate")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _cases(result: GateResult) -> Iterator[ET.Element]:
    for task in result.comparison.new.tasks.values():
        case = _case(groups_of(task.categories, task.tags)[0], task.name, task.seconds)
        _attempts(case, task)
        if task.counted == 0 and task.pending == task.total:
            ET.SubElement(case, "skipped", message="never run")
        elif task.counted == 0:
            message = f"none of {task.total} attempts says anything of the agent"
            ET.SubElement(case, "error", type="infrastructure", message=message)
        elif task.passed == 0:
            message = f"0 of {task.counted} attempts passed"
            ET.SubElement(case, "failure", type="capability", message=message).text = xml("\n".join(task.trials))
        yield case
    for name, reason in result.quarantined.items():
        case = _case("quarantine", name, None)
        ET.SubElement(case, "skipped", message=xml(reason))
        yield case


def _case(group: str, name: str, seconds: float | None) -> ET.Element:
    case = ET.Element("testcase", classname=xml(group), name=xml(name, 500))
    if seconds is not None:
        case.set("time", f"{seconds:.3f}")
    return case


def _attempts(case: ET.Element, task: TaskRun) -> None:
    properties = ET.SubElement(case, "properties")
    for name, value in (("attempts", task.total), ("counted", task.counted), ("passed", task.passed)):
        ET.SubElement(properties, "property", name=name, value=str(value))


def _gate(result: GateResult) -> ET.Element:
    case = _case("harness", "gate", None)
    message = xml("; ".join((headline(result), *result.reasons)))
    if result.verdict is Verdict.INVALID:
        ET.SubElement(case, "error", type="invalid", message=message)
    elif result.exit_code != 0:
        ET.SubElement(case, "failure", type=result.verdict.value, message=message)
    ET.SubElement(case, "system-out").text = xml(to_text(result), 60_000)
    return case
