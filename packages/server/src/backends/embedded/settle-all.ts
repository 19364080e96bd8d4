/**
 * Waits for all, then fails with the first failure: when the caller begins to undo, nothing is still being
 * made.
 */
export const settleAll = async <Values extends readonly unknown[]>(
  work: readonly [...{ [Index in keyof Values]: Promise<Values[Index]> }],
): Promise<Values> => {
  const results = await Promise.allSettled(work)
  for (const result of results) if (result.status === "rejected") throw result.reason
  return Promise.all(work) as unknown as Promise<Values>
}
