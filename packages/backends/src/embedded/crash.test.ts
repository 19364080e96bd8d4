import { spawn } from "node:child_process"
import { once } from "node:events"
import { constants, existsSync } from "node:fs"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { expect, it, onTestFinished } from "vitest"
import { z } from "zod"
import type { CrashPlan } from "./testing/crash-plan.ts"
import { openHarness } from "./testing/harness.ts"
import { specFor } from "./testing/spec.ts"

const CHILD = fileURLToPath(new URL("./testing/crash-child.ts", import.meta.url))

/** Runs the plan's operation in a process of its own, and returns the steps that it passed. */
const play = async (plan: CrashPlan): Promise<{ steps: string[]; signal: string | null }> => {
  const child = spawn(
    process.execPath,
    ["--conditions=source", "--disable-warning=ExperimentalWarning", CHILD, JSON.stringify(plan)],
    { stdio: ["ignore", "pipe", "inherit"] },
  )
  let output = ""
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString("utf8")
  })
  const [, signal] = (await once(child, "close")) as [number | null, string | null]
  return { steps: output.split("\n").filter((line) => line !== ""), signal }
}

const open = async () => {
  const harness = await openHarness()
  onTestFinished(() => harness.close())
  const planOf = (operation: CrashPlan["operation"], dieAt?: string): CrashPlan => {
    const spec = specFor(harness.installation, { network: { kind: "open" } })
    const { directory } = harness
    return { directory, spec, operation, ...(dieAt && { dieAt }) }
  }
  return { harness, planOf, empty: await harness.census() }
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "repair after a crash",
  () => {
    it.each(["create", "remove"] as const)(
      "leaves nothing of a %s whose server was killed at a step",
      async (operation) => {
        const { harness, planOf, empty } = await open()
        const whole = planOf(operation)
        const { steps } = await play(whole)
        await harness.backend.remove(whole.spec.identity.sandbox)
        expect(steps.length).toBeGreaterThan(3)
        for (const step of sampled(
          `crash points of the embedded backend in ${operation}`,
          [...new Set(steps)],
          2,
        )) {
          const plan = planOf(operation, step)
          expect(await play(plan), step).toMatchObject({ signal: "SIGKILL" })
          const successor = await harness.reopen()
          await successor.repair()
          expect(await successor.list(), step).toEqual([])
          expect(await harness.census(), step).toEqual(empty)
          // The same sandbox can be created again.
          await successor.create(plan.spec)
          await successor.remove(plan.spec.identity.sandbox)
        }
      },
      120_000,
    )

    it("[R1.9] finds a usable sandbox when the server was killed before or after its start", async () => {
      const { harness, planOf, empty } = await open()
      for (const [step, state] of [
        ["starting", "created"],
        ["started", "running"],
      ] as const) {
        const plan = planOf("start", step)
        const { sandbox } = plan.spec.identity
        expect(await play(plan)).toMatchObject({ signal: "SIGKILL" })
        const successor = await harness.reopen()
        await successor.repair()
        expect(await successor.inspect(sandbox)).toMatchObject({ state })
        await successor.start(sandbox)
        expect(await successor.inspect(sandbox)).toMatchObject({ state: "running" })
        await successor.remove(sandbox)
        expect(await harness.census()).toEqual(empty)
      }
    }, 60_000)

    it("finds a sandbox running that was started and not yet noted as started", async ({
      skip,
    }) => {
      const { harness, planOf } = await open()
      if (!(await harness.backend.describe()).engine.startsWith("crun"))
        skip("needs crun: the backend runs on runc")
      const { spec } = planOf("create")
      const { sandbox } = spec.identity
      await harness.backend.create(spec)
      // The first act of a start. The file that marks a created sandbox for crun is still there.
      const fifo = join(harness.directory, "runtime", sandbox, "exec.fifo")
      await writeFile(fifo, "1", { flag: constants.O_WRONLY })
      await expect.poll(() => harness.backend.logs(sandbox)).toBe("up\n")
      const successor = await harness.reopen()
      await successor.repair()
      await successor.start(sandbox)
      expect(await successor.inspect(sandbox)).toMatchObject({ state: "running" })
      expect(existsSync(fifo)).toBe(false)
    })

    it("reports the exit of a sandbox as unknown when its monitor was killed as well", async () => {
      const { harness, planOf } = await open()
      const { spec } = planOf("create")
      const { sandbox } = spec.identity
      await harness.backend.create(spec)
      await harness.backend.start(sandbox)
      const { monitor, init } = await readState(harness.directory, sandbox)
      process.kill(monitor.pid, "SIGKILL")
      process.kill(init.pid, "SIGKILL")
      await expect
        .poll(async () => (await harness.backend.inspect(sandbox))?.exit)
        .toMatchObject({ code: null, reason: "unknown" })
      await harness.backend.remove(sandbox)
    })

    it("leaves a process alone that only has the pid of a sandbox's", async () => {
      const { harness, planOf, empty } = await open()
      const { spec } = planOf("create")
      const { sandbox } = spec.identity
      await harness.backend.create(spec)
      const stranger = spawn("sleep", ["1000"])
      onTestFinished(() => {
        stranger.kill("SIGKILL")
      })
      const state = await readState(harness.directory, sandbox)
      process.kill(state.init.pid, "SIGKILL")
      process.kill(state.monitor.pid, "SIGKILL")
      const recycled = { ...state, init: { ...state.init, pid: stranger.pid } }
      await writeFile(stateFile(harness.directory, sandbox), JSON.stringify(recycled))
      expect(await harness.backend.inspect(sandbox)).toMatchObject({ state: "exited" })
      await harness.backend.remove(sandbox)
      expect(stranger.exitCode ?? stranger.signalCode).toBeNull()
      expect(await harness.census()).toEqual(empty)
    })

    it("keeps files, and nothing else, of a sandbox whose state file a power loss tore", async () => {
      const { harness, planOf } = await open()
      const { spec } = planOf("create")
      const { sandbox } = spec.identity
      await harness.backend.create(spec)
      await writeFile(stateFile(harness.directory, sandbox), '{"version":1,"sp')
      const successor = await harness.reopen()
      await successor.repair()
      expect(await successor.list()).toEqual([])
      const census = await harness.census()
      expect(census).toMatchObject({ processes: 0, cgroups: 0, mounts: 0, devices: 0, tables: 0 })
      expect(census.files).toBeGreaterThan(0)
    })
  },
)

const stateFile = (directory: string, sandbox: string) =>
  join(directory, "sandboxes", sandbox, "state.json")

const readState = async (directory: string, sandbox: string) => {
  const state = JSON.parse(await readFile(stateFile(directory, sandbox), "utf8"))
  return z
    .looseObject({
      init: z.looseObject({ pid: z.int() }),
      monitor: z.looseObject({ pid: z.int() }),
    })
    .parse(state)
}
