import { join } from "node:path"
import type { Scene } from "./scene.ts"

export interface Step {
  readonly title: string
  /** Does the step, and returns the text to show. Throws when it cannot be done. */
  run(scene: Scene): Promise<string>
}

/** The demo, in order. A step passes an undo for everything that it starts to `scene.defer`. */
export const STEPS: readonly Step[] = [
  {
    title: "What sandboxes need from this system",
    run: async ({ root, show }) => {
      await show(join(root, "scripts/system-deps"))
      return "all that can be installed is there"
    },
  },
  {
    title: "A server starts",
    run: async ({ startServer }) => `it answers on ${(await startServer()).url}`,
  },
  {
    title: "It answers to anyone on this machine: GET /v1/health",
    run: async ({ server, signal }) => {
      const reply = await fetch(`${server().url}/v1/health`, { signal })
      if (!reply.ok) throw new Error(`health answered ${reply.status}`)
      return await reply.text()
    },
  },
  {
    title: "It answers to those who have its token: berth status",
    run: ({ berth }) => berth(["status"]),
  },
  {
    title: "What this machine offers to sandboxes: berth doctor",
    // A missing part is a finding of the doctor, not a failure of the demo.
    run: ({ berth }) => berth(["doctor"], { accept: [0, 1] }),
  },
  {
    title: "What Berth brings into every sandbox is put together, once: berth toolbox build",
    run: ({ berth }) => berth(["toolbox", "build"]),
  },
  {
    title: "A sandbox boots from a sample repo and runs a command: berth run, berth boot",
    run: async (scene) => {
      const { makeSample, runCommand } = await import("./sandbox.ts")
      return await runCommand(scene, await makeSample(scene))
    },
  },
  {
    title:
      "OpenCode edits the sample, with a model that plays a script: berth run --agent opencode",
    run: async (scene) => {
      const { runAgent, sampleOf } = await import("./sandbox.ts")
      return await runAgent(scene, sampleOf(scene))
    },
  },
  {
    title: "The server stops when it is asked to",
    run: async ({ server }) => {
      const status = await server().stop()
      if (status !== 0) throw new Error(`the server ended with ${status}`)
      return "it ended by itself, with status 0"
    },
  },
]
