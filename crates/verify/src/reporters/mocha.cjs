'use strict';
// A mocha reporter: `--reporter <this file>`. What the project prints stays as it was.

const { clip, describe, emit, end, selects, start, wanted } = require('./report.cjs');

/** Takes out what the plan did not ask for, so that a name that occurs twice is still one test. */
function keep(suite) {
  suite.tests = suite.tests.filter((test) => wanted(test.file, test.titlePath()));
  for (const child of suite.suites) keep(child);
}

/** Copies what is written while a test runs. */
function listen() {
  const heard = { text: undefined };
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write;
    stream.write = function (chunk, ...rest) {
      if (heard.text !== undefined && heard.text.length < 16000) heard.text += String(chunk);
      return write.call(this, chunk, ...rest);
    };
  }
  return heard;
}

/** Where mocha may be: beside the program that runs, wherever a link to it stands. */
function places() {
  const found = [process.argv[1], process.cwd()];
  try {
    found.unshift(require('node:fs').realpathSync(process.argv[1]));
  } catch {
    // Then it is no file, and the other places have to do.
  }
  return found;
}

module.exports = function Reporter(runner, options) {
  // Mocha is the one that is running, wherever it is installed.
  const { reporters } = runner.constructor.Mocha ?? require(require.resolve('mocha', { paths: places() }));
  if (selects && runner.suite && !options?.parallel) {
    keep(runner.suite);
    runner.total = runner.suite.total();
  }
  const heard = listen();
  const tell = (test, state, more) =>
    emit({ ev: 'test', unit: test.file, path: test.titlePath(), state, ...more });
  start('mocha', runner.total);
  runner.on('test', (test) => {
    heard.text = '';
    emit({ ev: 'begin', unit: test.file, path: test.titlePath() });
  });
  runner.on('retry', () => {
    heard.text = '';
  });
  runner.on('pass', (test) => {
    heard.text = undefined;
    tell(test, 'pass');
  });
  runner.on('pending', (test) => tell(test, 'skip'));
  runner.on('fail', (test, error) => {
    const output = heard.text ? clip(heard.text) : undefined;
    heard.text = undefined;
    const hook = test.type === 'hook' ? { kind: 'error' } : {};
    tell(test, 'fail', { ...describe(error), ...hook, output });
  });
  runner.on('end', () => end());
  return new reporters.Spec(runner, options);
};
