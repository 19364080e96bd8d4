/**
 * Waits for all promises, then throws the first failure: when the caller begins to undo, nothing is still being made.
 */
export const settleAll = async (work: readonly Promise<unknown>[]): Promise<void> => {
  await Promise.allSettled(work)
  await Promise.all(work)
}
