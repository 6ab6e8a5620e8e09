// A vitest reporter: `--reporter=<this file> --includeTaskLocation`. It speaks the reporter interface of vitest 3
// and later, and falls back to the task tree that versions 1 and 2 hand over at the end.

import { createRequire } from 'node:module';

const { clip, emit, end, frames, start } = createRequire(import.meta.url)('./report.cjs');

const STATES = { passed: 'pass', failed: 'fail', pass: 'pass', fail: 'fail' };

function titles(test) {
  const path = [test.name];
  for (let above = test.parent ?? test.suite; above && above.name && above.type !== 'module'; above = above.parent ?? above.suite) {
    if (above.filepath || above.type === 'file') break;
    path.unshift(above.name);
  }
  return path;
}

function places(error) {
  const parsed = (error.stacks ?? []).filter((one) => one.file && !one.file.includes('node_modules'));
  return parsed.length ? parsed.map((one) => [one.file, one.line, one.column]) : frames(error.stack ?? error.stackStr);
}

function told(error) {
  const name = error.name && !/^(Error|AssertionError)$/.test(error.name) ? `${error.name}: ` : '';
  return {
    message: clip(`${name}${error.message ?? error}`),
    expected: error.expected === undefined ? undefined : clip(error.expected),
    actual: error.actual === undefined ? undefined : clip(error.actual),
    frames: places(error),
  };
}

export default class {
  output = new Map();
  modern = false;

  onInit() {
    start('vitest');
  }

  onTestRunStart() {
    this.modern = true;
  }

  onTestModuleQueued(module) {
    emit({ ev: 'open', unit: module.moduleId });
  }

  onTestCaseReady(test) {
    emit({ ev: 'begin', unit: test.module.moduleId, path: titles(test) });
  }

  onUserConsoleLog(log) {
    if (!log.taskId) return;
    this.output.set(log.taskId, clip((this.output.get(log.taskId) ?? '') + log.content));
  }

  onTestCaseResult(test) {
    const result = test.result();
    this.report(test.module.moduleId, titles(test), test.location?.line, result.state, result.errors, test.id);
  }

  onTestModuleEnd(module) {
    for (const error of module.errors()) {
      emit({ ev: 'problem', kind: 'collection', unit: module.moduleId, ...told(error) });
    }
    this.suites(module);
    emit({ ev: 'close', unit: module.moduleId });
  }

  onTestRunEnd(_modules, unhandled, reason) {
    for (const error of unhandled) emit({ ev: 'problem', kind: 'crash', ...told(error) });
    end(reason === 'interrupted');
  }

  onFinished(files = [], unhandled = []) {
    if (this.modern) return;
    const walk = (file, task) => {
      if (task.type === 'suite') {
        for (const error of task.result?.errors ?? []) {
          emit({ ev: 'problem', kind: 'collection', unit: file.filepath, ...told(error) });
        }
        for (const one of task.tasks) walk(file, one);
      } else {
        const state = task.result?.state ?? task.mode;
        this.report(file.filepath, titles(task), task.location?.line, state, task.result?.errors, task.id);
      }
    };
    for (const file of files) walk(file, file);
    for (const error of unhandled) emit({ ev: 'problem', kind: 'crash', ...told(error) });
    end();
  }

  /** Errors of beforeAll and afterAll belong to suites. */
  suites(parent) {
    for (const child of parent.children ?? []) {
      if (child.type !== 'suite') continue;
      for (const error of child.errors()) {
        emit({ ev: 'problem', kind: 'collection', unit: child.module.moduleId, ...told(error) });
      }
      this.suites(child);
    }
  }

  report(unit, path, line, state, errors, id) {
    const event = { ev: 'test', unit, path, line, state: STATES[state] ?? 'skip' };
    if (event.state === 'fail') {
      Object.assign(event, told(errors?.[0] ?? { message: 'failed without a message' }));
      event.output = this.output.get(id);
    }
    this.output.delete(id);
    emit(event);
  }
}
