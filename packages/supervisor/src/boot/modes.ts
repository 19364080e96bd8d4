import type { BootContext } from "./context.ts"
import type { Step } from "./step.ts"
import { agentAttach } from "./steps/agent-attach.ts"
import { agentFiles } from "./steps/agent-files.ts"
import { agentStart } from "./steps/agent-start.ts"
import { bridge } from "./steps/bridge.ts"
import { gitSync } from "./steps/git-sync.ts"
import { hostPorts } from "./steps/host-ports.ts"
import { ready } from "./steps/ready.ts"
import { setupHook, setupHookIfDue } from "./steps/setup-hook.ts"
import { sidecar } from "./steps/sidecar.ts"
import { startHook } from "./steps/start-hook.ts"

type Steps = readonly Step<BootContext>[]

/**
 * The steps of each mode, with their needs. Steps that do not need each other run at the same time: the agent's own
 * start, its files and the sidecars beside git and the hooks.
 */
export const stepsOf = (context: Pick<BootContext, "plan" | "agent">): Steps => {
  const steps = stepsOfMode(context)
  if (context.plan.hostPorts === undefined) return steps
  const first = hostPorts()
  // The step comes before anything that could use or take such a port.
  const after = (step: Step<BootContext>) =>
    step.needs.length > 0 || step.name === "bridge" ? step : { ...step, needs: [first.name] }
  return [first, ...steps.map(after)]
}

const stepsOfMode = (context: Pick<BootContext, "plan" | "agent">): Steps => {
  switch (context.plan.mode) {
    case "fresh":
      return [
        gitSync("clone"),
        setupHook(["git-sync"]),
        startHook(["setup-hook"]),
        ...serving(context),
      ]
    case "prebuilt":
      return [gitSync("update"), startHook(["git-sync"]), ...serving(context)]
    case "restore":
      return [
        gitSync("restore"),
        setupHookIfDue(["git-sync"]),
        startHook(["setup-hook"]),
        ...serving(context),
      ]
    case "build":
      return [gitSync("clone"), setupHook(["git-sync"])]
  }
}

/** The steps of every mode that ends with a sandbox in use. The agent looks at the repo after the start hook. */
const serving = ({ plan, agent }: Pick<BootContext, "plan" | "agent">): Steps => {
  const sidecars = plan.sidecars.map((spec) => sidecar(spec, spec.afterHooks ? ["start-hook"] : []))
  const required = sidecars.filter((step) => step.required).map(({ name }) => name)
  return [
    bridge(),
    agentFiles([]),
    agentStart(agent.startsEarly ? [] : ["agent-files", "start-hook"]),
    agentAttach(["agent-files", "start-hook", "agent-start"]),
    ...sidecars,
    ready(["bridge", "agent-attach", ...required]),
  ]
}
