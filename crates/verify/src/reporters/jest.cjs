'use strict';
// A jest reporter: `--reporters=default --reporters=<this file> --testLocationInResults`.

const { clip, describe, emit, end, frames, show, start, words } = require('./report.cjs');

const STATES = { passed: 'pass', failed: 'fail' };

/** Which test a console entry came from: the last one that starts at or above the line in the test file. */
function owner(entry, file, cases) {
  const place = String(entry.origin ?? '')
    .split('\n')
    .map((line) => /(?:\(|at )([^()]+):(\d+):\d+\)?\s*$/.exec(line))
    .find((found) => found && found[1] === file);
  if (!place) return undefined;
  const line = Number(place[2]);
  return cases.filter((one) => one.location && one.location.line <= line).pop();
}

function report(file, one, output) {
  const event = {
    ev: 'test',
    unit: file,
    path: [...one.ancestorTitles, one.title],
    state: STATES[one.status] ?? 'skip',
    line: one.location?.line,
  };
  if (event.state === 'fail') {
    const text = one.failureMessages[0] ?? 'failed without a message';
    const detail = one.failureDetails?.[0] ?? {};
    const matcher = detail.matcherResult;
    event.message = words(text).replace(/^Error: /, '');
    event.frames = frames(text);
    if (matcher && 'expected' in matcher && 'actual' in matcher) {
      event.expected = show(matcher.expected);
      event.actual = show(matcher.actual);
    } else if ('expected' in detail && 'actual' in detail) {
      event.expected = show(detail.expected);
      event.actual = show(detail.actual);
    }
    if (output) event.output = clip(output);
  }
  emit(event);
}

module.exports = class {
  onRunStart() {
    start('jest');
  }

  onTestFileStart(test) {
    emit({ ev: 'open', unit: test.path });
  }

  onTestCaseStart(test, info) {
    emit({ ev: 'begin', unit: test.path, path: [...info.ancestorTitles, info.title] });
  }

  onTestCaseResult(test, one) {
    report(test.path, one);
  }

  onTestResult(test, result) {
    // A retried test was told once per try: the file's own list is final.
    emit({ ev: 'unit', unit: test.path });
    const output = new Map();
    for (const entry of result.console ?? []) {
      const one = owner(entry, test.path, result.testResults);
      if (one) output.set(one, `${output.get(one) ?? ''}${entry.message}\n`);
    }
    for (const one of result.testResults) report(test.path, one, output.get(one));
    const broken = result.testExecError;
    const told = (one) => (one.failureMessages ?? []).some((text) => broken.message && text.includes(broken.message));
    if (broken && !result.testResults.some(told)) {
      const text = broken.stack && String(broken.stack).includes(broken.message) ? broken.stack : broken.message;
      const known = typeof broken === 'string' ? { message: broken, frames: frames(broken) } : describe(broken);
      emit({ ev: 'problem', kind: 'collection', unit: test.path, message: words(text ?? known.message), frames: known.frames });
    }
  }

  onRunComplete(_contexts, results) {
    if (results.runExecError) emit({ ev: 'problem', kind: 'crash', ...describe(results.runExecError) });
    end(results.wasInterrupted);
  }
};
