'use strict';
// A jest reporter: `--reporters=default --reporters=<this file>`.

const child = require('node:child_process');
const path = require('node:path');
const { clip, describe, emit, end, frames, show, start, words } = require('./report.cjs');
const { watches } = require('./jest_runner.cjs');

const STATES = { passed: 'pass', failed: 'fail' };
const WORKER = /[\\/]jest-worker[\\/]build[\\/](?:workers[\\/])?processChild\.js$/;

/** Jest's workers, and nothing else that is started, load what watches its runner. */
function followWorkers() {
  const { fork } = child;
  const watch = `--require=${path.join(__dirname, 'jest_runner.cjs')}`;
  child.fork = function (file, args, options, ...rest) {
    if (!WORKER.test(String(file)) || !options) return fork.call(this, file, args, options, ...rest);
    const execArgv = [...(options.execArgv ?? process.execArgv), watch];
    return fork.call(this, file, args, { ...options, execArgv }, ...rest);
  };
}

/** Where a runner is not watched, it has to find the place of every test. */
function locate(context, workerThreads) {
  const { config } = context;
  if (config.testLocationInResults || watches(config, workerThreads)) return;
  try {
    context.config = Object.freeze({ ...config, testLocationInResults: true });
  } catch {
    // Then a failure's place is the one its stack names.
  }
}

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

function result(file, one, output) {
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
  return event;
}

module.exports = class {
  constructor(globalConfig) {
    this.workerThreads = globalConfig?.workerThreads;
    followWorkers();
  }

  onRunStart() {
    start('jest');
  }

  onTestFileStart(test) {
    locate(test.context, this.workerThreads);
    emit({ ev: 'open', unit: test.path });
  }

  onTestCaseStart(test, info) {
    emit({ ev: 'begin', unit: test.path, path: [...info.ancestorTitles, info.title] });
  }

  onTestCaseResult(test, one) {
    emit(result(test.path, one));
  }

  onTestResult(test, told) {
    const output = new Map();
    for (const entry of told.console ?? []) {
      const one = owner(entry, test.path, told.testResults);
      if (one) output.set(one, `${output.get(one) ?? ''}${entry.message}\n`);
    }
    // A retried test was told once per try: the file's own list is final.
    const final = told.testResults.map((one) => result(test.path, one, one.printed ?? output.get(one)));
    emit({ ev: 'unit', unit: test.path }, ...final);
    const broken = told.testExecError;
    const known = (one) => (one.failureMessages ?? []).some((text) => broken.message && text.includes(broken.message));
    if (broken && !told.testResults.some(known)) {
      const text = broken.stack && String(broken.stack).includes(broken.message) ? broken.stack : broken.message;
      const about = typeof broken === 'string' ? { message: broken, frames: frames(broken) } : describe(broken);
      emit({ ev: 'problem', kind: 'collection', unit: test.path, message: words(text ?? about.message), frames: about.frames });
    }
  }

  onRunComplete(_contexts, results) {
    if (results.runExecError) emit({ ev: 'problem', kind: 'crash', ...describe(results.runExecError) });
    end(results.wasInterrupted);
  }
};
