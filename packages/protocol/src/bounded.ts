/** Runs at most `atOnce` calls at a time; the others wait in the order of asking. */
export const bounded = (atOnce: number) => {
  const waiting: (() => void)[] = []
  let running = 0
  return async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (running >= atOnce) await new Promise<void>((resolve) => waiting.push(resolve))
    else running += 1
    try {
      return await work()
    } finally {
      // The place is handed to the next waiting call, so that no later one gets it first.
      const next = waiting.shift()
      if (next === undefined) running -= 1
      else next()
    }
  }
}
