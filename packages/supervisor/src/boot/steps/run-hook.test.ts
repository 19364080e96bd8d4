import { execFile } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { sized } from "@berth/testing/sampled"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { until } from "../../processes/testing/until.ts"
import { runHook } from "./run-hook.ts"
import { setupHook } from "./setup-hook.ts"
import { startHook } from "./start-hook.ts"
import { Stage, TEST_USER } from "./testing/stage.ts"

const START = "workspace/shop/.berth/start.sh"
const SETUP = "workspace/shop/.berth/setup.sh"

let stage: Stage
beforeEach(async () => {
  stage = await Stage.open()
})
afterEach(() => stage.close())

/** Boots with this step alone, and returns the trace with its one step. */
const bootWith = async (
  step: typeof setupHook,
  planned: Parameters<Stage["context"]>[0] = {},
  signal?: AbortSignal,
) => {
  const trace = await stage.boot([step([])], stage.context(planned), signal).ended
  return { trace, step: trace.steps[0] as (typeof trace.steps)[number] }
}

describe("a hook", () => {
  it("[R2.8] runs as the user, in the repo, with its variables, and the report says what it did", async () => {
    const script =
      '#!/bin/sh\nprintf "%s " $(id -u) $PWD $BERTH_HOOK $BERTH_BOOT_MODE $GREETING; echo to stderr > /dev/stderr'
    stage.put(START, script, 0o755)
    const context = stage.context({ mode: "restore" })
    const environment = { ...context.environment, GREETING: "hello" }
    const trace = await stage.boot([startHook([])], { ...context, environment }).ended
    const [step] = trace.steps
    expect(step?.lastOutput).toBe(
      `${TEST_USER?.uid ?? process.getuid?.()} ${stage.path("workspace/shop")} start restore hello to stderr\n`,
    )
    expect(step).toMatchObject({ state: "succeeded", error: null })
    expect(step?.detail).toMatch(/^ran \.berth\/start\.sh in \d+ ms$/)
    expect(step?.facts).toMatchObject({ path: ".berth/start.sh", background: 0, ended: 0 })
    expect(stage.running()).toEqual([])
  })

  it("that is not executable is run by bash", async () => {
    stage.put(SETUP, "echo $BASH_VERSION > made")
    expect((await bootWith(setupHook)).step.state).toBe("succeeded")
    expect(readFileSync(stage.path("workspace/shop/made"), "utf8")).toMatch(/^\d/)
  })

  it("[R2.8] that is missing is skipped, and named", async () => {
    const { step, trace } = await bootWith(setupHook)
    expect(step).toMatchObject({
      state: "skipped",
      detail: "there is no .berth/setup.sh in shop",
    })
    expect(trace.warnings).toEqual([])
  })

  it("that the workspace names, and that is missing, is a warning", async () => {
    stage.put("workspace/shop/.openinspect/start.sh", "exit 1")
    const hooks = { setup: "a.sh", start: "b.sh" }
    const { step, trace } = await bootWith(startHook, { hooks })
    expect(step).toMatchObject({ state: "skipped", detail: "there is no b.sh in shop" })
    expect(trace.warnings.map(({ message }) => message)).toEqual([
      "the workspace names a start hook, but there is no b.sh in shop",
    ])
  })

  it("of another tool is taken where there is none of Berth's", async () => {
    stage.put("workspace/shop/.openinspect/setup.sh", "touch other")
    expect((await bootWith(setupHook)).step.facts).toMatchObject({ path: ".openinspect/setup.sh" })
    stage.put(SETUP, "touch ours")
    expect((await bootWith(setupHook)).step.facts).toMatchObject({ path: ".berth/setup.sh" })
  })

  it("may be a link to another file of the repo", async () => {
    stage.put("workspace/shop/tools/up.sh", "echo up")
    mkdirSync(stage.path("workspace/shop/.berth"))
    symlinkSync("../tools/up.sh", stage.path(START))
    expect((await bootWith(startHook)).step).toMatchObject({
      state: "succeeded",
      lastOutput: "up\n",
    })
  })

  it.each([
    ["a link out of the repo", "/bin/true", "it is a link that leads out of the repo"],
    ["a link to a neighbour", "../../shop-2/x", "it is a link that leads out of the repo"],
    ["a link to nothing", "nothing", "it is a link that leads nowhere"],
    ["a link to itself", "start.sh", "it is a link that leads nowhere"],
    ["a directory", undefined, "it is not a file"],
  ])("that is %s is refused", async (_, target, why) => {
    stage.put("workspace/shop-2/x", "echo stranger")
    mkdirSync(stage.path(target === undefined ? START : "workspace/shop/.berth"), {
      recursive: true,
    })
    if (target !== undefined) symlinkSync(target, stage.path(START))
    const { step } = await bootWith(startHook)
    expect(step).toMatchObject({ state: "failed", error: { code: "hook.refused" } })
    expect(step.detail).toBe(`.berth/start.sh is no hook: ${why}`)
  })

  it.each([
    ["a status", "echo so it goes; exit 3", "it ended with status 3"],
    ["a signal", "echo so it goes; kill -SEGV $$", "it was ended by SIGSEGV"],
  ])(
    "[R2.9] that fails with %s ends the boot with its reason and its last output",
    async (_, script, how) => {
      stage.put(SETUP, script)
      const { step, trace } = await bootWith(setupHook, { mode: "build" })
      expect(trace).toMatchObject({ outcome: "failed", ending: { step: "setup-hook" } })
      expect(step).toMatchObject({ state: "failed", error: { code: "hook.failed" } })
      expect(step.detail).toBe(`.berth/setup.sh failed: ${how}`)
      expect(step.lastOutput).toContain("so it goes\n")
    },
  )

  it("that cannot be started fails with the code of a failed start", async () => {
    stage.put(START, "#!/no/such/shell\n", 0o755)
    const { step } = await bootWith(startHook)
    expect(step).toMatchObject({ state: "failed", error: { code: "process.start_failed" } })
  })
})

describe("a process that a hook leaves running", () => {
  const SERVICE =
    "(trap '' HUP; echo on > up; exec sleep 1000) & setsid sleep 1001 & until [ -e up ]; do :; done"

  it("is kept for a start hook, and ends with the process set", async () => {
    stage.put(START, SERVICE)
    const { step } = await bootWith(startHook)
    expect(step.facts).toMatchObject({ background: 2, ended: 0 })
    expect(step.detail).toMatch(/; it left 2 processes running$/)
    expect(stage.family.running()).toHaveLength(2)
    await stage.processes.stop()
    expect(stage.running()).toEqual([])
  })

  it("[R2.9] ends with the process set when the start hook fails", async () => {
    stage.put(START, `${SERVICE}; exit 1`)
    expect((await bootWith(startHook)).trace.outcome).toBe("failed")
    await stage.processes.stop()
    expect(stage.running()).toEqual([])
  })

  it.each(["build", "fresh"] as const)(
    "is ended after a setup hook of a %s boot, with a warning",
    async (mode) => {
      stage.put(SETUP, SERVICE)
      const { step, trace } = await bootWith(setupHook, { mode })
      expect(step).toMatchObject({ state: "succeeded", facts: { background: 0, ended: 2 } })
      expect(stage.running()).toEqual([])
      expect(trace.warnings.map(({ message }) => message)).toEqual([
        ".berth/setup.sh left 2 processes running, and they were ended",
      ])
    },
  )
})

describe("a hook that does not end", () => {
  const DEAF = `trap "" TERM; echo working; touch up; while :; do sleep 1000; done`

  it("[R2.9] is gone when the boot is cancelled, though it ignores SIGTERM", async () => {
    stage.put(START, DEAF)
    const cancel = new AbortController()
    const booted = bootWith(startHook, {}, cancel.signal)
    await until(() => existsSync(stage.path("workspace/shop/up")))
    cancel.abort(new Error("the sandbox is stopped"))
    const { step } = await booted
    expect(step).toMatchObject({ state: "cancelled", abandoned: false, lastOutput: "working\n" })
    expect(stage.running()).toEqual([])
  })

  it("[R2.9] is ended at its limit, which is the reason that is given", async () => {
    stage.put(SETUP, DEAF)
    const tell = { progress: () => {}, output: () => {}, warn: () => {} }
    const hook = { name: "setup", deadlineMs: 300, keepBackground: false } as const
    const { signal } = new AbortController()
    await expect(runHook(hook, stage.context(), signal, tell)).rejects.toMatchObject({
      code: "deadline.exceeded",
      message: "the setup hook did not end within 300 ms",
    })
    expect(stage.running()).toEqual([])
  })
})

describe("a hook that floods its output", () => {
  const MIB = 1024 * 1024
  const FLOOD_BYTES = sized("MiB that a hook floods", { few: 256, all: 1024 }) * MIB
  /** Covers the buffers that wait for the garbage collector. */
  const MAX_GROWTH_BYTES = 128 * MIB

  it("takes less than 128 MiB of memory, and the end of its output is kept", async () => {
    const program = fileURLToPath(new URL("./testing/flood.ts", import.meta.url))
    const args = ["--conditions=source", program, String(FLOOD_BYTES)]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    const { step, grownBytes } = JSON.parse(stdout)
    expect(step).toMatchObject({ state: "succeeded", outputBytes: FLOOD_BYTES + "\ndone\n".length })
    expect(step.lastOutput).toMatch(/x\ndone\n$/)
    expect(grownBytes).toBeLessThan(MAX_GROWTH_BYTES)
  }, 60_000)
})
