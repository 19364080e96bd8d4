/**
 * The time for a whole stop: longer than the server's own grace period for running requests, shorter than the 10 s
 * after which container engines kill.
 */
const STOP_DEADLINE_MS = 8_000

const NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const
type Signal = keyof typeof NUMBERS
const SIGNALS = Object.keys(NUMBERS) as Signal[]

/**
 * Starts something and stops it at the first SIGINT or SIGTERM, also when that comes before it has started. A second
 * signal, or a stop that does not end, ends the process at once.
 */
export const runUntilSignal = async (
  start: () => Promise<{ stop(signal: Signal): Promise<void> }>,
  complain: (text: string) => void,
): Promise<void> => {
  const signalled = firstSignal()
  const { stop } = await start()
  const signal = await signalled
  const late = setTimeout(() => {
    complain(`berth: not stopped within ${STOP_DEADLINE_MS / 1000} s of ${signal}\n`)
    process.exit(1)
  }, STOP_DEADLINE_MS)
  await stop(signal)
  clearTimeout(late)
}

const firstSignal = (): Promise<Signal> =>
  new Promise((resolve) => {
    let seen = false
    for (const signal of SIGNALS) {
      process.on(signal, () => {
        // The exit status that a shell reports for a process that a signal ended.
        if (seen) process.exit(128 + NUMBERS[signal])
        seen = true
        resolve(signal)
      })
    }
  })

/** Runs something that cleans up after itself when SIGINT or SIGTERM cancels it. */
export const cancelledBySignal = async <T>(
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> => {
  const controller = new AbortController()
  const abort = () => controller.abort()
  for (const signal of SIGNALS) process.once(signal, abort)
  try {
    return await run(controller.signal)
  } finally {
    for (const signal of SIGNALS) process.removeListener(signal, abort)
  }
}

/** Runs something that is told of the first SIGINT or SIGTERM, and cancelled by the second. */
export const leftBySecondSignal = async <T>(
  onFirst: () => void,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> => {
  const controller = new AbortController()
  let isFirst = true
  const onSignal = () => {
    if (isFirst) onFirst()
    else controller.abort()
    isFirst = false
  }
  for (const signal of SIGNALS) process.on(signal, onSignal)
  try {
    return await run(controller.signal)
  } finally {
    for (const signal of SIGNALS) process.removeListener(signal, onSignal)
  }
}
