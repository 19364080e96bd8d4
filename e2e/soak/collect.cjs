// Loaded by the server of a soak before its own code. At each signal it collects garbage, and adds a line to a file: the
// bytes that the server holds then. The file is there as soon as the server knows the signal.
const { appendFileSync } = require("node:fs")
const { isMainThread } = require("node:worker_threads")

const file = `${process.env.SOAK_HELD_FILE}.${process.pid}`

/**
 * V8 gives the memory of buffers back in a thread, and a part with the next collection. A server that works holds more for
 * some moments, so the least of several looks counts.
 */
const LOOKS = 5
const PAUSE_MS = 200

const tell = (looks, least) => {
  globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  const held = Math.min(least, heapUsed + external)
  if (looks > 1) setTimeout(tell, PAUSE_MS, looks - 1, held)
  else appendFileSync(file, `${held}\n`)
}

if (isMainThread) {
  process.on("SIGUSR2", () => tell(LOOKS, Number.POSITIVE_INFINITY))
  appendFileSync(file, "")
}
