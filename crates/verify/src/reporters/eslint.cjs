'use strict';
// An eslint formatter: `--format <this file>`. Findings go to the report; nothing is printed.

const { emit } = require('./report.cjs');

module.exports = (results) => {
  for (const { filePath, messages } of results) {
    if (messages.length === 0) continue;
    emit({
      ev: 'eslint',
      filePath,
      messages: messages.map(({ ruleId, severity, message, line, column, fix, fatal }) => ({
        ruleId,
        severity,
        message,
        line,
        column,
        fatal,
        fix: fix ? true : undefined,
      })),
    });
  }
  emit({ ev: 'eslint_end' });
  return '';
};
