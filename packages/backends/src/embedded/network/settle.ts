/**
 * Waits for every step to end, then throws the failure of the first that failed: no step is still going on after it.
 */
export const settle = async (steps: readonly Promise<void>[]): Promise<void> => {
  for (const step of await Promise.allSettled(steps)) {
    if (step.status === "rejected") throw step.reason
  }
}
