// Loaded by the server of a soak before its own code. At each signal it collects garbage, and adds a line to a file: the
// bytes that the server holds then. The file is there as soon as the server knows the signal.
const { appendFileSync } = require("node:fs")
const { isMainThread } = require("node:worker_threads")

const file = `${process.env.SOAK_HELD_FILE}.${process.pid}`

/** Collections until the memory of buffers is given back: V8 does that in a thread, and a part with the next collection. */
const COLLECTIONS = 3
const PAUSE_MS = 200

const tell = (left) => {
  globalThis.gc()
  if (left > 1) return void setTimeout(tell, PAUSE_MS, left - 1)
  const { heapUsed, external } = process.memoryUsage()
  appendFileSync(file, `${heapUsed + external}\n`)
}

if (isMainThread) {
  process.on("SIGUSR2", () => tell(COLLECTIONS))
  appendFileSync(file, "")
}
