"""Runs unittest and writes one event per line to the report that plan.json names.

python codegen_sandbox_unittest.py discover [options] | <dotted names>

Exit codes are those of `python -m unittest`. Needs the standard library of Python 3.8 or later.
"""

import json
import os
import sys
import traceback
import unittest

_HERE = os.path.dirname(os.path.abspath(__file__))
_UNITTEST = os.path.dirname(unittest.__file__) + os.sep
_LONGEST = 4000

# As `python -m unittest` has it: the working folder, not the one of this file.
sys.path[0] = os.getcwd()

with open(os.path.join(_HERE, "plan.json"), encoding="utf-8") as _file:
    _PLAN = json.load(_file)
_REPORT = open(os.path.join(_HERE, _PLAN["report"]), "a", encoding="utf-8")


def emit(**event):
    event["run"] = str(os.getpid())
    try:
        _REPORT.write(json.dumps(event, default=str) + "\n")
        _REPORT.flush()
    except Exception:
        pass


def clip(text, longest=_LONGEST):
    if len(text) <= longest:
        return text
    head = longest * 6 // 10
    tail = longest - head
    return "%s\n[… %d characters …]\n%s" % (text[:head], len(text) - longest, text[-tail:])


def places(error):
    """Where it happened, innermost first, without the frames of unittest itself."""
    found = [[f.filename, f.lineno, 0] for f in traceback.extract_tb(error.__traceback__)]
    found = [place for place in found if not place[0].startswith(_UNITTEST)]
    if isinstance(error, SyntaxError) and error.filename:
        found.append([error.filename, error.lineno or 1, error.offset or 0])
    found.reverse()
    return found


def identify(test):
    """The module and the names below it."""
    owner = type(test)
    name = getattr(test, "_testMethodName", None)
    if name is None or owner.__module__ == "unittest.suite":
        return around(str(test))
    return owner.__module__, owner.__qualname__.split(".") + [name]


def around(name):
    """`setUpClass (module.Class)`: what stands around tests is told below the class or module it belongs to."""
    what, _, owner = name.rstrip(")").partition(" (")
    parts = owner.split(".") if owner else []
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if module in sys.modules:
            return module, parts[length:] + ["(%s)" % what]
    return "", [name]


def compared(error):
    """What `assertEqual` compared: the locals of the frame that raised know it."""
    trace = error.__traceback__
    while trace is not None:
        names = trace.tb_frame.f_locals
        if trace.tb_frame.f_code.co_filename.startswith(_UNITTEST) and "first" in names and "second" in names:
            if trace.tb_frame.f_code.co_name == "assertEqual":
                return {"actual": shown(names["first"]), "expected": shown(names["second"])}
        trace = trace.tb_next
    return {}


def shown(value):
    try:
        return clip(repr(value))
    except Exception:
        return None


class Result(unittest.TextTestResult):
    """Tells every result as it comes."""

    def startTest(self, test):
        super().startTest(test)
        unit, path = identify(test)
        if unit != "unittest.loader":
            emit(ev="begin", unit=unit, path=path)

    def heard(self):
        text = ""
        for name in ("_stdout_buffer", "_stderr_buffer"):
            buffer = getattr(self, name, None)
            text += buffer.getvalue() if buffer is not None else ""
        return clip(text) or None

    def bad(self, test, err, kind, subtest=None):
        error = err[1]
        if type(test).__name__ == "_FailedTest":
            self.broken(test, error)
            return
        unit, path = identify(test)
        if subtest is not None:
            path = path + [subtest]
        message = "%s: %s" % (type(error).__name__, error)
        emit(
            ev="test",
            unit=unit,
            path=path,
            state="fail",
            kind=kind,
            message=clip(message),
            frames=places(error),
            output=self.heard(),
            **compared(error)
        )

    def broken(self, test, error):
        """A module that cannot be imported is told by unittest as a test that always fails."""
        text = str(error).strip()
        lines = [line for line in text.split("\n") if line.strip()]
        found = []
        for line in lines:
            words = line.strip().split('"')
            if line.strip().startswith('File "') and len(words) > 2:
                number = words[2].replace(",", " ").split()
                if len(number) > 1 and number[1].isdigit():
                    found.append([words[1], int(number[1]), 0])
        found.reverse()
        frames = [place for place in found if not place[0].startswith(_UNITTEST)]
        message = lines[-1] if lines else "cannot be imported"
        emit(ev="problem", kind="collection", unit=getattr(test, "_testMethodName", ""), message=clip(message), frames=frames)

    def addSuccess(self, test):
        super().addSuccess(test)
        unit, path = identify(test)
        emit(ev="test", unit=unit, path=path, state="pass")

    def addFailure(self, test, err):
        self.bad(test, err, "failed")
        super().addFailure(test, err)

    def addError(self, test, err):
        self.bad(test, err, "error" if not isinstance(test, unittest.TestCase) else "failed")
        super().addError(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        unit, path = identify(test)
        emit(ev="test", unit=unit, path=path, state="skip")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        unit, path = identify(test)
        emit(ev="test", unit=unit, path=path, state="skip")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        unit, path = identify(test)
        emit(ev="test", unit=unit, path=path, state="fail", kind="failed", message="passed, but is marked as an expected failure")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.bad(test, err, "failed", subtest=subtest._subDescription())
        super().addSubTest(test, subtest, err)


class Runner(unittest.TextTestRunner):
    resultclass = Result

    def __init__(self, **options):
        options["buffer"] = True
        super().__init__(**options)

    def run(self, test):
        emit(ev="total", total=test.countTestCases())
        result = super().run(test)
        emit(ev="end")
        return result


if __name__ == "__main__":
    emit(ev="start", runner="unittest", root=os.path.realpath(_PLAN["root"]), cwd=os.getcwd())
    unittest.main(module=None, testRunner=Runner, argv=["python -m unittest"] + sys.argv[1:])
