/** Runs a hook that writes the given number of bytes, and prints how much memory that took. */
import { setupHook } from "../setup-hook.ts"
import { Stage } from "./stage.ts"

const [bytes = ""] = process.argv.slice(2)
const peakBytes = () => process.resourceUsage().maxRSS * 1024
const stage = await Stage.open()
const run = async (script: string) => {
  stage.put("workspace/shop/.berth/setup.sh", script)
  return await stage.boot([setupHook([])], stage.context()).ended
}
try {
  await run("echo warm")
  const before = peakBytes()
  const trace = await run(`head -c ${bytes} /dev/zero | tr '\\0' x; echo; echo done`)
  console.log(JSON.stringify({ step: trace.steps[0], grownBytes: peakBytes() - before }))
} finally {
  await stage.close()
}
