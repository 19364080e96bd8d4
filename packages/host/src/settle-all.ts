/**
 * Waits for all promises, then throws the first failure: when the caller begins to undo, nothing is still being made.
 */
export const settleAll = async <Values extends readonly unknown[]>(
  work: readonly [...{ [Index in keyof Values]: Promise<Values[Index]> }],
): Promise<Values> => {
  const all: readonly Promise<unknown>[] = work
  await Promise.allSettled(all)
  return (await Promise.all(all)) as unknown as Values
}
