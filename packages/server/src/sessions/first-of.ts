/**
 * Runs tasks concurrently until the first of them has finished or failed; then the signal that each was given fires,
 * and all have ended when this resolves. Unlike `Promise.race` it leaves nothing behind on a promise that never
 * settles.
 */
export const firstOf = async (
  signal: AbortSignal,
  tasks: readonly ((signal: AbortSignal) => Promise<void>)[],
): Promise<void> => {
  const done = new AbortController()
  const until = AbortSignal.any([signal, done.signal])
  const ends = await Promise.allSettled(
    tasks.map((task) => task(until).finally(() => done.abort())),
  )
  for (const end of ends) if (end.status === "rejected") throw end.reason
}
