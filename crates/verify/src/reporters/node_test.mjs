// A reporter for Node's own test runner: `--test-reporter=<this file>` with any destination; it yields nothing
// and writes the report itself, because several processes of one script may report in turn.

import { createRequire } from 'node:module';
import path from 'node:path';

const { clip, describe, emit, end, start } = createRequire(import.meta.url)('./report.cjs');

const TEST_FILE = /(?:^|[/\\])(?:test|test[-_.][^/\\]*|[^/\\]*[-_.]test)\.[cm]?[jt]sx?$/;

/** Node tells of a whole file as if it were a test named by its path. */
const wholeFile = (event) => event.nesting === 0 && event.file && path.resolve(event.name) === event.file;

export default async function* (events) {
  start('node');
  const open = [];
  const running = [];
  const output = new Map();
  for await (const { type, data } of events) {
    const at = data?.file;
    switch (type) {
      case 'test:dequeue':
        // Told when a test starts; `test:start` only when it is its turn to be reported.
        running.length = data.nesting;
        running[data.nesting] = data.name;
        if (!wholeFile(data)) emit({ ev: 'begin', unit: at, path: [...running] });
        break;
      case 'test:start':
        open.length = data.nesting;
        open[data.nesting] = data.name;
        break;
      case 'test:stdout':
      case 'test:stderr':
        output.set(at, clip((output.get(at) ?? '') + data.message, 8000));
        break;
      case 'test:pass':
      case 'test:fail':
        report(type, data, [...open.slice(0, data.nesting), data.name], output);
        break;
      default:
        break;
    }
  }
  end();
}

function report(type, data, titles, output) {
  const heard = output.get(data.file);
  const error = data.details?.error;
  const group = data.details?.type === 'suite';
  const state = data.skip !== undefined || data.todo !== undefined ? 'skip' : type === 'test:pass' ? 'pass' : 'fail';
  if (wholeFile(data)) {
    if (state === 'fail' && error?.failureType !== 'subtestsFailed') {
      const told = describe(error?.cause ?? error);
      const code = error?.exitCode ?? error?.cause?.exitCode;
      const signal = error?.signal ?? error?.cause?.signal;
      const kind = code === undefined && signal === undefined ? 'collection' : 'file';
      emit({ ev: 'problem', kind, unit: data.file, ...told, code, signal: signal ?? undefined, output: heard });
    } else if (state === 'pass' && TEST_FILE.test(data.file)) {
      emit({ ev: 'test', unit: data.file, path: [path.basename(data.file)], state, whole: true });
    }
    return;
  }
  // A group is only told when it failed by itself: its tests are told one by one.
  if (error?.failureType === 'subtestsFailed' || (group && state !== 'fail')) {
    emit({ ev: 'group', unit: data.file, path: titles });
    return;
  }
  const event = { ev: 'test', unit: data.file, path: titles, state, line: data.line };
  if (state === 'fail') {
    Object.assign(event, describe(error?.cause ?? error));
    if (error?.failureType === 'hookFailed') event.kind = 'error';
    if (error?.failureType === 'testTimeoutFailure') event.kind = 'timed_out';
  }
  emit(event);
}
