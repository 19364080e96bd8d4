/**
 * `npm run demo`: installs what the system lacks and runs Berth's main job, a step a line, on a temporary data
 * directory. It leaves nothing behind, and its exit status says whether every step was done.
 */
import { performance } from "node:perf_hooks"
import { openScene } from "./demo/scene.ts"
import { STEPS } from "./demo/steps.ts"

const INTERRUPTED = 130
const INDENT = " ".repeat(6)

const stop = new AbortController()
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stop.abort())

const scene = openScene(stop.signal)
try {
  for (const [index, { title, run }] of STEPS.entries()) {
    stop.signal.throwIfAborted()
    console.log(`[${index + 1}/${STEPS.length}] ${title}`)
    const startedMs = performance.now()
    const shown = (await run(scene)).trimEnd()
    if (shown !== "") console.log(shown.replaceAll(/^(?=.)/gm, INDENT))
    console.log(`${INDENT}done in ${((performance.now() - startedMs) / 1000).toFixed(1)} s`)
  }
  console.log("The demo is over: every step was done.")
} catch (error) {
  process.exitCode = stop.signal.aborted ? INTERRUPTED : 1
  const why = error instanceof Error ? error.message : String(error)
  console.error(stop.signal.aborted ? "The demo was interrupted." : `The demo failed: ${why}`)
} finally {
  await scene.close()
}
