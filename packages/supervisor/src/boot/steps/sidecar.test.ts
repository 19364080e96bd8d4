import { existsSync, readFileSync } from "node:fs"
import { createServer } from "node:net"
import type { SidecarSpec } from "@berth/protocol/workspace"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { fastClock } from "../../processes/testing/fast-clock.ts"
import { until } from "../../processes/testing/until.ts"
import type { BootContext } from "../context.ts"
import type { Step } from "../step.ts"
import { sidecar } from "./sidecar.ts"
import { Stage } from "./testing/stage.ts"

let stage: Stage
beforeEach(async () => {
  stage = await Stage.open(fastClock)
})
afterEach(() => stage.close())

const spec = (name: string, script: string, more: Partial<SidecarSpec> = {}): SidecarSpec => ({
  name: name as SidecarSpec["name"],
  command: ["/bin/sh", "-c", script],
  afterHooks: false,
  required: false,
  ...more,
})

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" ? (address?.port ?? 0) : 0))
    })
  })

const CRASHES = "echo it breaks; exit 7"

describe("a sidecar", () => {
  it("[R2.11] runs as the user in the workspace, is told its port, and writes a log", async () => {
    const port = await freePort()
    const script = 'echo "$(id -u) $PWD $PORT"; echo it listens; exec sleep 1000'
    const ready = { line: "it listens" }
    const trace = await stage.boot(
      [sidecar(spec("web", script, { port, ready }), [])],
      stage.context(),
    ).ended
    expect(trace.steps[0]).toMatchObject({
      name: "sidecar-web",
      state: "succeeded",
      required: false,
      facts: { port, starts: 1 },
    })
    const uid = stage.context().user?.uid ?? process.getuid?.()
    const log = () => readFileSync(stage.path("logs/sidecar-web.log"), "utf8")
    await until(
      () => existsSync(stage.path("logs/sidecar-web.log")) && log().includes("it listens"),
    )
    expect(log()).toBe(`${uid} ${stage.path("workspace")} ${port}\nit listens\n`)
    await stage.processes.stop()
    expect(stage.running()).toEqual([])
  })

  it("takes a readiness line literally, not as a pattern", async () => {
    const script = "echo ready xyz; echo 'ready (1.0)'; exec sleep 1000"
    const step = sidecar(spec("web", script, { ready: { line: "ready (1.0)" } }), [])
    expect((await stage.boot([step], stage.context()).ended).outcome).toBe("succeeded")
  })

  it.each([
    ["its port accepts connections", {}],
    ["its page answers", { ready: { http: "/health" } }],
  ])("with a port is ready when %s", async (_, more) => {
    const port = await freePort()
    const serve = `require("node:http").createServer((q, s) => { s.statusCode = q.url === "/health" ? 200 : 404; s.end() }).listen(process.env.PORT, "127.0.0.1")`
    const command = [process.execPath, "-e", serve]
    const step = sidecar({ ...spec("web", ""), command, port, ...more }, [])
    const trace = await stage.boot([step], stage.context()).ended
    expect(trace.steps[0]).toMatchObject({ state: "succeeded", facts: { port } })
  })

  it("that Berth brings is run from the toolbox", async () => {
    const { command: _, ...rest } = spec("shell", "", {
      builtin: "terminal",
      port: await freePort(),
    })
    stage.put("toolbox/bin/node", '#!/bin/sh\nprintf "%s\\n" "$@"\nexec sleep 1000\n', 0o755)
    const run = stage.boot([sidecar({ ...rest, ready: { line: "web" } }, [])], stage.context())
    expect((await run.ended).outcome).toBe("succeeded")
    const { user } = stage.context()
    expect(stage.processes.get("sidecar shell")?.lastOutput().split("\n").slice(0, -1)).toEqual([
      "--disable-sigusr1",
      stage.path("toolbox/supervisor/web-terminal.cjs"),
      stage.path("toolbox/web-terminal"),
      stage.path("workspace"),
      ...(user === undefined ? [] : [JSON.stringify({ uid: user.uid, gid: user.gid })]),
    ])
  })
})

describe("a sidecar that keeps failing", () => {
  const needed: Step<BootContext> = {
    name: "needed",
    needs: [],
    required: true,
    timeoutMs: 10_000,
    run: async () => ({ did: "it is there" }),
  }

  it("[R2.11] holds up neither the boot nor another sidecar, and is given up with a warning", async () => {
    const steps = [
      needed,
      sidecar(spec("bad", CRASHES, { ready: { line: "never" } }), []),
      sidecar(spec("good", "echo fine; exec sleep 1000", { ready: { line: "fine" } }), []),
    ]
    const run = stage.boot(steps, stage.context())
    expect(await run.ready).toBe(true)
    const trace = await run.ended
    expect(trace.outcome).toBe("succeeded")
    const [, failed, fine] = trace.steps
    expect(fine?.state).toBe("succeeded")
    expect(fine?.endedAtMs).toBeLessThan(failed?.endedAtMs ?? 0)
    const [bad] = trace.warnings
    expect(bad?.step).toBe("sidecar-bad")
    expect(bad?.message).toMatch(/is given up: it ended with status 7 before it was ready/)
    expect(stage.processes.status()).toMatchObject([
      { name: "sidecar bad", phase: "given-up" },
      { name: "sidecar good", phase: "ready", starts: 1 },
    ])
  })

  it("[R2.11] ends the boot when it is required", async () => {
    const step = sidecar(spec("db", CRASHES, { ready: { line: "never" }, required: true }), [])
    const trace = await stage.boot([needed, step], stage.context()).ended
    expect(trace).toMatchObject({ outcome: "failed", ending: { step: "sidecar-db" } })
    expect(trace.steps[1]?.error?.code).toBe("process.given_up")
  })

  it("[R2.9] is cancelled with the boot while it starts, and ends with the process set", async () => {
    const cancel = new AbortController()
    const step = sidecar(spec("slow", "exec sleep 1000", { ready: { line: "never" } }), [])
    const run = stage.boot([step], stage.context(), cancel.signal)
    await until(() => stage.family.running().length > 0)
    cancel.abort()
    expect((await run.ended).steps[0]?.state).toBe("cancelled")
    await stage.processes.stop()
    expect(stage.running()).toEqual([])
  })
})
