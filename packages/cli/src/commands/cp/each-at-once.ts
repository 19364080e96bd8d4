/**
 * Runs all of them, so many at once. The first that fails ends the others, and is thrown when they have ended:
 * none of them goes on unseen.
 */
export const eachAtOnce = async <Item>(
  items: readonly Item[],
  most: number,
  signal: AbortSignal,
  run: (item: Item, signal: AbortSignal) => Promise<void>,
): Promise<void> => {
  const ending = new AbortController()
  const either = AbortSignal.any([signal, ending.signal])
  const waiting = items.values()
  let failure: { readonly thrown: unknown } | undefined
  const work = async () => {
    for (const item of waiting) {
      if (either.aborted) return
      try {
        await run(item, either)
      } catch (thrown) {
        failure ??= { thrown }
        ending.abort()
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, work))
  if (failure !== undefined) throw failure.thrown
  signal.throwIfAborted()
}
