declare module "vitest" {
  interface TaskMeta {
    /** The suite may be empty: this run draws none of its cases, or leaves all of them out. */
    mayBeEmpty?: boolean
  }
}

/** Only a worker of a run has suites; global set-ups load this file too. */
const vitest = process.env.VITEST_WORKER_ID === undefined ? undefined : await import("vitest")

/** Lets the suite that is being described be empty; outside of a suite, the file. */
export const noteLeftOut = (): void => {
  const current = vitest?.TestRunner.getCurrentSuite()
  const task = current?.suite ?? current?.file
  if (task !== undefined) task.meta.mayBeEmpty = true
}
