"""A pytest plugin: PYTHONPATH=<this folder> python -m pytest -p codegen_sandbox_pytest.

Writes one event per line to the report that plan.json names. Needs pytest 6 or later and the standard library of
Python 3.8 or later. With a list of tests in the plan, everything else is deselected: node ids that pytest cannot
resolve would make it run nothing at all.
"""

import json
import os
import traceback

import pytest

_HERE = os.path.dirname(os.path.abspath(__file__))
_LONGEST = 4000
_compared = {}


def _plan():
    with open(os.path.join(_HERE, "plan.json"), encoding="utf-8") as file:
        return json.load(file)


def _clip(text, longest=_LONGEST):
    if len(text) <= longest:
        return text
    head = longest * 6 // 10
    tail = longest - head
    return "%s\n[… %d characters …]\n%s" % (text[:head], len(text) - longest, text[-tail:])


def _show(value):
    try:
        return _clip(repr(value))
    except Exception:
        return None


def _split(nodeid):
    """The file and the names below it; a parameter may itself contain `::`."""
    plain, bracket, parameter = nodeid.partition("[")
    parts = plain.split("::")
    parts[-1] += bracket + parameter
    return parts[0], parts[1:]


def _error(longrepr):
    """Message and places of a failure, outermost first, as pytest tells them."""
    crash = getattr(longrepr, "reprcrash", None)
    entries = getattr(getattr(longrepr, "reprtraceback", None), "reprentries", None) or []
    places = [getattr(entry, "reprfileloc", None) for entry in entries]
    frames = [[place.path, place.lineno, 0] for place in places if place is not None]
    if crash is not None:
        frames.append([crash.path, crash.lineno, 0])
        return _clip(crash.message), frames
    return _clip(str(longrepr)), frames


class _Reporter:
    def __init__(self, config, plan):
        self.root = os.path.realpath(plan["root"])
        self.base = str(getattr(config, "rootpath", None) or config.rootdir)
        self.file = open(os.path.join(_HERE, plan["report"]), "a", encoding="utf-8")
        self.run = str(os.getpid())
        self.ended = set()

    def emit(self, **event):
        event["run"] = self.run
        try:
            # ASCII only: a name or an output that is no valid text survives as an escape.
            self.file.write(json.dumps(event, default=str) + "\n")
            self.file.flush()
        except Exception:
            pass

    def place(self, nodeid):
        file, names = _split(nodeid)
        return os.path.join(self.base, file), names

    def pytest_sessionstart(self, session):
        self.emit(ev="start", runner="pytest", root=self.root, cwd=os.getcwd())

    def pytest_collection_finish(self, session):
        self.emit(ev="total", total=len(session.items))

    def pytest_runtest_logstart(self, nodeid, location):
        unit, path = self.place(nodeid)
        self.emit(ev="begin", unit=unit, path=path)

    def pytest_runtest_logreport(self, report):
        if report.outcome == "rerun" or (report.when != "call" and report.outcome == "passed"):
            return
        unit, path = self.place(report.nodeid)
        event = {"ev": "test", "unit": unit, "path": path, "line": (report.location[1] or 0) + 1}
        if report.outcome == "passed":
            # An unexpected pass of a test marked xfail without `strict` does not fail the run.
            event["state"] = "pass"
        elif report.outcome == "skipped":
            event["state"] = "skip"
        else:
            event["state"] = "fail"
            event["message"], event["frames"] = _error(report.longrepr)
            event["frames"].reverse()
            sections = [text for name, text in report.sections if text.strip()]
            event["output"] = _clip("".join(sections))
            compared = getattr(report, "codegen_sandbox_compared", None)
            if compared:
                event["actual"], event["expected"] = compared
            if report.when != "call":
                event["kind"] = "error"
                event["phase"] = report.when
        self.emit(**event)

    def pytest_collectreport(self, report):
        if not report.failed:
            return
        message, frames = getattr(report, "codegen_sandbox_error", None) or _error(report.longrepr)
        self.emit(ev="problem", kind="collection", unit=self.place(report.nodeid)[0], message=message, frames=frames)

    def pytest_internalerror(self, excrepr, excinfo):
        places = [[f.filename, f.lineno, 0] for f in traceback.extract_tb(excinfo.value.__traceback__)]
        places.reverse()
        message = "pytest itself broke: %s: %s" % (type(excinfo.value).__name__, excinfo.value)
        self.emit(ev="problem", kind="crash", message=_clip(message), frames=places)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session, exitstatus):
        stopped = getattr(session, "shouldfail", False) or getattr(session, "shouldstop", False)
        self.emit(ev="end", stopped=str(stopped) if stopped else None)
        self.emit(ev="exit", code=int(exitstatus))


def _wanted(item, root, plan):
    """Whether the plan asks for this test."""
    base = str(getattr(item.config, "rootpath", None) or item.config.rootdir)
    file, names = _split(item.nodeid)
    unit = os.path.relpath(os.path.realpath(os.path.join(base, file)), root)
    if plan.get("only"):
        return any(one["unit"] == unit and one["path"] == names for one in plan["only"])
    whole = "::".join([unit] + names)
    chain = "::".join(names)
    for name in plan["names"]:
        if any(text == name or text.startswith((name + "[", name + "::")) for text in (item.nodeid, whole, chain)):
            return True
        if name in names or (names and name == names[-1].partition("[")[0]) or unit.startswith(name.rstrip("/") + "/"):
            return True
    return False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    plan = _plan()
    if not plan.get("only") and not plan.get("names"):
        return
    root = os.path.realpath(plan["root"])
    keep, drop = [], []
    for item in items:
        (keep if _wanted(item, root, plan) else drop).append(item)
    if drop:
        config.hook.pytest_deselected(items=drop)
        items[:] = keep


@pytest.hookimpl(tryfirst=True)
def pytest_assertrepr_compare(config, op, left, right):
    if op == "==":
        _compared["last"] = [_show(left), _show(right)]
    return None


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_runtest_makereport(item, call):
    compared = _compared.pop("last", None)
    outcome = yield
    if compared and call.excinfo is not None and isinstance(call.excinfo.value, AssertionError):
        # A plain attribute of a report survives the way from a worker process to the one that reports.
        outcome.get_result().codegen_sandbox_compared = compared


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    outcome = yield
    report = outcome.get_result()
    call = getattr(report, "call", None)
    if report.outcome != "failed" or call is None or call.excinfo is None:
        return
    error = call.excinfo.value
    error = error.__cause__ or error
    places = [[f.filename, f.lineno, 0] for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append([error.filename, error.lineno or 1, error.offset or 0])
    places.reverse()
    report.codegen_sandbox_error = (_clip("%s: %s" % (type(error).__name__, getattr(error, "msg", error))), places)


def pytest_configure(config):
    # What the tests start must not load this plugin.
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != _HERE]
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        os.environ.pop("PYTHONPATH", None)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reporter(config, _plan()), "codegen-sandbox-reporter")
