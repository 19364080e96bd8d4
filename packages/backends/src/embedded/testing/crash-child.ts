import { openEmbedded } from "../backend.ts"
import { CrashPlan } from "./crash-plan.ts"

/** A server that dies at one step of one operation: started by crash.test.ts with a plan as its argument. */
const plan = CrashPlan.parse(JSON.parse(process.argv[2] ?? "{}"))
const { spec } = plan
const { sandbox } = spec.identity

let armed = false
const backend = await openEmbedded({
  installation: spec.identity.installation,
  directory: plan.directory,
  at: (step) => {
    if (!armed) return
    process.stdout.write(`${step}\n`)
    if (step === plan.dieAt) process.kill(process.pid, "SIGKILL")
  },
})
armed = plan.operation === "create"
await backend.create(spec)
armed = plan.operation === "start"
await backend.start(sandbox)
armed = plan.operation === "remove"
if (armed) await backend.remove(sandbox)
